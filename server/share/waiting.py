"""Steps that wait for what others wait for, too."""

from __future__ import annotations

from typing import Any

from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps


def wait_with_others(promise: Promise[Any] | None) -> Steps[None]:
    """Makes steps that wait until a promise is done, however it ends. Who gives up these steps cancels what they wait for
    (`take_steps`), which must not be the promise itself.
    """
    if promise is not None:
        waited: Promise[None] = Promise()
        promise.add_done_callback(lambda _: None if waited.done() else waited.set_result(None))
        yield waited

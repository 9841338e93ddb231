"""The test kit of the broker that runs this console: its calls, the same as over HTTP, asked through the broker's inside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.commands.output import Failure
from ottla.console.errors import Missing

if TYPE_CHECKING:
    from ottla.console.broker.inside import Inside

WITHIN_S: Final = 4.0
"""So long a page waits for a call to be over; it goes on all the same."""
OVER: Final = "kit_over"
"""The news with which the broker says that a call is over, by its number."""


def look(inside: Inside, path: str, **query: str) -> tuple[Any, str]:
    """Returns what GET answers, and ""; or None and why the kit cannot say it now."""
    try:
        return inside.ask("kit", method="GET", path=path, query=query), ""
    except (Failure, Missing) as error:
        return None, str(error)


def do(inside: Inside, method: str, path: str, body: Any = None) -> Mapping[str, Any]:
    """Makes a call that changes something. Returns it with its outcome (`is_over`, and then `answer`), or as it is after
    WITHIN_S. Raises Failure for what the kit refuses, and Missing for what is not there."""
    done: Mapping[str, Any] = inside.ask("kit", method=method, path=path, body=body)
    number = done["number"]
    if not done["is_over"]:
        inside.wait_for(OVER, number, WITHIN_S)
        done = inside.ask("kit_done")
    if done["number"] == number and "refused" in done:
        raise Failure(done["refused"])
    return done

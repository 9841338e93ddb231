"""`Closes`: something that ends and then notifies those who keep state that belongs to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Closes(Protocol):
    """A client's session (server/requests/session.py), as the rooms below it see it. It is compared by identity."""

    def on_close(self, callback: Callable[[Any], object]) -> None:
        """Registers a callback that is called once, at the end, with the object that has ended."""
        ...

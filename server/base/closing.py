"""What comes to an end and says so, for those who keep something that belongs to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Closes(Protocol):
    """A client's session (server/requests/session.py), to the rooms below it. It is compared by identity."""

    def on_close(self, callback: Callable[[Any], object]) -> None:
        """Calls back once, with what has ended."""
        ...

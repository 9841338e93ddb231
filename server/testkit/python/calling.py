"""Calls of the kit as Python makes them."""

from __future__ import annotations

from typing import Any, Protocol


class Calls(Protocol):
    """Calls a function of the kit by its name, with its body and the variables of its path. `method` is what the test has
    called, if that has another name. Raises ValueError for what is refused."""

    def __call__(self, name: str, body: Any = None, *, method: str = "", **variables: str) -> Any: ...

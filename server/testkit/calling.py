"""How the calls of the kit are made from Python."""

from __future__ import annotations

from typing import Any, Protocol


class Calls(Protocol):
    """Calls a function of the kit by its name, with its body and the variables of its path. Raises ValueError for what is
    refused."""

    def __call__(self, name: str, body: Any = None, **variables: str) -> Any: ...

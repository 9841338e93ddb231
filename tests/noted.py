"""Notes the calls of a function, for tests that count work instead of measuring time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def noted(calls: list[Any], function: Callable[..., T], at: int = 0) -> Callable[..., T]:
    """Returns the function with a note: each call adds its argument number `at` to `calls`."""

    def call(*args: Any) -> T:
        calls.append(args[at])
        return function(*args)

    return call

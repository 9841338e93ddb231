"""What was asked a moment ago is not asked again: answers are kept for some seconds, and asked for once however many wait."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar, cast

T = TypeVar("T")

MAX_ENTRIES: Final = 256


class _Kept(NamedTuple):
    at: float
    answer: Any


class Cache:
    """Keeps answers for `keep_s` seconds of `clock`. Used by threads."""

    def __init__(self, keep_s: float, clock: Callable[[], float]) -> None:
        self._keep_s = keep_s
        self._clock = clock
        self._lock = threading.Lock()
        self._asking: dict[object, threading.Lock] = {}
        self._kept: dict[object, _Kept] = {}
        self._changes = 0

    def get(self, key: object, ask: Callable[[], T]) -> T:
        """Returns what is kept under the key, or what `ask` returns now. What `ask` raises is not kept."""
        with self._lock:
            one_at_a_time = self._asking.setdefault(key, threading.Lock())
        with one_at_a_time:
            kept = self._kept.get(key)
            if kept is not None and self._clock() - kept.at < self._keep_s:
                return cast("T", kept.answer)
            changes = self._changes
            try:
                answer = ask()
            except BaseException:
                self.forget(key)
                raise
            with self._lock:
                self._kept.pop(key, None)
                if changes == self._changes:  # else the answer may be from before the change
                    self._kept[key] = _Kept(self._clock(), answer)
                oldest = next(iter(self._kept)) if len(self._kept) > MAX_ENTRIES else None
            if oldest is not None:
                self.forget(oldest)
            return answer

    def forget(self, key: object) -> None:
        """Forgets one answer, or that somebody asks for it."""
        with self._lock:
            self._kept.pop(key, None)
            self._asking.pop(key, None)

    def clear(self) -> None:
        """Forgets everything, since something was changed."""
        with self._lock:
            self._changes += 1
            self._kept.clear()

"""A cache of what was asked a moment ago: answers are kept for some seconds, and asked for once however many wait."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
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
        self._asking: dict[object, Future[Any]] = {}
        self._kept: dict[object, _Kept] = {}

    def get(self, key: object, ask: Callable[[], T]) -> T:
        """Returns what is kept under the key, or what `ask` returns now. Whoever comes while another asks gets what that one
        gets, also what it raises, so that many do not wait one after the other. What `ask` raises is not kept."""
        mine: Future[T] = Future()
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None and self._clock() - kept.at < self._keep_s:
                return cast("T", kept.answer)
            asking: Future[T] = self._asking.setdefault(key, mine)
        if asking is not mine:
            return asking.result()
        try:
            answer = ask()
        except BaseException as error:
            self._end(key, mine)
            mine.set_exception(error)
            raise
        self._end(key, mine, _Kept(self._clock(), answer))
        mine.set_result(answer)
        return answer

    def _end(self, key: object, mine: Future[T], kept: _Kept | None = None) -> None:
        with self._lock:
            if self._asking.get(key) is not mine:  # it was forgotten meanwhile: the answer may be from before a change
                return
            del self._asking[key]
            self._kept.pop(key, None)
            if kept is not None:
                self._kept[key] = kept
                if len(self._kept) > MAX_ENTRIES:
                    del self._kept[next(iter(self._kept))]

    def forget(self, key: object) -> None:
        """Forgets one answer, or that somebody asks for it."""
        with self._lock:
            self._kept.pop(key, None)
            self._asking.pop(key, None)

    def clear(self) -> None:
        """Forgets everything, since something was changed."""
        with self._lock:
            self._kept.clear()
            self._asking.clear()

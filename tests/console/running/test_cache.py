"""Tests of what is kept, for how long, and that many who ask at once cost one question."""

from __future__ import annotations

import threading

import pytest

from ottla.console.running.cache import MAX_ENTRIES, Cache


def test_an_answer_is_kept_for_so_long() -> None:
    now = [0.0]
    cache, answers = Cache(3, lambda: now[0]), iter("abc")
    assert cache.get("key", lambda: next(answers)) == "a"
    now[0] = 2.9
    assert cache.get("key", lambda: next(answers)) == "a"
    now[0] = 3.0
    assert cache.get("key", lambda: next(answers)) == "b"
    cache.clear()
    assert cache.get("key", lambda: next(answers)) == "c"


def test_an_error_is_not_kept() -> None:
    cache = Cache(3, lambda: 0.0)
    with pytest.raises(ZeroDivisionError):
        cache.get("key", lambda: 1 // 0)
    assert cache.get("key", lambda: 1) == 1


def test_who_asks_at_once_waits_for_one_answer() -> None:
    cache, asked, go = Cache(3, lambda: 0.0), [], threading.Event()

    def ask() -> int:
        asked.append(1)
        go.wait(30)
        return len(asked)

    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(cache.get("key", ask))) for _ in range(4)]
    for thread in threads:
        thread.start()
    go.set()
    for thread in threads:
        thread.join()
    assert (found, asked) == ([1] * 4, [1])


def test_an_answer_from_before_a_change_is_not_kept() -> None:
    cache = Cache(3, lambda: 0.0)

    def ask() -> str:
        cache.clear()
        return "before"

    assert cache.get("key", ask) == "before"
    assert cache.get("key", lambda: "after") == "after"


def test_the_oldest_of_too_many_is_forgotten() -> None:
    cache = Cache(3, lambda: 0.0)
    for number in range(MAX_ENTRIES + 1):
        cache.get(number, lambda number=number: str(number))  # type: ignore[misc]  # a lambda with a default
    assert cache.get(0, lambda: "again") == "again"
    assert cache.get(MAX_ENTRIES, lambda: "again") == str(MAX_ENTRIES)


def test_who_waits_gets_the_failure_of_the_one_that_asks() -> None:
    cache, asked, go = Cache(3, lambda: 0.0), [], threading.Event()

    def ask() -> int:
        asked.append(1)
        go.wait(30)
        raise ZeroDivisionError

    found: list[BaseException] = []

    def one() -> None:
        try:
            cache.get("key", ask)
        except ZeroDivisionError as error:
            found.append(error)

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    while not asked or len(cache._asking["key"]._condition._waiters) < 3:  # type: ignore[attr-defined]  # who waits is seen only there
        pass
    go.set()
    for thread in threads:
        thread.join()
    assert (len(found), asked) == (4, [1])

"""Tests of how many rows a tail shows, and what it says of the others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.console.records.filters import Filter
from ottla.console.records.tailing import ROWS_A_SECOND, Tail
from ottla.console.running.streams import MAX_WAITING, Outlet

ALL = Filter()


class Message:
    def __init__(self, offset: int, value: bytes = b"v") -> None:
        self._offset, self._value = offset, value

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 0, 0

    def key(self) -> bytes | None:
        return None

    def value(self) -> bytes:
        return self._value

    def headers(self) -> list[tuple[str, bytes | None]]:
        return [("h", b"\x1b")]


class Fits:
    decode = None

    def fits(self, wanted: Filter, message: Message) -> bool:
        return wanted.fits(None, message.value())


def tail(now: list[float], wanted: Filter = ALL) -> tuple[Tail, Outlet]:
    reader: Any = Fits()
    return Tail(reader, wanted, {0: 0}, lambda: now[0]), Outlet(lambda: None, float("inf"))


def events(outlet: Outlet) -> list[tuple[str, Any]]:
    found = []
    while outlet.waiting:
        head, _, rest = outlet.waiting.popleft().decode().partition("\n")
        found.append((head, json.loads(rest.removeprefix("data: "))))
    return found


def messages(*offsets: int) -> Any:
    return [Message(offset) for offset in offsets]


def test_so_many_rows_a_second_and_the_others_counted() -> None:
    now = [10.0]
    it, outlet = tail(now)
    it.take(messages(*range(80)), outlet)
    ((place, event),) = events(outlet)
    assert place == "id: 0.80"
    assert (len(event["rows"]), event["came"], event["left_out"]) == (ROWS_A_SECOND, 80, 30)
    assert event["rows"][0] == [0, 0, "–", "null", "v", "h: ␛"]
    now[0] += 0.9
    it.take(messages(80), outlet)
    ((_, event),) = events(outlet)
    assert (event["rows"], event["came"], event["left_out"]) == ([], 81, 31)
    now[0] += 0.2
    it.take(messages(81), outlet)
    assert [row[1] for row in events(outlet)[0][1]["rows"]] == [81]


def test_the_end_of_a_second_is_in_it() -> None:
    now = [10.0]
    it, outlet = tail(now)
    it.take(messages(*range(ROWS_A_SECOND)), outlet)
    now[0] = 11.0
    it.take(messages(50), outlet)
    assert [len(event["rows"]) for _, event in events(outlet)] == [ROWS_A_SECOND, 0]


def test_a_batch_is_left_where_it_is_when_the_browser_has_gone() -> None:
    it, outlet = tail([10.0], Filter(value=b"v"))
    seen: list[int] = []

    def batch() -> Iterator[Message]:
        for number in range(5):
            seen.append(number)
            if number == 2:
                outlet.end()
            yield Message(number)

    it.take(batch(), outlet)  # type: ignore[arg-type]  # it is gone through once
    assert (seen, it.came, events(outlet)) == ([0, 1, 2], 2, [])


def test_a_filter_and_quiet() -> None:
    now = [10.0]
    it, outlet = tail(now, Filter(value=b"x"))
    it.take([Message(0), Message(1, b"xyz")], outlet)  # type: ignore[list-item]  # it has what is asked for
    ((_, event),) = events(outlet)
    assert ([row[1] for row in event["rows"]], event["came"], event["left_out"]) == ([1], 2, 0)
    now[0] += 5
    it.take([], outlet)
    assert events(outlet) == []
    it.take(messages(2), outlet)
    assert events(outlet)[0][1] == {"rows": [], "came": 3, "left_out": 0}


@pytest.mark.parametrize("reads", [True, False])
def test_an_hour_takes_no_more_memory_than_a_minute(reads: bool) -> None:
    now = [10.0]
    it, outlet = tail(now)
    batch = messages(*range(100))
    held = []
    for second in range(3600):
        now[0] += 1.001
        it.take(batch, outlet)
        if reads:
            outlet.waiting.clear()
        if second in {60, 3599}:
            held.append(written_size(it, outlet))
    assert it.came == 360_000
    assert it.left_out == 3600 * (100 - ROWS_A_SECOND) + (0 if reads else (3600 - MAX_WAITING) * ROWS_A_SECOND)
    assert held[1] <= held[0] + 200  # longer numbers


def written_size(*of: object) -> int:
    """Returns how long what these hold is when it is written out."""
    return sum(len(repr(sorted(vars(one).items()))) for one in of)


def test_a_browser_that_does_not_read_is_told_later() -> None:
    now = [10.0]
    it, outlet = tail(now)
    for number in range(MAX_WAITING + 3):
        it.take(messages(number), outlet)
    assert it.left_out == 3
    assert len(events(outlet)) == MAX_WAITING

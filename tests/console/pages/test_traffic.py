"""Tests of what goes in and out, look by look: by the broker's own count, or by offsets."""

from __future__ import annotations

from typing import Any, cast

from ottla.commands.output import Failure
from ottla.console.ask import Ask
from ottla.console.cluster.history import History
from ottla.console.cluster.source import Source
from ottla.console.pages.traffic import WIDTH, Traffic, of_broker, of_cluster
from tests.console.fakes import FakeSource


def ask_of(source: FakeSource) -> Ask:
    return Ask(cast("Source", source), "/")


def numbers(found: Traffic) -> dict[str, list[list[float]]]:
    """Returns the points of the lines of each chart."""
    return {one.title: [[point.value for point in line.values] for line in one.lines] for one in found.charts}


def test_the_broker_counts_records_bytes_and_requests() -> None:
    ask = ask_of(FakeSource())  # there are two seconds between its looks
    for look in range(3):
        counted: dict[str, Any] = {"records_in": 10 * look, "bytes_in": 100 * look, "bytes_out": 400 * look, "topics": []}
        found = of_broker(ask, counted, [{"api": "Fetch", "requests": look}, {"api": "Produce", "requests": 3 * look}])
    assert numbers(found) == {"Records in": [[5, 5]], "Bytes in and out": [[50, 50], [200, 200]], "Requests": [[2, 2]]}
    assert {one.width for one in found.charts} == {WIDTH}
    assert (found.is_inside, len(found.samples), found.notes) == (True, 3, ())


def test_requests_that_are_not_counted_are_not_drawn() -> None:
    ask = ask_of(FakeSource())
    for look in range(3):
        found = of_broker(ask, {"records_in": look, "bytes_in": 0, "bytes_out": 0}, None)
    assert list(numbers(found)) == ["Records in", "Bytes in and out"]


def test_any_cluster_has_its_offsets() -> None:
    ask = ask_of(FakeSource(rising=iter([7, 11, 23])))  # its clock is read before and after each look
    assert not of_cluster(ask).charts
    of_cluster(ask)
    found = of_cluster(ask)
    assert (found.is_inside, numbers(found)) == (False, {"Records in": [[1, 3]]})


def test_offsets_are_not_asked_for_twice_in_a_second() -> None:
    now = [0.0]
    ask = ask_of(FakeSource(rising=iter([7, 9]), history=History(lambda: now[0], lambda: round(now[0] * 1000))))
    first = of_cluster(ask)
    now[0] = 0.5
    assert of_cluster(ask) == first
    now[0] = 1.0
    found = of_cluster(ask)
    assert [one.values["offsets"] for one in found.samples] == [7, 9]


def test_what_is_not_known_is_no_chart() -> None:
    assert of_cluster(ask_of(FakeSource(rising=iter([None])))).samples == ()

    class Closed(FakeSource):
        def risen(self) -> tuple[int | None, list[str]]:
            raise Failure("closed")

    assert of_cluster(ask_of(Closed())).notes == ["what is produced is not known: closed"]

"""Tests of what the rows of the log cleaner say of its numbers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.server.metrics.cleaner_rows import CLEANER_ROWS

CLEANER = "kafka_log_logcleaner_"
MANAGER = "kafka_log_logcleanermanager_"
TOTAL = "ottla_log_cleaner_"
NOW_MS = 1_700_000_000_000


def a_cleaner(**changes: Any) -> SimpleNamespace:
    last = SimpleNamespace(bytes_written=30, bytes_read=119, map_utilization=0.459)
    numbers = {
        "last": last,
        "last_took_ms": 2999,
        "max_delay_ms": 1999,
        "max_dirty_ratio": 0.756,
        "last_run_ms": NOW_MS - 1500,
        "uncleanable_in": lambda path: [("t", 0)] if path == "/b" else [],
        "uncleanable_bytes": lambda path: 77 if path == "/b" else 0,
        "cleanings": 3,
        "bytes_read": 1000,
        "bytes_written": 400,
    }
    return SimpleNamespace(**numbers | changes)


def rows(cleaner: SimpleNamespace | None) -> dict[str, dict[tuple[str, ...], float]]:
    sources: Any = SimpleNamespace(
        cleaner=cleaner,
        logs=SimpleNamespace(directories=[SimpleNamespace(path="/a"), SimpleNamespace(path="/b")]),
        context=SimpleNamespace(clock=SimpleNamespace(now_ms=lambda: NOW_MS)),
    )
    return {name: dict(make(sources)) for name, _, _, _, make in CLEANER_ROWS}


def test_what_the_cleaner_has_done() -> None:
    assert rows(a_cleaner()) == {
        f"{CLEANER}cleaner_recopy_percent": {(): 25},
        f"{CLEANER}max_buffer_utilization_percent": {(): 45},
        f"{CLEANER}max_clean_time_secs": {(): 2},
        f"{CLEANER}max_compaction_delay_secs": {(): 1},
        f"{MANAGER}max_dirty_percent": {(): 75},
        f"{MANAGER}time_since_last_run_ms": {(): 1500},
        f"{MANAGER}uncleanable_partitions_count": {("/a",): 0, ("/b",): 1},
        f"{MANAGER}uncleanable_bytes": {("/a",): 0, ("/b",): 77},
        f"{TOTAL}compactions_total": {(): 3},
        f"{TOTAL}read_bytes_total": {(): 1000},
        f"{TOTAL}written_bytes_total": {(): 400},
    }


def test_without_a_cleaner_everything_is_0() -> None:
    assert {value for found in rows(None).values() for value in found.values()} == {0}
    assert list(rows(None)[f"{MANAGER}uncleanable_bytes"]) == [("/a",), ("/b",)]


@pytest.mark.parametrize(
    ("changes", "name", "value"),
    [
        ({"last": SimpleNamespace(bytes_written=0, bytes_read=0, map_utilization=0.0)}, f"{CLEANER}cleaner_recopy_percent", 0),
        ({"last_run_ms": NOW_MS + 5}, f"{MANAGER}time_since_last_run_ms", 0),  # the clock was set back
    ],
)
def test_nothing_is_divided_by_nothing_and_no_time_is_negative(changes: dict[str, Any], name: str, value: int) -> None:
    assert rows(a_cleaner(**changes))[name] == {(): value}

"""Micro-batches of at most so many offsets; and the reader that Spark 4.2 asks, with what it has of Spark stood in for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ottla.pipeline.data_source.limits import Ends, limited, with_absent
from ottla.pipeline.data_source.segments import SourceError
from tests.pipeline.logs import fill, numbered, rig
from tests.pipeline.test_source import micro_batch, schema_of, source

STREAMING = "pyspark.sql.streaming.datasource"
ADMISSION = "ottla.pipeline.data_source.admission"


def none_new(topic: str, partition: str) -> int:
    raise AssertionError(f"{topic}-{partition} is in `begin`")


@pytest.mark.parametrize(
    ("begin", "end", "most", "found"),
    [
        ({"0": 0, "1": 0}, {"0": 5, "1": 5}, 10, {"0": 5, "1": 5}),
        ({"0": 0, "1": 0}, {"0": 30, "1": 10}, 20, {"0": 15, "1": 5}),
        ({"0": 100, "1": 7}, {"0": 1100, "1": 8}, 10, {"0": 110, "1": 7}),
        ({"0": 1099, "1": 7}, {"0": 1100, "1": 8}, 1, {"0": 1100, "1": 7}),
        ({"0": 0, "1": 0, "2": 0}, {"0": 2, "1": 2, "2": 2}, 2, {"0": 1, "1": 1, "2": 0}),
        ({"0": 9}, {"0": 5}, 1, {"0": 5}),  # truncated: told when the batch is planned
        ({"0": 9, "1": 0}, {"0": 5, "1": 9}, 2, {"0": 5, "1": 2}),
    ],
)
def test_a_batch_takes_of_each_partition_its_share(begin: Any, end: Any, most: int, found: Any) -> None:
    assert limited({"t": begin}, {"t": end}, most, none_new) == {"t": found}


def test_batches_come_to_the_end_whatever_the_limit() -> None:
    end: Ends = {"a": {"0": 17, "1": 1}, "b": {"0": 1000}}
    for most in (1, 2, 3, 100, 1017):
        at, before = {"a": {"0": 0, "1": 0}, "b": {"0": 0}}, 0
        while at != end:
            at = limited(at, end, most, none_new)
            total = sum(offset for ends in at.values() for offset in ends.values())
            assert 0 < total - before <= most
            before = total


def test_a_new_partition_counts_from_its_first_offset() -> None:
    found = limited({"t": {"0": 10}}, {"t": {"0": 10, "1": 150}}, 20, lambda topic, number: {("t", "1"): 100}[topic, number])
    assert found == {"t": {"0": 10, "1": 120}}


def test_partitions_that_are_away_stay_as_they_were() -> None:
    before = {"a": {"0": 1, "1": 2}, "b": {"0": 3}}
    assert with_absent({"a": {"0": 9}, "c": {"0": 5}}, before) == {"a": {"0": 9, "1": 2}, "b": {"0": 3}, "c": {"0": 5}}
    assert before == {"a": {"0": 1, "1": 2}, "b": {"0": 3}}


@dataclass
class ReadMaxRows:
    max_rows: int


class ReadAllAvailable:
    pass


class SupportsTriggerAvailableNow:
    pass


@pytest.fixture
def spark_42(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Provides what the reader takes from Spark 4.2, in whatever Spark there is."""
    module = ModuleType(STREAMING)
    for one in (ReadMaxRows, ReadAllAvailable, SupportsTriggerAvailableNow):
        setattr(module, one.__name__, one)
    monkeypatch.setitem(sys.modules, STREAMING, module)
    monkeypatch.delitem(sys.modules, ADMISSION, raising=False)
    yield
    sys.modules.pop(ADMISSION, None)


@pytest.mark.usefixtures("spark_42")
def test_spark_42_is_given_what_it_asks_for(tmp_path: Path) -> None:
    log = rig(tmp_path)
    fill(log, 3)
    reader: Any = limited_stream(tmp_path, 12)
    assert reader.getDefaultReadLimit() == ReadMaxRows(12)
    start = reader.initialOffset()
    first = reader.latestOffset(start, ReadMaxRows(12))
    assert first == {"t": {"0": 12}}
    assert reader.latestOffset(start, ReadAllAvailable()) == {"t": {"0": 30}}
    assert micro_batch(reader, start, first) == list(range(12))

    reader.prepareForTriggerAvailableNow()
    other = log.manager.create("t", 1, log.topic_id, log.config)
    other.append_as_leader(numbered(0, 40), leader_epoch=0)
    last = reader.latestOffset({"t": {"0": 24}}, ReadMaxRows(12))
    assert last == {"t": {"0": 30}}  # and nothing of what came later
    assert reader.latestOffset(last, ReadMaxRows(12)) == last
    on: Any = limited_stream(tmp_path, 12)  # with a trigger that goes on
    assert on.latestOffset(last, ReadMaxRows(12)) == {"t": {"0": 30, "1": 12}}
    log.manager.close(True)


@pytest.mark.usefixtures("spark_42")
def test_spark_42_says_where_a_partition_was_that_is_away(tmp_path: Path) -> None:
    log = rig(tmp_path)
    fill(log, 3)
    log.manager.close(True)
    start = {"t": {"0": 24, "1": 4}}  # of a query that starts again
    reader: Any = limited_stream(tmp_path, 12)
    assert reader.latestOffset(start, ReadMaxRows(12)) == {"t": {"0": 30, "1": 4}}
    ending: Any = limited_stream(tmp_path, 12)
    ending.prepareForTriggerAvailableNow()
    assert ending.latestOffset(start, ReadMaxRows(12)) == {"t": {"0": 30, "1": 4}}


def limited_stream(path: Path, most: int) -> object:
    of = source(path, startingOffsets="earliest", maxOffsetsPerTrigger=str(most))
    return of.streamReader(schema_of(source(path, columns="offset")))


def test_an_earlier_spark_is_recognized(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = rig(tmp_path)
    fill(log, 1)
    log.manager.close(True)
    monkeypatch.setitem(sys.modules, STREAMING, None)  # as if it was not there
    monkeypatch.delitem(sys.modules, ADMISSION, raising=False)
    with pytest.raises(SourceError, match=r"^maxOffsetsPerTrigger needs Spark 4\.2"):
        limited_stream(tmp_path, 5)
    with pytest.raises(SourceError, match="maxOffsetsPerTrigger is '0'; it must be a whole number from 1 on"):
        limited_stream(tmp_path, 0)

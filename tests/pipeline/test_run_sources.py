"""What a stream asks Spark's connector for."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import confluent_kafka.admin
import pytest
from confluent_kafka import TopicPartition

from ottla.pipeline.cluster import KafkaCluster
from ottla.pipeline.run_checkpoint import Extent
from ottla.pipeline.run_job import JobError, Sink, Stream
from ottla.pipeline.run_sources import extent_now, milliseconds, start_options, topics_of


@pytest.mark.parametrize(
    ("options", "most", "found"),
    [
        ({}, None, None),
        ({}, 7, "7"),
        ({"rows_per_batch": "9"}, 7, "9"),
        ({"spark.maxOffsetsPerTrigger": "8"}, 7, "8"),
        ({"spark.maxOffsetsPerTrigger": "8"}, None, "8"),
    ],
)
def test_a_stream_takes_at_once_what_it_says_or_what_its_sinks_can_bear(
    options: dict[str, str], most: int | None, found: str | None
) -> None:
    assert start_options(Stream("s", "t", options=options), "latest", most).get("maxOffsetsPerTrigger") == found


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("1700000000123", 1_700_000_000_123),
        ("1970-01-01", 0),
        ("1970-01-01T00:00:01.5", 1500),
        ("1970-01-01T01:00:00+01:00", 0),
    ],
)
def test_a_stream_begins_at_a_moment_in_utc_where_it_does_not_say(given: str, found: int) -> None:
    stream = Stream("s", "t", options={"from": given})
    assert milliseconds(stream, given) == found
    assert start_options(stream, "latest", None)["startingTimestamp"] == str(found)


def test_what_is_no_moment_is_refused_with_its_line() -> None:
    with pytest.raises(JobError, match="s: from is earliest, latest or a time, not 'noon'") as raised:
        milliseconds(Stream("s", "t", line=3), "noon")
    assert raised.value.line == 3


def test_the_topics_of_a_job_are_its_streams_and_its_sinks_of_that_kind() -> None:
    steps = [
        Stream("s", "read", line=1),
        Sink("a", "topic", "written", {"partitions": "4"}, 2),
        Sink("b", "topic", "as-is", line=3),
        Sink("c", "parquet", "/somewhere", line=4),
    ]
    assert topics_of(steps) == {"read": (0, 1), "written": (4, 2), "as-is": (0, 3)}


class FakeAdmin:
    """Has a topic of four partitions: `starts` are the offsets of the time that is asked for, `ends` the last ones."""

    starts = (0, 7, 10, -1)
    ends = (5, 7, 9, 4)

    def __init__(self, _: dict[str, Any]) -> None:
        pass

    def list_offsets(self, wanted: dict[TopicPartition, Any], **_: Any) -> dict[TopicPartition, Future[Any]]:
        asked: dict[TopicPartition, Future[Any]] = {}
        for place, spec in wanted.items():
            offsets = {"LatestSpec": self.ends, "EarliestSpec": (0, 1, 2, 3)}.get(type(spec).__name__, self.starts)
            asked[place] = Future()
            asked[place].set_result(SimpleNamespace(offset=offsets[place.partition]))
        return asked


def test_a_table_goes_from_where_it_begins_to_the_end_and_has_no_rows_where_nothing_is_as_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(confluent_kafka.admin, "AdminClient", FakeAdmin)
    since = extent_now(KafkaCluster({}), Stream("s", "t", options={"from": "2026-01-01"}), 4)
    assert since == Extent({0: 0, 1: 7, 2: 9, 3: 4}, {0: 5, 1: 7, 2: 9, 3: 4})
    whole = extent_now(KafkaCluster({}), Stream("s", "t", options={}), 4)
    assert whole.starts == {0: 0, 1: 1, 2: 2, 3: 3}

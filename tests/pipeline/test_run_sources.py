"""What a stream asks Spark's connector for."""

from __future__ import annotations

import pytest

from ottla.pipeline.run_job import JobError, Stream
from ottla.pipeline.run_sources import milliseconds, start_options


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

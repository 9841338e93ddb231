"""What a stream asks Spark's connector for."""

from __future__ import annotations

import pytest

from ottla.pipeline.run_job import Stream
from ottla.pipeline.run_sources import start_options


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

"""Tests of what `scripts.bench.spark_requests` reads in /metrics."""

from __future__ import annotations

from scripts.bench.spark_requests import between, requests_in

METRICS = """\
# TYPE ottla_request_duration_seconds histogram
ottla_request_duration_seconds_bucket{request="Fetch",le="0.001"} 60
ottla_request_duration_seconds_count{request="Fetch"} 64.0
ottla_request_duration_seconds_sum{request="Fetch"} 1.25
ottla_request_duration_seconds_count{request="Metadata"} 3
ottla_request_duration_seconds_sum{request="Metadata"} 0.5
"""


def test_requests_and_seconds_are_found_by_api() -> None:
    assert requests_in(METRICS) == {"Fetch": {"requests": 64, "seconds": 1.25}, "Metadata": {"requests": 3, "seconds": 0.5}}


def test_only_what_came_in_between_counts() -> None:
    before, after = requests_in(METRICS), requests_in(METRICS.replace("64.0", "70").replace("1.25", "1.5"))
    assert between(before, after) == {"Fetch": {"requests": 6, "seconds": 0.25}}
    assert between({}, before) == before

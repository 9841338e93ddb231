"""Tests of how far a query is, by the reports that Spark gives on its batches."""

from __future__ import annotations

import json
from typing import Any
from urllib.request import urlopen

import pytest

from ottla.pipeline.sql.progress import QueryProgress, records_behind, serve_metrics, watch

START_S = 1_795_251_600.0  # 2026-11-21T09:00:00Z


def report(
    batch: int, second: int, rows: int, end: dict[str, int], latest: dict[str, int], as_text: bool = False
) -> dict[str, Any]:
    offsets = [{"t": end}, {"t": latest}]
    told = [json.dumps(each) for each in offsets] if as_text else offsets
    return {
        "timestamp": f"2026-11-21T09:00:{second:02}.000Z",
        "batchId": batch,
        "numInputRows": rows,
        "processedRowsPerSecond": rows / 2,
        "batchDuration": 2000,
        "sources": [{"endOffset": told[0], "latestOffset": told[1]}],
    }


def test_lag_counts_what_a_batch_left_and_the_time_since_nothing_was() -> None:
    state = QueryProgress("out", START_S)
    state.take(report(0, 5, 100, {"0": 60, "1": 40}, {"0": 90, "1": 45, "2": 7}))
    assert (state.rows, state.lag_records, state.lag_s(START_S + 6)) == (100, 42, 6.0)
    state.take(report(0, 5, 100, {"0": 60, "1": 40}, {"0": 90, "1": 45, "2": 7}))  # the same again
    assert (state.rows, state.batches) == (100, 1)
    state.take(report(1, 8, 42, {"0": 90, "1": 45, "2": 7}, {"0": 90, "1": 45, "2": 7}, as_text=True))
    assert (state.rows, state.lag_records, state.lag_s(START_S + 10), state.rows_per_s, state.batch_s) == (142, 0, 2.0, 21.0, 2.0)
    assert state.line(START_S + 10) == "out: 142 rows, 21 rows/s, lag 0 records, 2.0 s"


def test_a_source_that_is_no_topic_has_no_lag() -> None:
    assert records_behind({"endOffset": '{"logOffset": 3}', "latestOffset": "17"}) == 0
    assert records_behind({"endOffset": None, "latestOffset": "not json"}) == 0


class Query:
    recentProgress = (report(0, 5, 10, {"0": 10}, {"0": 12}), report(1, 6, 2, {"0": 12}, {"0": 12}))
    isActive = True
    status = {"message": "Waiting for data to arrive"}  # noqa: RUF012 - as Spark's


def test_a_query_that_waits_has_no_lag() -> None:
    state = QueryProgress("out", START_S)
    assert state.line(START_S + 6) == "out: its first batch is under way for 6.0 s"
    watch(Query(), state, START_S + 60)
    assert (state.rows, state.batches, state.lag_s(START_S + 60), state.rows_per_s) == (12, 2, 0.0, 0.0)


@pytest.mark.parametrize(("active", "message"), [(True, "Processing new data"), (False, "Waiting for data to arrive")])
def test_a_query_that_is_at_work_or_has_ended_does_not_wait(monkeypatch: pytest.MonkeyPatch, active: bool, message: str) -> None:
    monkeypatch.setattr(Query, "isActive", active)
    monkeypatch.setattr(Query, "status", {"message": message})
    state = QueryProgress("out", START_S)
    watch(Query(), state, START_S + 60)
    assert (state.lag_s(START_S + 60), state.rows_per_s) == (54.0, 1.0)


def test_where_more_was_read_than_the_topic_was_seen_to_have_there_is_no_lag() -> None:
    assert records_behind({"endOffset": {"t": {"0": 10, "1": 1}}, "latestOffset": {"t": {"0": 7, "1": 3}}}) == 2


def test_figures_are_served_for_prometheus() -> None:
    state = QueryProgress("out", START_S)
    state.take(report(0, 5, 100, {"0": 60}, {"0": 90}))
    server, port = serve_metrics(0, "job", {"out": state}, lambda: START_S + 6)
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
    finally:
        server.shutdown()
        server.server_close()
    labels = '{job="job",query="out"}'
    assert f"ottla_pipeline_rows_total{labels} 100.0" in lines
    assert f"ottla_pipeline_lag_records{labels} 30.0" in lines
    assert f"ottla_pipeline_lag_seconds{labels} 6.0" in lines

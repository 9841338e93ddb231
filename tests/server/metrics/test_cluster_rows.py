"""Tests of what the rows say about the tie between a broker and its controllers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ottla.server.metadata.cluster import Tie
from ottla.server.metrics.cluster_rows import CLUSTER_ROWS
from ottla.server.metrics.loop_lag import INTERVAL_S, LoopLag
from tests.fakes import ManualClock

NOW_MS = 1_000_000
METADATA = "kafka_server_brokermetadatametrics_last_applied_record_"


def rows(tie: Tie | None, loop_lag: LoopLag | None = None) -> dict[str, float]:
    context = SimpleNamespace(metadata=SimpleNamespace(highest_offset=41), clock=SimpleNamespace(now_ms=lambda: NOW_MS))
    sources: Any = SimpleNamespace(context=context, cluster=SimpleNamespace(tie=lambda: tie), loop_lag=loop_lag)
    found = {}
    for name, kind, names, _, make in CLUSTER_ROWS:
        assert (kind, names) == ("gauge", ())
        for labels, value in make(sources):
            assert labels == ()
            found[name] = value
    return found


def test_a_broker_of_a_cluster() -> None:
    assert rows(Tie(1.5, 2.5, 0.25, NOW_MS - 300)) == {
        "ottla_heartbeat_age_seconds": 1.5,
        "ottla_heartbeat_longest_gap_seconds": 2.5,
        "ottla_metadata_age_seconds": 0.25,
        f"{METADATA}offset": 41,
        f"{METADATA}timestamp": NOW_MS - 300,
        f"{METADATA}lag_ms": 300,
    }


def test_a_controller_s_clock_may_be_ahead() -> None:
    assert rows(Tie(0, 0, 0, NOW_MS + 5))[f"{METADATA}lag_ms"] == 0


def test_a_broker_that_is_its_own_controller_has_only_its_loop() -> None:
    assert rows(None) == {}
    clock = ManualClock()
    lag = LoopLag(clock)
    lag.start()
    clock.spend(INTERVAL_S + 2)
    clock.advance()
    assert rows(None, lag) == {"ottla_event_loop_lag_seconds": 2.0}

"""Tests of what the rows about replicas say; test_names.py has those of a whole broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ottla.server.metrics.replication_rows import REPLICATION_ROWS
from tests.fakes import NODE_ID
from tests.followers import THREE, TWO
from tests.leader import LAG, Cluster

PREFIX = "kafka_server_replicamanager_"


def rows(cluster: Cluster) -> dict[str, float]:
    sources: Any = SimpleNamespace(context=cluster.broker.context)
    found = {}
    for name, _, _, _, make in REPLICATION_ROWS:
        ((labels, value),) = make(sources)
        assert labels == ()
        found[name.removeprefix(PREFIX)] = value
    return found


def test_how_many_are_in_sync() -> None:
    names = ("underreplicatedpartitions", "underminisrpartitioncount", "atminisrpartitioncount")

    def counted(*in_sync: int) -> tuple[float, ...]:
        found = rows(Cluster(*in_sync, min_insync_replicas=2))
        return tuple(found[name] for name in names)

    assert counted() == (1, 1, 0)
    assert counted(TWO) == (1, 0, 1)
    assert counted(TWO, THREE) == (0, 0, 0)


def test_replicas_that_are_being_added_are_not_missed() -> None:
    cluster = Cluster(TWO, THREE)
    cluster.change(replicas=[NODE_ID, TWO, THREE, 4], adding_replicas=[4])
    assert rows(cluster)["underreplicatedpartitions"] == 0
    cluster.change(isr=[NODE_ID, TWO])
    assert rows(cluster)["underreplicatedpartitions"] == 1


def test_partitions_that_others_lead_are_theirs_to_count() -> None:
    cluster = Cluster(min_insync_replicas=2)
    cluster.change(leader=TWO)
    assert set(rows(cluster).values()) == {0}


def test_changes_are_counted() -> None:
    cluster = Cluster(TWO)
    cluster.fetch(THREE, 0)
    cluster.controllers.answer(87)
    cluster.controllers.answer()
    cluster.append()
    cluster.advance(LAG + 1)
    cluster.shrink()
    cluster.controllers.answer()
    found = rows(cluster)
    assert [found[name] for name in ("isrexpands_total", "isrshrinks_total", "failedisrupdates_total")] == [1, 1, 1]
    cluster.broker.context.leading = None
    assert rows(cluster)["isrexpands_total"] == 0


def test_what_is_fetched_from_others() -> None:
    cluster = Cluster(TWO)
    names = (
        "replicafetchermanager_maxlag",
        "replicafetchermanager_failedpartitionscount",
        "brokertopicmetrics_replicationbytesin_total",
    )
    full = [f"kafka_server_{name}" for name in names]
    assert [rows(cluster)[name] for name in full] == [0, 0, 0]
    fetchers: Any = SimpleNamespace(max_lag=lambda: 3, stopped=lambda: 1, bytes_in=9)
    cluster.broker.context.fetchers = fetchers
    assert [rows(cluster)[name] for name in full] == [3, 1, 9]

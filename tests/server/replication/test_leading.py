"""These tests cover the partitions that a broker leads: the pass, what it counts, and the quota of replication."""

from __future__ import annotations

from dataclasses import replace

from ottla.server.replication.leading import LeadingSettings
from ottla.server.settings.broker_config import BrokerConfig
from tests.fakes import NODE_ID
from tests.followers import THREE, TWO
from tests.leader import LAG, TOPIC, Cluster
from tests.server.handlers.data_calls import fetch


def test_the_settings_of_kafka() -> None:
    config, _ = BrokerConfig.from_mapping({"replica.lag.time.max.ms": "1500", "replication.quota.window.num": "7"})
    assert LeadingSettings.from_broker(config.values) == LeadingSettings(1.5, 7, 1)


def test_the_pass_runs_twice_in_a_lag() -> None:
    assert Cluster().leading.shrink_interval_ms == LAG * 500


def test_what_the_controllers_take_is_counted() -> None:
    cluster = Cluster(TWO)
    cluster.fetch(THREE, 0)
    cluster.controllers.answer()
    cluster.append(1)
    cluster.advance(LAG + 1)
    cluster.shrink()
    cluster.controllers.answer()
    assert (cluster.leading.expands, cluster.leading.shrinks, cluster.leading.failed_updates) == (1, 1, 0)


def test_partitions_that_are_led_no_more_are_forgotten() -> None:
    cluster = Cluster(TWO)
    assert len(cluster.leading) == 1
    cluster.change(leader=TWO)
    cluster.shrink()
    assert len(cluster.leading) == 0
    cluster.change(leader=NODE_ID)
    cluster.shrink()
    assert len(cluster.leading) == 1


# The quota


def throttled(*replicas: str, limit: int = 100) -> Cluster:
    """A cluster in which broker 2 is in sync and broker 3 catches up, with 3 batches of more than 100 bytes."""
    cluster = Cluster(TWO)
    cluster.replica.log.config = replace(cluster.replica.log.config, leader_replication_throttled_replicas=replicas)
    cluster.leading.throttle.limit = limit
    for _ in range(3):
        cluster.append(1)
    cluster.fetch(TWO, 3)
    return cluster


def read(cluster: Cluster, follower: int, offset: int = 0) -> int:
    """Returns how many bytes a follower gets."""
    options = {"replica_id": follower, "partition_max_bytes": 200}
    return len(fetch(cluster.broker, TOPIC, offset, 14, **options).records)


def test_a_throttled_replica_waits_when_the_quota_is_used_up() -> None:
    cluster = throttled("0:1")
    assert read(cluster, THREE) > 0
    assert read(cluster, THREE) == 0
    cluster.advance(11)
    assert read(cluster, THREE) > 0


def test_who_is_in_sync_and_who_is_not_listed_does_not_wait() -> None:
    cluster = throttled("0:1")
    read(cluster, THREE)
    assert read(cluster, TWO) > 0
    other = throttled("0:2", "1:1")
    assert [read(other, THREE) > 0 for _ in range(3)] == [True] * 3


def test_without_a_rate_nothing_is_counted() -> None:
    cluster = throttled("*", limit=(1 << 63) - 1)
    assert [read(cluster, THREE) > 0 for _ in range(3)] == [True] * 3
    cluster.leading.throttle.limit = 1
    assert read(cluster, THREE) > 0

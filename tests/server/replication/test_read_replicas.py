"""These tests cover from which replica a consumer reads, by racks (KIP-392)."""

from __future__ import annotations

import pytest

from ottla.server.replication.read_replicas import RackAware
from ottla.wire.messages.internal.register_broker_record import RegisterBrokerRecord
from tests.fakes import NODE_ID
from tests.followers import THREE, TWO
from tests.leader import Cluster


def racked(*, two: str = "east", three: str = "east", own: str = "west") -> tuple[Cluster, RackAware]:
    """Both followers are in sync and have offsets 0 to 5."""
    cluster = Cluster(TWO, THREE)
    for broker_id, rack in ((NODE_ID, own), (TWO, two), (THREE, three)):
        record = RegisterBrokerRecord(broker_id=broker_id, broker_epoch=broker_id, rack=rack, fenced=False)
        cluster.broker.image.apply(record)
    cluster.append(5)
    for follower in (TWO, THREE):
        cluster.high_watermark.on_fetch(follower, 5, 1, follower)
    return cluster, RackAware(NODE_ID, cluster.broker.image)


def test_the_only_replica_in_the_rack() -> None:
    cluster, selector = racked(three="north")
    assert selector.choose(cluster.replica, 3, "east") == TWO
    assert selector.choose(cluster.replica, 3, "north") == THREE
    assert selector.choose(cluster.replica, 3, "south") is None


def test_the_leader_where_it_is_in_the_rack_itself() -> None:
    cluster, selector = racked(own="east")
    assert selector.choose(cluster.replica, 3, "east") is None


@pytest.mark.parametrize(("offset", "chosen"), [(0, None), (1, THREE), (5, THREE), (6, None)])
def test_it_has_to_have_the_offset(offset: int, chosen: int | None) -> None:
    cluster, selector = racked()
    assert selector.choose(cluster.replica, offset, "east") == chosen


def test_the_greatest_end_then_the_latest_then_the_greatest_id() -> None:
    cluster, selector = racked()
    assert selector.choose(cluster.replica, 3, "east") == THREE
    cluster.advance(1)
    cluster.fetch(TWO, 5)
    assert selector.choose(cluster.replica, 3, "east") == TWO
    cluster.append(1)
    cluster.fetch(THREE, 6)
    cluster.advance(1)
    cluster.fetch(TWO, 5)
    assert selector.choose(cluster.replica, 3, "east") == THREE


def test_who_is_not_in_sync_or_fenced_is_not_chosen() -> None:
    cluster, selector = racked()
    cluster.change(isr=[NODE_ID, TWO])
    assert selector.choose(cluster.replica, 3, "east") == TWO
    cluster.fence(TWO)
    assert selector.choose(cluster.replica, 3, "east") is None


def test_a_follower_sends_nobody_on() -> None:
    cluster, selector = racked()
    cluster.change(leader=TWO)
    assert selector.choose(cluster.replica, 3, "east") is None

"""These tests cover how a replica's role follows the metadata (leader, follower or neither), and what each role means for the
high watermark.
"""

from __future__ import annotations

import pytest

from ottla.server.partitions.replica import Replica
from ottla.server.partitions.roles import Follower, Leader, leave_to_leader
from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord
from tests.fakes import NODE_ID, MemoryBroker
from tests.followers import TWO, Led
from tests.log.support import batch


def kind(replica: Replica) -> tuple[type | None, bool]:
    return (None if replica.role is None else type(replica.role)), replica.is_leader


@pytest.mark.parametrize(("leader", "expected"), [(NODE_ID, Leader), (TWO, Follower), (-1, None)])
def test_the_role_is_what_the_metadata_say(leader: int, expected: type | None) -> None:
    broker = MemoryBroker({"t": 1})
    for was in (NODE_ID, TWO, -1):
        broker.elect("t", was)
        broker.elect("t", leader)
        assert kind(broker.replica()) == (expected, expected is Leader)


def test_one_replica_needs_no_high_watermark_and_pays_for_none() -> None:
    replica = MemoryBroker({"t": 1}).replica()
    assert isinstance(replica.role, Leader)
    assert replica.role.high_watermark is None
    assert replica.log.on_append is None


def test_who_does_not_lead_leaves_the_high_watermark_to_the_leader() -> None:
    broker = MemoryBroker({"t": 1})
    replica = broker.replica()
    broker.elect("t", TWO)
    assert isinstance(replica.role, Follower)
    assert replica.role.leader == TWO
    assert replica.log.on_append is leave_to_leader
    assert leave_to_leader(7)
    replica.append(batch(3))
    assert replica.log.high_watermark == 0
    broker.elect("t", NODE_ID)
    assert replica.log.high_watermark == 3


def test_what_is_gone_has_no_role() -> None:
    broker = MemoryBroker({"t": 1})
    replica = broker.replica()
    broker.delete_topic("t")
    assert kind(replica) == (None, False)


def test_a_leadership_lasts_through_changes_of_its_epoch_and_replicas() -> None:
    led = Led()
    role, high_watermark = led.replica.role, led.high_watermark
    led.change_isr(TWO)
    led.broker.elect("t", NODE_ID)
    assert led.replica.role is role
    assert led.high_watermark is high_watermark
    led.broker.elect("t", TWO)
    led.broker.elect("t", NODE_ID)
    assert led.replica.role is not role


def test_a_partition_that_gets_a_second_replica_and_loses_it_again() -> None:
    broker = MemoryBroker({"t": 1})
    replica = broker.replica()
    replica.append(batch(2))
    topic_id = broker.topic_id("t")
    broker.image.apply(PartitionChangeRecord(0, topic_id, replicas=[NODE_ID, TWO], isr=[NODE_ID, TWO]))
    assert isinstance(replica.role, Leader)
    high_watermark = replica.role.high_watermark
    assert high_watermark is not None
    assert replica.append(batch(1)).waits
    assert replica.log.high_watermark == 2, "what one replica had acknowledged stays so"
    called: list[Exception | None] = []
    high_watermark.when_passed(3, called.append)
    broker.image.apply(PartitionChangeRecord(0, topic_id, replicas=[NODE_ID], isr=[NODE_ID]))
    assert (replica.log.high_watermark, called) == (3, [None])
    assert replica.role.high_watermark is None
    assert replica.log.on_append is None
    assert not replica.append(batch(1)).waits


def test_what_one_replica_held_back_for_a_flush_is_not_shown_when_it_gets_a_second() -> None:
    broker = MemoryBroker({})
    broker.create_topic("t", flush_messages="1")
    replica = broker.replica()
    replica.append(batch(1))
    topic_id = broker.topic_id("t")
    broker.image.apply(PartitionChangeRecord(0, topic_id, replicas=[NODE_ID, TWO], isr=[NODE_ID]))
    assert replica.log.high_watermark == 0
    replica.log.flush()
    assert replica.log.high_watermark == 1


def test_a_start_among_several_replicas_begins_where_the_checkpoint_says() -> None:
    broker = MemoryBroker({})
    broker.create_topic("t", leader=-1)
    log = broker.replica().log
    log.append_as_leader(batch(5), leader_epoch=0)
    log.high_watermark, log.saved_high_watermark = 5, 2
    replica = Replica("t", broker.topic_id("t"), 0, log, broker.replica().traffic, broker.clock)
    broker.image.apply(
        PartitionChangeRecord(0, broker.topic_id("t"), replicas=[NODE_ID, TWO], isr=[NODE_ID, TWO], leader=NODE_ID)
    )
    image = broker.image.partition("t", 0)
    assert image is not None
    log.high_watermark = 5
    replica.take_role(image, {NODE_ID})
    assert log.high_watermark == 2
    assert isinstance(replica.role, Leader)
    assert replica.role.high_watermark is not None
    replica.role.high_watermark.on_fetch(TWO, 4)
    assert log.high_watermark == 4

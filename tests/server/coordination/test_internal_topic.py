"""These tests cover an internal topic as its coordinators see it: they append to its partitions and read them."""

from __future__ import annotations

import pytest

from ottla.log.errors import CorruptRecord, StorageError
from ottla.server.base.errors import NotEnoughReplicas, NotLeaderOrFollower
from ottla.server.coordination.internal_topic import InternalTopicLog
from ottla.server.partitions.roles import Leader
from tests.fakes import NODE_ID, MemoryBroker
from tests.log.support import batch


def test_a_coordinator_sees_a_topic_as_partitions_to_append_to_and_read() -> None:
    broker = MemoryBroker({})
    log = InternalTopicLog(broker.replicas, broker.image, "__consumer_offsets")
    assert (log.partition_count(), log.leads(0)) == (0, False)
    with pytest.raises(StorageError):
        log.append(0, batch(1))
    broker.create_topic("__consumer_offsets", 2)
    assert (log.partition_count(), log.leads(1)) == (2, True)
    assert [log.append(1, batch(2)), log.append(1, batch(1))] == [(0, None), (2, None)]
    assert len(list(log.read(1))) == 2
    assert list(log.read(0)) == []


def test_nothing_is_appended_with_too_few_replicas_in_sync() -> None:
    broker = MemoryBroker({"__consumer_offsets": 1})
    log = InternalTopicLog(broker.replicas, broker.image, "__consumer_offsets")
    broker.replica("__consumer_offsets").under_min_isr = True
    with pytest.raises(NotEnoughReplicas, match="fewer replicas of __consumer_offsets-0 are in sync"):
        log.append(0, batch(1))
    assert list(log.read(0)) == []
    broker.replica("__consumer_offsets").under_min_isr = False
    assert log.append(0, batch(1)) == (0, None)


def test_the_leader_s_epoch_is_the_image_s() -> None:
    broker = MemoryBroker({})
    log = InternalTopicLog(broker.replicas, broker.image, "__consumer_offsets")
    assert log.leader_epoch(0) == -1
    broker.create_topic("__consumer_offsets", 1)
    assert log.leader_epoch(0) == 0
    broker.elect("__consumer_offsets", 2)
    assert (log.leads(0), log.leader_epoch(0)) == (False, 1)


def test_what_is_deleted_is_not_read_any_more() -> None:
    broker = MemoryBroker({"__share_group_state": 1})
    log = InternalTopicLog(broker.replicas, broker.image, "__share_group_state")
    log.append(0, batch(1))
    log.append(0, batch(1))
    log.delete_before(0, 1)
    assert len(list(log.read(0))) == 1


def test_damage_is_named_with_the_way_out() -> None:
    broker = MemoryBroker({"__share_group_state": 1})
    log = InternalTopicLog(broker.replicas, broker.image, "__share_group_state")
    for _ in range(3):
        log.append(0, batch(1))
    path = "/data/__share_group_state-0/00000000000000000000.log"
    data, size = bytearray(broker.disk.read_bytes(path)), len(batch(1))
    data[2 * size - 1] ^= 1
    broker.disk.write_bytes(path, bytes(data))
    for segment in broker.replica("__share_group_state").log.segments:
        segment.release_file()
    read: list[bytes] = []
    with pytest.raises(CorruptRecord) as caught:
        read.extend(log.read(0))
    assert str(caught.value) == (
        f"{path} is damaged at position {size} (offset 1): its CRC does not fit its bytes. Restore it from a copy. To do without "
        "what is damaged, run, while no broker does: ottla log repair --skip /data/__share_group_state-0"
    )


def test_an_append_is_flushed_where_that_is_due() -> None:
    broker = MemoryBroker({})
    broker.create_topic("__transaction_state", flush_messages="1")
    log = InternalTopicLog(broker.replicas, broker.image, "__transaction_state")
    assert log.append(0, batch(1)) == (0, None)
    assert broker.logs.logs["__transaction_state", 0].recovery_point == 1
    broker.disk.fail("sync", path="__transaction_state-0")
    with pytest.raises(StorageError):
        log.append(0, batch(1))


def test_an_append_among_several_replicas_promises() -> None:
    broker = MemoryBroker({})
    broker.create_topic("__consumer_offsets", followers=(2,))
    log = InternalTopicLog(broker.replicas, broker.image, "__consumer_offsets")
    (_, first), (_, second) = log.append(0, batch(1)), log.append(0, batch(1))
    replica = broker.replicas.get("__consumer_offsets", 0)
    assert first is not None
    assert second is not None
    assert replica is not None
    assert isinstance(replica.role, Leader)
    assert replica.role.high_watermark is not None
    replica.role.high_watermark.on_fetch(2, 1)
    assert (first.done(), second.done()) == (True, False)
    broker.elect("__consumer_offsets", 2)
    with pytest.raises(NotLeaderOrFollower):
        second.result()


def test_a_new_leader_is_promised_what_it_finds_in_its_log() -> None:
    broker = MemoryBroker({})
    broker.create_topic("__consumer_offsets", followers=(2,))
    log = InternalTopicLog(broker.replicas, broker.image, "__consumer_offsets")
    assert log.replicated(0) is None
    log.append(0, batch(2))
    broker.elect("__consumer_offsets", 2)
    with pytest.raises(NotLeaderOrFollower):
        log.replicated(0)
    broker.elect("__consumer_offsets", NODE_ID)
    promise = log.replicated(0)
    assert promise is not None
    replica = broker.replicas.get("__consumer_offsets", 0)
    assert replica is not None
    assert isinstance(replica.role, Leader)
    assert replica.role.high_watermark is not None
    replica.role.high_watermark.on_fetch(2, 1)
    assert not promise.done()
    replica.role.high_watermark.on_fetch(2, 2)
    assert promise.done()
    assert log.replicated(0) is None


def test_who_does_not_lead_appends_nothing() -> None:
    broker = MemoryBroker({"__consumer_offsets": 1})
    log = InternalTopicLog(broker.replicas, broker.image, "__consumer_offsets")
    broker.elect("__consumer_offsets", 2)
    with pytest.raises(NotLeaderOrFollower):
        log.append(0, batch(1))
    assert list(log.read(0)) == []

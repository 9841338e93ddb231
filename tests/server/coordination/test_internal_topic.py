"""An internal topic as its coordinator sees it: partitions to append to and to read."""

from __future__ import annotations

import pytest

from ottla.log.errors import StorageError
from ottla.server.coordination.internal_topic import InternalTopicLog
from tests.fakes import MemoryBroker
from tests.log.support import batch


def test_a_coordinator_sees_a_topic_as_partitions_to_append_to_and_read() -> None:
    broker = MemoryBroker({})
    log = InternalTopicLog(broker.replicas, broker.image, "__consumer_offsets")
    assert (log.partition_count(), log.leader(0)) == (0, None)
    with pytest.raises(StorageError):
        log.append(0, batch(1))
    broker.create_topic("__consumer_offsets", 2)
    assert (log.partition_count(), log.leader(1)) == (2, 1)
    assert [log.append(1, batch(2)), log.append(1, batch(1))] == [(0, None), (2, None)]
    assert len(list(log.read(1))) == 2
    assert list(log.read(0)) == []


def test_the_leader_s_epoch_is_the_image_s() -> None:
    broker = MemoryBroker({})
    log = InternalTopicLog(broker.replicas, broker.image, "__consumer_offsets")
    assert log.leader_epoch(0) == -1
    broker.create_topic("__consumer_offsets", 1)
    assert log.leader_epoch(0) == 0
    broker.elect("__consumer_offsets", 2)
    assert (log.leader(0), log.leader_epoch(0)) == (2, 1)


def test_what_is_deleted_is_not_read_any_more() -> None:
    broker = MemoryBroker({"__share_group_state": 1})
    log = InternalTopicLog(broker.replicas, broker.image, "__share_group_state")
    log.append(0, batch(1))
    log.append(0, batch(1))
    log.delete_before(0, 1)
    assert len(list(log.read(0))) == 1

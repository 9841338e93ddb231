"""These tests cover server/txn/markers.py: the outcome of each marker that the coordinator writes to a partition of
this broker.
"""

from __future__ import annotations

import errno
from typing import Any

from ottla.server.base.promise import Promise
from ottla.server.metadata.names import CONSUMER_OFFSETS
from ottla.server.partitions.high_watermark import HighWatermark
from ottla.server.partitions.roles import Leader
from ottla.server.txn.markers import LocalMarkerWriter
from ottla.server.txn.shard import Marker
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.internal.partition_record import PartitionRecord
from tests.fakes import MemoryBroker
from tests.log.support import batch

DURABLE = {"log.flush.interval.messages": "1"}


def bring(broker: MemoryBroker, topic: str = "t", index: int = 0) -> ErrorCode | Promise[ErrorCode]:
    write_marker = LocalMarkerWriter(broker.replicas, broker.image, broker.context.groups)
    return write_marker(topic, index, Marker(7, 1, 0, True, 2))


def replicated_with_open_transaction() -> tuple[MemoryBroker, HighWatermark]:
    """The partition t-0 with a follower, broker 2, that has fetched nothing."""
    broker = MemoryBroker({})
    broker.create_topic("t", followers=(2,))
    broker.replica().append(batch(2, producer=(7, 0, 0), transactional=True))
    role = broker.replica().role
    assert isinstance(role, Leader)
    assert role.high_watermark is not None
    return broker, role.high_watermark


def with_open_transaction(settings: dict[str, str]) -> MemoryBroker:
    broker = MemoryBroker({"t": 1}, settings)
    broker.replica().append(batch(2, producer=(7, 0, 0), transactional=True))
    return broker


def test_it_is_written_and_readers_wake() -> None:
    broker = with_open_transaction({})
    replica, seen = broker.replica(), list[int]()
    replica.watchers["reader"] = lambda: seen.append(replica.log.last_stable_offset)
    assert bring(broker) is ErrorCode.NONE
    assert seen == [3]
    assert replica.log.recovery_point == 0, "nobody asked for an fsync"


def test_where_every_record_is_to_be_durable_the_marker_is_before_the_transaction_is_complete() -> None:
    broker = with_open_transaction(DURABLE)
    replica, seen = broker.replica(), list[int]()

    def reader() -> None:
        seen.append(replica.log.last_stable_offset)
        replica.watchers["reader"] = reader

    reader()
    assert bring(broker) is ErrorCode.NONE
    assert (replica.log.recovery_point, replica.log.high_watermark) == (3, 3)
    assert (seen[0], seen[-1]) == (0, 3)


def test_one_with_followers_is_written_when_they_have_it() -> None:
    broker, high_watermark = replicated_with_open_transaction()
    answer = bring(broker)
    assert isinstance(answer, Promise)
    high_watermark.on_fetch(2, 2)
    assert not answer.done()
    high_watermark.on_fetch(2, 3)
    assert answer.result() is ErrorCode.NONE


def test_one_that_another_leader_may_not_have_is_written_again() -> None:
    broker, _ = replicated_with_open_transaction()
    answer = bring(broker)
    assert isinstance(answer, Promise)
    broker.elect("t", 2)
    assert answer.result() is ErrorCode.NOT_LEADER_OR_FOLLOWER


class Offsets:
    """The groups of a loaded partition; it keeps the promises that answers about it wait for."""

    def __init__(self) -> None:
        self.replicated: list[Promise[None] | None] = []

    def is_loaded(self, partition: int) -> bool:
        return True

    def transaction_ended(
        self, partition: int, producer_id: int, *, committed: bool, replicated: Promise[None] | None = None
    ) -> None:
        self.replicated.append(replicated)


def test_groups_wait_for_the_marker_among_their_offsets() -> None:
    broker = MemoryBroker({})
    broker.create_topic(CONSUMER_OFFSETS, followers=(2,))
    offsets = Offsets()
    context: Any = broker.context
    context.existing_groups = offsets
    answer = bring(broker, CONSUMER_OFFSETS)
    (replicated,) = offsets.replicated
    assert replicated is not None
    assert isinstance(answer, Promise)
    assert (replicated.done(), answer.done()) == (False, False)
    replica = broker.replicas.get(CONSUMER_OFFSETS, 0)
    assert replica is not None
    assert isinstance(replica.role, Leader)
    assert replica.role.high_watermark is not None
    replica.role.high_watermark.on_fetch(2, 1)
    assert (replicated.done(), answer.result()) == (True, ErrorCode.NONE)


def test_one_that_cannot_be_made_durable_is_tried_again() -> None:
    broker = with_open_transaction(DURABLE)
    broker.disk.fail("open", errno.EMFILE)
    assert bring(broker) is ErrorCode.KAFKA_STORAGE_ERROR
    assert bring(broker) is ErrorCode.NONE
    assert broker.replica().log.recovery_point == 4
    broker.disk.fail("sync", path="t-0")
    assert bring(broker) is ErrorCode.KAFKA_STORAGE_ERROR
    assert bring(broker) is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_partition_that_is_unavailable_differs_from_one_that_is_gone() -> None:
    broker = with_open_transaction({})
    assert bring(broker, "gone") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    broker.logs.directories[0].fail("testing", OSError("broken"))
    broker.image.apply(PartitionRecord(1, broker.topic_id("t"), [1], [1], leader=1))
    assert bring(broker, index=1) is ErrorCode.KAFKA_STORAGE_ERROR

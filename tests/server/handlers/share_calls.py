"""ShareFetch and ShareAcknowledge of a broker in memory, through the codecs; a session is one member's view of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.server.share.share_partitions import SharePartitions
from ottla.wire.messages.share_acknowledge import AcknowledgementBatch as PlainBatch
from ottla.wire.messages.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from ottla.wire.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareFetchRequest,
)
from tests.fakes import MemoryBroker
from tests.server.handlers.data_calls import call
from tests.server.share.support import MemoryPersister

Partition = tuple[str, int]
Acknowledged = Mapping[Partition, Sequence[tuple[int, int, Sequence[int]]]]
"""By partition: first offset, last offset, types."""

GROUP = "g"


def share_broker(topics: Mapping[str, int], **settings: str) -> tuple[MemoryBroker, MemoryPersister]:
    """Settings have _ for dots."""
    broker = MemoryBroker(topics, {name.replace("_", "."): value for name, value in settings.items()})
    broker.image.features["share.version"] = 1
    persister = MemoryPersister()
    broker.context.existing_share_partitions = SharePartitions(
        persister,
        broker.context.settings,
        broker.image,
        broker.replicas,
        broker.clock,
        broker.context.controller,
        broker.context.workers,
    )
    return broker, persister


class Member:
    """`epoch` is that of its next request."""

    def __init__(self, broker: MemoryBroker, member_id: str = "m", version: int = 2) -> None:
        self.broker = broker
        self.member_id = member_id
        self.version = version
        self.epoch = 0

    def request(
        self,
        partitions: Sequence[Partition] = (),
        acknowledged: Acknowledged | None = None,
        *,
        epoch: int | None = None,
        group_id: str | None = GROUP,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        max_records: int = 500,
        batch_size: int = 500,
        strict: bool = False,
        renews: bool = False,
        forgotten: Sequence[Partition] = (),
    ) -> ShareFetchRequest:
        acknowledged = acknowledged or {}
        topics = []
        for topic, index in dict.fromkeys([*partitions, *acknowledged]):
            batches = [
                AcknowledgementBatch(first, last, list(types)) for first, last, types in acknowledged.get((topic, index), ())
            ]
            topics.append(FetchTopic(MemoryBroker.topic_id(topic), [FetchPartition(index, 0, batches)]))
        return ShareFetchRequest(
            group_id,
            self.member_id,
            self.epoch if epoch is None else epoch,
            max_wait_ms,
            min_bytes,
            max_bytes,
            max_records,
            batch_size,
            int(strict),
            renews,
            topics,
            [ForgottenTopic(MemoryBroker.topic_id(topic), [index]) for topic, index in forgotten],
        )

    def fetch(self, *arguments: Any, **options: Any) -> Any:
        """The answer, or the promise of one."""
        answer = call(self.broker, "share_fetch", self.version, self.request(*arguments, **options))
        if getattr(answer, "error_code", 0) == 0:
            self.epoch += 1
        return answer

    def renewing(self, acknowledged: Acknowledged) -> Any:
        return self.fetch((), acknowledged, min_bytes=0, max_bytes=0, max_records=0, renews=True)

    def acknowledge(
        self, acknowledged: Acknowledged, *, epoch: int | None = None, group_id: str | None = GROUP, renews: bool = False
    ) -> Any:
        topics = [
            AcknowledgeTopic(
                MemoryBroker.topic_id(topic),
                [AcknowledgePartition(index, [PlainBatch(first, last, list(types)) for first, last, types in batches])],
            )
            for (topic, index), batches in acknowledged.items()
        ]
        epoch = self.epoch if epoch is None else epoch
        request = ShareAcknowledgeRequest(group_id, self.member_id, epoch, renews, topics)
        answer = call(self.broker, "share_acknowledge", self.version, request)
        if getattr(answer, "error_code", 0) == 0:
            self.epoch += 1
        return answer


def parts(answer: Any) -> dict[Partition, Any]:
    """The answer's partitions by name."""
    found = {}
    for topic in answer.responses:
        name = topic.topic_id.rstrip(b".").decode()
        for partition in topic.partitions:
            assert (name, partition.partition_index) not in found
            found[name, partition.partition_index] = partition
    return found


def acquired(answer: Any) -> dict[Partition, list[tuple[int, int, int]]]:
    """First, last, delivery count, of the partitions that gave something."""
    return {
        name: [(each.first_offset, each.last_offset, each.delivery_count) for each in part.acquired_records]
        for name, part in parts(answer).items()
        if part.acquired_records
    }


def errors(answer: Any) -> dict[Partition, int]:
    return {name: part.error_code for name, part in parts(answer).items()}

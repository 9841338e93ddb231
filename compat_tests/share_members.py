"""A member of a share group by hand: sessions, fetches and acknowledgements over a raw connection, and the group's kept state.

No ShareGroupHeartbeat is needed for this: whoever knows the state of a share partition initialized may fetch from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from compat_tests import group_settings
from compat_tests.waiting import wait_for
from compat_tests.wire import TIME_MS, Connection, Wire, batch
from ottla.wire.messages import find_coordinator
from ottla.wire.messages import initialize_share_group_state as initialize
from ottla.wire.messages import read_share_group_state as read_state
from ottla.wire.messages.share_acknowledge import AcknowledgementBatch as PlainBatch
from ottla.wire.messages.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from ottla.wire.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareFetchRequest,
)
from ottla.wire.primitives import uuid_to_text

Partition = tuple[bytes, int]
Acknowledged = Mapping[Partition, Sequence[tuple[int, int, Sequence[int]]]]
"""By topic id and partition: first offset, last offset, types."""
SHARE_COORDINATOR = 2
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)


def begin(wire: Wire, group: str, topic: str, partitions: int = 1, start_offset: int = 0, state_epoch: int = 1) -> bytes:
    """The group begins in the topic at `start_offset` (-1: where its settings say). The topic's id."""
    topic_id = wire.topic_ids[topic]
    wanted = [initialize.PartitionData(index, state_epoch, start_offset) for index in range(partitions)]
    request = initialize.InitializeShareGroupStateRequest(group, [initialize.InitializeStateData(topic_id, wanted)])

    def done() -> bool:
        key = f"{group}:{uuid_to_text(topic_id)}:0"
        wire.call(find_coordinator.FindCoordinatorRequest(key_type=SHARE_COORDINATOR, coordinator_keys=[key]), 6)
        answer = wire.call(request, 0)
        return all(each.error_code == 0 for result in answer.results for each in result.partitions)

    wait_for(done, f"{group} begins in {topic}")
    return topic_id


def filled(wire: Wire, batches: int = 3, records: int = 10, partitions: int = 1, **configs: str) -> str:
    topic = wire.create("t", partitions, **configs)
    for partition in range(partitions):
        for n in range(batches):
            wire.produce(topic, batch(*[b"x"] * records, first_ms=TIME_MS + n * 1000), partition=partition)
    return topic


def started(wire: Wire, group: str = "g", partitions: int = 1, **fill: Any) -> tuple[str, bytes]:
    """A group that begins in a filled topic: its name and the topic's id."""
    topic = filled(wire, partitions=partitions, **fill)
    return wire.name(group), begin(wire, wire.name(group), topic, partitions)


def kept(wire: Wire, group: str, topic_id: bytes, partition: int = 0) -> Any:
    """Returns what the share coordinator has of it."""
    wanted = [read_state.ReadStateData(topic_id, [read_state.PartitionData(partition, 0)])]
    return wire.call(read_state.ReadShareGroupStateRequest(group, wanted), 0)


def set_group(wire: Wire, group: str, **settings: str) -> None:
    """Settings of a group, as soon as they hold; underscores stand for dots."""
    group_settings.set_group(wire, group, {name.replace("_", "."): value for name, value in settings.items()})


FIRST_WAIT_MS: Final = 5000
"""The time for which a first request of a session waits: Kafka loads the state of a partition with it."""


class ShareMember:
    """`epoch` is that of its next request. Each has its own connection."""

    def __init__(self, wire: Wire, group: str | None, member_id: str | None = "m", version: int = 2) -> None:
        self.connection: Connection = wire.connect()
        self.group = group
        self.member_id = member_id
        self.version = version
        self.epoch = 0

    def request(
        self,
        partitions: Sequence[Partition] = (),
        acknowledged: Acknowledged | None = None,
        *,
        epoch: int | None = None,
        max_wait_ms: int | None = None,
        min_bytes: int = 0,
        max_bytes: int = 1 << 20,
        max_records: int = 500,
        batch_size: int = 500,
        mode: int = 0,
        renews: bool = False,
        forgotten: Sequence[Partition] = (),
    ) -> ShareFetchRequest:
        acknowledged = acknowledged or {}
        topics = [
            FetchTopic(
                topic_id,
                [
                    FetchPartition(
                        index,
                        0,
                        [
                            AcknowledgementBatch(first, last, list(kinds))
                            for first, last, kinds in acknowledged.get((topic_id, index), ())
                        ],
                    )
                ],
            )
            for topic_id, index in dict.fromkeys([*partitions, *acknowledged])
        ]
        return ShareFetchRequest(
            self.group,
            self.member_id,
            self.epoch if epoch is None else epoch,
            (500 if self.epoch else FIRST_WAIT_MS) if max_wait_ms is None else max_wait_ms,
            min_bytes,
            max_bytes,
            max_records,
            batch_size,
            mode,
            renews,
            topics,
            [ForgottenTopic(topic_id, [index]) for topic_id, index in forgotten],
        )

    def fetch(self, *arguments: Any, **options: Any) -> Any:
        answer = self.connection.call(self.request(*arguments, **options), self.version)
        if not isinstance(answer, str) and answer.error_code == 0:
            self.epoch += 1
        return answer

    def fetch_some(self, *arguments: Any, **options: Any) -> Any:
        """Fetches until it is given something. Kafka ends sessions, and acknowledges along with a fetch, some time later."""
        answer = self.fetch(*arguments, **options)
        for _ in range(50):
            if given(answer):
                break
            answer = self.fetch(min_bytes=1, max_wait_ms=200)
        return answer

    def renew(self, acknowledged: Acknowledged, **options: Any) -> Any:
        limits: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
        return self.fetch((), acknowledged, renews=True, **(limits | options))

    def acknowledge(self, acknowledged: Acknowledged, *, epoch: int | None = None, renews: bool = False) -> Any:
        topics = [
            AcknowledgeTopic(
                topic_id, [AcknowledgePartition(index, [PlainBatch(first, last, list(kinds)) for first, last, kinds in batches])]
            )
            for (topic_id, index), batches in acknowledged.items()
        ]
        epoch = self.epoch if epoch is None else epoch
        answer = self.connection.call(ShareAcknowledgeRequest(self.group, self.member_id, epoch, renews, topics), self.version)
        if not isinstance(answer, str) and answer.error_code == 0:
            self.epoch += 1
        return answer


def given(answer: Any) -> list[tuple[int, int, int, int]]:
    """Partition, first offset, last offset, delivery count, of all that was acquired; ordered."""
    return sorted(
        (part.partition_index, each.first_offset, each.last_offset, each.delivery_count)
        for topic in answer.responses
        for part in topic.partitions
        for each in part.acquired_records
    )

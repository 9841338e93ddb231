"""Drives share groups as their members and administrators do: with requests through the handlers of a broker over logs in
memory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from ottla.server.group.share.group import ShareGroup
from ottla.server.group.share.protocol import ShareProtocol
from ottla.server.handlers import (
    alter_share_group_offsets,
    delete_groups,
    delete_share_group_offsets,
    describe_share_group_offsets,
    share_group_describe,
    share_group_heartbeat,
)
from ottla.server.share.group_state import ShareGroupState
from ottla.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsRequestTopic
from ottla.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from ottla.wire.messages.share_group_describe import ShareGroupDescribeRequest
from ottla.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.server.coordination.memory import CoordinatorClock, CoordinatorLog
from tests.server.group.fakes import Broker, at_once
from tests.server.share_state.fakes import Driver as ShareStateDriver
from tests.server.share_state.fakes import ShareLog

END_OFFSET = 40
"""The high watermark of all partitions."""


class ShareBroker(Broker):
    """A broker with a share coordinator; the coordinator's log and that of groups outlive a restart."""

    def __init__(
        self,
        log: CoordinatorLog | None = None,
        clock: CoordinatorClock | None = None,
        state_log: ShareLog | None = None,
        **settings: int,
    ) -> None:
        named = {f"group.share.{name.replace('_', '.')}": value for name, value in settings.items()}
        super().__init__(log, clock, broker=named)
        self._named = settings
        self.state = ShareStateDriver(state_log, self.clock)
        self.state.topics = {topic.topic_id: len(topic.partitions) for topic in self.metadata.topics.values()}
        replica = SimpleNamespace(is_leader=True, log=SimpleNamespace(high_watermark=END_OFFSET))
        self.other_leaders: Any = None
        self.existing_share_group_state: ShareGroupState | None = None
        self.replicas = SimpleNamespace(get=lambda topic, partition: replica)

    def share_coordinator(self) -> Any:
        return self.state.coordinator

    share_persister = share_coordinator

    def latest_offsets(self) -> Any:
        return self.other_leaders

    def share_group_state(self) -> ShareGroupState:
        if self.existing_share_group_state is None:
            self.existing_share_group_state = ShareGroupState(
                self.groups, self.share_coordinator, cast(Any, self.metadata), self.clock
            )
        return self.existing_share_group_state

    def restarted(self) -> ShareBroker:
        fresh = ShareBroker(self.log, self.clock, self.state.log, **self._named)
        fresh.groups.refresh()
        fresh.state.coordinator.refresh()
        return fresh

    def grow(self, topic: str, partitions: int) -> None:
        there = self.metadata.topics[topic]
        there.partitions.update(dict.fromkeys(range(partitions), there.partitions[0]))
        self.state.topics[there.topic_id] = partitions
        self.groups.topic_changed(topic)

    def remove(self, topic: str) -> None:
        gone = self.metadata.topics.pop(topic)
        del self.metadata.topics_by_id[gone.topic_id]
        del self.state.topics[gone.topic_id]
        self.groups.topic_changed(topic)
        self.state.coordinator.topic_deleted(topic)


class Driver:
    """Share groups under test. `epochs` has the epoch in the last answer to each member."""

    def __init__(self, broker: ShareBroker | None = None, **settings: int) -> None:
        self.broker = broker or ShareBroker(None, None, None, **settings)
        self.epochs: dict[str, int] = {}

    @property
    def clock(self) -> CoordinatorClock:
        return self.broker.clock

    def restarted(self) -> Driver:
        driver = Driver(self.broker.restarted())
        driver.epochs = self.epochs
        return driver

    def beat(
        self,
        member: str = "m",
        epoch: int | None = None,
        topics: list[str] | None = None,
        *,
        group: str = "g",
        rack: str | None = None,
    ) -> Any:
        epoch = self.epochs.get(member, 0) if epoch is None else epoch
        request = ShareGroupHeartbeatRequest(group, member, epoch, rack, topics)
        answer = at_once(share_group_heartbeat.handle(request, self.broker.context(1)))
        if not answer.error_code:
            self.epochs[member] = answer.member_epoch
        return answer

    def join(self, member: str = "m", *topics: str) -> Any:
        return self.beat(member, 0, list(topics or ["t"]))

    def enter(self, member: str = "m", *topics: str) -> dict[bytes, list[int]]:
        """Lets a member join and get its partitions; two assignments are a second apart."""
        self.join(member, *topics)
        self.clock.advance(1.5)
        return assigned(self.beat(member, topics=list(topics or ["t"])))

    def group(self, group_id: str = "g") -> ShareGroup:
        return self.broker.groups.shard(group_id).protocol(ShareProtocol).group(group_id)

    def describe(self, group: str = "g") -> Any:
        request = ShareGroupDescribeRequest([group], True)
        (described,) = at_once(share_group_describe.handle(request, self.broker.context(1))).groups
        return described

    def offsets(self, *topics: tuple[str, list[int]], group: str = "g") -> dict[str, dict[int, tuple[int, int]]]:
        """Returns start offset and lag."""
        asked = [DescribeShareGroupOffsetsRequestTopic(*topic) for topic in topics] or None
        request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(group, asked)])
        (answer,) = at_once(describe_share_group_offsets.handle(request, self.broker.context(1))).groups
        assert not answer.error_code
        return {
            topic.topic_name: {each.partition_index: (each.start_offset, each.lag) for each in topic.partitions}
            for topic in answer.topics
        }

    def alter(self, topic: str, offsets: dict[int, int], group: str = "g") -> Any:
        partitions = [AlterShareGroupOffsetsRequestPartition(*each) for each in offsets.items()]
        request = AlterShareGroupOffsetsRequest(group, [AlterShareGroupOffsetsRequestTopic(topic, partitions)])
        return alter_share_group_offsets.handle(request, self.broker.context(0))

    def forget(self, *topics: str, group: str = "g") -> Any:
        request = DeleteShareGroupOffsetsRequest(group, [DeleteShareGroupOffsetsRequestTopic(topic) for topic in topics])
        return delete_share_group_offsets.handle(request, self.broker.context(0))

    def delete(self, group: str = "g") -> int:
        (answer,) = at_once(delete_groups.handle(DeleteGroupsRequest([group]), self.broker.context(2))).results
        return answer.error_code


def assigned(answer: Any) -> dict[bytes, list[int]]:
    assert answer.error_code == 0, answer
    return {part.topic_id: part.partitions for part in answer.assignment.topic_partitions}


def codes(answer: Any) -> list[int]:
    """Returns the error codes of the partitions or topics in an answer about offsets."""
    assert answer.error_code == 0, answer
    return [part.error_code for topic in answer.responses for part in getattr(topic, "partitions", [topic])]

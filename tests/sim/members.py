"""Members of groups that commit offsets, by all three protocols, and clients that commit offsets without being a member."""

from __future__ import annotations

from abc import ABC, abstractmethod
from random import Random
from typing import Any, ClassVar, Final

from compat_tests.anomalies.history import READ_COMMITTED, Key
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import (
    consumer_group_heartbeat,
    heartbeat,
    join_group,
    offset_commit,
    offset_fetch,
    streams_group_heartbeat,
    sync_group,
)
from tests.sim.client import GROUP, Client, Lost
from tests.sim.readers import Reader
from tests.sim.world import World

PARTITIONS: Final = 2
"""The number of partitions of the topic that groups read."""
_NO_MEMBER: Final = ("", -1)
_NEVER_DONE: Final = frozenset({
    ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION,
})  # fmt: skip


async def commit_offsets(client: Client, group: str, offsets: dict[Key, int], member: tuple[str, int] = _NO_MEMBER) -> int:
    """Commits offsets of one topic; returns the first error code. Raises Lost."""
    topics: dict[str, list[Any]] = {}
    for key, offset in offsets.items():
        topic, _, partition = key.rpartition("-")
        topics.setdefault(topic, []).append(offset_commit.OffsetCommitRequestPartition(int(partition), offset))
    member_id, epoch = member
    wanted = [offset_commit.OffsetCommitRequestTopic(topic, partitions=entries) for topic, entries in topics.items()]
    answer = await client.call(offset_commit, 9, offset_commit.OffsetCommitRequest(group, epoch, member_id, topics=wanted))
    codes = [partition.error_code for topic in answer.topics for partition in topic.partitions]
    return next(filter(None, codes), 0)


async def fetch_offsets(client: Client, group: str, keys: list[Key], member: tuple[str, int] = ("", -1)) -> dict[Key, int] | None:
    """Returns a group's committed offsets, -1 where there is none; None if they cannot be told now. Raises Lost."""
    topics: dict[str, list[int]] = {}
    for key in keys:
        topic, _, partition = key.rpartition("-")
        topics.setdefault(topic, []).append(int(partition))
    wanted = [offset_fetch.OffsetFetchRequestTopics(topic, partition_indexes=each) for topic, each in topics.items()]
    member_id, epoch = member
    asked = offset_fetch.OffsetFetchRequestGroup(group, member_id or None, epoch, wanted)
    answer = (await client.call(offset_fetch, 9, offset_fetch.OffsetFetchRequest(groups=[asked], require_stable=True))).groups[0]
    partitions = [(topic.name, partition) for topic in answer.topics for partition in topic.partitions]
    if answer.error_code or any(partition.error_code for _, partition in partitions):
        return None
    return {f"{topic}-{partition.partition_index}": partition.committed_offset for topic, partition in partitions}


class Committer:
    """Commits offsets without being a member, and asks for them: a register for each key. Two of them may share a group."""

    def __init__(self, world: World, name: str, keys: list[Key], group: str, offsets: Any) -> None:
        self.world = world
        self.keys = keys
        self.group = group
        self.random: Random = world.random(name)
        self.client = world.client(name)
        self.process = world.process()
        self._offsets = offsets

    async def once(self) -> None:
        key = self.random.choice(self.keys)
        if self.random.random() < 0.5:
            await record_committed(self.world, self.process, self.client, self.group, [key])
            return
        offsets = {key: next(self._offsets)}
        operation = self.world.recorder.invoke(self.process, "commit", group=self.group, offsets=offsets)
        try:
            code = await commit_offsets(self.client, self.group, offsets)
        except Lost:
            operation.info()
            return
        if code:
            operation.info(error=code)
            await self.client.find_coordinator(self.group, GROUP)
        else:
            operation.ok()

    def restart(self) -> None:
        self.world.recorder.mark(self.process, "crash")
        self.client.close()
        self.process = self.world.process()


async def record_committed(world: World, process: int, client: Client, group: str, keys: list[Key]) -> bool:
    """Asks for committed offsets and takes down the answer; returns whether there was one."""
    operation = world.recorder.invoke(process, "committed", group=group)
    try:
        found = await fetch_offsets(client, group, keys)
    except Lost:
        found = None
    if found is None:
        operation.info()
        return False
    operation.ok(offsets=found)
    return True


class Member(ABC):
    """A member of a group: takes what the group assigns to it, goes on where the group had come, and commits. `_epoch` is its
    epoch or generation, which goes with every commit.
    """

    NOT_JOINED: ClassVar[int]

    def __init__(self, world: World, name: str, topic: str, group: str) -> None:
        self.world = world
        self.topic = topic
        self.group = group
        self.random: Random = world.random(name)
        self.client = world.client(name)
        self.process = world.process()
        self._reader = Reader(self.client, self.random)
        self._member_id = self._new_id()
        self._epoch = self.NOT_JOINED
        self._owned: list[int] = []
        self._positions: dict[Key, int] = {}

    async def once(self) -> None:
        if not await self._heartbeat() or not self._owned:
            return
        if not self._positions and not await self._find_positions():
            return
        operation = self.world.recorder.invoke(self.process, "poll", isolation=READ_COMMITTED)
        read: dict[Key, Any] = {}
        for key in list(self._positions):
            polled = await self._reader.read(key, self._positions[key], committed=True)
            if polled is None:
                continue
            records, position, _ = polled
            if position < 0:
                operation.info()
                self._positions = {}
                return
            self._positions[key] = position
            read[key] = [list(record) for record in records]
        if not read:
            operation.info()
            return
        operation.ok(mops=[["poll", read]])
        if self.random.random() < 0.6:
            await self._commit()

    @abstractmethod
    def _new_id(self) -> str:
        """Returns the id of a new member."""

    @abstractmethod
    async def _heartbeat(self) -> bool:
        """Says that it lives, or joins; returns whether it is a member and may read."""

    def _own(self, partitions: list[int]) -> None:
        """Takes an assignment."""
        if partitions != self._owned:
            self._owned, self._positions = partitions, {}

    def _leave(self) -> None:
        """Begins anew as somebody who is no member."""
        self._epoch, self._owned, self._positions = self.NOT_JOINED, [], {}

    async def _find_positions(self) -> bool:
        keys = [f"{self.topic}-{partition}" for partition in self._owned]
        operation = self.world.recorder.invoke(self.process, "committed", group=self.group)
        try:
            found = await fetch_offsets(self.client, self.group, keys, (self._member_id, self._epoch))
        except Lost:
            found = None
        if found is None:
            operation.info()
            return False
        operation.ok(offsets=found)
        self._positions = {key: max(offset, 0) for key, offset in found.items()}
        self.world.recorder.mark(self.process, "assign", positions=dict(self._positions))
        return True

    async def _commit(self) -> None:
        offsets = dict(self._positions)
        operation = self.world.recorder.invoke(self.process, "commit", group=self.group, offsets=offsets)
        try:
            code = await commit_offsets(self.client, self.group, offsets, (self._member_id, self._epoch))
        except Lost:
            operation.info()
            return
        if not code:
            operation.ok()
        elif code in _NEVER_DONE:
            operation.fail(error=code)
        else:
            operation.info(error=code)

    def restart(self) -> None:
        self.world.recorder.mark(self.process, "crash")
        self.client.close()
        self.process = self.world.process()
        self._member_id = self._new_id()
        self._leave()


class AssignedMember(Member):
    """A member by a protocol in which the broker assigns."""

    NOT_JOINED = 0

    def _new_id(self) -> str:
        return f"{self.client.name}-{self.random.getrandbits(32):08x}"

    async def _told(self, messages: Any, version: int, request: Any) -> Any:
        """Sends a heartbeat; returns the answer, None if the member has to ask again."""
        try:
            answer = await self.client.call(messages, version, request)
        except Lost:
            return None
        if answer.error_code:
            if answer.error_code in _NEVER_DONE:
                self._leave()
            else:
                await self.client.find_coordinator(self.group, GROUP)
            return None
        self._epoch = answer.member_epoch
        return answer


class ConsumerMember(AssignedMember):
    """A member by the protocol of KIP-848."""

    _topic_id = b""

    async def _heartbeat(self) -> bool:
        """See Member."""
        joins = self._epoch == self.NOT_JOINED
        owned = [consumer_group_heartbeat.RequestTopicPartitions(self._topic_id, self._owned)] if self._owned else []
        request = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            self.group,
            self._member_id,
            self._epoch,
            rebalance_timeout_ms=5000,
            subscribed_topic_names=[self.topic] if joins else None,
            topic_partitions=owned,
        )
        answer = await self._told(consumer_group_heartbeat, 1, request)
        if answer is None:
            return False
        if answer.assignment is not None:
            self._topic_id = next((each.topic_id for each in answer.assignment.topic_partitions), b"")
            self._own(sorted(at for each in answer.assignment.topic_partitions for at in each.partitions))
        return True


class StreamsMember(AssignedMember):
    """A member by the protocol of KIP-1071, with a topology of one subtopology that reads the topic: its tasks are partitions."""

    _SUBTOPOLOGY: Final = "only"

    async def _heartbeat(self) -> bool:
        """See Member."""
        joins = self._epoch == self.NOT_JOINED
        subtopology = streams_group_heartbeat.Subtopology(self._SUBTOPOLOGY, [self.topic])
        request = streams_group_heartbeat.StreamsGroupHeartbeatRequest(
            self.group,
            self._member_id,
            self._epoch,
            rebalance_timeout_ms=5000,
            topology=streams_group_heartbeat.Topology(0, [subtopology]) if joins else None,
            active_tasks=[streams_group_heartbeat.RequestTaskIds(self._SUBTOPOLOGY, self._owned)] if self._owned else [],
            standby_tasks=[],
            warmup_tasks=[],
            process_id=self.client.name if joins else None,
        )
        answer = await self._told(streams_group_heartbeat, 0, request)
        if answer is None:
            return False
        if answer.active_tasks is not None:
            self._own(sorted(at for each in answer.active_tasks for at in each.partitions))
        return True


class ClassicMember(Member):
    """A member by the classic protocol, in which the first of the members assigns: partitions by turns."""

    NOT_JOINED = -1

    def _new_id(self) -> str:
        return ""

    async def _heartbeat(self) -> bool:
        """See Member."""
        if self._epoch == self.NOT_JOINED:
            return await self._join()
        try:
            request = heartbeat.HeartbeatRequest(self.group, self._epoch, self._member_id)
            code = (await self.client.call(heartbeat, 3, request)).error_code
        except Lost:
            return False
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""
        if code in _NEVER_DONE or code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._leave()
        elif code:
            await self.client.find_coordinator(self.group, GROUP)
        return not code

    async def _join(self) -> bool:
        request = join_group.JoinGroupRequest(
            self.group,
            session_timeout_ms=6000,
            rebalance_timeout_ms=3000,
            member_id=self._member_id,
            protocol_type="simulated",
            protocols=[join_group.JoinGroupRequestProtocol("turns", b"")],
        )
        try:
            joined = await self.client.call(join_group, 5, request, timeout_s=8.0)
            if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                request.member_id = self._member_id = joined.member_id
                joined = await self.client.call(join_group, 5, request, timeout_s=8.0)
            if joined.error_code:
                self._member_id = ""
                await self.client.find_coordinator(self.group, GROUP)
                return False
            self._member_id = joined.member_id
            return await self._sync(joined)
        except Lost:
            return False

    async def _sync(self, joined: join_group.JoinGroupResponse) -> bool:
        members = sorted(member.member_id for member in joined.members)
        given = [bytes(range(at, PARTITIONS, len(members))) for at in range(len(members))]
        assignments = [sync_group.SyncGroupRequestAssignment(*each) for each in zip(members, given, strict=True)]
        request = sync_group.SyncGroupRequest(self.group, joined.generation_id, self._member_id, assignments=assignments)
        answer = await self.client.call(sync_group, 3, request, timeout_s=8.0)
        if answer.error_code:
            return False
        self._epoch = joined.generation_id
        self._own(list(answer.assignment))
        return True

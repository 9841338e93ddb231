"""The parts that tests of groups use: a broker with a group coordinator and a few topics, and the requests of its clients."""

from __future__ import annotations

import asyncio
from random import Random
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from ottla.server.base.promise import Promise
from ottla.server.base.randomness import from_system
from ottla.server.base.turns import Workers
from ottla.server.group.classic.group import ClassicGroup
from ottla.server.group.coordinator import GroupCoordinator
from ottla.server.group.coordinator_config import GroupCoordinatorConfig
from ottla.server.group.group import Group
from ottla.server.handlers import heartbeat, join_group, leave_group, offset_commit, offset_fetch, sync_group
from ottla.server.requests.long_answers import LongAnswers
from ottla.server.requests.request import Request
from ottla.server.requests.session import Session
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.wire.primitives import ZERO_UUID
from tests.fakes import Threads
from tests.server.coordination.memory import NODE_ID, TOPICS, CoordinatorClock, CoordinatorLog

T = TypeVar("T")


def at_once(answer: T | Promise[T]) -> T:
    """Returns an answer that nothing has to wait for."""
    assert not isinstance(answer, Promise)
    return answer


class Broker:
    """A broker as handlers see it, with a group coordinator over a log in memory."""

    def __init__(
        self,
        log: CoordinatorLog | None = None,
        clock: CoordinatorClock | None = None,
        random: Random | None = None,
        **settings: Any,
    ) -> None:
        settings.setdefault("initial_rebalance_delay_ms", 0)
        self.clock = clock or CoordinatorClock()
        self.log = log or CoordinatorLog()
        topics = {
            name: SimpleNamespace(
                name=name, topic_id=topic_id, partitions={index: SimpleNamespace(replicas=(NODE_ID,)) for index in range(count)}
            )
            for name, (topic_id, count) in TOPICS.items()
        }
        self.configs: dict[tuple[int, str], dict[str, str]] = {}  # what was set for a group (32) or for all brokers (4)
        self.metadata = SimpleNamespace(
            topics=topics,
            topics_by_id={topic.topic_id: topic for topic in topics.values()},
            brokers={NODE_ID: SimpleNamespace(rack=None)},
            highest_offset=100,
            features={"group.version": 1, "share.version": 1, "streams.version": 1},
            config_of=lambda kind, name: self.configs.get((kind, name), {}),
        )
        self.authorizer = None
        self.long_answers = LongAnswers(1 << 26)
        self.threads = Threads()
        self.workers = lambda: Workers(self.threads.run)
        self.random = random or from_system()
        self.groups = GroupCoordinator(self.log, self.clock, GroupCoordinatorConfig(**settings), self.metadata, self.random)

    def context(self, version: int, client_id: str | None = "c", host: str = "127.0.0.1") -> Request:
        """Returns a request of this version as its handler sees it."""
        return Request(cast(Any, self), Session("PLAINTEXT", host), 0, version, 1, client_id)

    def restarted(self) -> Broker:
        """Returns another process over the same log and clock. It draws other member ids than this one."""
        fresh = Broker(self.log, self.clock, self.random)
        fresh.groups.settings = self.groups.settings
        fresh.groups.refresh()
        return fresh


class Driver:
    """Sends requests to the handlers of one broker as a client would, each in a version that has every field it uses."""

    def __init__(self, broker: Broker | None = None, **settings: Any) -> None:
        self.broker = broker or Broker(**settings)

    @property
    def clock(self) -> CoordinatorClock:
        return self.broker.clock

    def join(
        self,
        group: str = "g",
        member: str = "",
        *,
        instance: str | None = None,
        protocols: dict[str, bytes] | None = None,
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        version: int = 9,
        client: str | None = "c",
    ) -> Any:
        named = {"range": b"meta"} if protocols is None else protocols
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name, metadata) for name, metadata in named.items()],
        )
        return join_group.handle(request, self.broker.context(version, client))

    def enter(self, group: str = "g", **options: Any) -> tuple[str, Any]:
        """Joins as a new dynamic member, with both requests. Returns its id and the parked answer, which is done if it did not
        have to wait.
        """
        first = self.join(group, **options)
        assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return first.member_id, self.join(group, first.member_id, **options)

    def sync(
        self,
        member: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = "g",
        instance: str | None = None,
        protocol_type: str | None = "consumer",
        protocol: str | None = "range",
        version: int = 5,
    ) -> Any:
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol,
            assignments=[SyncGroupRequestAssignment(key, value) for key, value in (assignments or {}).items()],
        )
        return sync_group.handle(request, self.broker.context(version))

    def stable(self, count: int = 1, group: str = "g", **options: Any) -> tuple[list[str], int]:
        """Makes a stable group of `count` members, each assigned its number. Returns their ids, the leader first, and the
        generation.
        """
        entered = [self.enter(group, **options) for _ in range(count)]
        self.clock.advance(self.broker.groups.settings.initial_rebalance_delay_ms / 1000)
        answers = [answer_of(parked) for _, parked in entered]
        generation = answers[-1].generation_id
        members = sorted((member for member, _ in entered), key=lambda member: member != answers[0].leader)
        for member in reversed(members):
            self.sync(member, generation, {each: str(index).encode() for index, each in enumerate(members)}, group=group)
        return members, generation

    def heartbeat(self, member: str, generation: int, *, group: str = "g", instance: str | None = None) -> int:
        request = HeartbeatRequest(group, generation, member, instance)
        return at_once(heartbeat.handle(request, self.broker.context(4))).error_code

    def leave(self, *members: str | tuple[str, str | None], group: str = "g") -> Any:
        identities = [MemberIdentity(*(each if isinstance(each, tuple) else (each, None))) for each in members]
        return leave_group.handle(LeaveGroupRequest(group_id=group, members=identities), self.broker.context(5))

    def commit(
        self,
        offsets: dict[int, int],
        *,
        topic: str = "t",
        topic_id: bytes | None = None,
        group: str = "g",
        member: str = "",
        generation: int = -1,
        instance: str | None = None,
        metadata: str | None = "",
        retention_ms: int = -1,
        version: int = 9,
    ) -> list[int]:
        """Returns the error code of each partition."""
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequestTopic(
                    topic if version < 10 else "",
                    topic_id or TOPICS[topic][0] if version >= 10 else ZERO_UUID,
                    [OffsetCommitRequestPartition(index, offset, -1, metadata) for index, offset in offsets.items()],
                )
            ],
        )
        response = at_once(offset_commit.handle(request, self.broker.context(version)))
        return [partition.error_code for each in response.topics for partition in each.partitions]

    def fetch(self, group: str = "g", *, require_stable: bool = False) -> dict[str, dict[int, int]]:
        """Returns everything that the group has committed."""
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None)], require_stable=require_stable)
        (answer,) = at_once(offset_fetch.handle(request, self.broker.context(9))).groups
        assert answer.error_code == ErrorCode.NONE
        return {
            topic.name: {partition.partition_index: partition.committed_offset for partition in topic.partitions}
            for topic in answer.topics
        }

    def group(self, group_id: str = "g") -> ClassicGroup:
        """Returns the group, which must exist and be a classic group."""
        return classic(self.broker.groups.find(group_id))

    def state(self, group: str = "g") -> str | None:
        found = self.broker.groups.find(group)
        return None if found is None else found.state_name


def classic(group: Group | None) -> ClassicGroup:
    """Returns the group, which must exist and be a classic group."""
    assert isinstance(group, ClassicGroup)
    return group


def answer_of(answer: Any) -> Any:
    """Returns a response, whether it was parked or not; fails if it is still parked."""
    return answer.result() if isinstance(answer, asyncio.Future) else answer


def waits(answer: Any) -> bool:
    return isinstance(answer, asyncio.Future) and not answer.done()

"""The surroundings that the steps of a consumer group's request work with, over a log in memory, and groups of the members that a
test wants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from ottla.server.group.consumer import records
from ottla.server.group.consumer.group import ConsumerGroup
from ottla.server.group.consumer.lookups import Matches, RegexLookups
from ottla.server.group.consumer.member import ClassicMetadata, ConsumerMember
from ottla.server.group.consumer.services import ConsumerServices
from ottla.server.group.consumer.timeouts import Timeouts
from ottla.server.group.consumer.update import GroupUpdate
from ottla.server.group.errors import GroupError
from ottla.server.group.modern.assignor import Assignment
from ottla.server.group.modern.timers import MemberTimers
from ottla.server.group.records import GroupRecord
from ottla.server.group.requests import MemberProtocol
from ottla.server.group.result import Result
from ottla.wire.errors import ErrorCode
from tests.server.coordination.memory import TOPICS, CoordinatorClock
from tests.server.group.fakes import Broker

T, U = TOPICS["t"][0], TOPICS["u"][0]
EPOCH = 5
"""The epoch of groups, of their targets, and of members that say nothing else."""


def member(member_id: str, *topics: str, **fields: Any) -> ConsumerMember:
    """A member that is where its group is; it reads the topic t unless it names others, or has an expression."""
    named = frozenset(topics or ("t",)) if "regex" not in fields else frozenset(topics)
    usual: dict[str, Any] = {"epoch": EPOCH, "previous_epoch": EPOCH - 1, "rebalance_timeout_ms": 10_000, "topics": named}
    return ConsumerMember(member_id, **(usual | fields))


def classic_member(member_id: str, metadata: bytes = b"", **fields: Any) -> ConsumerMember:
    """One that speaks the classic protocol, with a session of 10 s."""
    return member(member_id, classic=ClassicMetadata(10_000, (MemberProtocol("range", metadata),)), **fields)


class Rig:
    """`fenced` are the deadlines that passed, `found` the lookups that ended. Settings are the broker's, with _ for dots."""

    def __init__(self, **settings: Any) -> None:
        self.broker = Broker(broker={name.replace("_", "."): value for name, value in settings.items()})
        self.shard = self.broker.groups.member_shard("g")
        self.fenced: list[tuple[str, str, str]] = []
        self.found: list[tuple[str, Matches, int]] = []
        timeouts = Timeouts(MemberTimers(self.clock), self._fence)
        self.services = ConsumerServices(self.shard, timeouts, RegexLookups(self.clock, self.shard.cluster, self._lookup_ended))

    @property
    def clock(self) -> CoordinatorClock:
        return self.broker.clock

    def make(
        self,
        *members: ConsumerMember,
        targets: Mapping[str, Assignment] | None = None,
        regexes: Mapping[str, Iterable[str]] | None = None,
        assigned_ms: int = 0,
        epoch: int = EPOCH,
        group: str = "g",
    ) -> ConsumerGroup:
        """A group in the shard that has looked at its topics. `assigned_ms`: when its targets were made."""
        topics = {topic for each in members for topic in each.topics}.union(*(regexes or {}).values())
        written: list[GroupRecord] = [records.member(group, each) for each in members]
        written.append(records.epoch(group, epoch, self.services.topics.hash_of(topics)))
        written += [records.target(group, *each) for each in (targets or {}).items()]
        written.append(records.target_epoch(group, EPOCH, assigned_ms))
        written += [records.current(group, each) for each in members]
        version, now_ms = self.shard.cluster.highest_offset, self.clock.now_ms()
        written += [records.regex(group, regex, names, version, now_ms) for regex, names in (regexes or {}).items()]
        self.services.run(Result(written, None))
        made = self.services.existing(group)
        made.refresh_at_ms = now_ms + 2**31
        return made

    def update(self, *members: ConsumerMember, **fields: Any) -> GroupUpdate:
        """An update of a group with these members."""
        return GroupUpdate(self.services, self.make(*members, **fields))

    def hash_of(self, *topics: str) -> int:
        return self.services.topics.hash_of(topics)

    def _fence(self, group_id: str, member_id: str, reason: str, *, in_epoch: int | None = None) -> None:
        self.fenced.append((group_id, member_id, reason))

    def _lookup_ended(self, group_id: str, matches: Matches, version: int) -> None:
        self.found.append((group_id, matches, version))


def refusal(error: pytest.ExceptionInfo[GroupError]) -> ErrorCode:
    """The code of a refusal, which has a text."""
    assert error.value.message
    return error.value.code

"""`ConsumerServices` holds what the requests and deadlines of consumer groups use on one shard: groups, settings, topics, timers
and lookups.

The steps of a request (update.py, heartbeat.py, classic_members.py, departures.py) take it as an argument; protocol.py creates
it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from ottla.server.group.consumer import records
from ottla.server.group.consumer.assignors import ASSIGNORS
from ottla.server.group.consumer.group import ConsumerGroup
from ottla.server.group.consumer.lookups import RegexLookups
from ottla.server.group.consumer.migration import Policy
from ottla.server.group.consumer.targets import Snapshot, assign
from ottla.server.group.consumer.timeouts import Timeouts
from ottla.server.group.errors import GroupError
from ottla.server.group.modern.assignor import NOTHING_ASSIGNED, Assignor
from ottla.server.group.modern.group_configs import GroupConfigs
from ottla.server.group.modern.operations import Operations
from ottla.server.group.modern.target_jobs import TargetJobs
from ottla.server.group.modern.topics import Topics
from ottla.server.group.protocol import ShardContext
from ottla.server.group.result import Result
from ottla.server.settings.rules import assignor_name
from ottla.wire.errors import ErrorCode

T = TypeVar("T")


class ConsumerServices:
    """The services of one shard's consumer groups (see the module's docstring)."""

    def __init__(self, shard: ShardContext, timeouts: Timeouts, lookups: RegexLookups) -> None:
        self.shard = shard
        self.clock = shard.clock
        self.cluster = shard.cluster
        self.timeouts = timeouts
        self.lookups = lookups
        self.values = GroupConfigs(shard.settings.broker, shard.cluster)
        self.policy = Policy(str(self.values.broker_value("group.consumer.migration.policy")).lower())
        names = self.values.broker_value("group.consumer.assignors")
        assert isinstance(names, Iterable)
        self.assignors = {name: ASSIGNORS[name] for name in map(assignor_name, names)}
        self.default_assignor = next(iter(self.assignors))
        self.topics = Topics(shard.cluster)
        self.operations = Operations(shard)
        self.target_jobs = TargetJobs(shard, NOTHING_ASSIGNED, records.target, records.target_epoch)
        self.topics_version = shard.cluster.highest_offset
        """The version of the metadata that brought the newest topic. Expressions that were looked up before may match
        that topic.
        """

    def run(self, result: Result[T]) -> T:
        """Writes and replays the records of an operation and returns its answer. Raises GroupError if they cannot be written."""
        return self.shard.run(result)

    # Groups

    def find(self, group_id: str) -> ConsumerGroup | None:
        group = self.shard.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def existing(self, group_id: str) -> ConsumerGroup:
        """Returns the consumer group of this id. Raises GroupError GROUP_ID_NOT_FOUND if there is none, or one of
        another kind.
        """
        group = self.shard.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if group is None:  # Kafka's DescribeConsumerGroupTest looks for these words
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        kind = group.kind.value
        raise GroupError(
            ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is a {kind} group; this request is for consumer groups."
        )

    def check_room(self, group: ConsumerGroup, member_id: str, instance_id: str | None) -> None:
        """Checks that the group has room for a member. A known member, or one that replaces a static member, always has room.

        Raises GroupError GROUP_MAX_SIZE_REACHED.
        """
        if instance_id in group.static_members or member_id in group.members:
            return
        most = self.values.broker_number("group.consumer.max.size")
        if len(group.members) >= most:
            raise GroupError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"The group has {most} members, which is the most it may have.")

    def forget_members(self, group_id: str, member_ids: Iterable[str]) -> None:
        """Cancels all deadlines of these members of a group."""
        for member_id in member_ids:
            self.timeouts.forget(group_id, member_id)

    def start_target(self, group_id: str, assignor: Assignor) -> None:
        """Begins to make a target for the present epoch of a group in the background."""
        group = self.existing(group_id)
        former = dict(group.targets)
        snapshot = Snapshot(dict(group.members), former, former, dict(group.regexes))
        self.target_jobs.start(group, snapshot.members, assign(snapshot, self.topics, assignor))

    # Topics

    def topic_changed(self, topic: str, *, is_new: bool) -> None:
        """Notes that a topic has changed. The next heartbeat of a group that reads it handles that."""
        self.topics.changed(topic)
        if is_new:
            self.topics_version = self.cluster.highest_offset

    def look_for_changes(self, group: ConsumerGroup) -> None:
        """Has a group check its topics if one of them has changed. It is called before a group relies on them."""
        if self.topics.have_changed(group, group.reads_any):
            group.topics_changed()

"""Conditions that a test can wait for in a group: its state, the number of its members, its lag, what it has committed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from ottla.server.group.classic.group import State as ClassicState
from ottla.server.group.consumer.group import ConsumerState
from ottla.server.group.kind import Kind
from ottla.server.group.share import group as share
from ottla.server.group.streams.group import StreamsState
from ottla.server.inspect.groups import Found, all_groups, client_of, get_group, summarize_group
from ottla.server.inspect.positions import positions
from ottla.server.metadata.names import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from ottla.server.testkit.fields import Fields, Refused, nearest
from ottla.server.testkit.waiting.condition import Condition, Missing
from ottla.server.testkit.waiting.conditions import MOST, check_partition, in_time, replicas_of

if TYPE_CHECKING:
    from ottla.server.partitions.replica import Replica
    from ottla.server.requests.context import BrokerContext
    from ottla.server.testkit.faults.bench import Bench
    from ottla.wire.api import Api

GONE: Final = ClassicState.DEAD.value
"""The state of a group that does not exist."""
STATES: Final[dict[Kind, tuple[str, ...]]] = {
    Kind.CLASSIC: tuple(state.value for state in ClassicState),
    Kind.CONSUMER: tuple(state.value for state in ConsumerState),
    Kind.SHARE: (share.EMPTY, share.STABLE),
    Kind.STREAMS: tuple(state.value for state in StreamsState),
}
EMPTY: Final = share.EMPTY
WITHOUT_RECORD: Final = frozenset({"JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "DeleteRecords"})
"""The requests that change a classic group, or the lag of any, without a record in an internal topic. Every other change of a
group is such a record."""
NAMED: Final = 5
"""So many members or partitions are named in what is missing."""


class _OfGroup(Condition):
    """The common part of conditions about groups."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id

    def find(self, context: BrokerContext) -> Found | Missing:
        """Returns the group, or that it does not exist."""
        found = get_group(context, self.group_id)
        if found is not None:
            return found
        return Missing(lambda: f"there is no group {self.group_id}{nearest(self.group_id, all_groups(context))}")

    def concerns(self, api: Api) -> bool:
        """See Condition."""
        return api.name in WITHOUT_RECORD

    def watched(self, context: BrokerContext) -> Iterable[Replica]:
        """See Condition. A group is found in any partition, since the topic may be made anew meanwhile."""
        return (*replicas_of(context, CONSUMER_OFFSETS), *replicas_of(context, SHARE_GROUP_STATE))


class GroupIs(_OfGroup):
    """A group is in a state, has so many members, or a lag of at most so many records."""

    def __init__(self, group_id: str, state: str | None, members: int | None, lag: int | None) -> None:
        """Raises Refused if no group can be so."""
        super().__init__(group_id)
        known = {name for names in STATES.values() for name in names}
        if state is not None and state not in known:
            raise Refused(f"until.state: there is no state {state!r:.50} of groups{nearest(state, known)}")
        if members and state in (EMPTY, GONE):
            raise Refused(f"this can never be: a group that is {state} has no members")
        self._state = state
        self._members = members
        self._lag = lag

    def look(self, bench: Bench, context: BrokerContext) -> dict[str, Any] | Missing:
        """See Condition."""
        found = self.find(context)
        if isinstance(found, Missing):
            return {"group": self.group_id, "state": GONE} if self._state == GONE else found
        group = found.group
        if self._state is not None and self._state not in (*STATES[group.kind], GONE):
            names = ", ".join(STATES[group.kind])
            raise Refused(f"this can never be: {self.group_id} is a {group.kind.value} group, whose states are {names}")
        state_is_wrong = self._state not in (None, group.state_name)
        if state_is_wrong or self._members not in (None, group.member_count):
            return Missing(lambda: self._describe(bench, found))
        if self._lag is None:
            return summarize_group(found)
        where = positions(context, found.shard, group, reads=True)
        behind = Counter({(each.topic, each.partition): each.lag for each in where if each.lag})
        unknown = [each for each in where if each.lag is None]
        lag = behind.total()
        if lag > self._lag or unknown or not where:
            parts = [f"{topic}-{partition} {count}" for (topic, partition), count in behind.most_common(NAMED)]
            parts += [f"{each.topic}-{each.partition} unknown" for each in unknown[:NAMED]]
            known = f"has a lag of {lag}, more than {self._lag}" if lag > self._lag else "has an unknown lag"
            return Missing(
                f"{self.group_id} {known}: {', '.join(parts)}" if where else f"{self.group_id} has committed nothing yet"
            )
        return {**summarize_group(found), "lag": lag}

    def _describe(self, bench: Bench, found: Found) -> str:
        """Returns what the group is like, whom it waits for, and until when."""
        group = found.group
        count = f"{group.member_count} members" if self._members is None else f"{group.member_count} of {self._members} members"
        text = f"{self.group_id} is {group.state_name}, {count}"
        late, timers = _late_members(group)
        if late:
            named = f"{', '.join(late[:NAMED])}{' and others' if len(late) > NAMED else ''}"
            text += f"; waits for {named}"
        deadline = next((each for each in found.deadlines if each.name in timers), None)
        if deadline is not None:
            text += f"{'' if late else '; waits'} until {in_time(bench, deadline.seconds_left).removeprefix('at ')}"
        return text


def _late_members(group: Any) -> tuple[list[str], tuple[str, ...]]:
    """Returns the clients that a rebalance waits for, and the names of the deadlines that end that."""
    if group.kind is Kind.CLASSIC:
        if group.state is ClassicState.PREPARING_REBALANCE:
            late = [member for member in group.members.values() if member.awaiting_join is None]
            return _client_names(late) + [f"{member_id}, which is new" for member_id in group.pending_joins], (
                "join",
                "first join",
            )
        if group.state is ClassicState.COMPLETING_REBALANCE:
            return _client_names([group.members[member_id] for member_id in sorted(group.pending_syncs)]), ("sync",)
        return [], ()
    if group.kind is Kind.SHARE:
        return [], ()
    late = [member for member in group.members.values() if not member.is_reconciled_to(group.assignment_epoch)]
    return _client_names(late), ("rebalance", "join", "sync", "initial rebalance")


def _client_names(members: list[Any]) -> list[str]:
    """Returns the members by their client ids, and by their own if several have the same."""
    names = [client_of(member)[0] for member in members]
    several = Counter(names)
    return [
        f"{name} ({member.member_id})" if several[name] > 1 or not name else name
        for name, member in zip(names, members, strict=True)
    ]


class Committed(_OfGroup):
    """A group has committed at least an offset in a partition."""

    def __init__(self, group_id: str, topic: str, partition: int, offset: int) -> None:
        super().__init__(group_id)
        self._topic = topic
        self._partition = partition
        self._offset = offset

    def look(self, bench: Bench, context: BrokerContext) -> dict[str, Any] | Missing:
        """See Condition."""
        check_partition(context, self._topic, self._partition)
        found = self.find(context)
        if isinstance(found, Missing):
            return found
        if found.group.kind is Kind.SHARE:
            raise Refused(f"this can never be: {self.group_id} is a share group, which commits no offsets")
        committed = found.shard.offsets.of_group(self.group_id).get(self._topic, {}).get(self._partition)
        where = f"{self.group_id} has committed"
        if committed is None:
            return Missing(f"{where} nothing in {self._topic}-{self._partition}")
        offset = committed.value.offset
        if offset < self._offset:
            return Missing(f"{where} {offset} in {self._topic}-{self._partition}, not {self._offset}")
        return {"group": self.group_id, "topic": self._topic, "partition": self._partition, "offset": offset}


def read_group(bench: Bench, fields: Fields) -> Condition:
    """Reads a condition about a group. Raises Refused."""
    members = fields.take_number("members", -1, high=MOST)
    lag = fields.take_number("lag", -1)
    return GroupIs(
        fields.take("group", str),
        fields.take("state", str, None),
        None if members < 0 else members,
        None if lag < 0 else lag,
    )


def read_committed(bench: Bench, fields: Fields) -> Condition:
    """Reads a condition about a committed offset. Raises Refused."""
    inside = fields.inside("committed")
    condition = Committed(
        inside.take("group", str),
        inside.take("topic", str),
        inside.take_number("partition", 0, high=MOST),
        inside.take_number("offset"),
    )
    inside.done()
    return condition

"""Leads a member from the tasks that it holds to those of its target, one heartbeat at a time.

First the member gives up the tasks that it loses, and confirms that by reporting the tasks it owns. Only then does it get new
tasks, and only those that no other member still runs: an active task has one owner in the group, and no process has a task twice
in any role. The member enters the epoch of the target as soon as it has nothing to give up, and waits there for tasks that are
not free yet.

The role of a task that the member holds itself changes in place, so that the state on its disk is kept (Kafka 4.4): from active
to standby at once, though the active task counts as held until the member has confirmed its release; between standby and warm-up
at once; and from standby or warm-up to active when the active task is free, until which the member keeps the copy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import NamedTuple

from ottla.server.group.errors import GroupError
from ottla.server.group.streams.member import MemberState, StreamsMember
from ottla.server.group.streams.tasks import (
    NOTHING_HELD,
    ActiveTasks,
    HeldTasks,
    TaskIds,
    Tasks,
    merge,
    overlap,
)
from ottla.wire.errors import ErrorCode


class Holders(NamedTuple):
    """The processes that have a task in each role now, even if they have to give it up: subtopology -> partition -> process
    ids.
    """

    active: Mapping[str, Mapping[int, str]]
    standby: Mapping[str, Mapping[int, Set[str]]]
    warmup: Mapping[str, Mapping[int, Set[str]]]


class _Difference(NamedTuple):
    """The changes in one role: `kept` tasks are held and in the target, `lost` ones are held and not in it, and `gained` ones are
    the rest of the target, as far as they are free.
    """

    kept: dict[str, frozenset[int]]
    lost: dict[str, frozenset[int]]
    gained: dict[str, frozenset[int]]
    blocked: bool  # some of the target is not free


def reconcile(member: StreamsMember, target_epoch: int, target: Tasks, holders: Holders, owned: Tasks | None) -> StreamsMember:
    """Returns the member as it is after this heartbeat, in which it reported to have `owned` (None: it did not report). Raises
    GroupError FENCED_MEMBER_EPOCH if its record has an unknown state, so that it joins again.
    """
    if member.state is MemberState.STABLE:
        return member if member.epoch == target_epoch else _next(member, member.epoch, target_epoch, target, holders, owned)
    if member.state is MemberState.UNREVOKED_TASKS:
        if not _released(member.to_revoke, owned):
            return member
        return _next(member, member.epoch + 1, target_epoch, target, holders, owned)
    if member.state is MemberState.UNRELEASED_TASKS:
        return _next(member, member.epoch, target_epoch, target, holders, owned)
    if owned is None or owned:
        raise GroupError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The member is in a state that this broker does not know; it has to give up all its tasks and join again.",
        )
    return _next(member, target_epoch, target_epoch, target, holders, owned)


def _released(tasks: HeldTasks, owned: Tasks | None) -> bool:
    """Returns whether the member has reported that it owns none of these."""
    return owned is not None and not overlap(owned, tasks)


def _next(
    member: StreamsMember, epoch: int, target_epoch: int, target: Tasks, holders: Holders, owned: Tasks | None
) -> StreamsMember:
    held = member.held
    blocks = _Blocks(member, holders)
    mine = _without_epochs(held.active)
    active = _difference(mine, target.active, blocks.active)
    standby = _difference(held.standby, target.standby, blocks.standby)
    warmup = _difference(held.warmup, target.warmup, blocks.warmup)
    _grant(standby, mine)
    _drop(standby.lost, _grant(warmup, held.standby))
    _drop(warmup.lost, _grant(standby, held.warmup))
    promoted = [(change, _common(copies, target.active)) for copies, change in ((held.standby, standby), (held.warmup, warmup))]
    for change, copies in promoted:
        _drop(change.lost, copies)
    to_revoke = HeldTasks(_with_epochs(active.lost, held.active), standby.lost, warmup.lost)
    must_revoke = bool(to_revoke) and not _released(to_revoke, owned)
    for change, copies in promoted:
        if not must_revoke:
            _drop(copies, active.gained)
        _add(change.kept, copies)
    kept = HeldTasks(_with_epochs(active.kept, held.active), standby.kept, warmup.kept)
    if must_revoke:
        return member.at_epoch(epoch)._replace(state=MemberState.UNREVOKED_TASKS, held=kept, to_revoke=to_revoke)
    gained = HeldTasks(
        {name: dict.fromkeys(partitions, target_epoch) for name, partitions in active.gained.items()},
        standby.gained,
        warmup.gained,
    )
    blocked = active.blocked or standby.blocked or warmup.blocked
    return member.at_epoch(target_epoch)._replace(
        state=MemberState.UNRELEASED_TASKS if blocked else MemberState.STABLE, held=merge(kept, gained), to_revoke=NOTHING_HELD
    )


class _Blocks:
    """Decides which tasks cannot be given to the member yet. A copy that the member has itself does not prevent that: it changes
    its role in place.
    """

    def __init__(self, member: StreamsMember, holders: Holders) -> None:
        self._process = member.process_id
        self._held = member.held
        self._holders = holders

    def active(self, subtopology: str, wanted: frozenset[int]) -> Set[int]:
        return (
            (self._holders.active.get(subtopology, {}).keys() & wanted)
            | (self._copies(self._holders.standby, subtopology, wanted) - self._held.standby.get(subtopology, frozenset()))
            | (self._copies(self._holders.warmup, subtopology, wanted) - self._held.warmup.get(subtopology, frozenset()))
        )

    def standby(self, subtopology: str, wanted: frozenset[int]) -> Set[int]:
        return (
            (self._running(subtopology, wanted) - self._held.active.get(subtopology, {}).keys())
            | self._copies(self._holders.standby, subtopology, wanted)
            | (self._copies(self._holders.warmup, subtopology, wanted) - self._held.warmup.get(subtopology, frozenset()))
        )

    def warmup(self, subtopology: str, wanted: frozenset[int]) -> Set[int]:
        return (
            self._running(subtopology, wanted)
            | (self._copies(self._holders.standby, subtopology, wanted) - self._held.standby.get(subtopology, frozenset()))
            | self._copies(self._holders.warmup, subtopology, wanted)
        )

    def _running(self, subtopology: str, wanted: frozenset[int]) -> Set[int]:
        """Returns those of the tasks that this process runs."""
        active = self._holders.active.get(subtopology, {})
        return {partition for partition in active.keys() & wanted if active[partition] == self._process}

    def _copies(self, holders: Mapping[str, Mapping[int, Set[str]]], subtopology: str, wanted: frozenset[int]) -> Set[int]:
        """Returns those of the tasks that this process has a copy of in one role."""
        copies = holders.get(subtopology, {})
        return {partition for partition in copies.keys() & wanted if self._process in copies[partition]}


def _difference(held: TaskIds, target: TaskIds, blocked: Callable[[str, frozenset[int]], Set[int]]) -> _Difference:
    result = _Difference({}, {}, {}, False)
    any_blocked = False
    for subtopology in {**target, **held}:
        mine = held.get(subtopology, frozenset())
        wanted = target.get(subtopology, frozenset())
        new = wanted - mine
        free = new - blocked(subtopology, new) if new else new
        any_blocked |= len(free) < len(new)
        for tasks, partitions in ((result.kept, mine & wanted), (result.lost, mine - wanted), (result.gained, free)):
            if partitions:
                tasks[subtopology] = partitions
    return result._replace(blocked=any_blocked)


def _grant(change: _Difference, held: TaskIds) -> TaskIds:
    """Turns those of these tasks that would be gained into ones that are kept. Returns them."""
    granted = _common(change.gained, held)
    _drop(change.gained, granted)
    _add(change.kept, granted)
    return granted


def _drop(tasks: dict[str, frozenset[int]], gone: TaskIds) -> None:
    for subtopology, partitions in gone.items():
        left = tasks.pop(subtopology, frozenset()) - partitions
        if left:
            tasks[subtopology] = left


def _add(tasks: dict[str, frozenset[int]], more: TaskIds) -> None:
    for subtopology, partitions in more.items():
        tasks[subtopology] = tasks.get(subtopology, frozenset()) | partitions


def _common(left: TaskIds, right: TaskIds) -> dict[str, frozenset[int]]:
    both = {name: partitions & right.get(name, frozenset()) for name, partitions in left.items()}
    return {name: partitions for name, partitions in both.items() if partitions}


def _without_epochs(active: ActiveTasks) -> TaskIds:
    return {subtopology: frozenset(partitions) for subtopology, partitions in active.items()}


def _with_epochs(tasks: TaskIds, held: ActiveTasks) -> Mapping[str, Mapping[int, int]]:
    return {
        subtopology: {partition: epochs[partition] for partition in partitions}
        for subtopology, partitions in tasks.items()
        for epochs in (held[subtopology],)
    }

"""Leads a member to its target assignment, one step per heartbeat (KIP-848).

A member must not get a partition before its former owner has given it up, and no member waits for all others; hence the three
states and this table. The step `next` compares the member's assignment with its target (`_next`), `trim` removes topics that it
no longer subscribes to (`_trim`), and `stay` leaves it as it is.

    state                    condition                                          step
    STABLE                   the target has another epoch                       next, from its epoch
                             its subscription has changed                       trim
                             otherwise                                          stay
    UNREVOKED_PARTITIONS     it still has partitions to give up, or does not    trim if its subscription has changed,
                             report its partitions                              otherwise stay
                             otherwise                                          next, from its epoch
    UNRELEASED_PARTITIONS    always                                             next, from its epoch
    UNKNOWN                  it reports that it has no partitions               next, from the target's epoch
                             otherwise                                          fenced: it has to join anew

`next` leads to UNREVOKED_PARTITIONS, in the old epoch, if the member has partitions to give up; otherwise it leads to the
target's epoch: to UNRELEASED_PARTITIONS if other members still have partitions of the target, and to STABLE if not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ottla.server.base.turns import Steps
from ottla.server.group.consumer.member import ConsumerMember, Held, MemberState
from ottla.server.group.errors import GroupError
from ottla.server.group.modern.assignor import Assignment
from ottla.wire.errors import ErrorCode

FREE: Final = -1
Owned = Mapping[bytes, Collection[int]]
"""The partitions that a member reports to have, by topic id."""


@dataclass(slots=True, frozen=True)
class Situation:
    """Everything that a member's next step depends on."""

    target_epoch: int
    target: Assignment
    subscribed: Collection[bytes]
    """The ids of the topics that it subscribes to and that exist."""
    subscription_changed: bool
    epoch_of: Callable[[bytes, int], int]
    """Returns the epoch of a partition's owner, or FREE."""
    owned: Owned | None
    """The partitions that the member reports, or None if it did not, because they have not changed."""


def reconcile(member: ConsumerMember, now: Situation) -> Steps[ConsumerMember]:
    """Makes steps that return the member as it is after this heartbeat, the same object if nothing changes. They raise GroupError
    FENCED_MEMBER_EPOCH.
    """
    match member.state:
        case MemberState.STABLE:
            if member.epoch != now.target_epoch:
                return (yield from _next(member, member.epoch, now))
            return _trim(member, now) if now.subscription_changed else member
        case MemberState.UNREVOKED_PARTITIONS:
            if _still_has(member.revoking, now.owned):
                return _trim(member, now) if now.subscription_changed else member
            return (yield from _next(member, member.epoch, now))
        case MemberState.UNRELEASED_PARTITIONS:
            return (yield from _next(member, member.epoch, now))
        case MemberState.UNKNOWN:
            if now.owned is None or now.owned:
                message = "The member is in a state that this broker does not know; it has to give up everything and join again."
                raise GroupError(ErrorCode.FENCED_MEMBER_EPOCH, message)
            return (yield from _next(member, now.target_epoch, now))


def _next(member: ConsumerMember, epoch: int, now: Situation) -> Steps[ConsumerMember]:
    assigned: dict[bytes, dict[int, int]] = {}
    revoking: dict[bytes, dict[int, int]] = {}
    free: dict[bytes, list[int]] = {}
    unreleased = False
    for topic_id in {**now.target, **member.assigned}:
        yield None
        target = now.target.get(topic_id, frozenset()) if topic_id in now.subscribed else frozenset()
        held = member.assigned.get(topic_id, {})
        _put(assigned, topic_id, {index: since for index, since in held.items() if index in target})
        _put(revoking, topic_id, {index: since for index, since in held.items() if index not in target})
        wanted = [index for index in sorted(target) if index not in held]
        free[topic_id] = [index for index in wanted if _is_free(member, topic_id, index, now)]
        unreleased |= len(free[topic_id]) < len(wanted)
    if revoking and _still_has(revoking, now.owned):
        return member.moved_to(epoch, MemberState.UNREVOKED_PARTITIONS, assigned, revoking)
    for topic_id, indexes in free.items():
        _put(assigned, topic_id, {**assigned.get(topic_id, {}), **dict.fromkeys(indexes, now.target_epoch)})
    state = MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE
    return member.moved_to(now.target_epoch, state, assigned, {})


def _trim(member: ConsumerMember, now: Situation) -> ConsumerMember:
    """Removes the topics that the member no longer subscribes to. This is much cheaper than `_next`, and all that a change of the
    subscription needs before there is a new target.
    """
    dropped = {topic_id: held for topic_id, held in member.assigned.items() if topic_id not in now.subscribed}
    if not dropped:
        return member
    assigned = {topic_id: held for topic_id, held in member.assigned.items() if topic_id not in dropped}
    revoking = {topic_id: dict(held) for topic_id, held in member.revoking.items()}
    for topic_id, held in dropped.items():
        revoking[topic_id] = {**revoking.get(topic_id, {}), **held}
    if _still_has(revoking, now.owned):
        return member.moved_to(member.epoch, MemberState.UNREVOKED_PARTITIONS, assigned, revoking)
    return member.moved_to(member.epoch, member.state, assigned, member.revoking)


def _is_free(member: ConsumerMember, topic_id: bytes, index: int, now: Situation) -> bool:
    """Returns whether no other member has the partition. One that the member itself was to give up may be assigned to
    it again.
    """
    return now.epoch_of(topic_id, index) == FREE or index in member.revoking.get(topic_id, ())


def _still_has(revoking: Held, owned: Owned | None) -> bool:
    """Returns whether the member still has partitions to give up; one that does not report its partitions counts as
    having all.
    """
    if owned is None:
        return True
    return any(index in revoking.get(topic_id, ()) for topic_id, indexes in owned.items() for index in indexes)


def _put(into: dict[bytes, dict[int, int]], topic_id: bytes, held: dict[int, int]) -> None:
    if held:
        into[topic_id] = held


def collect_owned(parts: Iterable[tuple[bytes, Collection[int]]]) -> Owned:
    """Collects the partitions that a request reports, by topic id."""
    owned: dict[bytes, set[int]] = {}
    for topic_id, indexes in parts:
        owned.setdefault(topic_id, set()).update(indexes)
    return owned

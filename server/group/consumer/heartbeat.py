"""ConsumerGroupHeartbeat: a member joins (epoch 0), goes on (its epoch), or leaves (-1; -2 for a static one that will be back).

Who may take part: a member that names the epoch it is in, or the one before, if it has nothing but what it may have: then the
answer that told it of the new epoch got lost. Epoch 0 is always right: who was fenced begins anew. A static member takes over the
place of its former self once that one has said that it is away.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ottla.server.group.consumer import records
from ottla.server.group.consumer.group import ConsumerGroup
from ottla.server.group.consumer.member import ConsumerMember, Held
from ottla.server.group.consumer.reconcile import Owned
from ottla.server.group.consumer.turn import RegexChange, Turn
from ottla.server.group.errors import GroupError
from ottla.server.group.modern.epochs import JOINING_EPOCH, LEAVING_EPOCH, LEAVING_STATIC_EPOCH
from ottla.server.group.requests import Client
from ottla.server.group.result import Result
from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.server.group.consumer.protocol import ConsumerProtocol

logger = logging.getLogger("ottla.server.group")


class Beat(NamedTuple):
    """What a member says. None is: as before."""

    member_id: str
    epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int | None
    topics: Sequence[str] | None
    regex: str | None
    assignor: str | None
    owned: Owned | None
    client: Client

    @property
    def is_full(self) -> bool:
        """Says all there is: after an error, the member is not sure what the coordinator knows."""
        said_topics = self.topics is not None or self.regex is not None
        return self.rebalance_timeout_ms is not None and said_topics and self.owned is not None


class BeatAnswer(NamedTuple):
    member_id: str
    epoch: int
    interval_ms: int
    """0 where there will be no other heartbeat."""
    assigned: Held | None
    """None: as before."""


def beat(protocol: ConsumerProtocol, group_id: str, said: Beat) -> BeatAnswer:
    """GroupError: the protocol's refusals, each with a text."""
    if said.epoch in (LEAVING_EPOCH, LEAVING_STATIC_EPOCH):
        return protocol.run(_leave(protocol, group_id, said))
    joining = said.epoch == JOINING_EPOCH
    turn = protocol.turn(group_id, create=joining)
    group = turn.group
    protocol.check_room(group, said.member_id, said.instance_id)
    old = member_of(turn, said.member_id, said.instance_id, joining=joining, classic=False)
    if not joining:
        check_member_epoch(old, said.epoch, said.owned)
    new = _updated(old, said)
    renamed = turn.update(old, new)
    regex = turn.regexes(old, new)
    assignor = group.preferred_assignor(old, new) or protocol.default_assignor
    voted = assignor != (group.preferred_assignor() or protocol.default_assignor)
    epoch = turn.bump(old, new, changed=renamed or voted or regex is RegexChange.KNOWN)
    changed = renamed or regex is not RegexChange.NONE
    led = turn.lead(new, turn.target(old, new, epoch), changed=changed, owned=said.owned)
    timeout_ms = protocol.values.number(group_id, "consumer.session.timeout.ms")
    turn.after.append(lambda: protocol.timeouts.session(group_id, said.member_id, timeout_ms))
    shown = led.assigned if joining or said.is_full or led.assigned != old.assigned else None
    interval_ms = protocol.values.number(group_id, "consumer.heartbeat.interval.ms")
    return protocol.run(turn.result(BeatAnswer(led.member_id, led.epoch, interval_ms, shown)))


def _updated(old: ConsumerMember, said: Beat) -> ConsumerMember:
    return replace(
        old,
        instance_id=old.instance_id if said.instance_id is None else said.instance_id,
        rack_id=old.rack_id if said.rack_id is None else said.rack_id,
        rebalance_timeout_ms=old.rebalance_timeout_ms if said.rebalance_timeout_ms is None else said.rebalance_timeout_ms,
        assignor=old.assignor if said.assignor is None else said.assignor,
        topics=old.topics if said.topics is None else frozenset(said.topics),
        regex=old.regex if said.regex is None else said.regex,
        client_id=said.client.client_id,
        client_host=said.client.host,
        classic=None,
    )


def member_of(turn: Turn, member_id: str, instance_id: str | None, *, joining: bool, classic: bool) -> ConsumerMember:
    """The member as it was before this turn, or a new one that joins; `classic`: it speaks the classic protocol.

    A static member that comes in the place of another has that one's subscription and assignment; the records that put it there
    are the turn's. GroupError: UNKNOWN_MEMBER_ID, UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID.
    """
    group = turn.group
    if instance_id is None:
        return group.members.get(member_id, ConsumerMember(member_id)) if joining else group.member(member_id)
    there = group.static_member(instance_id)
    if not joining:
        return static_member(group, member_id, instance_id)
    if there is None:
        return group.members.get(member_id, ConsumerMember(member_id))
    if not classic and not there.is_classic and there.epoch != LEAVING_STATIC_EPOCH:
        message = f"Instance id {instance_id} is held by member {there.member_id}: {member_id} cannot have it."
        raise GroupError(ErrorCode.UNRELEASED_INSTANCE_ID, message)
    logger.info("group %s: static member %s comes back as %s", group.group_id, there.member_id, member_id)
    here = replace(there, member_id=member_id, epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH)
    turn.records += records.member_gone(group.group_id, there.member_id)
    turn.records.append(records.member(group.group_id, here))
    turn.records.append(records.target(group.group_id, member_id, group.targets.get(there.member_id, {})))
    turn.records.append(records.current(group.group_id, here))
    if there.member_id != member_id:
        turn.after.append(lambda: turn.protocol.timeouts.forget(group.group_id, there.member_id))
    return here


def static_member(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
    """The member that both ids name. GroupError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    there = group.static_member(instance_id)
    if there is None:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, f"Nobody in group {group.group_id} has the instance id {instance_id}.")
    if there.member_id != member_id:
        message = f"Instance id {instance_id} is held by member {there.member_id} now, not by {member_id}."
        raise GroupError(ErrorCode.FENCED_INSTANCE_ID, message)
    return there


def check_member_epoch(member: ConsumerMember, epoch: int, owned: Owned | None) -> None:
    """GroupError FENCED_MEMBER_EPOCH."""
    if epoch == member.epoch:
        return
    repeated = epoch == member.previous_epoch and owned is not None and _is_part_of(owned, member.assigned)
    if epoch > member.epoch or not repeated:
        message = f"The member is in epoch {member.epoch}, not in {epoch}: it has to give up its partitions and join anew."
        raise GroupError(ErrorCode.FENCED_MEMBER_EPOCH, message)


def _is_part_of(owned: Owned, assigned: Held) -> bool:
    return all(topic_id in assigned and all(i in assigned[topic_id] for i in indexes) for topic_id, indexes in owned.items())


def _leave(protocol: ConsumerProtocol, group_id: str, said: Beat) -> Result[BeatAnswer]:
    group = protocol.existing(group_id)
    answer = BeatAnswer(said.member_id, said.epoch, 0, None)
    if said.instance_id is None:
        member = group.member(said.member_id)
    else:
        member = static_member(group, said.member_id, said.instance_id)
        if said.epoch == LEAVING_STATIC_EPOCH:
            logger.info("group %s: static member %s is away", group_id, member.member_id)
            return Result((records.current(group_id, member.away()),), answer)
    logger.info("group %s: %s leaves", group_id, member.member_id)
    return protocol.without(group, [member], answer)

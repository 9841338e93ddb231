"""Groups asked for together: one request a coordinator, where librdkafka sends one for each group, and looks for its coordinator.

It takes the coordinators of a listing of ours (kinds.py). Groups for which that does not do, since their coordinator has
moved, does not answer or is too old for it, are left to librdkafka.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from ottla.commands.clients import direct
from ottla.commands.clients.brokers import Brokers, by_broker
from ottla.commands.clients.partition import Partition
from ottla.commands.consumer_protocol import PROTOCOL_TYPE, assigned_partitions
from ottla.commands.groups.kinds import CLASSIC, Listed
from ottla.commands.groups.rows import NO_SUCH_GROUP, Coordinator, GroupState, MemberState
from ottla.commands.output import Failure
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import offset_fetch
from ottla.wire.messages.describe_groups import DescribeGroupsRequest

MANY_SINCE: Final = 8
"""The first version of OffsetFetch that asks for several groups."""
NAMED_UNTIL: Final = 9
"""The last one that names topics."""
_ELSEWHERE: Final = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)


def described(brokers: Brokers, groups: Iterable[Listed]) -> tuple[dict[str, GroupState], dict[str, str]]:
    """Describes classic groups, without their offsets; returns the errors by group, too. Groups that are in neither are left."""
    found: dict[str, GroupState] = {}
    wrong: dict[str, str] = {}
    for broker, names in by_broker(_placed(groups)).items():
        try:
            answer = brokers.at(broker).call(DescribeGroupsRequest(names))
        except Failure:
            continue
        for one in answer.groups:
            if one.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
                wrong[one.group_id] = NO_SUCH_GROUP
            elif one.error_code and one.error_code not in _ELSEWHERE:
                wrong[one.group_id] = direct.words(one.error_code, one.error_message)
            elif not one.error_code:
                found[one.group_id] = _state(brokers, broker, one)
    return found, wrong


def committed_of(
    brokers: Brokers, groups: Iterable[Listed], topics: Container[str] | None = None
) -> tuple[dict[str, dict[Partition, int]], dict[str, str]]:
    """Returns what each group has committed, in these topics or in all, and the errors by group. Groups that are in neither are
    left. Coordinators are asked for all topics: a request that names many topics for each of many groups is larger than that."""
    found: dict[str, dict[Partition, int]] = {}
    wrong: dict[str, str] = {}
    for broker, names in by_broker(_placed(groups)).items():
        try:
            connection = brokers.at(broker)
            version = min(NAMED_UNTIL, connection.versions.get(offset_fetch.API_KEY, (0, 0))[1])
            if version < MANY_SINCE:
                continue
            asked = [offset_fetch.OffsetFetchRequestGroup(name, topics=None) for name in names]
            answer = connection.call(offset_fetch.OffsetFetchRequest(groups=asked), version)
        except Failure:
            continue
        for one in answer.groups:
            if one.error_code and one.error_code not in _ELSEWHERE:
                wrong[one.group_id] = direct.words(one.error_code)
            elif not one.error_code:
                found[one.group_id] = {
                    Partition(topic.name, each.partition_index): each.committed_offset
                    for topic in one.topics
                    if topics is None or topic.name in topics
                    for each in topic.partitions
                    if not each.error_code and each.committed_offset >= 0
                }
    return found, wrong


def ends_of(
    brokers: Brokers, wanted: Iterable[Partition], isolation_level: int = direct.READ_UNCOMMITTED
) -> dict[Partition, int]:
    """Returns the end offsets of these partitions as this isolation level sees them, of those that are in the metadata and whose
    leader tells them."""
    found: dict[Partition, int] = {}
    for leader, topics in brokers.by_leader(wanted).items():
        with suppress(Failure):
            ends = direct.ends(brokers.at(leader), topics, isolation_level)
            found |= _flat(ends)
    return found


def first_and_end_of(brokers: Brokers, wanted: Iterable[Partition]) -> tuple[dict[Partition, int], dict[Partition, int]]:
    """Returns the first and the end offset of each of these partitions, likewise."""
    first: dict[Partition, int] = {}
    end: dict[Partition, int] = {}
    for leader, topics in brokers.by_leader(wanted).items():
        with suppress(Failure):
            connection = brokers.at(leader)
            first |= _flat(direct.begins(connection, topics))
            end |= _flat(direct.ends(connection, topics))
    return first, end


def _flat(by_topic: Mapping[str, Mapping[int, int]]) -> dict[Partition, int]:
    return {Partition(topic, number): offset for topic, of in by_topic.items() for number, offset in of.items()}


def _placed(groups: Iterable[Listed]) -> Iterable[tuple[int, str]]:
    return ((one.broker, one.name) for one in groups if one.broker is not None)


def _state(brokers: Brokers, broker: int, one: Any) -> GroupState:
    place = brokers.metadata.brokers[broker]
    reads = one.protocol_type == PROTOCOL_TYPE
    members = [
        MemberState(
            each.member_id,
            each.group_instance_id or None,
            each.client_id,
            each.client_host,
            tuple(sorted(assigned_partitions(each.member_assignment))) if reads else (),
        )
        for each in one.members
    ]
    return GroupState(
        one.group_id,
        one.group_state,
        CLASSIC,
        one.protocol_data,
        Coordinator(broker, str(place.host), place.port),
        tuple(sorted(members, key=lambda member: (member.client_id, member.member_id))),
        (),
    )

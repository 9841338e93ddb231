"""Questions that are asked about members of consumer groups and of streams groups alike: their groups in the list, and their
offsets."""

from __future__ import annotations

from typing import Any, Protocol

from compat_tests.wire import Wire
from ottla.wire.messages import list_groups, offset_commit, offset_fetch


class Member(Protocol):
    group: str
    id: str
    instance: str | None


def listed(wire: Wire, group: str, **fields: Any) -> list[Any]:
    answer = wire.call(list_groups.ListGroupsRequest(**fields), 5)
    return [each for each in answer.groups if each.group_id == group]


def committed(wire: Wire, member: Member, topic: str, epoch: int, *, version: int = 9, partition: int = 0, **more: Any) -> Any:
    part = offset_commit.OffsetCommitRequestPartition(partition, 7, -1, None)
    named = offset_commit.OffsetCommitRequestTopic(topic, partitions=[part])
    fields: dict[str, Any] = {
        "group_id": member.group,
        "generation_id_or_member_epoch": epoch,
        "member_id": member.id,
        "group_instance_id": member.instance,
        "topics": [named],
    }
    return wire.call(offset_commit.OffsetCommitRequest(**(fields | more)), version)


def asked(wire: Wire, group: str, member_id: str | None, epoch: int, topic: str) -> Any:
    wanted = [offset_fetch.OffsetFetchRequestTopics(topic, partition_indexes=[0])]
    return wire.call(
        offset_fetch.OffsetFetchRequest(groups=[offset_fetch.OffsetFetchRequestGroup(group, member_id, epoch, wanted)]), 9
    )

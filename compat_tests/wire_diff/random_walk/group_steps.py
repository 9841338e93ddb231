"""Steps with groups that need no member: offsets, descriptions, coordinators."""

from __future__ import annotations

import re
from typing import Any, Final

from compat_tests.wire_diff.random_walk.session import Session
from compat_tests.wire_diff.random_walk.steps import TOPICS, draws, some, step, version_of
from ottla.wire.messages import (
    delete_groups,
    describe_groups,
    find_coordinator,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
)

GROUP = some("g0", "g0", "g1")
TOPIC = some(*TOPICS, "never")
TOPIC_IDS = 10
UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
GROUPS_IN_FETCH = 8
KEYS_IN_FIND = 4


@step(
    "offsets",
    5,
    draws(
        group=GROUP,
        topic=TOPIC,
        partition=some(0, 0, 1, 2, 7),
        offset=some(0, 3, 17, 1 << 40, -1),
        note=some("", "note", None),
        generation=some(-1, -1, -1, -1, 0, 4),
        member=some("", "", "", "nobody"),
        version=version_of("offset_commit"),
    ),
)
def commit(
    session: Session,
    group: str,
    topic: str,
    partition: int,
    offset: int,
    note: str | None,
    generation: int,
    member: str,
    version: int,
) -> Any:
    part = offset_commit.OffsetCommitRequestPartition(partition, offset, -1, note)
    topics = [offset_commit.OffsetCommitRequestTopic(**session.named(topic, version, TOPIC_IDS), partitions=[part])]
    return session.call(offset_commit.OffsetCommitRequest(session.name(group), generation, member, topics=topics), version)


@step(
    "offsets",
    5,
    draws(
        group=GROUP,
        topics=some(None, ["t0"], ["t0", "t1"], ["never"]),
        stable=some(False, True),
        version=version_of("offset_fetch"),
    ),
)
def committed(session: Session, group: str, topics: list[str] | None, stable: bool, version: int) -> Any:
    if topics is None and version < 2:
        return None  # there is no "all" yet
    name, indexes = session.name(group), [0, 1, 2]
    if version >= GROUPS_IN_FETCH:
        of_topics = [
            offset_fetch.OffsetFetchRequestTopics(**session.named(t, version, TOPIC_IDS), partition_indexes=indexes)
            for t in topics or ()
        ]
        groups = [offset_fetch.OffsetFetchRequestGroup(name, topics=None if topics is None else of_topics)]
        return session.call(offset_fetch.OffsetFetchRequest(groups=groups, require_stable=stable), version)
    asked = [offset_fetch.OffsetFetchRequestTopic(session.name(topic), indexes) for topic in topics or ()]
    request = offset_fetch.OffsetFetchRequest(name, None if topics is None else asked, require_stable=stable and version >= 7)
    return session.call(request, version)


@step("offsets", 2, draws(group=GROUP, topic=TOPIC, partitions=some([0], [0, 1], [7])))
def forget(session: Session, group: str, topic: str, partitions: list[int]) -> Any:
    parts = [offset_delete.OffsetDeleteRequestPartition(index) for index in partitions]
    topics = [offset_delete.OffsetDeleteRequestTopic(session.name(topic), parts)]
    return session.call(offset_delete.OffsetDeleteRequest(session.name(group), topics), 0)


@step("offsets", 1, draws(groups=some(["g0"], ["g1"], ["g0", "g1"], ["never"]), version=version_of("delete_groups")))
def drop(session: Session, groups: list[str], version: int) -> Any:
    return session.call(delete_groups.DeleteGroupsRequest([session.name(group) for group in groups]), version)


@step("offsets", 2, draws(groups=some(["g0"], ["g0", "g1"], ["never"]), version=version_of("describe_groups")))
def group_state(session: Session, groups: list[str], version: int) -> Any:
    answer = session.call(describe_groups.DescribeGroupsRequest([session.name(group) for group in groups]), version)
    for member in (member for group in answer.groups for member in group.members):
        if member.member_id not in session.wire.labels:  # one whose join is not answered yet
            member.member_id = UUID.sub("<new>", member.member_id)
    return answer


@step(
    "offsets",
    1,
    draws(
        states=some([], [], ["Empty"], ["Stable", "PreparingRebalance"]),
        types=some([], ["classic"], ["consumer"]),
        version=version_of("list_groups"),
    ),
)
def groups(session: Session, states: list[str], types: list[str], version: int) -> Any:
    request = list_groups.ListGroupsRequest(states if version >= 4 else [], types if version >= 5 else [])
    answer = session.call(request, version)
    names = {session.name("g0"), session.name("g1")}
    answer.groups = [each for each in answer.groups if each.group_id in names]
    return answer


@step("offsets", 1, draws(key=some("g0", "never"), kind=some(0, 0, 1, 2, 5), version=version_of("find_coordinator")))
def coordinator(session: Session, key: str, kind: int, version: int) -> Any:
    name = session.name(key)
    one, several = ("", [name]) if version >= KEYS_IN_FIND else (name, [])
    return session.call(find_coordinator.FindCoordinatorRequest(one, kind if version else 0, several), version)

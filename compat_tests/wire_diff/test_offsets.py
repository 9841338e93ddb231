"""OffsetCommit and OffsetFetch (docs/kafka-behaviour.md)."""

from __future__ import annotations

from typing import Any

import pytest

from compat_tests.waiting import wait_for
from compat_tests.wire import Wire
from compat_tests.wire_diff.members import Member, stable
from compat_tests.wire_diff.same import check, same_answer
from ottla.wire.messages import delete_topics, offset_commit, offset_fetch
from ottla.wire.primitives import ZERO_UUID

Wanted = offset_fetch.OffsetFetchRequestTopics


def fetched(wire: Wire, group: str, topics: dict[str, list[int]] | None, version: int = 8) -> Any:
    """OffsetFetch of one group, in the form of the version; None asks for everything."""
    if version < 8:
        old = None if topics is None else [offset_fetch.OffsetFetchRequestTopic(name, parts) for name, parts in topics.items()]
        return wire.call(offset_fetch.OffsetFetchRequest(group, old), version)
    wanted = None
    if topics is not None:
        wanted = [Wanted(name, wire.topic_ids.get(name, ZERO_UUID), parts) for name, parts in topics.items()]
    asked = offset_fetch.OffsetFetchRequestGroup(group, None, -1, wanted)
    return wire.call(offset_fetch.OffsetFetchRequest(groups=[asked]), version)


@pytest.mark.parametrize("version", range(2, 11))
def test_commit_every_version(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        topic = wire.create("t")
        named: str | bytes = wire.topic_ids[topic] if version >= 10 else topic
        member, simple = stable(wire, wire.name("g")), Member(wire, wire.name("s"), "s")
        answers = member.commit(named, version=version), simple.commit(named, 7, version, None)
        return answers, [fetched(wire, group, None) for group in (member.group, simple.group)]

    check(wires, "OC1", scenario)


BAD_COMMITS: dict[str, dict[str, Any]] = {
    "OC2 generation": {"generation_id_or_member_epoch": 9},
    "generation -1 with members": {"generation_id_or_member_epoch": -1},
    "OC3 unknown member": {"member_id": "zzz"},
    "simple into a group with members": {"member_id": "", "generation_id_or_member_epoch": -1},
    "OC15 unknown instance": {"group_instance_id": "nobody"},
    "OC9 metadata too long": {"metadata": "m" * 5000},
    "metadata just fits": {"metadata": "m" * 4096},
    "unknown partition": {"partition": 7},
    "negative partition": {"partition": -1},
    "OC14 offset -1": {"offset": -1},
    "offset -5": {"offset": -5},
    "beyond the log": {"offset": 1 << 50},
    "null metadata": {"metadata": None},
    "empty group": {"group_id": ""},
}


@pytest.mark.parametrize("case", BAD_COMMITS)
def test_odd_commits(wires: dict[str, Wire], case: str) -> None:
    def scenario(wire: Wire) -> Any:
        topic = wire.create("t")
        member = stable(wire, wire.name("g"))
        changes = dict(BAD_COMMITS[case])
        offset = changes.pop("offset", 5)
        return member.commit(topic, offset, **changes), fetched(wire, member.group, {topic: [0]})

    check(wires, case, scenario)


@same_answer("OCbig")
def test_a_commit_that_is_larger_than_a_batch_may_be(wire: Wire) -> Any:
    topic = wire.create("t")
    partitions = [offset_commit.OffsetCommitRequestPartition(0, n, -1, "m" * 4096) for n in range(300)]
    request = offset_commit.OffsetCommitRequest(
        wire.name("g"), topics=[offset_commit.OffsetCommitRequestTopic(topic, partitions=partitions)]
    )
    answer = wire.call(request, 9)
    return sorted({partition.error_code for topic in answer.topics for partition in topic.partitions})


@same_answer("OC6")
def test_commits_into_groups_that_are_not(wire: Wire) -> Any:
    topic = wire.create("t")
    stranger = Member(wire, wire.name("new"), "s")
    refused = [
        stranger.commit(topic, generation_id_or_member_epoch=3),
        stranger.commit(topic, member_id="zzz"),
        stranger.commit(wire.name("nope")),
    ]
    by_id = [stranger.commit(topic_id, version=10) for topic_id in (b"0123456789abcdef", ZERO_UUID)]
    return refused, by_id, stranger.commit(topic), fetched(wire, stranger.group, None), fetched(wire, "", None)


@same_answer("one bad partition among good ones")
def test_one_bad_partition_does_not_spoil_its_siblings(wire: Wire) -> Any:
    topic, group = wire.create("t", 3), wire.name("g")
    part, named = offset_commit.OffsetCommitRequestPartition, offset_commit.OffsetCommitRequestTopic
    topics = [
        named(topic, partitions=[part(0, 1), part(9, 1), part(2, 3, 4, "m")]),
        named(wire.name("nope"), partitions=[part(0, 1)]),
    ]
    answer = wire.call(offset_commit.OffsetCommitRequest(group, topics=topics), 8)
    return answer, fetched(wire, group, None)


@pytest.mark.parametrize("version", range(1, 11))
def test_fetch_every_version(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        topic, group = wire.create("t", 3), wire.name("g")
        Member(wire, group, "s").commit(topic, 5)
        nobody = wire.name("nobody")
        some = [fetched(wire, g, {topic: [0, 1, 9]}, version) for g in (group, nobody)]
        unknown = fetched(wire, group, {wire.name("nope"): [0]}, version)
        empty = fetched(wire, group, {}, version)
        everything = [fetched(wire, g, None, version) for g in (group, nobody)] if version >= 2 else None
        return some, unknown, empty, everything

    check(wires, "OF2", scenario)


@same_answer("several groups in an OffsetFetch")
def test_several_groups_in_a_request(wire: Wire) -> Any:
    topic = wire.create("t")
    groups = [wire.name(f"g{n}") for n in range(3)]
    for n, group in enumerate(groups[:2]):
        Member(wire, group, f"s{n}").commit(topic, n)
    ask = offset_fetch.OffsetFetchRequestGroup
    wanted = [ask(group, None, -1, [Wanted(topic, partition_indexes=[0])]) for group in groups] + [ask("", None, -1, None)]
    members = [ask(groups[0], "zzz", 3, None), ask(groups[0], None, 5, None), ask(groups[0], "", -1, None)]
    return [
        wire.call(offset_fetch.OffsetFetchRequest(groups=g, require_stable=s), 9)
        for g in (wanted, members, [])
        for s in (False, True)
    ]


@same_answer("OF10")
def test_offsets_go_with_their_topic(wire: Wire) -> Any:
    topic, kept, group = wire.create("t"), wire.create("kept"), wire.name("g")
    for name in (topic, kept):
        Member(wire, group, "s").commit(name, 5)
    wire.call(delete_topics.DeleteTopicsRequest([delete_topics.DeleteTopicState(topic)], timeout_ms=5000), 6)
    wire.wait_until_gone(topic)
    wait_for(lambda: len(fetched(wire, group, None).groups[0].topics) == 1, "the offsets are gone")
    return fetched(wire, group, None), fetched(wire, group, {topic: [0]})


@same_answer("the old retention time")
def test_the_old_retention_time_is_taken(wire: Wire) -> Any:
    topic = wire.create("t")
    simple = Member(wire, wire.name("s"), "s")
    return [simple.commit(topic, 5, version, retention_time_ms=1) for version in (2, 4)], fetched(wire, simple.group, None)

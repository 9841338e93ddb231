"""These tests cover the offsets of streams groups: who may commit them, and what becomes of them when the group changes."""

from __future__ import annotations

import pytest

from ottla.server.group.classic.group import ClassicGroup
from ottla.server.group.errors import GroupError
from ottla.server.group.requests import Committer
from ottla.server.group.streams.group import StreamsGroup, StreamsState
from ottla.wire.errors import ErrorCode
from tests.in_loop import in_loop
from tests.server.group.fakes import Driver
from tests.server.group.streams.support import GROUP, READS_T, Cluster, Member, ids, settle, two_members


@pytest.mark.parametrize(("epoch", "partition", "code"), [(3, 0, 0), (4, 0, 113), (2, 0, 0), (1, 0, 113), (2, 2, 113)])
def test_commits_of_members(epoch: int, partition: int, code: int) -> None:
    """The member is in epoch 3; it has had its first tasks since epoch 2, and no longer has partition 2."""
    cluster = Cluster()
    driver = Driver(cluster.broker)
    one, two = Member(cluster, "m1"), Member(cluster, "m2")
    one.join(READS_T)
    two.join(READS_T)
    settle(one, two)
    mine = one if 0 in one.active["0"] else two
    assert ids({"0": mine.active["0"]}) != {"0": [0, 1, 2]}
    other = next(index for index in (1, 2) if index not in mine.active["0"])
    index = other if partition == 2 else 0
    if mine is two and epoch == 2:
        pytest.fail("the assignor changed: the first member is to keep partition 0")
    assert driver.commit({index: 5}, member=mine.name, generation=epoch) == [code]


def test_who_else_may_commit() -> None:
    cluster = Cluster()
    driver = Driver(cluster.broker)
    one, _ = two_members(cluster)
    assert driver.commit({0: 5}) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert driver.commit({0: 5}, member="m1", generation=3, version=8) == [ErrorCode.UNSUPPORTED_VERSION]
    for member in (one, "m2"):
        Member(cluster, member if isinstance(member, str) else member.name).beat(member_epoch=-1)
    assert driver.commit({0: 5}) == [0]


@pytest.mark.parametrize(
    ("member", "instance", "epoch", "code"),
    [
        ("", None, -1, None),  # a producer that names no member
        ("m1", None, 3, None),
        ("m1", None, 2, None),
        ("m1", None, 4, ErrorCode.STALE_MEMBER_EPOCH),
        ("", None, 3, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", "i", -1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("m9", None, -1, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_commits_in_transactions(member: str, instance: str | None, epoch: int, code: ErrorCode | None) -> None:
    """Members m1 and m2 are in epoch 3."""
    cluster = Cluster()
    one, _ = two_members(cluster)
    assert one.epoch == 3
    committer = Committer(member, instance, epoch, 5)
    if code is None:
        cluster.protocol.admit_commit_in_transaction(cluster.group, committer)
        return
    with pytest.raises(GroupError) as refusal:
        cluster.protocol.admit_commit_in_transaction(cluster.group, committer)
    assert refusal.value.code is code


def test_a_compacted_log_may_begin_with_offsets() -> None:
    cluster = Cluster()
    member = Member(cluster, "m")
    member.join(READS_T)
    assert Driver(cluster.broker).commit({0: 5}, topic="u", member="m", generation=member.epoch) == [0], "any topic, in its epoch"
    for batches in cluster.broker.log.batches:
        batches.sort(key=len)
    cluster.restart()
    assert cluster.group.state is StreamsState.STABLE
    assert Driver(cluster.broker).fetch() == {"u": {0: 5}}


@in_loop
async def test_an_empty_group_may_become_classic_and_back() -> None:
    cluster = Cluster()
    driver = Driver(cluster.broker)
    member = Member(cluster, "m")
    member.join(READS_T)
    driver.commit({0: 5}, member="m", generation=member.epoch)
    assert driver.join(version=3).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    member.beat(member_epoch=-1)
    (old,), _ = driver.stable()
    assert isinstance(cluster.broker.groups.find(GROUP), ClassicGroup)
    with pytest.raises(GroupError) as refusal:
        member.join(READS_T)
    assert refusal.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    driver.leave(old)
    member.join(READS_T)
    assert member.active == {"0": [0, 1, 2]}
    assert driver.fetch() == {"t": {0: 5}}, "its offsets go with it"
    cluster.restart()
    assert isinstance(cluster.broker.groups.find(GROUP), StreamsGroup)


def test_a_group_of_offsets_becomes_one_of_streams() -> None:
    cluster = Cluster()
    Driver(cluster.broker).commit({0: 5})
    Member(cluster, "m").join(READS_T)
    cluster.restart()
    assert cluster.group.state is StreamsState.STABLE
    assert Driver(cluster.broker).fetch() == {"t": {0: 5}}


def test_offsets_expire_unless_they_are_read() -> None:
    cluster = Cluster()
    driver = Driver(cluster.broker)
    member = Member(cluster, "m")
    member.join(READS_T)
    driver.commit({0: 5}, member="m", generation=member.epoch)
    driver.commit({0: 5}, topic="u", member="m", generation=member.epoch)
    member.cluster.set(session_timeout_ms="60000")
    cluster.broker.clock.advance(0)
    for _ in range(3):
        member.own()
        cluster.advance(1)
    cluster.broker.clock._now += 7 * 24 * 3600  # a week, without the sessions' ends
    cluster.broker.groups.expire()
    assert driver.fetch() == {"t": {0: 5}}

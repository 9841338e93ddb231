"""These tests cover SyncGroup, Heartbeat and LeaveGroup, row by row as Apache Kafka 4.4.0 answers them
(docs/kafka-behaviour.md).
"""

from __future__ import annotations

from ottla.wire.errors import ErrorCode
from tests.in_loop import in_loop
from tests.server.group.fakes import Driver, answer_of, waits

NONE, REBALANCE, UNKNOWN = ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID


@in_loop
async def test_j8_the_leader_gets_its_own_assignment() -> None:
    driver = Driver()
    member, _ = driver.enter()
    driver.clock.advance(0)
    answer = driver.sync(member, 1, {member: b"ASG"})
    assert (answer.error_code, answer.assignment) == (NONE, b"ASG")
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")


@in_loop
async def test_j10_to_j12_refused_syncs() -> None:
    driver = Driver()
    (member,), _ = driver.stable()
    assert driver.sync("zzz", 1).error_code == UNKNOWN
    assert driver.sync(member, 1, group="nog").error_code == UNKNOWN
    assert driver.sync(member, 9).error_code == ErrorCode.ILLEGAL_GENERATION
    assert driver.sync(member, 1, protocol="sticky").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert driver.sync(member, 1, protocol_type="connect").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert driver.sync(member, 1, protocol=None).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert driver.sync(member, 1, protocol=None, protocol_type=None, version=4).error_code == NONE
    assert driver.sync(member, 1, group="").error_code == ErrorCode.INVALID_GROUP_ID


@in_loop
async def test_h1_to_h3_heartbeats() -> None:
    driver = Driver()
    (member,), _ = driver.stable()
    assert driver.heartbeat(member, 1) == NONE
    assert driver.heartbeat(member, 2) == ErrorCode.ILLEGAL_GENERATION
    assert driver.heartbeat("zzz", 1) == UNKNOWN
    assert driver.heartbeat(member, 1, group="nog") == UNKNOWN
    assert driver.heartbeat(member, 1, group="") == ErrorCode.INVALID_GROUP_ID


@in_loop
async def test_j15_two_member_rebalance() -> None:
    driver = Driver()
    (first,), _ = driver.stable()
    second, parked = driver.enter()
    assert driver.heartbeat(first, 1) == REBALANCE
    assert driver.sync(first, 1).error_code == REBALANCE
    assert driver.commit({0: 1}, member=first, generation=1) == [NONE]
    leader = answer_of(driver.join(member=first))
    follower = answer_of(parked)
    assert (leader.generation_id, leader.leader, len(leader.members)) == (2, first, 2)
    assert (follower.generation_id, follower.leader, len(follower.members)) == (2, first, 0)
    assert driver.heartbeat(second, 2) == NONE
    assert driver.commit({0: 2}, member=first, generation=2) == [REBALANCE]
    waiting = driver.sync(second, 2)
    assert waits(waiting)
    assert driver.sync(first, 2, {first: b"A", second: b"B"}).assignment == b"A"
    assert answer_of(waiting).assignment == b"B"
    left = driver.leave(first, "zzz")
    assert left.error_code == NONE
    assert [each.error_code for each in left.members] == [NONE, UNKNOWN]
    assert driver.heartbeat(first, 2) == UNKNOWN
    assert driver.heartbeat(second, 2) == REBALANCE


@in_loop
async def test_a_member_that_the_leader_forgot_gets_nothing() -> None:
    driver = Driver()
    entered = [driver.enter() for _ in range(2)]
    driver.clock.advance(0)
    leader = answer_of(entered[0][1]).leader
    follower = next(member for member, _ in entered if member != leader)
    driver.sync(leader, 1, {leader: b"L", "stranger": b"?"})
    assert driver.sync(follower, 1).assignment == b""


@in_loop
async def test_assignments_that_cannot_be_written_are_not_handed_out() -> None:
    driver = Driver()
    member, _ = driver.enter()
    driver.clock.advance(0)
    driver.broker.log.fail = OSError("no space")
    assert answer_of(driver.sync(member, 1, {member: b"A"})).error_code == ErrorCode.NOT_COORDINATOR
    assert driver.state() == "PreparingRebalance"
    driver.broker.log.fail = None
    assert answer_of(driver.join(member=member)).generation_id == 2
    assert driver.sync(member, 2, {member: b"A"}).assignment == b"A"


@in_loop
async def test_the_last_member_leaves_an_empty_group_behind() -> None:
    driver = Driver()
    (member,), _ = driver.stable()
    driver.commit({0: 7}, member=member, generation=1)
    assert driver.leave(member).members[0].error_code == NONE
    assert driver.state() == "Empty"
    assert driver.fetch() == {"t": {0: 7}}
    assert driver.leave(member).members[0].error_code == UNKNOWN


@in_loop
async def test_an_unwritten_empty_group_is_empty_all_the_same() -> None:
    driver = Driver()
    (member,), _ = driver.stable()
    driver.broker.log.fail = OSError("no space")
    assert driver.leave(member).members[0].error_code == NONE
    assert driver.state() == "Empty"


@in_loop
async def test_leaving_an_unknown_group() -> None:
    answer = Driver().leave("zzz", ("", "i"))
    assert answer.error_code == NONE
    assert [each.error_code for each in answer.members] == [UNKNOWN, UNKNOWN]


@in_loop
async def test_a_pending_member_may_leave() -> None:
    driver = Driver()
    (member,), _ = driver.stable()
    pending = driver.join().member_id
    parked = driver.join(member=member)
    assert waits(parked)
    assert driver.leave(pending).members[0].error_code == NONE
    assert answer_of(parked).generation_id == 2


@in_loop
async def test_leaving_while_others_join_lets_them_go_on() -> None:
    driver = Driver()
    (first, second), _ = driver.stable(2)
    parked = driver.join(member=first)
    driver.leave(second)
    assert answer_of(parked).generation_id == 2


@in_loop
async def test_leaving_while_one_syncs_releases_it() -> None:
    driver = Driver()
    entered = [driver.enter() for _ in range(2)]
    driver.clock.advance(0)
    leader = answer_of(entered[0][1]).leader
    follower = next(member for member, _ in entered if member != leader)
    waiting = driver.sync(follower, 1)
    driver.leave(leader)
    assert answer_of(waiting).error_code == REBALANCE


@in_loop
async def test_a_fenced_static_member_cannot_leave_for_its_successor() -> None:
    driver = Driver()
    old = driver.join(instance="i", version=9)
    driver.clock.advance(0)
    driver.sync(answer_of(old).member_id, 1, {}, instance="i")
    driver.join(instance="i")
    left = driver.leave((answer_of(old).member_id, "i"))
    assert left.members[0].error_code == ErrorCode.FENCED_INSTANCE_ID

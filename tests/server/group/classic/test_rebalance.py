"""These tests cover delayed joins, timeouts and sessions, on a clock that moves only when the test says so."""

from __future__ import annotations

import pytest

from ottla.wire.errors import ErrorCode
from tests.in_loop import in_loop
from tests.server.group.fakes import Driver, answer_of, waits


@in_loop
async def test_the_initial_rebalance_waits_again_after_each_newcomer() -> None:
    driver = Driver(initial_rebalance_delay_ms=3_000)
    first, parked = driver.enter()
    driver.clock.advance(2.9)
    second, parked_too = driver.enter()
    driver.clock.advance(2.9)
    assert waits(parked)
    driver.clock.advance(0.2)
    assert answer_of(parked).generation_id == answer_of(parked_too).generation_id == 1
    assert {each.member_id for each in answer_of(parked).members} == {first, second}


@in_loop
async def test_without_newcomers_the_initial_rebalance_lasts_one_delay() -> None:
    driver = Driver(initial_rebalance_delay_ms=3_000)
    _, parked = driver.enter()
    driver.clock.advance(2.99)
    assert waits(parked)
    driver.clock.advance(0.01)
    assert not waits(parked)


@in_loop
async def test_the_initial_rebalance_ends_with_the_rebalance_timeout_however_many_come() -> None:
    driver = Driver(initial_rebalance_delay_ms=3_000)
    parked = [driver.enter(rebalance_ms=10_000)[1]]
    for _ in range(5):
        driver.clock.advance(2)
        if waits(parked[0]):
            parked.append(driver.enter(rebalance_ms=10_000)[1])
    assert not any(waits(each) for each in parked)
    assert len({answer_of(each).generation_id for each in parked}) == 1


@in_loop
async def test_two_members_that_both_rejoin_do_not_wait_for_a_timer() -> None:
    driver = Driver()
    members, _ = driver.stable(2)
    first = driver.join(member=members[0])
    assert waits(first)
    assert driver.heartbeat(members[1], 1) == ErrorCode.REBALANCE_IN_PROGRESS
    second = driver.join(member=members[1])
    assert answer_of(first).generation_id == answer_of(second).generation_id == 2


@in_loop
async def test_a_member_that_does_not_rejoin_is_dropped_after_the_rebalance_timeout() -> None:
    driver = Driver()
    (leader, lazy), _ = driver.stable(2, session_ms=60_000, rebalance_ms=20_000)
    parked = driver.join(member=leader, session_ms=60_000, rebalance_ms=20_000)
    driver.clock.advance(19)
    driver.heartbeat(lazy, 1)
    assert waits(parked)
    driver.clock.advance(1)
    assert [each.member_id for each in answer_of(parked).members] == [leader]
    assert driver.heartbeat(lazy, 1) == ErrorCode.UNKNOWN_MEMBER_ID


@in_loop
async def test_a_leader_that_does_not_rejoin_hands_over() -> None:
    driver = Driver()
    (leader, follower), _ = driver.stable(2, session_ms=60_000, rebalance_ms=20_000)
    parked = driver.join(member=follower, protocols={"range": b"new"}, session_ms=60_000, rebalance_ms=20_000)
    driver.clock.advance(20)
    assert answer_of(parked).leader == follower != leader


@in_loop
async def test_a_static_member_that_does_not_rejoin_stays_until_its_session_ends() -> None:
    driver = Driver()
    lasting = driver.join(instance="i", session_ms=100_000)
    parked = driver.enter(session_ms=100_000)[1]
    driver.clock.advance(0)
    static, dynamic = answer_of(lasting).member_id, answer_of(parked).member_id
    driver.sync(static, 1, {static: b"S", dynamic: b"D"}, instance="i")
    rejoined = driver.join(member=dynamic, protocols={"range": b"new"}, session_ms=100_000)
    driver.clock.advance(60)
    assert answer_of(rejoined).generation_id == 2
    assert (static, answer_of(rejoined).leader) == (answer_of(lasting).leader, dynamic), "an absent leader hands over"
    assert driver.heartbeat(static, 2, instance="i") == ErrorCode.NONE


@in_loop
async def test_only_absent_static_members_keep_the_join_phase_open() -> None:
    driver = Driver()
    parked = driver.join(instance="i", session_ms=300_000, rebalance_ms=10_000)
    driver.clock.advance(0)
    static = answer_of(parked).member_id
    driver.sync(static, 1, {static: b""}, instance="i")
    first, entering = driver.enter(session_ms=300_000, rebalance_ms=10_000)
    driver.leave(first)
    driver.clock.advance(25)
    assert driver.state() == "PreparingRebalance"
    again = driver.join(member=static, instance="i", session_ms=300_000)
    assert answer_of(again).generation_id == 2
    assert answer_of(entering).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@in_loop
async def test_members_that_do_not_sync_are_dropped_and_the_rest_starts_over() -> None:
    driver = Driver()
    entered = [driver.enter(session_ms=300_000, rebalance_ms=10_000) for _ in range(2)]
    driver.clock.advance(0)
    leader = answer_of(entered[0][1]).leader
    follower = next(member for member, _ in entered if member != leader)
    waiting = driver.sync(follower, 1)
    driver.clock.advance(10)
    assert answer_of(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.heartbeat(leader, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert answer_of(driver.join(member=follower)).generation_id == 2


@in_loop
async def test_a_follower_that_never_syncs_is_dropped_from_a_stable_group() -> None:
    driver = Driver()
    entered = [driver.enter(session_ms=300_000, rebalance_ms=10_000) for _ in range(2)]
    driver.clock.advance(0)
    leader = answer_of(entered[0][1]).leader
    driver.sync(leader, 1, {leader: b"L"})
    assert driver.state() == "Stable"
    driver.clock.advance(10)
    assert driver.state() == "PreparingRebalance"
    assert list(driver.group().members) == [leader]


@in_loop
async def test_a_session_ends_without_signs_of_life_and_the_group_is_empty() -> None:
    driver = Driver()
    (member,), _ = driver.stable()
    driver.clock.advance(9)
    assert driver.heartbeat(member, 1) == ErrorCode.NONE
    driver.clock.advance(9)
    assert driver.commit({0: 3}, member=member, generation=1) == [ErrorCode.NONE]
    driver.clock.advance(9)
    assert driver.state() == "Stable"
    driver.clock.advance(1)
    assert driver.state() == "Empty"
    assert driver.group().generation == 2


@in_loop
async def test_a_parked_request_stands_for_heartbeats() -> None:
    driver = Driver()
    (leader, follower), _ = driver.stable(2, session_ms=10_000, rebalance_ms=60_000)
    parked = driver.join(member=leader)
    for _ in range(6):
        driver.clock.advance(9)
        driver.heartbeat(follower, 1)
    assert waits(parked)
    assert driver.group().members.keys() == {leader, follower}


@pytest.mark.parametrize("timeout_s", [30, None])
@in_loop
async def test_a_first_join_may_wait_longer_than_the_session_but_not_for_ever(timeout_s: int | None) -> None:
    driver = Driver() if timeout_s is None else Driver(new_member_join_timeout_ms=1000 * timeout_s)
    (old,), _ = driver.stable(session_ms=1_000_000, rebalance_ms=1_000_000)
    newcomer, parked = driver.enter(session_ms=10_000, rebalance_ms=1_000_000)
    driver.clock.advance((timeout_s or 300) - 1)
    assert waits(parked)
    driver.clock.advance(1)
    assert answer_of(parked).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert answer_of(driver.join(member=old)).generation_id == 2
    assert driver.group().members.keys() == {old}
    assert newcomer != old


@in_loop
async def test_a_closed_connection_does_not_hold_up_the_group() -> None:
    driver = Driver()
    entered = [driver.enter() for _ in range(2)]
    entered[0][1].cancel()
    driver.clock.advance(0)
    assert answer_of(entered[1][1]).generation_id == 1
    leader = answer_of(entered[1][1]).leader
    follower = next(member for member, _ in entered if member != leader)
    driver.sync(follower, 1).cancel()
    driver.sync(leader, 1, {leader: b"L", follower: b"F"})
    assert driver.state() == "Stable"
    assert driver.sync(follower, 1).assignment == b"F"


@in_loop
async def test_a_loaded_group_over_a_lowered_limit_rebalances() -> None:
    driver = Driver()
    members, _ = driver.stable(3)
    lowered = Driver(type(driver.broker)(driver.broker.log, driver.clock, max_size=2))
    lowered.broker.groups.refresh()
    assert lowered.state() == "PreparingRebalance"
    answers = [lowered.join(member=member) for member in members]
    assert answers[2].error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert {answer_of(each).generation_id for each in answers[:2]} == {2}


@in_loop
async def test_nothing_ticks_once_a_group_is_deleted_or_unloaded() -> None:
    driver = Driver()
    driver.join(group="pending")
    driver.stable(2, group="a")
    driver.enter(group="b")
    assert driver.clock.waiting > 0
    driver.broker.groups.close()
    assert driver.clock.waiting == 0

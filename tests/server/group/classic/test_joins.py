"""These tests cover JoinGroup, row by row as Apache Kafka 4.4.0 answers it (docs/kafka-behaviour.md)."""

from __future__ import annotations

import pytest

from ottla.server.group.classic.group import State
from ottla.wire.errors import ErrorCode
from tests.in_loop import in_loop
from tests.server.group.fakes import Driver, answer_of, waits


def facts(answer: object) -> tuple[object, ...]:
    response = answer_of(answer)
    return (
        ErrorCode(response.error_code).name,
        response.generation_id,
        response.protocol_name,
        response.leader,
        len(response.members),
        response.skip_assignment,
    )


@in_loop
async def test_j1_a_new_dynamic_member_gets_its_id_first() -> None:
    driver = Driver()
    answer = driver.join(client="app")
    assert facts(answer) == ("MEMBER_ID_REQUIRED", -1, None, "", 0, False)
    assert answer.member_id.startswith("app-")
    assert driver.state() == "Empty"


@in_loop
async def test_before_version_4_a_member_is_in_at_once() -> None:
    driver = Driver()
    answer = driver.join(version=3)
    driver.clock.advance(0)
    assert facts(answer)[:3] == ("NONE", 1, "range")
    assert answer_of(answer).member_id == answer_of(answer).leader


@in_loop
async def test_j3_an_unknown_member_id_in_a_new_group() -> None:
    answer = Driver().join(member="zzz")
    assert facts(answer) == ("UNKNOWN_MEMBER_ID", -1, None, "", 0, False)
    assert answer.member_id == "zzz"


@in_loop
async def test_j3_an_unknown_member_id_in_an_empty_group() -> None:
    driver = Driver()
    driver.commit({0: 1})
    assert driver.join(member="zzz").error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("session_ms", [1, 5_999, 1_800_001, 7_200_000])
@in_loop
async def test_j4_j5_session_timeouts_out_of_bounds(session_ms: int) -> None:
    answer = Driver().join(session_ms=session_ms)
    assert facts(answer) == ("INVALID_SESSION_TIMEOUT", -1, None, "", 0, False)
    assert answer.member_id == ""


@in_loop
async def test_j7_no_protocols_or_no_type_and_no_group_is_left_behind() -> None:
    driver = Driver()
    for answer in (driver.join(protocols={}), driver.join(protocol_type="")):
        assert facts(answer) == ("INCONSISTENT_GROUP_PROTOCOL", -1, None, "", 0, False)
    assert driver.state() is None


@in_loop
async def test_the_empty_group_id_cannot_be_joined() -> None:
    assert Driver().join(group="").error_code == ErrorCode.INVALID_GROUP_ID


@in_loop
async def test_j13_j14_a_second_member_must_fit() -> None:
    driver = Driver()
    driver.stable()
    for options in ({"protocol_type": "connect"}, {"protocols": {"sticky": b""}}):
        assert facts(driver.join(**options)) == ("INCONSISTENT_GROUP_PROTOCOL", -1, None, "", 0, False)
    assert driver.state() == "Stable"


@in_loop
async def test_a_pending_member_that_never_comes_back_is_forgotten() -> None:
    driver = Driver()
    member = driver.join().member_id
    driver.clock.advance(10)
    assert driver.join(member=member).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@in_loop
async def test_a_pending_member_holds_the_join_phase_until_its_session_ends() -> None:
    driver = Driver()
    members, generation = driver.stable()
    driver.join()
    _, parked = driver.enter()
    again = driver.join(member=members[0])
    assert waits(parked)
    assert waits(again)
    driver.clock.advance(10)
    assert facts(parked)[:2] == ("NONE", generation + 1)
    assert facts(again)[4] == 2


@in_loop
async def test_a_follower_with_unchanged_metadata_hears_the_generation_again_and_the_leader_starts_a_rebalance() -> None:
    driver = Driver()
    (leader, follower), generation = driver.stable(2)
    assert facts(driver.join(member=follower)) == ("NONE", generation, "range", leader, 0, False)
    assert driver.state() == "Stable"
    assert waits(driver.join(member=leader))
    assert driver.state() == "PreparingRebalance"


@in_loop
async def test_a_follower_with_new_metadata_starts_a_rebalance() -> None:
    driver = Driver()
    (_, follower), _ = driver.stable(2)
    assert waits(driver.join(member=follower, protocols={"range": b"other"}))
    assert driver.state() == "PreparingRebalance"


@in_loop
async def test_a_lost_answer_is_repeated_while_members_sync() -> None:
    driver = Driver()
    member, parked = driver.enter()
    driver.clock.advance(0)
    assert facts(driver.join(member=member)) == facts(parked)
    assert driver.state() == "CompletingRebalance"


@in_loop
async def test_group_max_size() -> None:
    driver = Driver(max_size=2)
    members, _ = driver.stable(2)
    refused = driver.join()
    assert facts(refused)[0] == "GROUP_MAX_SIZE_REACHED"
    assert refused.member_id == ""
    assert waits(driver.join(member=members[0])), "members keep their place"


@in_loop
async def test_group_max_size_while_joining_counts_who_is_there() -> None:
    driver = Driver(max_size=2)
    entered = [driver.enter() for _ in range(2)]
    assert driver.join().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    driver.clock.advance(0)
    assert [facts(parked)[0] for _, parked in entered] == ["NONE", "NONE"]


@in_loop
async def test_st1_static_membership() -> None:
    driver = Driver()
    first = driver.join(instance="i")
    assert waits(first), "no MEMBER_ID_REQUIRED"
    driver.clock.advance(0)
    old = answer_of(first).member_id
    assert old.startswith("i-")
    nameless = driver.join(group="nameless", instance="")
    driver.clock.advance(0)
    assert answer_of(nameless).member_id.startswith("-"), "an empty name is one, too"
    driver.sync(old, 1, {old: b"ASG"}, instance="i")

    second = answer_of(driver.join(instance="i"))
    new = second.member_id
    assert new != old
    assert facts(second) == ("NONE", 1, "range", new, 1, True)
    assert driver.heartbeat(old, 1, instance="i") == ErrorCode.FENCED_INSTANCE_ID
    assert driver.commit({0: 1}, member=old, generation=1, instance="i") == [ErrorCode.FENCED_INSTANCE_ID]
    assert driver.join(member=old, instance="i").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert driver.heartbeat(new, 1, instance="unknown") == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.sync(new, 1, instance="i").assignment == b"ASG"
    assert driver.heartbeat(new, 1, instance="i") == ErrorCode.NONE
    left = driver.leave(("", "i"), ("", "unknown"))
    assert [each.error_code for each in left.members] == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert driver.state() == "Empty"


@in_loop
async def test_a_replaced_static_member_survives_a_restart_under_its_new_id() -> None:
    driver = Driver()
    parked = driver.join(instance="i")
    driver.clock.advance(0)
    old = answer_of(parked).member_id
    driver.sync(old, 1, {old: b"ASG"}, instance="i")
    new = answer_of(driver.join(instance="i")).member_id
    again = Driver(driver.broker.restarted())
    assert again.heartbeat(new, 1, instance="i") == ErrorCode.NONE
    assert again.heartbeat(old, 1, instance="i") == ErrorCode.FENCED_INSTANCE_ID
    assert again.sync(new, 1, instance="i").assignment == b"ASG"


@in_loop
async def test_before_version_9_a_static_leader_that_comes_back_believes_in_another_leader() -> None:
    driver = Driver()
    parked = driver.join(instance="i")
    driver.clock.advance(0)
    old = answer_of(parked).member_id
    driver.sync(old, 1, {old: b"ASG"}, instance="i")
    again = answer_of(driver.join(instance="i", version=8))
    assert facts(again) == ("NONE", 1, "range", old, 0, False)


@in_loop
async def test_a_static_member_with_another_protocol_rebalances() -> None:
    driver = Driver()
    parked = driver.join(instance="i", protocols={"range": b""})
    driver.clock.advance(0)
    old = answer_of(parked).member_id
    driver.sync(old, 1, {old: b"ASG"}, instance="i")
    # Alone in its group it may change what it supports, but not to something that the group does not know: as in Kafka.
    again = driver.join(instance="i", protocols={"sticky": b"", "range": b""})
    assert facts(again)[:3] == ("NONE", 2, "sticky")


@in_loop
async def test_a_static_member_that_comes_back_while_members_sync_starts_over() -> None:
    driver = Driver()
    parked = driver.join(instance="i")
    other = driver.join(instance="j")
    driver.clock.advance(0)
    ids = [answer_of(each).member_id for each in (parked, other)]
    waiting = driver.sync(ids[1], 1, instance="j")
    replaced = driver.join(instance="i")
    assert answer_of(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert waits(replaced)
    rejoined = driver.join(member=ids[1], instance="j")
    assert facts(replaced)[:2] == ("NONE", 2)
    assert facts(rejoined)[:2] == ("NONE", 2)


@in_loop
async def test_the_former_self_of_a_static_member_is_fenced_while_it_waits() -> None:
    driver = Driver(initial_rebalance_delay_ms=3_000)
    first = driver.join(instance="i")
    second = driver.join(instance="i")
    assert answer_of(first).error_code == ErrorCode.FENCED_INSTANCE_ID
    driver.clock.advance(3)
    assert facts(second)[:2] == ("NONE", 1)


@in_loop
async def test_a_replacement_that_cannot_be_written_is_taken_back() -> None:
    driver = Driver()
    parked = driver.join(instance="i")
    driver.clock.advance(0)
    old = answer_of(parked).member_id
    driver.sync(old, 1, {old: b"ASG"}, instance="i")
    driver.broker.log.fail = OSError("no space")
    refused = answer_of(driver.join(instance="i"))
    assert (refused.error_code, refused.member_id) == (ErrorCode.NOT_COORDINATOR, "")
    driver.broker.log.fail = None
    assert driver.heartbeat(old, 1, instance="i") == ErrorCode.NONE
    assert driver.state() == State.STABLE.value


@in_loop
async def test_a_group_that_cannot_be_written_is_not_founded() -> None:
    driver = Driver()
    driver.broker.log.fail = OSError("no space")
    assert driver.join().error_code == ErrorCode.NOT_COORDINATOR
    assert driver.state() is None

"""These tests cover a single classic group: its states, its members and their protocols."""

from __future__ import annotations

import struct

import pytest

from ottla.server.group.classic.group import TRANSITIONS, ClassicGroup, State, subscription_topics, with_protocol_name
from ottla.server.group.classic.members import Member
from ottla.server.group.errors import GroupError
from ottla.server.group.requests import Client, MemberProtocol
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.internal.group_metadata_value import GroupMetadataValue, MemberMetadata
from ottla.wire.messages.join_group import JoinGroupResponse
from tests.in_loop import in_loop


def member(member_id: str, *protocols: str, instance_id: str | None = None) -> Member:
    named = [MemberProtocol(name, b"") for name in protocols or ("range",)]
    return Member(member_id, instance_id, Client("c", "/h"), 60_000, 10_000, named)


def group(*members: Member) -> ClassicGroup:
    created = ClassicGroup("g", 0)
    for each in members:
        created.add(each, "consumer")
    return created


def test_states_move_only_along_the_table() -> None:
    for state in State:
        for target in State:
            moving = ClassicGroup("g", 0)
            moving.state = state
            if target in TRANSITIONS[state]:
                moving.move(target, 7)
                assert (moving.state, moving.previous_state, moving.state_timestamp_ms) == (target, state, 7)
            else:
                with pytest.raises(AssertionError):
                    moving.move(target, 7)


def test_every_state_is_reachable_and_death_is_final() -> None:
    reached = {State.EMPTY}
    while (more := {target for state in reached for target in TRANSITIONS[state]} | reached) != reached:
        reached = more
    assert reached == set(State)
    assert TRANSITIONS[State.DEAD] == frozenset()


def test_the_protocol_that_most_members_prefer_among_those_all_support() -> None:
    assert group(member("a", "x", "y"), member("b", "y", "x"), member("c", "y", "x")).select_protocol() == "y"
    assert group(member("a", "x", "y", "z"), member("b", "z", "y")).select_protocol() in ("y", "z")
    assert group(member("a", "only", "y"), member("b", "y")).select_protocol() == "y"


def test_a_newcomer_needs_the_type_and_one_protocol_that_all_support() -> None:
    running = group(member("a", "x", "y"), member("b", "y"))
    running.state = State.STABLE
    assert running.supports("consumer", {"y", "q"})
    assert not running.supports("consumer", {"x"})
    assert not running.supports("connect", {"y"})


def test_anybody_may_found_a_group_but_not_without_protocols() -> None:
    assert ClassicGroup("g", 0).supports("connect", {"sessioned"})
    assert not ClassicGroup("g", 0).supports("", {"x"})
    assert not ClassicGroup("g", 0).supports("consumer", set())


@in_loop
async def test_removing_keeps_the_counts_and_passes_leadership_on() -> None:
    running = group(member("a", "x", "y"), member("b", "y", instance_id="i"))
    running.park_join(running.members["b"], 9)
    assert (running.leader, running.awaited_joins, running.all_joined) == ("a", 1, False)
    running.remove("a")
    assert (running.leader, running.all_joined, running.select_protocol()) == ("b", True, "y")
    running.remove("b")
    assert (running.leader, running.awaited_joins, running.static_members) == (None, 0, {})
    assert running.remove("b") is None


@in_loop
async def test_a_second_parked_request_releases_the_first() -> None:
    running = group(member("a"))
    first = running.park_join(running.members["a"], 6)
    second = running.park_join(running.members["a"], 9)
    assert first.result().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert first.result().protocol_name == ""
    assert not second.done()
    assert running.awaited_joins == 1


@in_loop
async def test_an_answer_to_a_closed_connection_is_dropped() -> None:
    running = group(member("a"))
    running.park_join(running.members["a"], 9).cancel()
    running.answer_join(running.members["a"], JoinGroupResponse())
    assert running.awaited_joins == 0


def test_members_are_distinguished_by_id_and_fenced_by_instance() -> None:
    running = group(member("a", instance_id="i"), member("b"))
    assert running.validate_member("a", "i").member_id == "a"
    assert running.validate_member("b", None).member_id == "b"
    for member_id, instance_id, code in (
        ("z", None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("a", "unknown", ErrorCode.UNKNOWN_MEMBER_ID),
        ("old", "i", ErrorCode.FENCED_INSTANCE_ID),
    ):
        with pytest.raises(GroupError) as refused:
            running.validate_member(member_id, instance_id)
        assert refused.value.code is code


def test_no_protocol_is_null_or_empty_by_version() -> None:
    assert with_protocol_name(JoinGroupResponse(protocol_name=None), 6).protocol_name == ""
    assert with_protocol_name(JoinGroupResponse(protocol_name=""), 7).protocol_name is None
    assert with_protocol_name(JoinGroupResponse(protocol_name="x"), 7).protocol_name == "x"


SUBSCRIPTION = struct.pack(">hih1sh2s", 3, 2, 1, b"a", 2, b"bc") + b"user data of later versions"


def test_topics_of_a_subscription() -> None:
    assert subscription_topics(SUBSCRIPTION) == ["a", "bc"]


@pytest.mark.parametrize("size", [0, 1, 5, 7, 8, 10])
def test_a_cut_subscription_is_an_error(size: int) -> None:
    with pytest.raises((struct.error, ValueError)):
        subscription_topics(SUBSCRIPTION[:size])


@pytest.mark.parametrize("metadata", [struct.pack(">hi", 0, 2**31 - 1), struct.pack(">hih", 0, 1, -1)])
def test_a_lying_subscription_is_an_error(metadata: bytes) -> None:
    with pytest.raises((struct.error, ValueError)):
        subscription_topics(metadata)


def test_an_unknown_subscription_of_consumers_counts_as_all_topics() -> None:
    running = group(member("a"))
    running.learn_subscriptions()
    assert running.is_subscribed("anything")
    running.protocol_type = "connect"
    assert not running.is_subscribed("anything")


def restored(*members: MemberMetadata, protocol: str | None = "range") -> ClassicGroup:
    created = ClassicGroup("g", 0)
    created.restore(GroupMetadataValue("consumer", 1, protocol, None, 5, list(members)))
    return created


def test_a_record_of_the_log_that_no_group_is_like() -> None:
    """An unknown program may have written the record, so it is no bug of ours: it raises ValueError, which the
    loading reports.
    """
    one = MemberMetadata("a", "i", "c", "/h", 1, 1, b"", b"")
    assert list(restored(one, MemberMetadata("b", None), MemberMetadata("c", None)).members) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="two members with the same id"):
        restored(one, MemberMetadata("a", "j"))
    with pytest.raises(ValueError, match="two members with the same id"):
        restored(one, MemberMetadata("b", "i"))
    with pytest.raises(ValueError, match="members but no protocol"):
        restored(one, protocol=None)
    assert restored(protocol=None).state is State.EMPTY

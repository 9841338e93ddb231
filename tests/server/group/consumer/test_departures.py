"""Members that leave: what is written of them, what it means to those who stay, and groups that become classic ones by it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ottla.log.errors import StorageError
from ottla.server.group.classic.group import ClassicGroup, State
from ottla.server.group.consumer import records
from ottla.server.group.consumer.departures import fence, remove_members
from ottla.server.group.consumer.group import ConsumerGroup
from ottla.server.group.consumer.member import ClassicMetadata, ConsumerMember
from ottla.server.group.errors import GroupError
from ottla.server.group.requests import MemberProtocol
from tests.in_loop import in_loop
from tests.server.group.consumer.rig import EPOCH, Rig, T, U, classic_member, member
from tests.server.group.consumer.test_migration import subscription

M, N = member("m", "t"), member("n", "u")


def classic(member_id: str, **fields: Any) -> ConsumerMember:
    """A member of the classic protocol that a classic group can be made of."""
    return classic_member(member_id, subscription()["range"], **fields)


def leave(rig: Rig, *leaving: ConsumerMember) -> str:
    """Takes members out of the group as their requests would, and returns the answer."""
    return rig.services.run(remove_members(rig.services, rig.services.existing("g"), leaving, "answer"))


def test_nobody_leaves() -> None:
    rig = Rig()
    result = remove_members(rig.services, rig.make(M, N), [], "answer")
    assert (list(result.records), result.response) == ([], "answer")


def test_who_leaves_is_gone_and_the_groups_next_epoch_is_of_what_the_others_read() -> None:
    rig = Rig()
    group = rig.make(M, N)
    result = remove_members(rig.services, group, [M], "answer")
    assert result.response == "answer"
    assert list(result.records) == [*records.member_tombstones("g", "m"), records.epoch("g", EPOCH + 1, rig.hash_of("u"))]
    rig.services.run(result)
    assert (list(group.members), group.epoch, group.assignment_epoch) == (["n"], EPOCH + 1, EPOCH)


def test_after_the_last_has_left_no_assignment_is_due() -> None:
    rig = Rig()
    group = rig.make(M, N, assigned_ms=rig.clock.now_ms())
    result = remove_members(rig.services, group, [M, N], None)
    assert list(result.records) == [
        *records.member_tombstones("g", "m"),
        *records.member_tombstones("g", "n"),
        records.epoch("g", EPOCH + 1, rig.hash_of()),
        records.target_epoch("g", EPOCH + 1, 0),
    ]


def test_deadlines_of_those_who_left_are_forgotten_once_that_is_written() -> None:
    rig = Rig()
    rig.make(M, N)
    for each in ("m", "n"):
        rig.services.timeouts.session("g", each, 1_000)
    rig.broker.log.fail = StorageError("gone")
    with pytest.raises(GroupError):
        leave(rig, M)
    assert rig.clock.waiting == 2
    rig.broker.log.fail = None
    assert leave(rig, M) == "answer"
    rig.clock.advance(60)
    assert [each[1] for each in rig.fenced] == ["n"]


def test_an_expression_goes_with_the_last_who_has_it_and_so_does_what_it_matched() -> None:
    rig = Rig()
    first, second, third = (member(name, regex=regex) for name, regex in (("a", "t.*"), ("b", "t.*"), ("c", "u.*")))
    group = rig.make(first, second, third, regexes={"t.*": ["t"], "u.*": ["u"]})
    leave(rig, first)
    assert (set(group.regexes), group.metadata_hash) == ({"t.*", "u.*"}, rig.hash_of("t", "u"))
    result = remove_members(rig.services, group, [second], None)
    assert records.regex_tombstone("g", "t.*") in result.records
    assert records.regex_tombstone("g", "u.*") not in result.records
    rig.services.run(result)
    assert (set(group.regexes), group.metadata_hash) == ({"u.*"}, rig.hash_of("u"))


def test_two_with_one_expression_leave_together() -> None:
    rig = Rig()
    leaving = [member(name, regex="t.*") for name in ("a", "b")]
    group = rig.make(*leaving, N, regexes={"t.*": ["t"]})
    leave(rig, *leaving)
    assert (group.regexes, group.metadata_hash) == ({}, rig.hash_of("u"))


def with_protocols(member_id: str, *names: str) -> ConsumerMember:
    """Returns a classic member that names these protocols, each with the same metadata."""
    protocols = tuple(MemberProtocol(name, subscription()["range"]) for name in names)
    return replace(classic(member_id), classic=ClassicMetadata(10_000, protocols))


def test_a_group_whose_classic_members_have_no_protocol_in_common_stays_a_consumer_group() -> None:
    """The fuzzer made one of damaged records; no request does."""
    rig = Rig()
    group = rig.make(M, with_protocols("a", "range"), with_protocols("b", "roundrobin"))
    assert leave(rig, M) == "answer"
    assert list(group.members) == ["a", "b"]
    assert rig.shard.groups["g"] is group


def test_a_protocol_that_a_member_names_twice_counts_once() -> None:
    """Counted twice, it would stand for the other member's, too: a third could join with it, and nothing would be in common."""
    group = Rig().make(M, with_protocols("a", "x", "x", "y"), with_protocols("b", "y"))
    assert not group.supports_classic("consumer", {"x"})
    assert group.supports_classic("consumer", {"x", "y"})


@in_loop
async def test_where_only_classic_members_stay_the_group_becomes_a_classic_one_and_rebalances() -> None:
    rig = Rig()
    group = rig.make(M, classic("old"), targets={"m": {T: frozenset({0})}, "old": {T: frozenset({1, 2})}})
    former = group.tombstones()
    result = remove_members(rig.services, group, [M], "answer")
    assert list(result.records)[:-1] == list(former)
    assert rig.services.run(result) == "answer"
    rig.clock.advance(2)
    made = rig.shard.groups["g"]
    assert isinstance(made, ClassicGroup)
    assert (list(made.members), made.generation, made.state) == (["old"], EPOCH, State.PREPARING_REBALANCE)
    rig.clock.advance(60)
    assert made.members == {}, "it did not join the rebalance"


@in_loop
async def test_no_deadline_of_the_consumer_group_outlives_it() -> None:
    rig = Rig()
    rig.make(M, classic("old"))
    for each in ("m", "old"):
        rig.services.timeouts.session("g", each, 1_000)
    rig.services.timeouts.join("g", classic("old"))
    leave(rig, M)
    rig.clock.advance(60)
    assert rig.fenced == []


@in_loop
async def test_classic_members_bring_all_their_protocols_and_their_session() -> None:
    rig = Rig()
    protocols = tuple(MemberProtocol(name, subscription()["range"]) for name in ("range", "sticky"))
    rig.make(
        M, classic("old", rebalance_timeout_ms=60_000), replace(classic("older"), classic=ClassicMetadata(10_000, protocols))
    )
    leave(rig, M)
    made = rig.shard.groups["g"]
    assert isinstance(made, ClassicGroup)
    assert [each.name for each in made.members["older"].protocols] == ["range", "sticky"]
    rig.clock.advance(9.9)
    assert list(made.members) == ["old", "older"]
    rig.clock.advance(0.2)
    assert made.members == {}


@pytest.mark.parametrize(
    ("settings", "max_size", "members", "stays"),
    [
        ({}, None, (M, N, classic("old")), True),
        ({}, None, (M, classic("old"), classic("older")), False),
        ({"group_consumer_migration_policy": "upgrade"}, None, (M, classic("old")), True),
        ({"group_consumer_migration_policy": "downgrade"}, None, (M, classic("old")), False),
        ({}, 1, (M, classic("old"), classic("older")), True),
        ({}, 2, (M, classic("old"), classic("older")), False),
    ],
    ids=["another of the new protocol", "two classic ones", "upgrades only", "downgrades only", "too many", "just so many"],
)
@in_loop
async def test_when_a_group_stays_what_it_is(
    settings: dict[str, str], max_size: int | None, members: tuple[ConsumerMember, ...], stays: bool
) -> None:
    rig = Rig(**settings)
    if max_size is not None:
        rig.shard.settings = replace(rig.shard.settings, max_size=max_size)
    rig.make(*members)
    leave(rig, M)
    assert isinstance(rig.shard.groups["g"], ConsumerGroup if stays else ClassicGroup)


# Fenced


@pytest.mark.parametrize(("in_epoch", "is_out"), [(None, True), (EPOCH, True), (EPOCH - 1, False), (EPOCH + 1, False)])
def test_who_is_fenced_is_out_if_it_still_is_in_the_epoch(in_epoch: int | None, is_out: bool) -> None:
    rig = Rig()
    group = rig.make(M, N)
    fence(rig.services, "g", "m", "it is late", in_epoch)
    assert list(group.members) == (["n"] if is_out else ["m", "n"])
    assert group.epoch == EPOCH + is_out


def test_who_is_gone_cannot_be_fenced() -> None:
    rig = Rig()
    rig.make(M)
    rig.shard.groups["old"] = ClassicGroup("old", 0)
    written = rig.broker.log.records()
    for group_id, member_id in (("g", "gone"), ("nowhere", "m"), ("old", "m")):
        fence(rig.services, group_id, member_id, "it is late", None)
    assert rig.broker.log.records() == written


def test_who_cannot_be_written_out_stays() -> None:
    rig = Rig()
    group = rig.make(M, member("s", "u", instance_id="i", assigned={U: {0: EPOCH}}))
    rig.broker.log.fail = StorageError("gone")
    with pytest.raises(GroupError):
        fence(rig.services, "g", "s", "it is late", None)
    assert list(group.members) == ["m", "s"]
    rig.broker.log.fail = None
    fence(rig.services, "g", "s", "it is late", None)
    assert (list(group.members), group.static_members) == (["m"], {})

"""Tests of who a request comes from: dynamic members, static ones that take a former self's place, and the epochs that they may
name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.server.group.consumer import records
from ottla.server.group.consumer.identity import check_member_epoch, find_member, static_member
from ottla.server.group.consumer.member import ConsumerMember
from ottla.server.group.consumer.reconcile import Owned
from ottla.server.group.errors import GroupError
from ottla.server.group.modern.epochs import LEAVING_STATIC_EPOCH
from ottla.wire.errors import ErrorCode
from tests.server.group.consumer.rig import EPOCH, Rig, T, U, classic_member, member, refusal

M = member("m", assigned={T: {0: 3, 1: 4}})
S = member("s", "u", instance_id="i", assigned={U: {0: 3}})


def test_a_dynamic_member_is_found_by_its_id() -> None:
    update = Rig().update(M, S)
    assert find_member(update, "m", None, joining=False, classic=False) == M
    assert find_member(update, "m", None, joining=True, classic=False) == M, "it was fenced, and has what it had"
    assert find_member(update, "new", None, joining=True, classic=False) == ConsumerMember("new")
    with pytest.raises(GroupError) as error:
        find_member(update, "new", None, joining=False, classic=False)
    assert refusal(error) is ErrorCode.UNKNOWN_MEMBER_ID
    assert (update.records, update.after) == ([], [])


def test_a_static_member_that_goes_on_names_itself_twice() -> None:
    update = Rig().update(M, S)
    assert find_member(update, "s", "i", joining=False, classic=False) == S
    for member_id, instance_id, code in (
        ("m", "i", ErrorCode.FENCED_INSTANCE_ID),
        ("new", "i", ErrorCode.FENCED_INSTANCE_ID),
        ("s", "j", ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        with pytest.raises(GroupError) as error:
            find_member(update, member_id, instance_id, joining=False, classic=False)
        assert refusal(error) is code
        with pytest.raises(GroupError) as error:
            static_member(update.group, member_id, instance_id)
        assert refusal(error) is code
    assert update.records == []


def test_an_instance_id_that_nobody_has_is_anybodys() -> None:
    update = Rig().update(M, S)
    assert find_member(update, "new", "j", joining=True, classic=False) == ConsumerMember("new")
    assert find_member(update, "m", "j", joining=True, classic=False) == M
    assert update.records == []


@pytest.mark.parametrize(
    ("there", "classic", "comes"),
    [
        (S, False, False),
        (S, True, True),
        (replace(S, epoch=LEAVING_STATIC_EPOCH), False, True),
        (replace(S, epoch=LEAVING_STATIC_EPOCH), True, True),
        (classic_member("s", topics=frozenset({"u"}), instance_id="i", assigned={U: {0: 3}}), False, True),
    ],
    ids=["held", "held, by the classic protocol", "away", "away, by the classic protocol", "held by a classic member"],
)
def test_a_static_member_takes_the_place_of_its_former_self(there: ConsumerMember, classic: bool, comes: bool) -> None:
    rig = Rig()
    update = rig.update(M, there, targets={"s": {U: frozenset({0})}, "m": {T: frozenset({0, 1})}})
    if not comes:
        with pytest.raises(GroupError) as error:
            find_member(update, "new", "i", joining=True, classic=classic)
        assert refusal(error) is ErrorCode.UNRELEASED_INSTANCE_ID
        assert (update.records, update.after) == ([], [])
        return
    here = find_member(update, "new", "i", joining=True, classic=classic)
    assert here == replace(there, member_id="new", epoch=0, previous_epoch=0)
    assert update.records == [
        *records.member_tombstones("g", "s"),
        records.member("g", here),
        records.target("g", "new", {U: frozenset({0})}),
        records.current("g", here),
    ]
    rig.services.run(update.result(None))
    assert rig.services.existing("g").static_members == {"i": "new"}


def test_the_former_selfs_deadlines_go_when_its_successor_is_written() -> None:
    rig = Rig()
    away = replace(S, epoch=LEAVING_STATIC_EPOCH)
    update = rig.update(away)
    rig.services.timeouts.session("g", "s", 1_000)
    find_member(update, "new", "i", joining=True, classic=False)
    assert rig.clock.waiting == 1
    assert update.records[4] == records.target("g", "new", {}), "nothing was meant for it"
    rig.services.run(update.result(None))
    assert rig.clock.waiting == 0


def test_one_that_comes_back_by_its_own_id_keeps_its_deadlines() -> None:
    rig = Rig()
    update = rig.update(replace(S, epoch=LEAVING_STATIC_EPOCH))
    rig.services.timeouts.session("g", "s", 1_000)
    assert find_member(update, "s", "i", joining=True, classic=False).epoch == 0
    rig.services.run(update.result(None))
    assert rig.clock.waiting == 1


@pytest.mark.parametrize(
    ("epoch", "owned", "ok"),
    [
        (EPOCH, None, True),
        (EPOCH, {U: [0]}, True),
        (EPOCH + 1, None, False),
        (EPOCH + 1, {}, False),
        (EPOCH - 1, None, False),
        (EPOCH - 1, {}, True),
        (EPOCH - 1, {T: [1]}, True),
        (EPOCH - 1, {T: [0, 1]}, True),
        (EPOCH - 1, {T: [0, 2]}, False),
        (EPOCH - 1, {T: [2, 0]}, False),
        (EPOCH - 1, {U: [0]}, False),
        (EPOCH - 1, {T: [0], U: [0]}, False),
        (EPOCH - 2, {}, False),
    ],
)
def test_a_member_names_its_epoch_or_the_one_before_with_what_it_may_have(epoch: int, owned: Owned | None, ok: bool) -> None:
    if ok:
        check_member_epoch(M, epoch, owned)
        return
    with pytest.raises(GroupError) as error:
        check_member_epoch(M, epoch, owned)
    assert refusal(error) is ErrorCode.FENCED_MEMBER_EPOCH


def test_an_epoch_behind_the_members_is_no_epoch_before() -> None:
    """A member that lost its assignment's record is in epoch -1, and so was it before."""
    lost = M.without_assignment()
    with pytest.raises(GroupError):
        check_member_epoch(replace(lost, previous_epoch=3), 3, {})

"""These tests cover what happens to member ids that clients are given and do not come back with."""

from __future__ import annotations

import pytest

from ottla.server.group import pending_ids
from ottla.server.group.pending_ids import ID_BYTES
from ottla.wire.errors import ErrorCode
from tests.in_loop import in_loop
from tests.server.group.fakes import Driver, answer_of, waits


def handed_out(driver: Driver, group: str = "g") -> str:
    answer = driver.join(group)
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    return str(answer.member_id)


def held(driver: Driver) -> int:
    """Returns how many ids count, all of which are equally long."""
    count, rest = divmod(driver.broker.groups.pending_ids.held_bytes, ID_BYTES + len("c-") + 36)
    assert not rest
    return count


@in_loop
async def test_a_group_forgets_the_oldest_of_too_many_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_ids, "MOST_OF_A_GROUP", 3)
    driver = Driver()
    ids = [handed_out(driver) for _ in range(5)]
    other = handed_out(driver, "another")
    assert held(driver) == 4
    assert driver.broker.groups.pending_ids.forgotten == 2
    assert [answer_of(driver.join(member=each)).error_code for each in ids[:2]] == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    parked = [driver.join(member=each) for each in ids[2:]]
    driver.clock.advance(0.01)
    assert {answer_of(each).error_code for each in parked} == {ErrorCode.NONE}
    assert waits(driver.join("another", other))
    assert held(driver) == 0


@in_loop
async def test_all_groups_together_forget_the_oldest_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_ids, "MOST_BYTES", 3 * (ID_BYTES + 38))
    driver = Driver()
    ids = [(group, handed_out(driver, group)) for group in ("g1", "g2", "g3", "g1", "g4")]
    assert held(driver) == 3
    codes = [answer_of(driver.join(group, each)).error_code for group, each in ids[:2]]
    assert codes == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    assert [waits(driver.join(group, each)) for group, each in ids[2:]] == [True] * 3
    assert held(driver) == 0


@in_loop
async def test_a_rebalance_does_not_wait_for_an_id_that_was_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_ids, "MOST_BYTES", 2 * (ID_BYTES + 38))
    driver = Driver()
    (member,), _ = driver.stable(1)
    handed_out(driver)
    parked = driver.join(member=member)
    assert waits(parked)
    handed_out(driver, "another")
    assert waits(parked)
    handed_out(driver, "another")
    assert answer_of(parked).generation_id == 2


@in_loop
async def test_an_id_counts_until_somebody_joins_or_leaves_with_it_or_its_time_is_over_or_the_group_is() -> None:
    driver = Driver()
    joins, leaves, *_ = [handed_out(driver) for _ in range(4)]
    assert held(driver) == 4
    driver.join(member=joins)
    assert held(driver) == 3
    driver.leave(leaves)
    assert held(driver) == 2
    driver.clock.advance(11)
    assert held(driver) == 0
    handed_out(driver, "another")
    assert held(driver) == 1
    driver.broker.groups.close()
    assert held(driver) == 0
    assert driver.broker.groups.pending_ids.forgotten == 0

"""Operations on large groups are carried out in turns: these tests cover what happens meanwhile. Every group is large here, and
every look at the clock ends a turn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.log.errors import StorageError
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps
from ottla.server.group.classic.group import ClassicGroup, new_group_record
from ottla.server.group.consumer import records
from ottla.server.group.consumer.group import ConsumerGroup
from ottla.server.group.errors import GroupError
from ottla.server.group.modern import group as modern_group
from ottla.server.group.modern import operations as module
from ottla.server.group.modern.operations import Operations
from ottla.server.group.records import ProtocolRecord
from ottla.server.group.result import Result
from ottla.server.group.shard import GroupShard
from ottla.wire.errors import ErrorCode
from tests.in_loop import in_loop
from tests.server.coordination.memory import slow
from tests.server.group.consumer.beats import Beating

NONE = ErrorCode.NONE


@pytest.fixture(autouse=True)
def every_group_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in (module, modern_group):
        monkeypatch.setattr(each, "LARGE", 0)


@pytest.fixture
def driver() -> Iterator[Beating]:
    """Returns groups of which g has the member m, which reads t."""
    driver = Beating()
    driver.beat("m")
    with slow(driver.clock):
        yield driver


def group(driver: Beating) -> ConsumerGroup:
    found = driver.broker.groups.find("g")
    assert isinstance(found, ConsumerGroup)
    return found


def shard(driver: Beating) -> GroupShard:
    return driver.broker.groups.member_shard("g")


def begun(driver: Beating, rounds: int) -> Promise[Any]:
    """Lets n join, which is not over after so many rounds."""
    answer = driver.beat("n")
    for _ in range(rounds):
        driver.clock.next_round()
    assert isinstance(answer, Promise)
    assert list(group(driver).members) == ["m"]
    return answer


def end(driver: Beating, answer: Any) -> Any:
    assert isinstance(answer, Promise)
    driver.clock.advance(0)
    return answer.result()


def test_what_is_not_large_is_carried_out_at_once(monkeypatch: pytest.MonkeyPatch, driver: Beating) -> None:
    for each in (module, modern_group):
        monkeypatch.setattr(each, "LARGE", 1)
    assert driver.beat("n").error_code == NONE
    assert isinstance(driver.beat("n", subscribed_topic_names=["t", "u"]), Promise), "as the request brings so many names"
    driver.clock.advance(0)
    assert isinstance(driver.beat("m", 2), Promise), "as the group has so many"


def test_it_is_answered_when_all_is_written(driver: Beating) -> None:
    answer = driver.beat("n")
    assert isinstance(answer, Promise)
    assert list(group(driver).members) == ["m"]
    driver.clock.advance(0)
    assert (answer.result().error_code, list(group(driver).members)) == (NONE, ["m", "n"])


def test_those_on_the_same_group_are_carried_out_one_after_the_other(driver: Beating) -> None:
    answers = [driver.beat(member) for member in ("n", "o")]
    assert [end(driver, answer).error_code for answer in answers] == [NONE, NONE]
    assert list(group(driver).members) == ["m", "n", "o"]
    assert group(driver).epoch == 4


def test_who_has_gone_is_no_longer_served_and_lets_the_next_pass(driver: Beating) -> None:
    gone, later = driver.beat("n"), driver.beat("o")
    assert isinstance(gone, Promise)
    gone.cancel()
    assert end(driver, later).error_code == NONE
    assert list(group(driver).members) == ["m", "o"]
    assert driver.beat("m", -1).error_code == NONE


@pytest.mark.parametrize("rounds", range(8))
def test_after_a_change_it_is_planned_again(driver: Beating, rounds: int) -> None:
    """Else the records would be those of a group of which m is still a member, and an epoch would be there twice."""
    answer = begun(driver, rounds)
    driver.beat("m", -1)
    left = group(driver).epoch
    assert end(driver, answer).error_code == NONE
    assert (list(group(driver).members), group(driver).epoch) == (["n"], left + 1)
    assert group(driver).targets.keys() == {"n"}


@pytest.mark.parametrize(("epoch", "stays"), [(2, True), (3, False)])
def test_a_member_whose_heartbeat_waits_has_not_missed_its_session(driver: Beating, epoch: int, stays: bool) -> None:
    """Unless it has another epoch than the member: such a heartbeat is refused."""
    driver.clock._now += 44.9
    before, answer = driver.beat("n"), driver.beat("m", epoch)
    driver.clock._now += 0.2
    assert end(driver, before).error_code == NONE
    assert (answer.result().error_code == NONE) == stays
    assert ("m" in group(driver).members) == stays


def test_a_member_that_is_gone_by_then_is_refused(driver: Beating) -> None:
    answer = driver.beat("m", 2, subscribed_topic_names=["u"])
    driver.beat("m", -1)
    assert end(driver, answer).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("rounds", range(8))
def test_a_topic_that_changes_meanwhile_is_not_overlooked(driver: Beating, rounds: int) -> None:
    answer = begun(driver, rounds)
    driver.topic("t", 1, 5)
    assert end(driver, answer).error_code == NONE
    assert end(driver, driver.beat("m", 2)).error_code == NONE
    topics = shard(driver).protocol_of("g")._services.topics  # type: ignore[attr-defined]  # it is a consumer group's
    assert group(driver).metadata_hash == topics.hash_of({"t"})


def test_a_group_that_is_deleted_meanwhile(driver: Beating) -> None:
    answer, stays = driver.beat("n"), driver.beat("m", 2)
    tombstones = group(driver).tombstones()
    shard(driver).run(Result(tombstones, None))
    assert end(driver, answer).error_code == NONE, "it makes the group anew"
    assert list(group(driver).members) == ["n"]
    assert stays.result().error_code == ErrorCode.UNKNOWN_MEMBER_ID


@in_loop
async def test_a_classic_group_that_comes_to_be_meanwhile(driver: Beating) -> None:
    shard(driver).run(Result(group(driver).tombstones(), None))
    answer = driver.beat("n")
    member, parked = driver.enter(protocols={"range": b""})
    assert end(driver, answer).error_code == ErrorCode.GROUP_ID_NOT_FOUND, "its members' metadata cannot be parsed"
    assert driver.broker.groups.find("g") is not None
    assert member
    assert parked is not None


@in_loop
async def test_an_empty_classic_group_whose_next_member_comes_meanwhile(driver: Beating) -> None:
    """It was replaced as an empty one, and its member was lost."""
    shard(driver).run(Result([*group(driver).tombstones(), new_group_record("g", driver.clock.now_ms())], None))
    answer = driver.beat("n")
    member, _ = driver.enter(protocols={"range": b""})
    assert end(driver, answer).error_code == ErrorCode.GROUP_ID_NOT_FOUND, "its members' metadata cannot be parsed"
    found = driver.broker.groups.find("g")
    assert isinstance(found, ClassicGroup)
    assert list(found.members) == [member]


def test_where_the_partition_is_lost_meanwhile(driver: Beating) -> None:
    answers = [driver.beat("n"), driver.beat("o")]
    shard(driver).unload()
    assert [end(driver, answer).error_code for answer in answers] == [ErrorCode.NOT_COORDINATOR] * 2


def test_what_cannot_be_written_is_refused(driver: Beating) -> None:
    answer = driver.beat("n")
    driver.broker.log.fail = StorageError("gone")
    assert end(driver, answer).error_code == ErrorCode.NOT_COORDINATOR
    driver.broker.log.fail = None
    assert list(group(driver).members) == ["m"]


def test_each_record_is_encoded_in_a_step_of_its_own(driver: Beating, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[ProtocolRecord] = []
    operations, there = Operations(shard(driver)), group(driver)

    def plan() -> Steps[Result[str]]:
        yield None
        return Result([records.epoch("g", there.epoch + number, 0) for number in range(3)], "done")

    run = shard(driver).run

    def spy(result: Result[str]) -> str:
        written.extend(record for record in result.records if isinstance(record, ProtocolRecord))
        return run(result)

    monkeypatch.setattr(shard(driver), "run", spy)
    answer = operations.carry_out("g", plan)
    for _ in range(3):
        assert isinstance(answer, Promise)
        assert not answer.done()
        driver.clock.next_round()
    driver.clock.advance(0)
    assert isinstance(answer, Promise)
    assert answer.result() == "done"
    assert [each.encoded is not None for each in written] == [True] * 3


def test_an_error_of_a_step_ends_it_and_lets_the_next_pass(driver: Beating) -> None:
    operations = Operations(shard(driver))

    def refused() -> Steps[Result[None]]:
        yield None
        raise GroupError(ErrorCode.FENCED_MEMBER_EPOCH)

    answer = operations.carry_out("g", refused)
    assert isinstance(answer, Promise)
    driver.clock.advance(0)
    with pytest.raises(GroupError):
        answer.result()
    assert operations._lines == {}

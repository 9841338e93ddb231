"""Targets of large share groups are made in the background: these tests cover what happens to the group meanwhile. Those of
consumer groups (consumer/test_targets.py) cover what is the same for both."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.log.errors import StorageError
from ottla.server.group.modern import target_jobs
from ottla.server.group.modern.assignor import Assignment
from ottla.server.group.share import targets
from ottla.server.group.share.member import ShareMember
from ottla.server.group.share.protocol import ShareProtocol
from ottla.server.group.share.state_partitions import TopicPartitions
from ottla.server.group.share.targets import Snapshot
from ottla.wire.errors import ErrorCode
from tests.server.coordination.memory import TOPICS, slow
from tests.server.group.share.driver import Driver, assigned

T = TOPICS["t"][0]
INTERVAL_S = 1.0


@pytest.fixture(autouse=True)
def every_group_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_jobs, "AT_ONCE", 0)


@pytest.fixture
def driver() -> Iterator[Driver]:
    """Returns groups of which the member m has all of t, on a clock every look at which ends a turn."""
    driver = Driver()
    driver.enter("m")
    driver.clock.advance(INTERVAL_S)
    assert assigned(driver.beat("m", topics=["t"])) == {T: [0, 1, 2]}
    driver.clock.advance(INTERVAL_S)
    with slow(driver.clock):
        yield driver


def is_running(driver: Driver) -> bool:
    return driver.broker.groups.shard("g").protocol(ShareProtocol)._jobs.is_running("g")


def sizes(driver: Driver) -> dict[str, int]:
    return {member: len(target.get(T, ())) for member, target in driver.group().targets.items()}


def test_the_heartbeat_is_answered_with_the_former_target_and_the_new_one_comes_later(driver: Driver) -> None:
    group = driver.group()
    before = group.assignment_epoch
    assert assigned(driver.join("n")) == {}
    assert is_running(driver)
    assert (group.epoch, group.assignment_epoch, sizes(driver)) == (before + 1, before, {"m": 3})
    driver.clock.advance(0.5)
    assert (group.assignment_epoch, is_running(driver)) == (before + 1, False)
    assert sum(sizes(driver).values()) == 3
    got = [assigned(driver.beat(member, topics=["t"])).get(T, []) for member in ("m", "n")]
    assert sorted(index for indexes in got for index in indexes) == [0, 1, 2]
    assert sorted(map(len, got)) == [1, 2]


def test_a_small_group_gets_its_target_at_once(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two members with one topic of three partitions count five."""
    monkeypatch.setattr(target_jobs, "AT_ONCE", 5)
    driver.join("n")
    assert (is_running(driver), driver.group().assignment_epoch) == (False, driver.group().epoch)


def test_only_one_target_of_a_group_is_made_at_a_time(driver: Driver) -> None:
    driver.join("n")
    driver.join("o")
    driver.clock.advance(0.5)
    group = driver.group()
    assert (group.epoch - group.assignment_epoch, set(group.targets)) == (1, {"m", "n"})
    driver.clock.advance(INTERVAL_S)
    driver.beat("m")
    driver.clock.advance(0.5)
    assert (group.epoch - group.assignment_epoch, set(group.targets)) == (0, {"m", "n", "o"})


def test_a_member_that_left_meanwhile_gets_no_record(driver: Driver) -> None:
    driver.join("n")
    driver.beat("n", -1)
    driver.clock.advance(0.5)
    assert driver.group().targets.keys() == {"m"}
    assert driver.group().epoch > driver.group().assignment_epoch, "the next target is due"


def test_when_all_members_have_left_meanwhile_nothing_is_written(driver: Driver) -> None:
    driver.join("n")
    for member in ("n", "m"):
        driver.beat(member, -1)
    driver.clock.advance(0.5)
    group = driver.group()
    assert (group.assignment_epoch, group.assignment_timestamp_ms, group.targets) == (group.epoch, 0, {})


def test_a_group_that_goes_to_another_broker_gets_no_target(driver: Driver) -> None:
    driver.join("n")
    group = driver.group()
    epoch = group.assignment_epoch
    driver.broker.groups.shard("g").protocol(ShareProtocol).discard(group, ErrorCode.NOT_COORDINATOR)
    assert not is_running(driver)
    driver.clock.advance(0.5)
    assert group.assignment_epoch == epoch


def test_what_cannot_be_written_is_tried_again_after_the_interval(driver: Driver, caplog: pytest.LogCaptureFixture) -> None:
    driver.join("n")
    driver.broker.log.fail = StorageError("gone")
    driver.clock.advance(0.5)
    driver.broker.log.fail = None
    assert "cannot write" in caplog.text
    driver.beat("m")
    assert not is_running(driver), "not with every heartbeat"
    driver.clock.advance(INTERVAL_S)
    driver.beat("m")
    assert is_running(driver)


def test_no_step_is_about_more_than_one_member_or_partition() -> None:
    driver = Driver()
    topics = driver.broker.groups.member_shard("g").protocol(ShareProtocol)._topics
    members = {f"m{number}": ShareMember(f"m{number}", topics=frozenset({"t"})) for number in range(50)}
    had: Assignment = {T: frozenset({0, 1, 2})}
    initialized = {T: TopicPartitions("t", frozenset({0, 1, 2}))}
    snapshot = Snapshot(members, dict.fromkeys(members, had), initialized)
    assert sum(1 for _ in targets.assign(snapshot, topics)) >= 4 * len(members) + 2 * len(had[T])

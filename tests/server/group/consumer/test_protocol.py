"""These tests cover consumer groups through their handlers: members, epochs, timers, topics and expressions, the records that are
written, and the state after a restart.

compat_tests/wire_diff compares the same with Apache Kafka; here are the clocks, and what does not show from outside.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

import pytest

from ottla.log.errors import StorageError
from ottla.server.group.consumer.group import ConsumerGroup
from ottla.server.group.consumer.member import ConsumerMember
from ottla.server.group.consumer.records import epoch
from ottla.server.group.modern import names
from ottla.server.group.records import decode, encode_batch
from ottla.wire.errors import ErrorCode
from tests.in_loop import in_loop
from tests.server.coordination.memory import TOPICS
from tests.server.group.consumer.beats import Beating, parts
from tests.server.group.fakes import Broker

NONE = ErrorCode.NONE
T = TOPICS["t"][0]
SESSION_S, REBALANCE_S = 45, 10


def group_of(driver: Beating, group: str = "g") -> ConsumerGroup:
    found = driver.broker.groups.find(group)
    assert isinstance(found, ConsumerGroup)
    return found


def state_of(driver: Beating, group: str = "g") -> dict[str, Any]:
    """Returns everything that a group derives from its records."""
    found = group_of(driver, group)
    plain = {name: value for name, value in vars(found).items() if name not in ("refresh_at_ms",)}
    return plain | {"members": {key: asdict(member) for key, member in found.members.items()}}


def test_members_that_subscribe_to_the_same_topics_share_their_names() -> None:
    """A restarted broker shares them as well."""
    driver = Beating()
    for member in "mn":
        driver.beat(member, subscribed_topic_names=["t", "u"])
    for each in (driver, driver.restarted()):
        one, other = (group_of(each).members[member] for member in "mn")
        assert one.topics is other.topics


def schemas_written(driver: Beating) -> Counter[str]:
    kinds = [decode(key, value) for key, value in driver.broker.log.records() if key is not None]
    return Counter(type(record.key).__name__ for record in kinds if record is not None)


@in_loop
async def test_a_member_joins_and_leaves() -> None:
    driver = Beating()
    joined = driver.beat("m")
    assert (joined.error_code, joined.member_epoch, joined.heartbeat_interval_ms) == (NONE, 2, 5000)
    assert parts(joined) == {T: [0, 1, 2]}
    written = sum(schemas_written(driver).values())
    again = driver.beat("m", 2)
    assert (again.member_epoch, parts(again)) == (2, None)
    assert sum(schemas_written(driver).values()) == written, "a heartbeat that changes nothing writes nothing"
    assert parts(driver.owning("m", 2, {T: [0, 1, 2]}, rebalance_timeout_ms=10_000, subscribed_topic_names=["t"])) == {
        T: [0, 1, 2]
    }
    assert driver.described().group_state == "Stable"
    left = driver.beat("m", -1)
    assert (left.error_code, left.member_epoch, left.heartbeat_interval_ms) == (NONE, -1, 0)
    assert driver.described().group_state == "Empty"
    assert driver.beat("m", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@in_loop
async def test_a_restart_finds_everything() -> None:
    driver = Beating()
    driver.beat("m1", rack_id="r", server_assignor="range")
    driver.beat("m2", instance_id="i", subscribed_topic_names=["t", "u"])
    driver.beat("m3", subscribed_topic_names=None, subscribed_topic_regex="[tu]")
    driver.later()
    driver.beat("m2", 2)
    driver.beat("m1", 2)
    before = state_of(driver)
    assert state_of(driver.restarted()) == before
    driver.beat("m2", -2, instance_id="i")
    driver.beat("m1", -1)
    assert state_of(driver.restarted()) == state_of(driver)


@in_loop
async def test_an_assignment_is_made_once_a_second() -> None:
    driver = Beating()
    driver.beat("m1")
    assert parts(driver.beat("m2")) == {}
    assert (group_of(driver).epoch, group_of(driver).assignment_epoch) == (3, 2)
    assert driver.described().group_state == "Assigning"
    driver.later(0.9)
    assert parts(driver.beat("m1", 2)) is None
    driver.later(0.2)
    assert parts(driver.beat("m1", 2)) in ({T: [0]}, {T: [0, 1]}), "it has to give up the rest"
    assert group_of(driver).assignment_epoch == 3
    driver.broker.configs[32, "other"] = {"consumer.assignment.interval.ms": "0"}
    driver.beat("m1", group="other")
    driver.beat("m2", group="other")
    assert group_of(driver, "other").assignment_epoch == 3, "this group need not wait"


@in_loop
async def test_sessions_end() -> None:
    driver = Beating()
    driver.beat("m1", rebalance_timeout_ms=1_000_000)
    driver.beat("m2", instance_id="i")
    for _ in range(3):
        driver.later(SESSION_S - 1)
        assert driver.beat("m1", group_of(driver).members["m1"].epoch).error_code == NONE
    assert list(group_of(driver).members) == ["m1"]
    driver.later(SESSION_S + 1)
    assert driver.described().group_state == "Empty"
    assert driver.clock.waiting == 0, "no timer is left"


@in_loop
async def test_a_session_whose_end_cannot_be_written_ends_when_it_can() -> None:
    driver = Beating()
    driver.beat("m1")
    driver.broker.log.fail = OSError("no space")
    driver.later(SESSION_S + 1)
    assert list(group_of(driver).members) == ["m1"]
    driver.broker.log.fail = None
    driver.later(1)
    assert group_of(driver).is_empty
    assert driver.clock.waiting == 0, "no timer is left"


@in_loop
async def test_sessions_begin_anew_with_a_restart() -> None:
    driver = Beating()
    driver.beat("m1")
    driver.later(SESSION_S - 1)
    fresh = driver.restarted()
    fresh.later(SESSION_S - 1)
    assert fresh.beat("m1", 2).error_code == NONE


@in_loop
async def test_who_does_not_give_up_in_time_is_out() -> None:
    driver = Beating()
    driver.beat("m1")
    driver.beat("m2")
    driver.later()
    driver.beat("m1", 2)
    for _ in range(REBALANCE_S - 1):
        driver.later(1)
        assert driver.beat("m1", 2).error_code == NONE
    driver.later(2)
    assert driver.beat("m1", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    driver.later()
    assert parts(driver.beat("m2", group_of(driver).members["m2"].epoch)) == {T: [0, 1, 2]}


@in_loop
async def test_who_gives_up_in_time_stays() -> None:
    driver = Beating()
    driver.beat("m1")
    driver.beat("m2")
    driver.later()
    kept = parts(driver.beat("m1", 2))
    assert kept
    assert driver.owning("m1", 2, kept).member_epoch == 3
    driver.later(REBALANCE_S + 1)
    assert driver.beat("m1", 3).error_code == NONE


@in_loop
async def test_epochs_that_are_not_its_own() -> None:
    driver = Beating()
    driver.beat("m1")
    driver.beat("m2")
    driver.later()
    kept = parts(driver.beat("m1", 2))
    assert kept
    driver.owning("m1", 2, kept)
    assert driver.owning("m1", 2, kept).member_epoch == 3, "the answer got lost"
    fenced = [driver.beat("m1", 2), driver.owning("m1", 2, {T: [0, 1, 2]}), driver.beat("m1", 1), driver.beat("m1", 4)]
    assert {each.error_code for each in fenced} == {ErrorCode.FENCED_MEMBER_EPOCH}
    assert all(each.error_message for each in fenced)
    assert parts(driver.beat("m1")) == kept, "it joins again, and has what it had"


@in_loop
async def test_static_members() -> None:
    driver = Beating()
    held = parts(driver.beat("m1", instance_id="i"))
    assert driver.beat("m2", instance_id="i").error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert driver.beat("m2", 2, instance_id="i").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert driver.beat("m1", 2, instance_id="j").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.beat("m1", -2, instance_id="i").member_epoch == -2
    epoch = group_of(driver).epoch
    assert parts(driver.beat("m2", instance_id="i")) == held
    assert group_of(driver).epoch == epoch, "nobody else is concerned"
    assert list(group_of(driver).members) == ["m2"]
    assert driver.beat("m1", 2, instance_id="i").error_code == ErrorCode.FENCED_INSTANCE_ID
    driver.beat("m2", -2, instance_id="i")
    driver.later(SESSION_S + 1)
    assert driver.described().group_state == "Empty", "it did not come back"


@in_loop
async def test_a_group_may_be_full() -> None:
    driver = Beating(Broker(broker={"group.consumer.max.size": 2}))
    driver.beat("m1", instance_id="i")
    driver.beat("m2")
    assert driver.beat("m3").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.beat("m2").error_code == NONE
    driver.beat("m1", -2, instance_id="i")
    assert driver.beat("m4", instance_id="i").error_code == NONE, "it takes a place that is there"


@in_loop
async def test_the_members_of_a_group_name_only_so_many_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "MOST_NAMES", 3)
    driver = Beating()
    driver.beat("m1", subscribed_topic_names=["a", "b"])
    refused = driver.beat("m2", subscribed_topic_names=["c", "d"])
    assert (refused.error_code, "more than 3 topics" in refused.error_message) == (ErrorCode.GROUP_MAX_SIZE_REACHED, True)
    assert list(group_of(driver).members) == ["m1"]
    assert driver.beat("m2", subscribed_topic_names=["b", "c"]).error_code == NONE
    assert driver.beat("m1", 2, subscribed_topic_names=["d", "e"]).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert group_of(driver).members["m1"].topics == {"a", "b"}
    assert driver.beat("m1", 2, subscribed_topic_names=["d"]).error_code == NONE


@in_loop
async def test_settings_of_a_group_are_held_within_the_brokers_bounds() -> None:
    bounds = {
        "group.consumer.min.heartbeat.interval.ms": 2000,
        "group.consumer.max.heartbeat.interval.ms": 9000,
        "group.consumer.heartbeat.interval.ms": 3000,
    }
    driver = Beating(Broker(broker=bounds))
    assert driver.beat("m1").heartbeat_interval_ms == 3000
    for text, becomes in (("4000", 4000), ("1", 2000), ("60000", 9000), ("what", 3000)):
        driver.broker.configs[32, "g"] = {"consumer.heartbeat.interval.ms": text}
        assert driver.beat("m1", 2).heartbeat_interval_ms == becomes
    driver.broker.configs[32, "g"] = {"consumer.session.timeout.ms": "50000"}
    driver.beat("m1", 2)
    driver.later(49)
    assert driver.beat("m1", 2).error_code == NONE


@in_loop
async def test_topics_come_grow_and_go() -> None:
    driver = Beating()
    assert parts(driver.beat("m", subscribed_topic_names=["new"])) == {}
    new = driver.topic("new", 9, 1)
    driver.later()
    assert parts(driver.beat("m", 2)) == {new: [0]}
    driver.topic("other", 8, 1)
    assert driver.beat("m", 3).member_epoch == 3, "it does not read that one"
    driver.topic("new", 9, 2)
    driver.later()
    assert parts(driver.beat("m", 3)) == {new: [0, 1]}
    driver.topic("new", 9, 0)
    driver.later()
    driver.beat("m", 4)
    assert parts(driver.owning("m", 4, {})) in ({}, None)
    assert group_of(driver).members["m"].assigned == {}


@in_loop
async def test_expressions_are_looked_up_a_moment_later() -> None:
    driver = Beating()
    joined = driver.beat("m", subscribed_topic_names=None, subscribed_topic_regex="[tx].*")
    assert (joined.member_epoch, parts(joined)) == (1, {})
    driver.later()
    assert parts(driver.beat("m", 1)) == {T: [0, 1, 2]}
    assert group_of(driver).regexes["[tx].*"].topics == {"t"}
    x = driver.topic("x1", 9, 1)
    driver.later(5)
    assert parts(driver.beat("m", 2)) is None, "not twice in ten seconds"
    driver.later(8)
    driver.beat("m", 2)
    driver.later(0)
    assert parts(driver.beat("m", 2)) == {T: [0, 1, 2], x: [0]}
    epoch = group_of(driver).members["m"].epoch
    broken = driver.beat("m", epoch, subscribed_topic_regex="(")
    assert broken.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    driver.beat("m", epoch, subscribed_topic_regex="")
    assert group_of(driver).regexes == {}
    assert not group_of(driver).is_subscribed("t")


@in_loop
async def test_a_lookup_that_finds_no_other_topics_makes_no_epoch() -> None:
    driver = Beating()
    for member, expression in (("m1", "t"), ("m2", "nothing.*")):
        driver.beat(member, subscribed_topic_names=None, subscribed_topic_regex=expression)
        driver.later(11)
    group = group_of(driver)
    epoch = group.epoch
    driver.topic("x1", 9, 1)
    driver.beat("m1", group.members["m1"].epoch)
    driver.later()
    assert {expression: set(found.topics) for expression, found in group.regexes.items()} == {"t": {"t"}, "nothing.*": set()}
    assert group.epoch == epoch


@in_loop
async def test_expressions_go_with_the_last_who_has_them() -> None:
    driver = Beating()
    for member in ("m1", "m2"):
        driver.beat(member, subscribed_topic_names=None, subscribed_topic_regex="t")
    driver.later()
    driver.beat("m1", -1)
    assert "t" in group_of(driver).regexes
    driver.beat("m2", -1)
    assert group_of(driver).regexes == {}
    assert state_of(driver.restarted()) == state_of(driver)


@in_loop
async def test_the_assignor_is_voted_for() -> None:
    driver = Beating()
    driver.beat("m1")
    assert driver.described().assignor_name == "uniform"
    driver.beat("m2", server_assignor="range")
    assert driver.described().assignor_name == "range"
    epoch = group_of(driver).epoch
    driver.beat("m1", 2, server_assignor="uniform")
    driver.beat("m3", server_assignor="uniform")
    assert driver.described().assignor_name == "uniform"
    assert group_of(driver).epoch > epoch
    refused = driver.beat("m4", server_assignor="best")
    assert (refused.error_code, "uniform" in refused.error_message) == (ErrorCode.UNSUPPORTED_ASSIGNOR, True)


@in_loop
async def test_a_new_member_has_one_vote() -> None:
    for most, other in (("uniform", "range"), ("range", "uniform")):
        driver = Beating()
        driver.beat("m1", server_assignor=most)
        driver.beat("m2", server_assignor=most)
        group = group_of(driver)
        assert group.preferred_assignor(None, ConsumerMember("m3", assignor=other)) == most


@in_loop
async def test_an_assignor_that_the_broker_has_no_more_is_replaced_by_the_default() -> None:
    driver = Beating()
    driver.beat("m1", server_assignor="range")
    driver.later()
    uniform_only = Broker(driver.broker.log, driver.clock, broker={"group.consumer.assignors": ["uniform"]})
    uniform_only.groups.refresh()
    joined = Beating(uniform_only).beat("m2")
    assert (joined.error_code, joined.member_epoch) == (NONE, 3)


@in_loop
async def test_what_cannot_be_written_did_not_happen() -> None:
    driver = Beating()
    driver.beat("m1")
    before, waiting = state_of(driver), driver.clock.waiting
    driver.broker.log.fail = StorageError("disk")
    assert driver.beat("m2").error_code == ErrorCode.NOT_COORDINATOR
    assert driver.beat("m1", -1).error_code == ErrorCode.NOT_COORDINATOR
    driver.broker.log.fail = None
    assert (state_of(driver), driver.clock.waiting) == (before, waiting)
    assert driver.beat("m2").error_code == NONE


@in_loop
async def test_behind_the_last_epoch_there_is_none() -> None:
    driver = Beating()
    driver.beat("m1")
    partition = driver.broker.groups.partition_for("g")
    driver.broker.log.append(partition, encode_batch([epoch("g", 2**31 - 1, 0)], 0))
    again = driver.restarted()
    assert again.beat("m2").error_code == ErrorCode.INVALID_REQUEST
    assert again.beat("m1", 2, group="other").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert again.described().group_epoch == 2**31 - 1


@in_loop
async def test_offsets_and_their_epochs() -> None:
    driver = Beating()
    driver.beat("m1")
    assert driver.commit({0: 5}, member="m1", generation=2) == [NONE]
    assert driver.commit({0: 5}, member="m1", generation=3) == [ErrorCode.STALE_MEMBER_EPOCH]
    assert driver.commit({0: 5}, member="m1", generation=1) == [ErrorCode.STALE_MEMBER_EPOCH]
    assert driver.commit({0: 5}, member="m1", generation=2, version=8) == [ErrorCode.UNSUPPORTED_VERSION]
    assert driver.commit({0: 5}) == [ErrorCode.UNKNOWN_MEMBER_ID]
    driver.beat("m2")
    driver.later()
    kept = parts(driver.beat("m1", 2))
    assert kept
    assert driver.owning("m1", 2, kept).member_epoch == 3
    (mine,) = (set(kept[T]),)
    for index in range(3):
        wanted = NONE if index in mine else ErrorCode.STALE_MEMBER_EPOCH
        assert driver.commit({index: 6}, member="m1", generation=2) == [wanted], "with the epoch of before, for what it had then"
    driver.beat("m1", -1)
    driver.beat("m2", -1)
    assert driver.commit({0: 7}) == [NONE]
    assert driver.fetch()["t"][0] == 7


@in_loop
async def test_what_an_older_kafka_kept_goes_with_the_next_change() -> None:
    from ottla.server.group.records import ProtocolRecord
    from ottla.server.group.result import Result
    from ottla.wire.messages.internal.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
    from ottla.wire.messages.internal.consumer_group_partition_metadata_value import ConsumerGroupPartitionMetadataValue

    driver = Beating()
    driver.beat("m1")
    shard = driver.broker.groups.shard("g")
    old = ProtocolRecord(ConsumerGroupPartitionMetadataKey("g"), ConsumerGroupPartitionMetadataValue())
    shard.run(Result([old], None))
    assert group_of(driver).has_partition_metadata
    assert state_of(driver.restarted())["has_partition_metadata"]
    driver.beat("m2")
    assert not group_of(driver).has_partition_metadata


@pytest.mark.parametrize("version", [0, 1])
@in_loop
async def test_without_the_feature_there_are_no_such_groups(version: int) -> None:
    driver = Beating()
    driver.broker.metadata.features["group.version"] = 0
    assert driver.beat("m", version=version).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert driver.described().error_code == ErrorCode.UNSUPPORTED_VERSION
    assert driver.broker.groups.find("g") is None


@in_loop
async def test_a_member_without_an_id_is_given_one() -> None:
    driver = Beating()
    answer = driver.beat("", version=0)
    assert len(answer.member_id) == 22
    assert driver.beat(answer.member_id, 2, version=0).error_code == NONE
    assert driver.beat("", version=1).error_code == ErrorCode.INVALID_REQUEST


@in_loop
async def test_the_partition_goes_to_another_broker() -> None:
    driver = Beating()
    driver.beat("m1")
    for partition in range(4):
        driver.broker.groups.unload(partition)
    assert driver.clock.waiting == 0
    assert driver.beat("m1", 2).error_code == NONE, "it is loaded again"

"""These tests convert classic groups to consumer groups and back, with members of both protocols.

compat_tests/wire_diff/test_consumer_group_records.py has the same beside Apache Kafka, record by record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ottla.server.group.classic.group import ClassicGroup, State
from ottla.server.group.consumer import migration
from ottla.server.group.consumer.embedded import read_assignment, write_assignment
from ottla.server.group.consumer.group import ConsumerGroup
from ottla.server.group.modern import names
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.internal import consumer_protocol_subscription
from ottla.wire.messages.internal.consumer_protocol_subscription import ConsumerProtocolSubscription, TopicPartition
from tests.in_loop import in_loop
from tests.server.coordination.memory import TOPICS
from tests.server.group.consumer.beats import Beating, parts
from tests.server.group.fakes import Broker

NONE = ErrorCode.NONE
T = TOPICS["t"][0]


def subscription(owned: Sequence[int] = ()) -> dict[str, bytes]:
    out: list[Any] = [b"\x00\x01"]
    told = ConsumerProtocolSubscription(["t"], None, [TopicPartition("t", list(owned))] if owned else [])
    consumer_protocol_subscription.ENCODE[1](told, out)
    return {"range": b"".join(bytes(part) for part in out)}


def founded(driver: Beating) -> str:
    """Makes a stable classic group of one member, which has all of t."""
    member, parked = driver.enter(protocols=subscription())
    driver.later(0)
    generation = (parked.result() if hasattr(parked, "result") else parked).generation_id
    everything = write_assignment({T: [0, 1, 2]}, 1, driver.broker.metadata)
    assert driver.sync(member, generation, {member: everything}).error_code == NONE
    return member


def taken(driver: Beating, member: str, generation: int) -> list[int]:
    answer = driver.sync(member, generation)
    assert answer.error_code == NONE
    return [index for part in read_assignment(bytes(answer.assignment)).assigned_partitions for index in part.partitions]


@in_loop
async def test_a_classic_group_comes_along_and_stays_behind() -> None:
    driver = Beating()
    old = founded(driver)
    joined = driver.beat("new")
    group = driver.broker.groups.find("g")
    assert isinstance(group, ConsumerGroup)
    assert (joined.error_code, parts(joined)) == (NONE, {}), "everything is the other's still"
    assert group.members[old].is_classic
    assert driver.heartbeat(old, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    driver.later()
    epoch = driver.beat("new", joined.member_epoch).member_epoch
    again = driver.join(member=old, protocols=subscription([0, 1, 2]))
    kept = taken(driver, old, again.generation_id)
    assert 0 < len(kept) < 3
    assert driver.heartbeat(old, again.generation_id) == ErrorCode.REBALANCE_IN_PROGRESS, "to say that it has let go"
    again = driver.join(member=old, protocols=subscription(kept))
    assert taken(driver, old, again.generation_id) == kept
    assert driver.heartbeat(old, again.generation_id) == NONE
    rest = parts(driver.beat("new", epoch))
    assert sorted([*kept, *(rest or {}).get(T, [])]) == [0, 1, 2]
    assert driver.restarted().described().group_state == "Stable"
    driver.beat("new", -1)
    classic = driver.broker.groups.find("g")
    assert isinstance(classic, ClassicGroup)
    assert (list(classic.members), classic.state) == ([old], State.PREPARING_REBALANCE)
    assert driver.heartbeat(old, classic.generation) == ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    fresh = driver.restarted().broker.groups.find("g")
    assert isinstance(fresh, ClassicGroup)
    assert list(fresh.members) == [old]


@in_loop
async def test_empty_groups_change_their_kind() -> None:
    driver = Beating()
    old = founded(driver)
    driver.leave(old)
    assert driver.beat("new").error_code == NONE
    driver.beat("new", -1)
    assert founded(driver)
    assert isinstance(driver.broker.groups.find("g"), ClassicGroup)
    assert driver.commit({0: 4}, group="lone") == [NONE]
    assert driver.beat("new", group="lone").error_code == NONE
    assert driver.fetch("lone")["t"][0] == 4, "its offsets are still there"


@pytest.mark.parametrize("policy", ["disabled", "DOWNGRADE", "upgrade", "bidirectional"])
@in_loop
async def test_the_policy(policy: str) -> None:
    driver = Beating(Broker(broker={"group.consumer.migration.policy": policy}))
    old = founded(driver)
    up = driver.beat("new").error_code == NONE
    assert up == (policy in ("upgrade", "bidirectional"))
    assert isinstance(driver.broker.groups.find("g"), ConsumerGroup if up else ClassicGroup)
    if up:
        driver.beat("new", -1)
        group = driver.broker.groups.find("g")
        assert isinstance(group, ClassicGroup if policy == "bidirectional" else ConsumerGroup)
        assert group.member_count == 1
    else:
        driver.leave(old)
        assert driver.beat("new").error_code == NONE, "an empty group is nobody's"
        refused = driver.join(protocols=subscription()).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert refused == (policy == "disabled")


@in_loop
async def test_a_group_whose_members_name_too_many_topics_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migration, "MOST_NAMES", 0)
    driver = Beating()
    founded(driver)
    refused = driver.beat("new")
    assert (refused.error_code, "more than 0 topics" in refused.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, True)
    assert isinstance(driver.broker.groups.find("g"), ClassicGroup)


@in_loop
async def test_a_classic_member_may_not_name_more_topics_than_the_group_may_either(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Beating()
    driver.beat("new", subscribed_topic_names=["u"])
    monkeypatch.setattr(names, "MOST_NAMES", 1)
    assert driver.join(version=3, protocols=subscription()).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    monkeypatch.setattr(names, "MOST_NAMES", 2)
    assert driver.join(version=3, protocols=subscription()).error_code == NONE


@in_loop
async def test_a_classic_member_has_to_join_and_to_sync_in_time() -> None:
    driver = Beating()
    driver.beat("new")
    late = driver.join(protocols=subscription(), rebalance_ms=5_000)
    assert late.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert driver.join(member=late.member_id, protocols=subscription(), rebalance_ms=5_000).error_code == NONE
    driver.later(6)
    group = driver.broker.groups.find("g")
    assert isinstance(group, ConsumerGroup)
    assert list(group.members) == ["new"], "it did not sync"
    answer = driver.join(member=late.member_id, protocols=subscription(), rebalance_ms=5_000)
    driver.later()
    driver.owning("new", 2, {})
    assert driver.heartbeat(late.member_id, answer.generation_id) == ErrorCode.REBALANCE_IN_PROGRESS
    assert late.member_id in group.members
    driver.later(6)
    assert list(group.members) == ["new"], "it did not join again"


@in_loop
async def test_protocols_have_to_be_everybodys() -> None:
    driver = Beating()
    driver.beat("new")
    joined = driver.join(version=3, protocols=subscription())
    assert joined.error_code == NONE
    member, generation = joined.member_id, joined.generation_id
    wrong: list[dict[str, Any]] = [
        {"protocol": "sticky"},
        {"protocol_type": "connect"},
        {"protocol": "sticky", "protocol_type": None},
    ]
    refusals = [driver.sync(member, generation, **each).error_code for each in wrong]
    assert refusals == [ErrorCode.INCONSISTENT_GROUP_PROTOCOL] * 3
    other = {"sticky": subscription()["range"]}
    assert driver.join(version=3, protocols=other).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert driver.join(version=3, protocol_type="connect").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@in_loop
async def test_who_waits_in_a_rebalance_is_answered_when_the_group_is_upgraded() -> None:
    driver = Beating()
    old = founded(driver)
    _, parked = driver.enter(protocols=subscription())
    assert not parked.done()
    assert driver.beat("new").error_code == NONE
    assert parked.result().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.heartbeat(old, 1) == ErrorCode.REBALANCE_IN_PROGRESS

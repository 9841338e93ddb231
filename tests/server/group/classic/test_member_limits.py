"""These tests cover how much the members of a classic group may bring, and what is answered beyond that."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from ottla.server.group.classic import group as classic_group
from ottla.server.group.classic.member_limits import MOST_BATCHES, MOST_PROTOCOLS, SURELY_FITS, are_too_many
from ottla.wire.compression import ZSTD
from ottla.wire.errors import ErrorCode
from tests.in_loop import in_loop
from tests.server.group.fakes import Broker, Driver, answer_of, waits

BATCH = 100_000
MOST = MOST_BATCHES * BATCH
SMALL: dict[str, Any] = {"broker": {"message.max.bytes": BATCH}}
ID = len("c-") + 36


def most(broker: Broker) -> int:
    """Returns the largest size that is not too much."""
    low, high = 0, 1 << 40
    while low < high:
        middle = (low + high + 1) // 2
        if are_too_many(middle, broker.groups.settings, broker.metadata):
            high = middle - 1
        else:
            low = middle
    return low


def test_the_limit_is_some_batches_but_never_more_than_an_answer() -> None:
    assert most(Broker()) == MOST_BATCHES * 1_048_588
    assert most(Broker(**SMALL)) == MOST
    assert most(Broker(broker={"message.max.bytes": 1})) == SURELY_FITS
    assert most(Broker(broker={"message.max.bytes": BATCH, "ottla.response.max.bytes": 90_000})) == 90_000
    broker = Broker(**SMALL)
    broker.configs[(4, "")] = {"message.max.bytes": "200000"}
    assert most(broker) == 2 * MOST, "it was changed for all brokers"
    broker.configs[(2, "__consumer_offsets")] = {"max.message.bytes": "300000"}
    assert most(broker) == 3 * MOST, "the topic's own value takes precedence"
    broker.configs[(2, "__consumer_offsets")] = {"max.message.bytes": "many"}
    assert most(broker) == 2 * MOST, "another program may have written anything"


def test_where_records_are_compressed_only_the_answer_counts() -> None:
    """Kafka has large groups with compressed offsets, whose batches hold many times what they take."""
    codec = {"message.max.bytes": BATCH, "ottla.response.max.bytes": 90 * BATCH}
    assert most(Broker(broker=codec, offsets_codec=ZSTD)) == 90 * BATCH


@pytest.mark.parametrize("split", [1, 10])
@in_loop
async def test_a_join_with_too_much_metadata_leaves_no_trace(split: int) -> None:
    driver = Driver(Broker(**SMALL))
    protocols = {f"p{number}": b"x" * (MOST // split + 1) for number in range(split)}
    assert answer_of(driver.join(protocols=protocols)).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.broker.groups.find("g") is None


@in_loop
async def test_nobody_waits_for_a_client_that_brings_too_much_by_itself() -> None:
    driver = Driver(Broker(**SMALL))
    first, parked = driver.enter()
    driver.clock.advance(0.01)
    driver.sync(first, answer_of(parked).generation_id, {first: b"all"})
    second = driver.join().member_id
    again = driver.join(member=first, protocols={"range": b"new"})
    assert waits(again), "for the one that was given an id"
    too_much = {"range": b"x" * (MOST + 1)}
    assert driver.join(member=second, protocols=too_much).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert answer_of(again).error_code == ErrorCode.NONE
    assert driver.group().pending_joins == {}
    assert driver.join(member=second).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.join(member=first, protocols=too_much).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert list(driver.group().members) == [first], "a member stays what it was"


@in_loop
async def test_what_all_members_bring_counts_together() -> None:
    driver = Driver(Broker(**SMALL))
    half = {"range": b"x" * (MOST // 2 - ID - len("range"))}
    first, parked = driver.enter(protocols=half)
    second, parked_too = driver.enter(protocols=half)
    driver.clock.advance(0.01)
    assert {answer_of(each).error_code for each in (parked, parked_too)} == {ErrorCode.NONE}
    assert driver.group().held_bytes == MOST
    assert answer_of(driver.join(version=3)).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert answer_of(driver.join(member=first, protocols={"range": half["range"] * 2})).error_code == 81
    assert driver.state() == "CompletingRebalance"
    assert waits(driver.join(member=first, protocols={"range": b"new"})), "it brings this in place of the former"
    driver.leave(second)
    assert driver.group().held_bytes == ID + len("rangenew")


@in_loop
async def test_a_static_member_that_starts_anew_brings_what_its_former_self_brought() -> None:
    driver = Driver(Broker(**SMALL))
    three_quarters = {"range": b"x" * (MOST * 3 // 4)}
    parked = driver.join(instance="i", protocols=three_quarters)
    driver.clock.advance(0.01)
    first = answer_of(parked)
    before = driver.group().held_bytes
    assert answer_of(driver.join(instance="j", protocols=three_quarters)).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    again = driver.join(instance="i", protocols=three_quarters)
    assert waits(again) or answer_of(again).error_code == ErrorCode.NONE
    assert first.member_id not in driver.group().members
    assert driver.group().held_bytes == before


@in_loop
async def test_assignments_that_no_batch_could_hold_are_refused_before_they_are_encoded() -> None:
    driver = Driver(Broker(**SMALL))
    member, parked = driver.enter()
    driver.clock.advance(0.01)
    generation = answer_of(parked).generation_id
    appended = driver.broker.log.records()
    answer = answer_of(driver.sync(member, generation, {member: b"x" * (MOST + 1)}))
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert driver.state() == "PreparingRebalance"
    assert driver.broker.log.records() == appended


@in_loop
async def test_a_member_has_at_most_a_hundred_protocols() -> None:
    driver = Driver()
    for count, code in ((MOST_PROTOCOLS, ErrorCode.MEMBER_ID_REQUIRED), (MOST_PROTOCOLS + 1, ErrorCode.INVALID_REQUEST)):
        assert driver.join(protocols={f"p{number}": b"" for number in range(count)}).error_code == code


def subscription(*topics: str) -> bytes:
    names = b"".join(struct.pack(">h", len(name)) + name.encode() for name in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


@in_loop
async def test_a_group_with_too_many_topics_counts_as_reading_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classic_group, "MOST_NAMES", 3)
    for topics, known in ((("a", "b", "c"), True), (("a", "b", "c", "d"), False)):
        driver = Driver()
        entered = [driver.enter(protocols={"range": subscription(*part)}) for part in (topics[:2], topics[2:])]
        driver.clock.advance(0.01)
        assert all(answer_of(parked).error_code == 0 for _, parked in entered)
        assert driver.group().is_subscribed("z") is not known
        assert driver.group().is_subscribed("a")


@in_loop
async def test_the_same_subscription_of_many_members_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty tasks of a connector with a thousand topics are an ordinary group."""
    monkeypatch.setattr(classic_group, "MOST_NAMES", 3)
    driver = Driver()
    for _ in range(3):
        driver.enter(protocols={"range": subscription("a", "b")})
    driver.clock.advance(0.01)
    assert driver.group().is_subscribed("b")
    assert not driver.group().is_subscribed("z")


@in_loop
async def test_nobody_waits_for_a_member_that_was_refused() -> None:
    driver = Driver(Broker(**SMALL))
    half = {"range": b"x" * (MOST // 2)}
    _, parked = driver.enter(protocols=half)
    driver.clock.advance(0.01)
    assert answer_of(parked).error_code == 0
    handed_out = answer_of(driver.join()).member_id
    assert handed_out in driver.group().pending_joins
    refused = answer_of(driver.join(member=handed_out, protocols=half))
    assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert handed_out not in driver.group().pending_joins


@in_loop
async def test_a_static_member_under_a_longer_id_counts_with_that() -> None:
    driver = Driver()
    driver.join(instance="i")
    group = driver.group()
    (member_id,) = group.members
    before = group.held_bytes
    group.rename_static(member_id, f"{member_id}-longer")
    assert group.held_bytes == before + len("-longer")
    group.remove(f"{member_id}-longer")
    assert group.held_bytes == 0

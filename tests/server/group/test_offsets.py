"""These tests cover committed offsets, row by row as Apache Kafka 4.4.0 answers (docs/kafka-behaviour.md), and their
expiration.
"""

from __future__ import annotations

import itertools
import struct
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.server.group import shard as group_shard
from ottla.server.group.coordinator_config import GroupCoordinatorConfig
from ottla.server.group.offsets import Offsets
from ottla.server.group.pending_ids import PendingIds
from ottla.server.group.records import OffsetRecord, offset_tombstone
from ottla.server.group.requests import Commit, Committer
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.internal.offset_commit_key import OffsetCommitKey
from ottla.wire.messages.internal.offset_commit_value import OffsetCommitValue
from ottla.wire.primitives import ZERO_UUID
from tests.in_loop import in_loop
from tests.server.coordination.memory import TOPICS, CoordinatorLog, slow
from tests.server.group.fakes import Broker, Driver
from tests.uncompiled import uncompiled

NONE = ErrorCode.NONE
RETENTION_S = 7 * 24 * 3600
SUBSCRIBED_TO_T = struct.pack(">hih1si", 0, 1, 1, b"t", -1)


@in_loop
async def test_oc1_to_oc3_commits_of_a_member() -> None:
    driver = Driver()
    (member,), _ = driver.stable()
    assert driver.commit({0: 5}, member=member, generation=1) == [NONE]
    assert driver.commit({0: 6}, member=member, generation=2) == [ErrorCode.ILLEGAL_GENERATION]
    assert driver.commit({0: 6}, member="zzz", generation=1) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert driver.commit({0: 6}) == [ErrorCode.UNKNOWN_MEMBER_ID], "the group has members, they own its offsets"
    assert driver.fetch() == {"t": {0: 5}}


@in_loop
async def test_oc5_a_simple_commit_founds_a_group() -> None:
    driver = Driver()
    assert driver.commit({0: 5}) == [NONE]
    assert driver.state() == "Empty"
    assert driver.group().protocol_type is None


@in_loop
async def test_the_empty_group_id_is_good_for_offsets() -> None:
    driver = Driver()
    assert driver.commit({0: 5}, group="") == [NONE]
    assert driver.fetch(group="") == {"t": {0: 5}}


@pytest.mark.parametrize(("version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
@in_loop
async def test_oc6_a_generation_of_an_unknown_group(version: int, code: ErrorCode) -> None:
    driver = Driver()
    assert driver.commit({0: 5}, generation=3, version=version) == [code]
    assert driver.state() is None


@in_loop
async def test_oc9_metadata_has_a_limit() -> None:
    driver = Driver()
    assert driver.commit({0: 5}, metadata="m" * 4096) == [NONE]
    assert driver.commit({0: 6}, metadata="m" * 4097) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert driver.fetch() == {"t": {0: 5}}


@in_loop
async def test_oc14_offsets_are_not_checked_against_the_log() -> None:
    driver = Driver()
    assert driver.commit({0: -1, 1: 2**62}) == [NONE, NONE]


@in_loop
async def test_oc15_an_instance_that_is_no_member() -> None:
    driver = Driver()
    (member,), _ = driver.stable()
    assert driver.commit({0: 5}, member=member, generation=1, instance="i") == [ErrorCode.UNKNOWN_MEMBER_ID]


def metadata_of(driver: Driver) -> str:
    """The metadata that the group has committed for the first partition."""
    committed = driver.broker.groups.shard("g").offsets.get("g", "t", ZERO_UUID, 0)
    assert committed is not None
    return committed.metadata


@in_loop
async def test_null_metadata_is_stored_as_empty() -> None:
    driver = Driver()
    driver.commit({0: 5}, metadata=None)
    assert metadata_of(driver) == ""


@in_loop
async def test_a_commit_that_cannot_be_written_changes_nothing() -> None:
    driver = Driver()
    driver.commit({0: 5})
    driver.broker.log.fail = OSError("no space")
    assert driver.commit({0: 6}) == [ErrorCode.NOT_COORDINATOR]
    assert driver.fetch() == {"t": {0: 5}}


@in_loop
async def test_r7_offsets_survive_a_restart() -> None:
    driver = Driver()
    driver.commit({0: 3, 2: 4}, metadata="meta")
    again = Driver(driver.broker.restarted())
    assert again.fetch() == {"t": {0: 3, 2: 4}}
    assert metadata_of(again) == "meta"


@in_loop
async def test_of10_offsets_go_with_their_topic() -> None:
    driver = Driver()
    driver.commit({0: 3})
    driver.commit({0: 1}, topic="u")
    driver.broker.groups.topic_deleted("t")
    driver.clock.advance(0)
    assert driver.fetch() == {"u": {0: 1}}
    assert Driver(driver.broker.restarted()).fetch() == {"u": {0: 1}}


@in_loop
async def test_what_is_committed_to_a_topic_of_the_same_name_before_they_go_stays() -> None:
    driver = Driver()
    driver.commit({0: 3, 1: 4})
    driver.broker.groups.topic_deleted("t")
    driver.commit({0: 5})
    driver.clock.advance(0)
    assert driver.fetch() == {"t": {0: 5}}


@in_loop
async def test_the_offsets_of_many_topics_that_are_deleted_together_go_in_turns() -> None:
    driver = Driver(Broker(CoordinatorLog(partitions=1)))
    topics = [f"t{number}" for number in range(20)]
    for topic in topics:
        driver.broker.metadata.topics[topic] = SimpleNamespace(**vars(driver.broker.metadata.topics["t"]) | {"name": topic})
        driver.commit({0: 3}, topic=topic)
    for topic in topics:
        driver.broker.groups.topic_deleted(topic)
    written = [len(driver.broker.log.records())]
    with slow(driver.clock):
        for _ in range(50):
            driver.clock.next_round()
            written.append(len(driver.broker.log.records()))
    assert written[-1] - written[0] == 20
    assert max(after - before for before, after in itertools.pairwise(written)) == 1
    assert driver.fetch() == {}


class CountedOffsets:
    """Offsets that count how many groups are looked at for a deleted topic."""

    def __init__(self, offsets: Offsets) -> None:
        self.offsets = offsets
        self.looked_at = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.offsets, name)

    def delete_of_topic(self, group_id: str, topic: str, upto: int) -> list[OffsetRecord]:
        self.looked_at += 1
        return self.offsets.delete_of_topic(group_id, topic, upto)


@in_loop
async def test_deleting_many_topics_looks_at_the_groups_of_each_and_not_at_all_of_them() -> None:
    broker = Broker()
    shard = uncompiled(group_shard).GroupShard(  # a compiled one takes no other offsets than its own
        0,
        0,
        partial(broker.log.append, 0),
        broker.clock,
        GroupCoordinatorConfig(),
        broker.metadata,
        broker.random,
        PendingIds(),
    )
    shard.offsets = counted = CountedOffsets(shard.offsets)
    for group, topic in [*((number, number) for number in range(30)), (1, 0)]:
        commits = [Commit(f"t{topic}", ZERO_UUID, 0, 7, -1, "")]
        shard.commit(f"g{group}", Committer("", None, -1, 9), commits)
    assert len(counted.offsets.group_ids()) == 30
    for number in range(30):
        shard.delete_topic(f"t{number}")
    assert counted.looked_at == 31
    assert counted.offsets.group_ids() == []


@in_loop
async def test_offsets_of_a_former_topic_of_the_same_name_do_not_count() -> None:
    driver = Driver()
    driver.commit({0: 3})
    offsets = driver.broker.groups.shard("g").offsets
    assert offsets.get("g", "t", TOPICS["t"][0], 0) is not None
    assert offsets.get("g", "t", bytes(15) + b"\x09", 0) is None
    assert offsets.get("g", "t", ZERO_UUID, 0) is not None


# Expiry


@in_loop
async def test_a_simple_groups_offsets_expire_by_their_own_age_and_the_group_with_the_last() -> None:
    driver = Driver()
    driver.commit({0: 1})
    driver.clock.advance(RETENTION_S / 2)
    driver.commit({1: 2})
    driver.clock.advance(RETENTION_S / 2)
    driver.broker.groups.expire()
    assert driver.fetch() == {"t": {1: 2}}
    driver.clock.advance(RETENTION_S / 2)
    driver.broker.groups.expire()
    assert driver.state() is None
    assert Driver(driver.broker.restarted()).state() is None


@in_loop
async def test_an_abandoned_groups_offsets_expire_by_the_time_it_became_empty() -> None:
    driver = Driver()
    (member,), _ = driver.stable(session_ms=1_800_000)
    driver.commit({0: 1}, member=member, generation=1)
    for _ in range(400):
        driver.clock.advance(1_799)
        driver.heartbeat(member, 1)
    driver.broker.groups.expire()
    assert driver.fetch() == {"t": {0: 1}}, "members that live keep old offsets"
    driver.leave(member)
    driver.clock.advance(RETENTION_S - 1)
    driver.broker.groups.expire()
    assert driver.fetch() == {"t": {0: 1}}
    driver.clock.advance(1)
    driver.broker.groups.expire()
    assert driver.state() is None


@in_loop
async def test_a_stable_group_loses_old_offsets_of_topics_it_no_longer_reads() -> None:
    driver = Driver()
    (member,), _ = driver.stable(session_ms=1_800_000, protocols={"range": SUBSCRIBED_TO_T})
    driver.commit({0: 1}, member=member, generation=1)
    driver.commit({0: 1}, topic="u", member=member, generation=1)
    for _ in range(400):
        driver.clock.advance(1_799)
        driver.heartbeat(member, 1)
    driver.broker.groups.expire()
    assert driver.fetch() == {"t": {0: 1}}
    assert driver.state() == "Stable"


@in_loop
async def test_a_retention_time_of_the_client_holds_instead() -> None:
    driver = Driver()
    driver.commit({0: 1}, retention_ms=1_000, version=2)
    driver.commit({1: 2})
    driver.clock.advance(1)
    driver.broker.groups.expire()
    assert driver.fetch() == {"t": {1: 2}}


@in_loop
async def test_a_retention_time_beyond_all_time_is_for_ever() -> None:
    driver = Driver()
    assert driver.commit({0: 1}, retention_ms=2**63 - 1, version=2) == [NONE]
    driver.clock.advance(RETENTION_S + 1)
    driver.broker.groups.expire()
    assert driver.fetch() == {"t": {0: 1}}


@in_loop
async def test_what_expires_at_once_may_be_more_than_a_batch_may_hold() -> None:
    driver = Driver()
    for number in range(40):
        driver.commit({0: 1}, group=f"{number}-{'x' * 30_000}")
    driver.clock.advance(RETENTION_S + 1)
    driver.broker.groups.expire()
    batches = [batch for batches in driver.broker.log.batches for batch in batches]
    assert max(map(len, batches)) < 300_000
    assert list(driver.broker.groups.all_groups()) == []


@in_loop
async def test_a_group_that_is_about_to_be_joined_is_not_abandoned() -> None:
    driver = Driver()
    pending = driver.join().member_id
    driver.broker.groups.expire()
    driver.join(member=pending)
    driver.clock.advance(0)
    assert driver.state() == "CompletingRebalance"


@in_loop
async def test_expiry_that_cannot_be_written_is_tried_again() -> None:
    driver = Driver()
    driver.commit({0: 1})
    driver.clock.advance(RETENTION_S)
    driver.broker.log.fail = OSError("no space")
    driver.broker.groups.expire()
    assert driver.fetch() == {"t": {0: 1}}
    driver.broker.log.fail = None
    driver.broker.groups.expire()
    assert driver.fetch() == {}


# Transactions


def commit_record(offset: int, partition: int = 0) -> OffsetRecord:
    return OffsetRecord(OffsetCommitKey("g", "t", partition), OffsetCommitValue(offset, -1, "", 0))


def stored(offsets: Offsets, partition: int = 0) -> int | None:
    value = offsets.get("g", "t", ZERO_UUID, partition)
    return None if value is None else value.offset


def test_a_transactions_commits_count_when_it_commits() -> None:
    offsets = Offsets()
    offsets.replay(commit_record(1), 0)
    offsets.replay(commit_record(5), 1, producer_id=9)
    assert stored(offsets) == 1
    assert offsets.is_unstable("g", "t", 0)
    assert not offsets.is_unstable("g", "t", 1)
    offsets.end_transaction(9, committed=True)
    assert stored(offsets) == 5
    assert not offsets.is_unstable("g", "t", 0)


def test_deleting_takes_what_a_transaction_may_still_commit() -> None:
    offsets = Offsets()
    offsets.replay(commit_record(1), 0)
    offsets.replay(commit_record(5, partition=1), 1, producer_id=9)
    tombstones = offsets.delete("g", "t", [2, 1, 0, 1])
    assert tombstones == [offset_tombstone("g", "t", 1), offset_tombstone("g", "t", 0)]
    for tombstone in tombstones:
        offsets.replay(tombstone, 2)
    offsets.end_transaction(9, committed=True)
    assert (stored(offsets), stored(offsets, 1)) == (None, None)
    assert offsets.delete("g", "t", [0, 1]) == offsets.delete("nog", "t", [0]) == []


def test_a_group_is_deleted_though_a_transaction_still_holds_what_was_deleted_before() -> None:
    offsets = Offsets()
    offsets.replay(commit_record(5), 0, producer_id=9)
    offsets.replay(commit_record(6, partition=1), 1)
    offsets.replay(offset_tombstone("g", "t", 0), 2)
    assert offsets.delete_group("g") == [offset_tombstone("g", "t", 1)]


def test_the_offsets_of_a_group_are_counted_with_those_that_are_pending() -> None:
    offsets = Offsets()
    assert offsets.count("g") == 0
    for partition in range(3):
        offsets.replay(commit_record(5, partition), partition, producer_id=9)
    assert offsets.count("g") == 3 == len(offsets.delete_group("g"))
    offsets.replay(commit_record(6), 3)
    assert offsets.count("g") == 4, "one of them is there twice"
    assert offsets.count("other") == 0


def test_an_aborted_transactions_commits_never_count() -> None:
    offsets = Offsets()
    offsets.replay(commit_record(5), 1, producer_id=9)
    offsets.end_transaction(9, committed=False)
    assert stored(offsets) is None
    assert not offsets.is_unstable("g", "t", 0)


def test_the_later_of_a_plain_and_a_transactional_commit_wins() -> None:
    offsets = Offsets()
    offsets.replay(commit_record(5), 1, producer_id=9)
    offsets.replay(commit_record(7), 2)
    offsets.end_transaction(9, committed=True)
    assert stored(offsets) == 7


def test_a_tombstone_reaches_pending_commits() -> None:
    offsets = Offsets()
    offsets.replay(commit_record(5), 1, producer_id=9)
    assert offsets.delete_of_topic("g", "t", 1_000) == offsets.delete_group("g") == [offset_tombstone("g", "t", 0)]
    offsets.replay(offset_tombstone("g", "t", 0), 2)
    offsets.end_transaction(9, committed=True)
    assert stored(offsets) is None

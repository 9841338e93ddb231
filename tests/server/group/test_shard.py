"""These tests cover one shard: what `run` does with a Result, what remains after a failed append, and records that are written in
pieces.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.log.errors import CorruptLog, StorageError
from ottla.server.base.errors import NotEnoughReplicas
from ottla.server.base.randomness import from_seed
from ottla.server.coordination.internal_topic import Appended
from ottla.server.group.classic.group import ClassicGroup, new_group_record
from ottla.server.group.classic.protocol import ClassicProtocol
from ottla.server.group.coordinator_config import GroupCoordinatorConfig
from ottla.server.group.errors import GroupError
from ottla.server.group.kind import Kind
from ottla.server.group.pending_ids import PendingIds
from ottla.server.group.records import InTransaction, OffsetRecord, encode_batch
from ottla.server.group.requests import Commit, Committer
from ottla.server.group.result import NOTHING, Result
from ottla.server.group.shard import GROUPS_A_STEP, PIECE_BYTES, PROTOCOLS, RETRY_SECONDS, TOMBSTONE_BYTES, GroupShard
from ottla.wire.batch import read_header
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.internal.offset_commit_key import OffsetCommitKey
from ottla.wire.messages.internal.offset_commit_value import OffsetCommitValue
from ottla.wire.primitives import ZERO_UUID
from tests.server.coordination.memory import CoordinatorClock, slow
from tests.server.group.fakes import Broker

LONE = Committer("", None, -1, 9)


class Written:
    """A partition that keeps what is appended, or fails."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.fail: Exception | None = None

    def append(self, batch: bytes) -> Appended:
        if self.fail is not None:
            raise self.fail
        base = sum(self.counts)
        self.batches.append(batch)
        return base, None

    @property
    def counts(self) -> list[int]:
        return [read_header(batch).records_count for batch in self.batches]


def made(**settings: Any) -> tuple[GroupShard, Written, CoordinatorClock]:
    written, clock = Written(), CoordinatorClock()
    values = GroupCoordinatorConfig(**settings)
    shard = GroupShard(3, 0, written.append, clock, values, Broker().metadata, from_seed(1), PendingIds())
    shard.loading = False
    return shard, written, clock


def offset(group: str, partition: int, value: int = 7) -> OffsetRecord:
    committed = OffsetCommitValue(value, -1, "", 0, -1, ZERO_UUID)
    return OffsetRecord(OffsetCommitKey(group, "t", partition), committed)


def committed(shard: GroupShard, group: str = "g", partition: int = 0) -> int | None:
    found = shard.offsets.get(group, "t", ZERO_UUID, partition)
    return None if found is None else found.offset


def test_records_are_appended_as_one_batch_and_replayed_at_their_offsets() -> None:
    shard, written, _ = made()
    assert shard.run(Result([offset("g", 0), offset("g", 1)], "answer")) == "answer"
    shard.run(Result([offset("g", 2)], None))
    assert written.counts == [2, 1]
    assert {index: each.record_offset for index, each in shard.offsets.of_group("g")["t"].items()} == {0: 0, 1: 1, 2: 2}


def test_nothing_is_appended_where_there_is_nothing_to_write() -> None:
    shard, written, _ = made()
    shard.run(NOTHING)
    assert shard.run(Result((), 5)) == 5
    assert written.batches == []


def test_an_append_that_fails_changes_nothing_and_is_refused() -> None:
    shard, written, _ = made()
    written.fail = CorruptLog("no")
    with pytest.raises(GroupError) as error:
        shard.run(Result([offset("g", 0)], None))
    assert error.value.code is not ErrorCode.NONE
    assert committed(shard) is None
    assert shard.groups == {}


def test_the_step_after_an_append_is_run_with_its_outcome() -> None:
    shard, written, _ = made()
    seen: list[ErrorCode] = []

    def then(error: ErrorCode) -> Result[None]:
        seen.append(error)
        return Result([offset("g", 1)], None)

    assert shard.run(Result([offset("g", 0)], "first", then)) == "first"
    assert seen == [ErrorCode.NONE]
    assert written.counts == [1, 1]
    written.fail = CorruptLog("no")
    assert shard.run(Result([offset("g", 2)], "kept", seen.append)) == "kept", "on_append decides"
    assert seen[1] is not ErrorCode.NONE
    assert committed(shard, partition=2) is None


def test_a_timer_only_logs_what_could_not_be_written(caplog: pytest.LogCaptureFixture) -> None:
    shard, written, _ = made()
    written.fail = CorruptLog("no")
    shard.run_timer(Result([offset("g", 0)], None))
    assert "cannot write the records of a timer" in caplog.text


def test_records_that_cannot_be_encoded_are_refused() -> None:
    shard, written, _ = made()
    with pytest.raises(GroupError) as error:
        shard.run(Result([offset("g", 2**40)], None))
    assert error.value.code is ErrorCode.INVALID_REQUEST
    assert written.batches == []


def test_an_offset_makes_a_simple_group_and_a_tombstone_does_not() -> None:
    shard, _, _ = made()
    shard.replay(OffsetRecord(OffsetCommitKey("none", "t", 0), None), 0)
    assert shard.groups == {}
    shard.replay(offset("g", 0), 0)
    assert isinstance(shard.groups["g"], ClassicGroup)
    assert shard.groups["g"].is_simple


def test_a_protocol_is_opened_once_for_a_kind() -> None:
    shard, _, _ = made()
    assert shard.protocol(ClassicProtocol) is shard.protocol_of("a group that is not there") is shard.protocol(ClassicProtocol)
    assert set(PROTOCOLS) == set(Kind)


def test_commits_of_a_transaction_count_when_it_is_committed() -> None:
    shard, written, _ = made()
    shard.commit("g", LONE, [Commit("t", ZERO_UUID, 0, 7, -1, "")], transaction=InTransaction(5, 1))
    assert read_header(written.batches[0]).is_transactional
    assert committed(shard) is None
    shard.offsets.end_transaction(5, committed=True)
    assert committed(shard) == 7


def test_an_epoch_of_a_group_that_is_not_there_is_answered_as_the_caller_says() -> None:
    shard, written, _ = made()
    member = Committer("m", None, 0, 9)
    with pytest.raises(GroupError) as error:
        shard.commit("g", member, [Commit("t", ZERO_UUID, 0, 7, -1, "")])
    assert error.value.code is ErrorCode.ILLEGAL_GENERATION
    with pytest.raises(GroupError) as error:
        shard.commit("g", member, [], missing_group=ErrorCode.GROUP_ID_NOT_FOUND)
    assert error.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    shard.commit("g", LONE, [])
    assert written.batches == [], "nothing to commit is nothing to write"


def test_offsets_are_deleted_by_topic_unless_it_is_subscribed() -> None:
    shard, written, _ = made()
    with pytest.raises(GroupError) as error:
        shard.delete_offsets("g", [("t", [0])])
    assert error.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    shard.run(Result([offset("g", 0), offset("g", 1)], None))
    assert shard.delete_offsets("g", [("u", [0])]) == [ErrorCode.NONE]
    assert written.counts == [2], "what is not there needs no tombstone"
    assert shard.delete_offsets("g", [("t", [0, 9]), ("t", [0])]) == [ErrorCode.NONE, ErrorCode.NONE]
    assert written.counts == [2, 1], "one tombstone, though it was named twice"
    assert committed(shard) is None
    assert committed(shard, partition=1) == 7


def test_expiry_takes_offsets_and_then_the_group() -> None:
    shard, written, clock = made(offsets_retention_ms=1_000)
    shard.commit("g", LONE, [Commit("t", ZERO_UUID, 0, 7, -1, "")])
    clock.advance(0.999)
    shard.expire()
    assert written.counts == [1]
    clock.advance(0.001)
    shard.expire()
    assert written.counts == [1, 2], "the offset and the group"
    assert shard.groups == {}


def test_tombstones_come_in_pieces_that_a_batch_may_hold() -> None:
    shard, written, _ = made()
    per_piece = -(-PIECE_BYTES // (TOMBSTONE_BYTES + len("g")))
    for index in range(per_piece + 1):
        shard.replay(offset("g", index), index)
    shard.delete_topic("t")
    assert written.counts == [per_piece, 1]
    assert shard.offsets.of_group("g") == {}
    shard.delete_topic("t")
    assert len(written.batches) == 2


def test_expiry_takes_turns_and_spares_what_is_committed_meanwhile() -> None:
    shard, _, clock = made(offsets_retention_ms=1_000)
    groups = [f"g{number}" for number in range(2 * GROUPS_A_STEP)]
    for name in groups:
        shard.commit(name, LONE, [Commit("t", ZERO_UUID, 0, 7, -1, "")])
    clock.advance(1)
    with slow(clock):
        shard.expire()
        assert len(shard.groups) == GROUPS_A_STEP, "the first turn is over"
        shard.commit(groups[-1], LONE, [Commit("t", ZERO_UUID, 0, 8, -1, "")])
        clock.advance(0)
        clock.advance(0)
    assert set(shard.groups) == {groups[-1]}


def test_offsets_of_a_deleted_topic_go_in_turns_and_those_of_its_successor_stay() -> None:
    shard, _, clock = made()
    groups = [f"g{number}" for number in range(2 * GROUPS_A_STEP)]
    for name in groups:
        shard.commit(name, LONE, [Commit("t", ZERO_UUID, 0, 7, -1, "")])
    with slow(clock):
        shard.delete_topic("t")
        assert len(shard.offsets.group_ids()) == GROUPS_A_STEP
        shard.commit(groups[-1], LONE, [Commit("t", ZERO_UUID, 0, 8, -1, "")])
        clock.advance(0)
        clock.advance(0)
    assert shard.offsets.group_ids() == [groups[-1]]


def test_offsets_of_a_deleted_topic_go_when_enough_replicas_are_in_sync() -> None:
    shard, written, clock = made()
    for name in ("g", "h"):
        shard.commit(name, LONE, [Commit("t", ZERO_UUID, 0, 7, -1, "")])
    written.fail = NotEnoughReplicas("too few")
    shard.delete_topic("t")
    clock.advance(5)
    assert committed(shard) == 7
    written.fail = None
    shard.commit("h", LONE, [Commit("t", ZERO_UUID, 0, 8, -1, "")])  # of a topic of the same name
    clock.advance(RETRY_SECONDS)
    assert committed(shard) is None
    assert committed(shard, "h") == 8


def test_a_shard_that_is_over_deletes_no_offsets_any_more() -> None:
    shard, written, clock = made()
    shard.commit("g", LONE, [Commit("t", ZERO_UUID, 0, 7, -1, "")])
    written.fail = NotEnoughReplicas("too few")
    shard.delete_topic("t")
    shard.unload()
    written.fail = None
    clock.advance(RETRY_SECONDS)
    assert written.counts == [1]


def test_offsets_of_a_deleted_topic_are_not_waited_for_otherwise() -> None:
    shard, written, _ = made()
    shard.commit("g", LONE, [Commit("t", ZERO_UUID, 0, 7, -1, "")])
    written.fail = StorageError("no")
    with pytest.raises(GroupError, match="NOT_COORDINATOR"):
        shard.delete_topic("t")


def test_loading_replays_batch_by_batch_and_leaves_out_what_is_malformed(caplog: pytest.LogCaptureFixture) -> None:
    shard, _, _ = made()
    shard.loading = True
    batches = [encode_batch([offset("a", 0)], 0), b"\0" * 100, encode_batch([new_group_record("b", 0)], 0)]

    def read() -> Iterator[bytes]:
        yield from batches

    steps = shard.load(read, lambda: None)
    next(steps)
    assert set(shard.groups) == {"a"}
    loading = [shard.loading, *(shard.loading for _ in steps)]
    assert (loading, shard.loading) == ([True, True, True, False, False], False), "then one step for each group's sessions"
    assert set(shard.groups) == {"a", "b"}
    assert caplog.text.count("skipped a malformed batch") == 1


def test_unloading_discards_every_group() -> None:
    shard, _, _ = made()
    shard.run(Result([new_group_record("g", 0)], None))
    group = shard.groups["g"]
    shard.unload()
    assert shard.groups == {}
    assert group.state_name == "Dead"


def test_many_groups_are_discarded_in_turns_and_found_by_nobody_meanwhile() -> None:
    """All at once, 10,000 groups kept everybody waiting for 40 ms when a broker lost their partition."""
    shard, _, clock = made()
    shard.run(Result([new_group_record(name, 0) for name in "ghi"], None))
    groups = [shard.groups[name] for name in "ghi"]
    with slow(clock):
        shard.unload()
        assert shard.groups == {}
        states = []
        for _ in groups:
            states.append([group.state_name for group in groups])
            clock.next_round()
    assert states == [["Dead", "Empty", "Empty"], ["Dead", "Dead", "Empty"], ["Dead"] * 3]


def test_only_open_protocols_learn_of_a_topic() -> None:
    shard, _, _ = made()
    shard.topic_changed("t")
    heard: list[tuple[str, bool]] = []
    listener: Any = SimpleNamespace(topic_changed=lambda name, *, is_new: heard.append((name, is_new)))
    shard._protocols[Kind.SHARE] = listener
    shard.topic_changed("t", is_new=True)
    assert heard == [("t", True)]


def test_groups_that_are_not_there_have_no_members() -> None:
    shard, _, _ = made()
    for asked in (
        lambda: shard.heartbeat("g", "m", None, 1),
        lambda: shard.leave("g", []),
    ):
        with pytest.raises(GroupError) as error:
            asked()
        assert error.value.code is ErrorCode.UNKNOWN_MEMBER_ID
    with pytest.raises(GroupError) as error:
        shard.delete_group("g")
    assert error.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    shard.admit_fetch("g", LONE)


def test_a_deleted_group_goes_with_its_offsets() -> None:
    shard, written, _ = made()
    shard.run(Result([offset("g", 0), offset("g", 1)], None))
    shard.delete_group("g")
    assert written.counts == [2, 3]
    assert shard.groups == {}
    assert shard.offsets.of_group("g") == {}

"""These tests cover txn/shard.py: decisions, markers and completions of one partition of `__transaction_state`, replicated at
once or later.
"""

from __future__ import annotations

import logging

import pytest

from ottla.log.errors import StorageError
from ottla.server.base.promise import Promise
from ottla.server.txn import state
from ottla.server.txn.errors import TransactionError
from ottla.server.txn.records import decode
from ottla.server.txn.shard import RETRY_SECONDS, TOMBSTONE_BATCH_BYTES, Marker, TransactionShard
from ottla.server.txn.state import State, Transaction
from ottla.wire.errors import ErrorCode
from ottla.wire.records import decode_records
from tests.server.coordination.fakes import LaggingLog
from tests.server.coordination.memory import CoordinatorClock, slow

T0, T1 = ("t", 0), ("t", 1)
NONE, OFFLINE, GONE = ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class Rig:
    """A shard, and partitions that take its markers. `codes` has their answers to the next markers; those in `later` answer by a
    promise, kept in `promised`.
    """

    def __init__(self, log: LaggingLog | None = None, *, lag: bool = False, clock: CoordinatorClock | None = None) -> None:
        self.log = log or LaggingLog(lag=lag)
        self.clock = clock or CoordinatorClock()
        self.codes: dict[tuple[str, int], ErrorCode] = {}
        self.later: set[tuple[str, int]] = set()
        self.promised: dict[tuple[str, int], Promise[ErrorCode]] = {}
        self.markers: list[tuple[str, int, Marker]] = []
        self.shard = TransactionShard(0, 3, lambda batch: self.log.append(0, batch), self.clock, lambda: 2, self.mark)

    def mark(self, topic: str, partition: int, marker: Marker) -> ErrorCode | Promise[ErrorCode]:
        self.markers.append((topic, partition, marker))
        if (topic, partition) in self.later:
            self.promised[topic, partition] = Promise()
            return self.promised[topic, partition]
        return self.codes.get((topic, partition), NONE)

    def marked(self) -> list[tuple[str, int]]:
        """Returns the partitions that were asked since the last call."""
        asked, self.markers = self.markers, []
        return [each[:2] for each in asked]

    def decided(self, *partitions: tuple[str, int], commit: bool = True, name: str = "tx") -> Transaction:
        """Returns an open transaction of producer 7 in epoch 5, with its end decided."""
        now_ms = self.clock.now_ms()
        open_one = Transaction(name, 7, 60_000, now_ms, State.ONGOING, 5, partitions=frozenset(partitions), started_ms=now_ms)
        self.shard.transactions[name] = open_one
        return state.end(open_one, now_ms, commit=commit, version=2, new_producer_id=-1)

    def state(self, name: str = "tx") -> State:
        return self.shard.transactions[name].state

    def written(self) -> list[tuple[str, State | None]]:
        """Returns ids and states as they are in the log."""
        found = [decode(record.key or b"", record.value) for batch in self.log.batches[0] for record in decode_records(batch)]
        return [(each[0], each[1].state if each[1] else None) for each in found if each is not None]


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_is_decided_marked_and_complete_in_one_call(commit: bool) -> None:
    rig = Rig()
    after, marked = rig.shard.end(rig.decided(T1, T0, commit=commit))
    assert marked is None
    ending, done = (State.PREPARE_COMMIT, State.COMPLETE_COMMIT) if commit else (State.PREPARE_ABORT, State.COMPLETE_ABORT)
    assert rig.written() == [("tx", ending), ("tx", done)]
    assert rig.markers == [("t", 0, Marker(7, 6, 3, commit, 2)), ("t", 1, Marker(7, 6, 3, commit, 2))]
    assert rig.shard.transactions["tx"] == after
    assert (rig.shard.rest, rig.clock.waiting) == (0, 0)


def test_no_marker_is_sent_before_the_decision_is_replicated() -> None:
    rig = Rig(lag=True)
    rig.shard.end(rig.decided(T0))
    answer = rig.shard.answer("said")
    assert isinstance(answer, Promise)
    assert (rig.marked(), rig.state()) == ([], State.PREPARE_COMMIT)
    rig.log.replicate()
    assert rig.marked() == [T0]
    assert answer.result() == "said", "the producer does not wait for the completion"
    assert rig.written() == [("tx", State.PREPARE_COMMIT), ("tx", State.COMPLETE_COMMIT)]


def test_a_decision_that_is_lost_with_the_partition_is_the_next_coordinators() -> None:
    rig = Rig(lag=True)
    rig.shard.end(rig.decided(T0))
    rig.shard.unload()
    rig.log.replicate()
    assert (rig.marked(), rig.shard.rest) == ([], 0)
    again = Rig(rig.log)
    list(again.shard.load(lambda: again.log.read(0), lambda: again.log.replicated(0)))
    assert again.marked() == [T0]


def test_a_decision_that_was_loaded_is_carried_out_when_it_is_replicated() -> None:
    rig = Rig(lag=True)
    rig.shard.end(rig.decided(T0))
    again = Rig(rig.log, lag=True)
    list(again.shard.load(lambda: again.log.read(0), lambda: again.log.replicated(0)))
    assert (again.marked(), again.shard.rest) == ([], 0), "the decision may be taken back"
    again.log.replicate_all()
    assert again.marked() == [T0]


def test_a_decision_that_was_loaded_and_is_not_replicated_is_the_next_coordinators() -> None:
    rig = Rig(lag=True)
    rig.shard.end(rig.decided(T0))
    again = Rig(rig.log, lag=True)
    list(again.shard.load(lambda: again.log.read(0), lambda: again.log.replicated(0)))
    again.shard.unload()
    again.log.lose()
    assert (again.marked(), again.shard.rest) == ([], 0)


def test_a_marker_may_be_written_by_another_broker() -> None:
    rig = Rig()
    rig.later = {T0, T1}
    rig.shard.end(rig.decided(T0, T1))
    assert (rig.marked(), rig.shard.rest, rig.state()) == ([T0, T1], 1, State.PREPARE_COMMIT)
    rig.promised[T1].set_result(NONE)
    assert (rig.shard.rest, rig.state()) == (1, State.PREPARE_COMMIT)
    rig.promised[T0].set_result(GONE)
    assert (rig.shard.rest, rig.state()) == (0, State.COMPLETE_COMMIT)


def test_a_marker_that_is_on_its_way_is_not_sent_again() -> None:
    rig = Rig()
    rig.later, rig.codes = {T0}, {T1: OFFLINE}
    rig.shard.end(rig.decided(T0, T1))
    assert rig.marked() == [T0, T1]
    rig.clock.advance(RETRY_SECONDS)
    assert rig.marked() == [T1]
    rig.promised[T0].set_result(OFFLINE)
    rig.later, rig.codes = set(), {}
    rig.clock.advance(RETRY_SECONDS)
    assert rig.marked() == [T0, T1]
    assert (rig.state(), rig.shard.rest) == (State.COMPLETE_COMMIT, 0)


def test_an_answer_after_the_partition_went_to_another_coordinator_changes_nothing() -> None:
    rig = Rig()
    rig.later = {T0}
    rig.shard.end(rig.decided(T0))
    rig.shard.unload()
    assert rig.clock.waiting == 0, "nothing is tried again"
    rig.promised[T0].set_result(NONE)
    assert rig.written() == [("tx", State.PREPARE_COMMIT)]


def test_a_promise_that_is_kept_already_is_as_good_as_an_answer() -> None:
    rig = Rig()
    kept: Promise[ErrorCode] = Promise()
    kept.set_result(NONE)
    rig.shard._write_marker = lambda topic, partition, marker: kept
    rig.shard.end(rig.decided(T0))
    assert rig.state() is State.COMPLETE_COMMIT


def test_partitions_are_asked_until_each_has_its_marker(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    rig.codes = {T1: OFFLINE}
    with caplog.at_level(logging.DEBUG):
        rig.shard.end(rig.decided(T0, T1))
        rig.clock.advance(RETRY_SECONDS)
    levels = [(record.levelname, record.getMessage()) for record in caplog.records]
    text = "t-1 cannot take a marker of tx now: KAFKA_STORAGE_ERROR"
    assert levels == [("WARNING", text), ("DEBUG", text)]
    assert rig.marked() == [T0, T1, T1]
    rig.clock.advance(RETRY_SECONDS / 2)
    assert rig.marked() == []
    rig.codes[T1] = GONE
    rig.clock.advance(RETRY_SECONDS)
    assert rig.marked() == [T1]
    assert (rig.state(), rig.shard.rest, rig.clock.waiting) == (State.COMPLETE_COMMIT, 0, 0)


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED])
@pytest.mark.parametrize("later", [True, False])
def test_an_end_that_somebody_else_brings_about_is_left_to_them(
    code: ErrorCode, later: bool, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Rig()
    rig.codes, rig.later = {T0: code}, {T0} if later else set()
    rig.shard.end(rig.decided(T0, T1))
    if later:
        rig.promised[T0].set_result(code)
    assert (rig.shard.rest, rig.state()) == (0, State.PREPARE_COMMIT)
    assert rig.marked() == ([T0, T1] if later else [T0])
    assert caplog.messages == [f"tx is no longer ended here: t-0 answered {code.name}"]
    rig.clock.advance(1)
    assert rig.marked() == []


def test_a_completion_that_cannot_be_written_is_tried_again() -> None:
    rig = Rig()
    rig.later = {T0}
    rig.shard.end(rig.decided(T0))
    rig.log.fail = StorageError("offline")
    rig.promised[T0].set_result(NONE)
    assert (rig.shard.rest, rig.state()) == (1, State.PREPARE_COMMIT)
    rig.log.fail = None
    rig.marked()
    rig.clock.advance(RETRY_SECONDS)
    assert (rig.marked(), rig.shard.rest, rig.state()) == ([], 0, State.COMPLETE_COMMIT)


def test_a_decision_that_cannot_be_written_changes_nothing() -> None:
    rig = Rig()
    decided = rig.decided(T0)
    rig.log.fail = StorageError("offline")
    with pytest.raises(TransactionError) as error:
        rig.shard.end(decided)
    assert error.value.code is ErrorCode.NOT_COORDINATOR
    assert (rig.state(), rig.shard.rest, rig.marked()) == (State.ONGOING, 0, [])


def test_what_was_decided_is_completed_after_loading() -> None:
    rig = Rig()
    rig.codes = {T0: OFFLINE}
    rig.shard.end(rig.decided(T0, name="a", commit=False))
    rig.shard.end(rig.decided(T1, name="b"))
    again = Rig(rig.log)
    list(again.shard.load(lambda: again.log.read(0), lambda: again.log.replicated(0)))
    assert again.markers == [("t", 0, Marker(7, 6, 3, False, 2))]
    assert (again.state("a"), again.state("b")) == (State.COMPLETE_ABORT, State.COMPLETE_COMMIT)


# Markers in turns


T2, T3 = ("t", 2), ("t", 3)


def test_markers_are_written_in_turns_and_the_transaction_is_complete_after_the_last() -> None:
    rig = Rig()
    with slow(rig.clock):
        after, marked = rig.shard.end(rig.decided(T2, T0, T1))
        assert marked is not None
        asked = rig.marked()
        assert (rig.state(), rig.shard.rest) == (State.PREPARE_COMMIT, 1)
        for _ in range(3):
            assert not marked.done()
            assert rig.written() == [("tx", State.PREPARE_COMMIT)]
            rig.clock.next_round()
            asked += rig.marked()
    assert asked == [T0, T1, T2]
    assert marked.done()
    assert rig.written() == [("tx", State.PREPARE_COMMIT), ("tx", State.COMPLETE_COMMIT)]
    assert (rig.shard.transactions["tx"], rig.shard.rest, rig.clock.waiting) == (after, 0, 0)


def test_another_transaction_is_not_kept_waiting_by_the_markers_of_a_large_one() -> None:
    rig = Rig()
    with slow(rig.clock):
        rig.shard.end(rig.decided(*(("t", number) for number in range(50))))
        rig.shard.end(rig.decided(T0, name="small"))
        rig.clock.next_round()
        rig.clock.next_round()
        rig.clock.next_round()
    assert (rig.state(), rig.state("small")) == (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)


def test_an_unloaded_shard_writes_no_further_markers() -> None:
    rig = Rig()
    with slow(rig.clock):
        _, marked = rig.shard.end(rig.decided(T0, T1))
        rig.clock.next_round()
        assert rig.marked() == [T0]
        rig.shard.unload()
        rig.clock.advance(1)
    assert marked is not None
    assert marked.done(), "whoever waits learns that this broker is no longer the coordinator"
    assert (rig.marked(), rig.written(), rig.clock.waiting) == ([], [("tx", State.PREPARE_COMMIT)], 0)
    again = Rig(rig.log)
    list(again.shard.load(lambda: again.log.read(0), lambda: again.log.replicated(0)))
    assert (again.marked(), again.state()) == ([T0, T1], State.COMPLETE_COMMIT), "and its successor writes all of them"


def test_markers_after_loading_take_turns_too() -> None:
    rig = Rig()
    rig.codes = {T0: OFFLINE}
    rig.shard.end(rig.decided(T0, T1))
    again = Rig(rig.log)
    with slow(again.clock):
        list(again.shard.load(lambda: again.log.read(0), lambda: again.log.replicated(0)))
        assert (again.marked(), again.shard.loading) == ([], False)
        again.clock.next_round()
        assert again.marked() == [T0]
        again.clock.next_round()
    assert again.state() is State.COMPLETE_COMMIT


def test_another_coordinator_may_take_over_between_two_markers() -> None:
    rig = Rig()
    rig.later = {T0}
    with slow(rig.clock):
        rig.shard.end(rig.decided(T0, T1))
        rig.clock.next_round()
        rig.promised[T0].set_result(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
        rig.clock.advance(1)
    assert (rig.marked(), rig.shard.rest, rig.state()) == ([T0], 0, State.PREPARE_COMMIT)


def test_an_answer_and_an_attempt_between_two_markers_send_none_twice() -> None:
    rig = Rig()
    rig.later = {T0, T1, T2}
    with slow(rig.clock):
        rig.shard.end(rig.decided(T0, T1, T2, T3))
        rig.clock.next_round()
        rig.promised[T0].set_result(NONE)  # which arms the next attempt, for three partitions have no marker yet
        rig.shard._try_again()
        assert rig.marked() == [T0]
        rig.clock.next_round()
        rig.clock.next_round()
        rig.clock.next_round()
        assert rig.marked() == [T1, T2, T3]
        assert rig.state() is State.PREPARE_COMMIT
        rig.promised[T2].set_result(NONE)
        rig.promised[T1].set_result(NONE)
    assert (rig.state(), rig.shard.rest) == (State.COMPLETE_COMMIT, 0)


def test_a_marker_whose_answer_comes_during_an_attempt_is_not_sent_again() -> None:
    rig = Rig()
    rig.codes, rig.later = {T0: OFFLINE}, {T1}
    rig.shard.end(rig.decided(T0, T1))
    rig.marked()
    with slow(rig.clock):
        rig.clock.advance(RETRY_SECONDS / 2)
        rig.shard._try_again()
        rig.promised[T1].set_result(NONE)
        rig.clock.next_round()
        rig.clock.next_round()
    assert rig.marked() == [T0]


def test_the_next_attempt_waits_for_the_end_of_the_one_before() -> None:
    rig = Rig()
    partitions = [("t", number) for number in range(20)]
    rig.codes = dict.fromkeys(partitions, OFFLINE)
    rig.shard.end(rig.decided(*partitions[:10], name="a"))
    rig.shard.end(rig.decided(*partitions[10:], name="b"))
    rig.marked()
    with slow(rig.clock):
        rig.clock.advance(RETRY_SECONDS)
        assert rig.marked() == partitions, "each once"
        assert rig.clock.waiting == 1
        rig.clock.advance(RETRY_SECONDS)
        assert rig.marked() == partitions
    rig.codes = {}
    rig.clock.advance(RETRY_SECONDS)
    assert (rig.state("a"), rig.state("b"), rig.clock.waiting) == (State.COMPLETE_COMMIT, State.COMPLETE_COMMIT, 0)


def test_what_no_step_foresees_is_logged_and_reaches_who_waits(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    with slow(rig.clock):
        _, marked = rig.shard.end(rig.decided(T0))
        rig.shard._write_marker = lambda topic, partition, marker: ErrorCode(int(""))
        failures: list[bool] = []
        assert marked is not None
        marked.add_done_callback(lambda done: failures.append(done.failed))
        rig.clock.next_round()
    assert failures == [True]
    assert "invalid literal" in caplog.text


# Passes


def test_who_is_overdue() -> None:
    rig = Rig()
    rig.decided(T0)
    start = rig.clock.now_ms()
    assert rig.shard.overdue(start + 60_000) == []
    assert [each.transactional_id for each in rig.shard.overdue(start + 60_001)] == ["tx"]


def test_idle_ids_expire_when_their_time_is_over() -> None:
    rig = Rig()
    rig.decided(T0, name="open")
    now_ms = rig.clock.now_ms()
    for name, updated in (("old", now_ms), ("new", now_ms + 1)):
        rig.shard.write_transaction(Transaction(name, 1, 60_000, updated, State.EMPTY, 0))
    rig.clock.advance(1)
    assert rig.shard.expire(1_001) == 0
    assert rig.shard.expire(1_000) == 1
    assert set(rig.shard.transactions) == {"open", "new"}
    assert rig.written()[-1] == ("old", None)


@pytest.mark.parametrize(("shorter", "batches"), [(0, [16, 16, 1]), (1, [17, 16])])
def test_tombstones_come_in_batches_of_limited_size(shorter: int, batches: list[int]) -> None:
    rig = Rig()
    size = TOMBSTONE_BATCH_BYTES // 16 - 16
    assert size == 16_368
    names = ["0" * (size - shorter), *(f"{number:0{size}}" for number in range(1, 33))]
    for name in names:
        rig.shard.transactions[name] = Transaction(name, 1, 60_000, 0)
    assert rig.shard.expire(1) == 33
    assert [len(decode_records(batch)) for batch in rig.log.batches[0]] == batches
    assert rig.shard.transactions == {}

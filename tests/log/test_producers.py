"""log/producers.py: the rows I2 to I16 of docs/kafka-behaviour.md, then Kafka's own log beside us."""

from __future__ import annotations

import random
import tracemalloc
from typing import TypedDict, Unpack

import pytest

from ottla.log import errors
from ottla.log.producers import (
    BATCHES_KEPT,
    PRODUCER_BYTES,
    RECOUNT,
    UNLIMITED,
    AppendedBatch,
    CompletedTransaction,
    Duplicate,
    ProducerState,
    ProducerStates,
    ProducerTotal,
    decode_snapshot,
    encode_snapshot,
)
from ottla.log.validate import Origin
from ottla.wire.batch import BatchHeader, read_header
from ottla.wire.records import Record, build_batch
from tests.kafka_oracle import KafkaOracle
from tests.log.mini_log import MiniLog, TopicSettings
from tests.wire.samples import NOW_MS

PID = 4711
LAST = 2**31 - 1


class Details(TypedDict, total=False):
    """Holds what a batch may have beside its sequence and its count."""

    epoch: int
    pid: int
    at_ms: int
    transactional: bool


def batch(
    sequence: int, count: int = 1, *, epoch: int = 0, pid: int = PID, at_ms: int = NOW_MS, transactional: bool = False
) -> bytes:
    records = [Record(0, at_ms, b"k", b"v") for _ in range(count)]
    return build_batch(records, producer_id=pid, producer_epoch=epoch, base_sequence=sequence, transactional=transactional)


def header(sequence: int, count: int = 1, **more: Unpack[Details]) -> BatchHeader:
    return read_header(batch(sequence, count, **more))


class Log:
    """Appends what the states let through, at the next offset."""

    def __init__(self, limit: int = UNLIMITED) -> None:
        self.states = ProducerStates(limit=limit)

    def append(self, sequence: int, count: int = 1, origin: Origin = Origin.CLIENT, **more: Unpack[Details]) -> int | Duplicate:
        wanted = header(sequence, count, **more)
        duplicate = self.states.check(wanted, origin)
        if duplicate is not None:
            return duplicate
        offset = self.states.end_offset
        self.states.update(wanted, offset)
        return offset


@pytest.fixture
def log() -> Log:
    log = Log()
    assert log.append(0, 3) == 0  # I2
    return log


def test_i3_the_same_batch_again_is_answered_with_its_first_offset_and_time(log: Log) -> None:
    assert log.append(0, 3) == Duplicate(0, 2, NOW_MS)
    assert log.states.end_offset == 3


@pytest.mark.parametrize(("sequence", "count"), [(5, 1), (4, 1), (2, 2), (1, 1), (0, 1), (0, 2), (0, 4), (LAST, 1)])
def test_i4_i6_gaps_and_overlaps_are_out_of_order(log: Log, sequence: int, count: int) -> None:
    with pytest.raises(errors.OutOfOrderSequence):
        log.append(sequence, count)


def test_i7_i8_five_batches_are_remembered(log: Log) -> None:
    for sequence in range(3, 11):
        assert log.append(sequence) == sequence
    assert log.append(6) == Duplicate(6, 6, NOW_MS)
    for forgotten, count in ((0, 3), (5, 1)):
        with pytest.raises(errors.OutOfOrderSequence):
            log.append(forgotten, count)


def test_i10_i11_a_new_epoch_begins_with_0_and_fences_the_old(log: Log) -> None:
    with pytest.raises(errors.OutOfOrderSequence):
        log.append(3, epoch=1)
    assert log.append(0, epoch=1) == 3
    with pytest.raises(errors.InvalidProducerEpoch):
        log.append(3, epoch=0)
    with pytest.raises(errors.InvalidProducerEpoch):
        log.append(0, 3, epoch=0)  # a duplicate of the old epoch is fenced too
    assert log.append(1, epoch=1) == 4


def test_i12_an_unknown_producer_may_begin_anywhere(log: Log) -> None:
    assert log.append(7, pid=12) == 3
    assert log.append(8, pid=12) == 4


def test_i16_sequences_wrap() -> None:
    log = Log()
    assert log.append(LAST - 1, 2) == 0
    assert log.append(0) == 2
    assert log.append(LAST - 1, 2) == Duplicate(0, 1, NOW_MS)
    log = Log()
    assert log.append(LAST, 3) == 0  # the batch itself wraps: LAST, 0, 1
    assert log.append(2) == 3
    assert log.append(LAST, 3) == Duplicate(0, 2, NOW_MS)


def test_batches_without_producer_are_none_of_our_business(log: Log) -> None:
    assert log.append(-1, pid=-1) == 3
    assert log.append(-1, pid=-1) == 4
    assert len(log.states) == 1


def test_a_failed_write_leaves_no_trace(log: Log) -> None:
    assert log.states.check(header(3)) is None
    assert log.states.check(header(3)) is None
    assert log.append(3) == 3


def test_only_clients_are_checked_for_sequences(log: Log) -> None:
    assert log.append(99, origin=Origin.COORDINATOR) == 3
    assert log.append(50, origin=Origin.REPLICATION) == 4
    log.append(0, epoch=3)
    with pytest.raises(errors.InvalidProducerEpoch):
        log.append(0, epoch=2, origin=Origin.COORDINATOR)
    assert log.append(0, epoch=2, origin=Origin.REPLICATION) == 6


def test_expiry_forgets_the_silent_but_not_open_transactions() -> None:
    log = Log()
    log.append(0, pid=1, at_ms=NOW_MS)
    log.append(0, pid=2, at_ms=NOW_MS + 10)
    log.append(0, pid=3, at_ms=NOW_MS, transactional=True)
    assert log.states.expire(NOW_MS + 100, 100) == 1
    assert [state.producer_id for state in log.states] == [2, 3]
    assert log.append(9, pid=1) == 3


def test_truncation_asks_for_a_replay(log: Log) -> None:
    assert not log.states.truncate(3)
    assert log.states.truncate(2)
    assert (len(log.states), log.states.end_offset) == (0, 0)


def test_i22_the_view_of_describe_producers(log: Log) -> None:
    log.append(0, epoch=1, transactional=True)
    (state,) = log.states
    assert (state.producer_id, state.producer_epoch, state.last_sequence, state.last_offset) == (PID, 1, 0, 3)
    assert (state.last_timestamp_ms, state.coordinator_epoch, state.txn_first_offset) == (NOW_MS, -1, 3)
    assert log.states.get(PID) is state
    assert log.states.get(1) is None


# transactions


def marker(pid: int = PID, epoch: int = 0) -> BatchHeader:
    records = [Record(0, NOW_MS, b"\0\0\0\1", b"\0\0\0\0\0\0")]
    return read_header(build_batch(records, producer_id=pid, producer_epoch=epoch, transactional=True, control=True))


def end(log: Log, wanted: BatchHeader, *, aborted: bool = False, coordinator_epoch: int = 5) -> CompletedTransaction | None:
    log.states.check_marker(wanted, coordinator_epoch)
    return log.states.end_transaction(
        wanted, log.states.end_offset, coordinator_epoch=coordinator_epoch, aborted=aborted, timestamp_ms=NOW_MS
    )


def test_the_oldest_open_transaction_holds_the_last_stable_offset() -> None:
    log = Log()
    log.append(0, 2, pid=1, transactional=True)
    log.append(0, pid=2, transactional=True)
    log.append(2, pid=1, transactional=True)
    assert log.states.first_unstable_offset(log.states.end_offset) == 0
    assert end(log, marker(1), aborted=True) == CompletedTransaction(1, 0, 4, True, 2)
    assert log.states.first_unstable_offset(log.states.end_offset) == 2
    assert end(log, marker(2)) == CompletedTransaction(2, 2, 5, False, 6)
    assert log.states.first_unstable_offset(log.states.end_offset) is None
    assert end(log, marker(2)) is None


def test_a_plain_batch_inside_a_transaction_is_refused() -> None:
    log = Log()
    log.append(0, transactional=True)
    with pytest.raises(errors.InvalidTransactionState):
        log.append(1)


def test_markers_fence_epochs_and_coordinators() -> None:
    log = Log()
    log.append(0, transactional=True)
    end(log, marker(epoch=1), coordinator_epoch=7)
    with pytest.raises(errors.InvalidProducerEpoch):
        end(log, marker(epoch=0), coordinator_epoch=7)
    with pytest.raises(errors.TransactionCoordinatorFenced):
        end(log, marker(epoch=1), coordinator_epoch=6)
    with pytest.raises(errors.OutOfOrderSequence):
        log.append(1, epoch=1)  # the marker's epoch has no batches yet
    assert log.append(0, epoch=1) == 2
    assert end(log, marker(pid=99)) is None


# snapshots


def snapshot_of(log: Log) -> ProducerStates:
    loaded = ProducerStates()
    loaded.load(log.states.snapshot_bytes(), log.states.end_offset)
    return loaded


def test_r1_r2_a_snapshot_keeps_duplicates_order_and_epochs(log: Log) -> None:
    log.append(3, 2)
    log.append(7, pid=12, transactional=True)
    log.states = snapshot_of(log)
    assert log.append(3, 2) == Duplicate(3, 4, NOW_MS)
    with pytest.raises(errors.OutOfOrderSequence):
        log.append(9)
    assert log.states.first_unstable_offset(log.states.end_offset) == 5
    assert log.append(5) == 6
    assert log.states.snapshot_bytes()[:2] == b"\0\1"


def test_a_snapshot_is_46_bytes_a_producer() -> None:
    state = ProducerState(1)
    assert len(encode_snapshot([state, state])) == 2 + 4 + 4 + 2 * 46
    (empty, _) = decode_snapshot(encode_snapshot([state, state]))
    assert (list(empty.batches), empty.last_sequence, empty.has_open_transaction) == ([], -1, False)
    state.batches.append(AppendedBatch(1, 9, 1, NOW_MS))
    state.last_timestamp_ms = NOW_MS
    assert decode_snapshot(encode_snapshot([state]))[0].batches == state.batches


def known(log: Log) -> list[int]:
    return [state.producer_id for state in log.states]


def test_a_partition_remembers_so_many_producers_the_latest() -> None:
    log = Log(limit=100)
    for pid in range(1000):
        log.append(0, pid=pid)
    assert known(log) == list(range(900, 1000))
    assert log.states.forgotten == 900


def test_who_goes_on_writing_is_remembered_among_many_who_do_not() -> None:
    log = Log(limit=100)
    for pid in range(1, 2000):
        log.append(0, pid=pid + PID)
        if pid % 40 == 0:
            log.append(pid // 40 - 1)
    assert PID in known(log)
    assert log.append(1999 // 40) == log.states.end_offset - 1, "and its next number is checked"
    assert len(log.states) == 100


def test_who_was_forgotten_may_go_on_with_any_number_as_after_its_expiration() -> None:
    log = Log(limit=10)
    log.append(0, 5)
    for pid in range(20):
        log.append(0, pid=pid)
    assert PID not in known(log)
    assert log.append(5) == 25


def test_an_open_transaction_is_never_forgotten() -> None:
    log = Log(limit=10)
    for pid in range(100, 110):
        log.append(0, pid=pid, transactional=True)
    for pid in range(1000):
        log.append(0, pid=pid + 1000)
    assert set(range(100, 110)) <= set(known(log))
    assert log.states.first_unstable_offset(log.states.end_offset) == 0
    assert len(log.states) <= 12, "the newest, and one more"


def test_a_snapshot_of_more_is_loaded_with_so_many(log: Log) -> None:
    for pid in range(50):
        log.append(0, pid=pid)
    log.append(0, pid=77, transactional=True)
    loaded = ProducerStates(limit=10)
    loaded.load(log.states.snapshot_bytes(), log.states.end_offset)
    assert len(loaded) == 10
    assert loaded.get(77) is not None


def test_all_partitions_together_have_a_limit_and_the_largest_give_way() -> None:
    logs = [Log() for _ in range(3)]
    total = ProducerTotal(5 * RECOUNT, lambda: [log.states for log in logs])
    for log in logs:
        log.states.total = total
    total.count()
    for pid in range(10):
        logs[0].append(0, pid=pid)
    first = header(0)
    for pid in range(12 * RECOUNT):
        log = logs[1 + pid % 2]
        log.states.update(first.replace(producer_id=pid), log.states.end_offset)
        assert sum(len(log.states) for log in logs) <= 5 * RECOUNT + 1
    assert known(logs[0]) == list(range(10))
    assert sum(log.states.forgotten for log in logs) >= 7 * RECOUNT
    assert 12 * RECOUNT - 1 in known(logs[2]), "the newest"


def test_a_limit_that_is_far_exceeded_is_reached_step_by_step() -> None:
    """That happens at a start with a lower limit; requests wait while producers are forgotten."""
    logs = [Log() for _ in range(4)]
    for log in logs:
        for pid in range(2 * RECOUNT):
            log.states.update(header(0).replace(producer_id=pid), log.states.end_offset)
    total = ProducerTotal(2 * RECOUNT, lambda: [log.states for log in logs])
    known_in_all = []
    for _ in range(5):
        total.count()
        known_in_all.append(sum(len(log.states) for log in logs))
    assert known_in_all == [6 * RECOUNT, 4 * RECOUNT, 2 * RECOUNT, RECOUNT, RECOUNT], "with room for as many as come until then"


def test_who_became_known_at_this_moment_is_not_forgotten_at_once() -> None:
    log = Log()
    log.states.total = ProducerTotal(0, lambda: [log.states])
    log.states.total.count()
    for pid in range(3 * RECOUNT):
        log.append(0, pid=pid)
        state = log.states.get(pid)
        assert state is not None
        assert state.last_offset == pid


def snapshot_with(count: int) -> bytes:
    log = Log()
    for pid in range(count):
        log.append(0, pid=pid)
    return log.states.snapshot_bytes()


def opened(total: ProducerTotal, *counts: int, limit: int = UNLIMITED) -> list[int]:
    """Returns how many producers partitions remember that are opened one after the other, each with a snapshot of so many."""
    partitions = [ProducerStates(limit=limit, total=total) for _ in counts]
    for states, count in zip(partitions, counts, strict=True):
        states.load(snapshot_with(count), count)
    return [len(states) for states in partitions]


def test_partitions_that_are_opened_keep_to_the_limit_of_all() -> None:
    assert opened(ProducerTotal(100, tuple), 40, 60) == [40, 60], "what there was before a clean stop"
    assert opened(ProducerTotal(100, tuple), 40, 70, 30, 5) == [40, 60, 1, 1]
    assert opened(ProducerTotal(100, tuple), 90, 90, limit=50) == [50, 50], "what the first one forgets is room for the next"


def test_what_is_replayed_while_a_log_is_opened_keeps_to_the_limit_of_all_too() -> None:
    states = ProducerStates(total=ProducerTotal(100, tuple))
    first = header(0)
    for attempt in range(2):
        states.clear(0)
        for pid in range(300):
            states.update(first.replace(producer_id=pid), pid)
        assert [state.producer_id for state in states] == list(range(200, 300)), attempt


def test_a_producer_takes_half_a_kilobyte() -> None:
    """1,050 bytes with a deque for the batches, of which most have one."""
    log = Log()
    headers = [header(0, pid=pid + 2**40) for pid in range(2000)]
    tracemalloc.start()
    for each in headers:
        log.states.update(each, 2**40 + each.producer_id)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken / 2000 < PRODUCER_BYTES


def test_five_batches_are_kept_and_no_more(log: Log) -> None:
    for sequence in range(3, 20):
        log.append(sequence)
    state = log.states.get(PID)
    assert state is not None
    assert [each.last_sequence for each in state.batches] == list(range(20 - BATCHES_KEPT, 20))
    assert type(state.batches[0]) is AppendedBatch


def test_loading_leaves_out_the_expired(log: Log) -> None:
    log.append(0, pid=2, at_ms=NOW_MS + 500)
    loaded = ProducerStates()
    loaded.load(log.states.snapshot_bytes(), 4, now_ms=NOW_MS + 1000, expiration_ms=1000)
    assert [state.producer_id for state in loaded] == [2]
    assert loaded.end_offset == 4


def test_any_bytes_at_all_are_a_snapshot_or_corrupt(log: Log) -> None:
    log.append(0, pid=2)
    good = log.states.snapshot_bytes()
    seeded = random.Random(1)
    damaged = [good[:size] for size in range(len(good))] + [good + b"\0"]
    for position in range(len(good)):
        flipped = bytearray(good)
        flipped[position] ^= 1 << seeded.randrange(8)
        damaged.append(bytes(flipped))
    damaged += [seeded.randbytes(seeded.randrange(200)) for _ in range(200)]
    for data in damaged:
        with pytest.raises(errors.CorruptSnapshot):
            log.states.load(data, 0)
    assert len(log.states) == 2
    assert log.states.end_offset == 4


@pytest.mark.oracle
def test_kafkas_own_log_gives_the_same_answers_and_the_same_snapshot() -> None:
    """Random histories of three producers, retries, gaps, wraps and new epochs included."""
    seeded = random.Random(8)
    with KafkaOracle() as kafka:
        for history in range(12):
            kafka.ask("log")
            ours = MiniLog(TopicSettings())
            sent: list[bytes] = []
            following = {pid: seeded.choice((0, 7, LAST - 3)) for pid in range(3)}
            epochs = dict.fromkeys(range(3), 0)
            for step in range(60):
                pid = seeded.randrange(3)
                count = seeded.randrange(1, 4)
                chance = seeded.random()
                if chance < 0.2 and sent:
                    data = seeded.choice(sent[-8:])
                elif chance < 0.3:
                    data = batch(seeded.choice((0, 1, 5, LAST)), count, pid=pid, epoch=max(0, epochs[pid] - seeded.randrange(2)))
                else:
                    if chance > 0.95:
                        epochs[pid] += 1
                        following[pid] = 0
                    data = batch(following[pid], count, pid=pid, epoch=epochs[pid], at_ms=NOW_MS + step)
                    following[pid] = (following[pid] + count) & LAST
                sent.append(data)
                leader_epoch = history + step // 20
                answer = ours.append(NOW_MS, 12, leader_epoch, data)
                assert answer == kafka.ask("append", NOW_MS, 12, leader_epoch, data.hex()), (history, step)
            theirs, files = kafka.files(), ours.files()
            assert theirs.keys() >= files.keys()
            snapshot = next(name for name in files if name.endswith(".snapshot"))
            assert encode_snapshot(
                sorted(decode_snapshot(theirs[snapshot]), key=lambda state: state.producer_id)
            ) == encode_snapshot(sorted(ours.producers, key=lambda state: state.producer_id))
            assert theirs[snapshot] == encode_snapshot(decode_snapshot(theirs[snapshot]))
            del files[snapshot]
            assert {name: theirs[name] for name in files} == files


def test_a_batch_does_not_overtake_one_that_was_refused() -> None:
    states = ProducerStates()
    assert not states.overtakes(7, 0, 5)
    states.refuse(7, 0, 5)
    states.refuse(7, 0, 3)
    states.refuse(7, 0, 4)
    assert states.overtakes(7, 0, 4)
    assert states.overtakes(7, 0, 5)
    assert not states.overtakes(8, 0, 5)
    assert not states.overtakes(7, 0, 3)
    assert not states.overtakes(7, 0, 4)


def test_another_epoch_makes_refused_batches_forgotten() -> None:
    states = ProducerStates()
    states.refuse(7, 0, 3)
    states.refuse(7, 1, 6)
    assert states.overtakes(7, 1, 7)
    assert not states.overtakes(7, 2, 9)
    assert not states.overtakes(7, 1, 7)


def test_refused_batches_of_producers_that_never_came_back() -> None:
    states = ProducerStates()
    for producer_id in range(1001):
        states.refuse(producer_id, 0, 0)
    assert not states.overtakes(0, 0, 1)
    assert states.overtakes(1, 0, 1)

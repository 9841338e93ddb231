"""The scenarios of Kafka 4.4's ProducerStateManagerTest, as behaviour of our producer state and of logs that hold it.

Kafka's 54 cases and where they are here (without their "test"; a name in brackets is a test, of this file or,
where it takes a log, of test_producer_log_scenarios.py):

| cases | here |
|---|---|
| BasicIdMapping, ProducerSequenceWrapAround, ProducerSequenceInvalidWrapAround, ProducerSequenceWithWrapAroundBatchRecord, NoValidationOnFirstEntryWhenLoadingLog | [sequences_and_epochs], [sequences_wrap], [a_batch_that_wraps], [the_first_replayed_batch_may_be_any] |
| AppendTxnMarkerWithNoProducerState, ControlRecordBumpsProducerEpoch, OutOfSequenceAfterControlRecordEpochBump, ProducerStateAfterFencingAbortMarker, OldEpochForControlRecord | [a_marker_alone_makes_a_producer], [a_marker_with_a_new_epoch], [a_marker_of_an_old_epoch] |
| TxnFirstOffsetMetadataCached, FirstUnstableOffset, LastStableOffsetCompletedTxn, SkipEmptyTransactions, updateProducerTransactionState | [the_first_unstable_offset], [stable_offsets_of_three], [empty_transactions], [a_transaction_from_begin_to_end] |
| HasLateTransaction, HasLateTransactionInitializedAfterReload, HasLateTransactionUpdatedAfterPartialTruncation, HasLateTransactionUpdatedAfterFullTruncation | [late_transactions], [late_after_a_restart], [not_late_after_truncation] |
| PrepareUpdateDoesNotMutate | [a_check_changes_nothing] |
| NonTransactionalAppendWithOngoingTransaction | [a_plain_batch_in_a_transaction] |
| TruncateAndReloadRemovesOutOfRangeSnapshots, TakeSnapshot, SkipSnapshotIfOffsetUnchanged, TruncateFullyAndStartAt, DeleteSnapshotsBefore | [snapshots_out_of_range_go], [a_snapshot_an_offset], [starting_anew_elsewhere], [snapshots_go_with_their_segments] |
| RecoverFromSnapshotUnfinishedTransaction, RecoverFromSnapshotFinishedTransaction, RecoverFromSnapshotEmptyTransaction, ReadWriteSnapshot | [restarts_inside_and_after_a_transaction], [a_snapshot_keeps_what_there_is] |
| RemoveExpiredPidsOnReload, LoadFromSnapshotRetainsNonExpiredProducers, PidExpirationTimeout, ProducersWithOngoingTransactionsDontExpire | [expired_in_a_restart], [expired_while_running] |
| AcceptAppendWithoutProducerStateOnReplica, AcceptAppendWithSequenceGapsOnReplica | [a_replay_takes_everything] |
| FirstUnstableOffsetAfterTruncation | [truncation_makes_a_transaction_unstable_again] |
| SequenceNotValidatedForGroupMetadataTopic | [coordinators_have_no_sequences] |
| CoordinatorFencing, CoordinatorFencedAfterReload | [old_coordinators] |
| LoadFromEmptySnapshotFile, LoadFromTruncatedSnapshotFile, LoadFromCorruptSnapshotFile | [a_bad_snapshot_gives_way_to_the_one_before] |
| AppendEmptyControlBatch | [an_empty_control_batch] |
| RemoveStraySnapshotsKeepCleanShutdownSnapshot, RemoveAllStraySnapshots | [stray_snapshots] |
| RemoveAndMarkSnapshotForDeletion, RemoveAndMarkSnapshotForDeletionAlreadyDeleted | [snapshots_go_with_their_segments]: at once, not after a delay; one that is gone already is no failure |

48 covered. 6 not applicable: EntryForVerification, SequenceAndEpochInVerificationEntry,
ThrowOutOfOrderSequenceWithVerificationSequenceCheck and VerificationStateEntryExpiration are of the dialogue with a transaction
coordinator, which there is none of yet; ReloadSnapshots and FetchSnapshotEmptySnapShot serve tiered storage alone.
"""  # noqa: E501 - a row a group of cases

from __future__ import annotations

import pytest

from ottla.log.errors import (
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from ottla.log.markers import build_marker, end_transaction
from ottla.log.producers import (
    NO_OFFSET,
    AppendedBatch,
    CompletedTransaction,
    Duplicate,
    ProducerState,
    ProducerStates,
    decode_snapshot,
    encode_snapshot,
)
from ottla.log.validate import Origin
from ottla.wire.batch import NO_SEQUENCE, BatchHeader, read_header
from tests.log.support import NOW_MS, batch

PID, OTHER, THIRD = 1, 2, 3
LAST = 2**31 - 1
DAY_MS = 86_400_000
TIMEOUT_MS = 300_000
LATE_MS = TIMEOUT_MS + 300_000  # transaction.max.timeout.ms, and five minutes


class Producers:
    """States alone, with batches at offsets of the test's choice."""

    def __init__(self) -> None:
        self.states = ProducerStates()
        self.now_ms = NOW_MS

    def send(
        self,
        sequence: int,
        offset: int,
        *,
        producer_id: int = PID,
        epoch: int = 0,
        transactional: bool = False,
        count: int = 1,
        origin: Origin = Origin.CLIENT,
    ) -> Duplicate | None:
        header = header_of(sequence, producer_id, epoch, transactional, count, self.now_ms)
        duplicate = self.states.check(header, origin)
        if duplicate is None:
            self.states.update(header, offset)
        return duplicate

    def end(
        self, offset: int, *, producer_id: int = PID, epoch: int = 0, commit: bool = True, coordinator_epoch: int = 0
    ) -> CompletedTransaction | None:
        data = build_marker(producer_id, epoch, commit=commit, coordinator_epoch=coordinator_epoch, timestamp_ms=self.now_ms)
        header = read_header(data)
        self.states.check_marker(header, coordinator_epoch)
        return end_transaction(self.states, header, offset, [data])

    def of(self, producer_id: int = PID) -> ProducerState:
        state = self.states.get(producer_id)
        assert state is not None
        return state

    def late(self) -> bool:
        return self.states.has_late_transaction(self.now_ms, TIMEOUT_MS)


def header_of(
    sequence: int, producer_id: int, epoch: int, transactional: bool, count: int, timestamp_ms: int = NOW_MS
) -> BatchHeader:
    producer = (producer_id, epoch, sequence)
    return read_header(batch(count, producer=producer, transactional=transactional, timestamp_ms=timestamp_ms))


@pytest.fixture
def producers() -> Producers:
    return Producers()


# Sequences and epochs


def test_sequences_and_epochs(producers: Producers) -> None:
    producers.send(0, 0)
    producers.send(1, 1)
    assert producers.send(1, 2) == Duplicate(1, 1, NOW_MS), "told apart from a gap"
    with pytest.raises(OutOfOrderSequence):
        producers.send(5, 2)
    producers.send(0, 3, epoch=1)
    with pytest.raises(InvalidProducerEpoch):
        producers.send(0, 4)


def test_sequences_wrap(producers: Producers) -> None:
    producers.send(LAST, 735, epoch=15, origin=Origin.REPLICATION)
    with pytest.raises(OutOfOrderSequence):
        producers.send(1, 1235, epoch=15)
    producers.send(0, 1235, epoch=15)
    assert [one.first_sequence for one in producers.of().batches] == [LAST, 0]


def test_a_batch_that_wraps(producers: Producers) -> None:
    producers.send(LAST - 10, 2000, epoch=15, count=21, origin=Origin.REPLICATION)
    assert producers.of().batches[0] == AppendedBatch(last_sequence=9, last_offset=2020, offset_delta=20, timestamp_ms=NOW_MS)
    assert producers.of().batches[0].first_sequence == LAST - 10


def test_the_first_replayed_batch_may_be_any(producers: Producers) -> None:
    producers.send(16, 735, epoch=5, origin=Origin.REPLICATION)
    assert (producers.of().producer_epoch, producers.of().last_sequence, producers.of().last_offset) == (5, 16, 735)


def test_a_check_changes_nothing(producers: Producers) -> None:
    assert producers.states.check(header_of(0, PID, 0, False, 6)) is None
    assert producers.states.get(PID) is None
    producers.send(0, 15, count=6)
    assert producers.states.check(header_of(6, PID, 0, False, 5)) is None
    assert (producers.of().last_sequence, producers.of().last_offset) == (5, 20)
    producers.send(6, 26, count=5)
    assert (producers.of().last_sequence, producers.of().last_offset, len(producers.of().batches)) == (10, 30, 2)


def test_a_replay_takes_everything(producers: Producers) -> None:
    producers.send(0, 0)
    with pytest.raises(OutOfOrderSequence):
        producers.send(3, 1)
    assert producers.of().last_sequence == 0
    producers.send(3, 1, origin=Origin.REPLICATION)
    producers.send(7, 2, producer_id=OTHER, origin=Origin.REPLICATION)
    assert (producers.of().last_sequence, producers.of(OTHER).last_sequence) == (3, 7)


def test_coordinators_have_no_sequences(producers: Producers) -> None:
    for offset in (99, 100):
        producers.send(NO_SEQUENCE, offset, transactional=True, origin=Origin.COORDINATOR)
    assert producers.states.first_unstable_offset(101) == 99


# Markers


def test_a_marker_alone_makes_a_producer(producers: Producers) -> None:
    assert producers.end(27, epoch=2) is None
    state = producers.of()
    assert (state.producer_epoch, state.last_sequence, state.last_offset) == (2, NO_SEQUENCE, NO_OFFSET)
    with pytest.raises(InvalidProducerEpoch):
        producers.send(0, 28)
    with pytest.raises(OutOfOrderSequence):
        producers.send(17, 28, epoch=2)
    producers.send(0, 39, epoch=2)
    assert (state.producer_epoch, state.last_sequence) == (2, 0)


def test_a_marker_with_a_new_epoch(producers: Producers) -> None:
    """It ends the transaction, forgets the batches of the old epoch, and keeps fencing it."""
    producers.send(0, 0, transactional=True)
    producers.send(1, 1, transactional=True)
    producers.end(2, epoch=1, commit=False)
    state = producers.of()
    assert (state.producer_epoch, state.last_sequence, state.last_offset, state.txn_first_offset) == (1, -1, -1, NO_OFFSET)
    assert producers.states.expire(NOW_MS, DAY_MS) == 0
    for epoch in (1, 2):
        with pytest.raises(OutOfOrderSequence):
            producers.send(2, 3, epoch=epoch, transactional=True)
    producers.send(0, 3, epoch=1, transactional=True)
    assert (state.producer_epoch, state.last_sequence) == (1, 0)


def test_a_marker_of_an_old_epoch(producers: Producers) -> None:
    producers.send(0, 99, epoch=5, transactional=True)
    with pytest.raises(InvalidProducerEpoch):
        producers.end(100, epoch=3)
    assert producers.states.first_unstable_offset(101) == 99


def test_old_coordinators(producers: Producers) -> None:
    producers.send(0, 99, epoch=5, transactional=True)
    for offset, coordinator_epoch in ((100, 1), (101, 1), (102, 2)):
        producers.end(offset, epoch=5, coordinator_epoch=coordinator_epoch)
        assert producers.of().coordinator_epoch == coordinator_epoch
    again = Producers()
    again.states.load(producers.states.snapshot_bytes(), 103)
    for after in (producers, again):
        with pytest.raises(TransactionCoordinatorFenced):
            after.end(103, epoch=5, coordinator_epoch=1)


def test_a_transaction_from_begin_to_end(producers: Producers) -> None:
    producers.send(0, 9)
    producers.send(1, 16, count=5, transactional=True)
    producers.send(6, 26, count=5, transactional=True)
    state = producers.of()
    assert (state.txn_first_offset, state.last_sequence, state.last_offset) == (16, 10, 30)
    ended = producers.end(40, coordinator_epoch=15)
    assert ended == CompletedTransaction(PID, first_offset=16, last_offset=40, aborted=False, last_stable_offset=41)
    assert (state.txn_first_offset, state.last_sequence, state.last_offset, state.coordinator_epoch) == (NO_OFFSET, 10, 30, 15)
    assert len(state.batches) == 3, "a marker is no batch of the producer's"


def test_a_plain_batch_in_a_transaction(producers: Producers) -> None:
    producers.send(0, 0, transactional=True)
    with pytest.raises(InvalidTransactionState):
        producers.send(1, 1)


def test_an_empty_control_batch() -> None:
    """Checks what compaction leaves of a marker, when it must keep the batch: as if it ended nothing."""
    data = build_marker(PID, 3, commit=True, coordinator_epoch=0, timestamp_ms=NOW_MS)
    header = read_header(data).replace(records_count=0)
    states = ProducerStates()
    assert end_transaction(states, header, 15, [data[:61]]) is None
    assert states.end_offset == 16
    state = states.get(PID)
    assert state is not None
    assert (state.producer_epoch, state.txn_first_offset) == (-1, NO_OFFSET)
    states.update(header_of(0, PID, 3, True, 1), 16)
    end_transaction(states, header, 17, [data[:61]])
    assert states.first_unstable_offset(18) == 16


# The last stable offset


def test_the_first_unstable_offset(producers: Producers) -> None:
    """Open, or its marker not below the high watermark."""

    def seen(high_watermark: int) -> tuple[int | None, int | None]:
        opened = min((state.txn_first_offset for state in producers.states if state.has_open_transaction), default=None)
        return opened, producers.states.first_unstable_offset(high_watermark)

    assert seen(0) == (None, None)
    producers.send(0, 99, epoch=5, transactional=True)
    assert seen(99) == (99, 99)
    producers.send(0, 105, producer_id=OTHER, epoch=5, transactional=True)
    assert seen(99) == (99, 99)
    producers.end(109, epoch=5)
    assert seen(99) == (105, 99)
    assert seen(100) == (105, 99)
    assert seen(109) == (105, 99)
    assert seen(110) == (105, 105)
    producers.end(112, producer_id=OTHER, epoch=5, commit=False)
    assert seen(110) == (None, 105)
    assert seen(113) == (None, None)


def test_stable_offsets_of_three(producers: Producers) -> None:
    """Checks what a marker leaves as the last stable offset: the start of the oldest that is still open, else what follows it."""
    for producer_id, offset in ((PID, 342), (OTHER, 367), (THIRD, 399)):
        producers.send(0, offset, producer_id=producer_id, transactional=True)
    stable = []
    for producer_id, offset in ((PID, 414), (THIRD, 434), (OTHER, 512)):
        ended = producers.end(offset, producer_id=producer_id)
        assert ended is not None
        stable.append((ended.last_stable_offset, producers.states.first_unstable_offset(offset + 1)))
    assert stable == [(367, 367), (367, 367), (513, None)]


def test_empty_transactions(producers: Producers) -> None:
    producers.send(0, 16, count=5, transactional=True)
    assert producers.states.first_unstable_offset(21) == 16
    ended = [producers.end(21), producers.end(22), producers.end(23, commit=False)]
    producers.send(5, 24, count=4, transactional=True)
    ended += [producers.end(28, commit=False), producers.end(29, commit=False)]
    producers.send(9, 30, count=2, transactional=True)
    assert ended == [
        CompletedTransaction(PID, 16, 21, False, 22),
        None,
        None,
        CompletedTransaction(PID, 24, 28, True, 29),
        None,
    ]
    assert producers.states.first_unstable_offset(32) == 30


# Late transactions


def test_late_transactions(producers: Producers) -> None:
    producers.send(0, 100, producer_id=39, epoch=2, transactional=True)
    assert not producers.late()
    producers.now_ms += 500
    producers.send(0, 150, producer_id=57, epoch=9, transactional=True)
    assert not producers.late()
    producers.now_ms += LATE_MS - 500
    assert not producers.late()
    producers.now_ms += 1
    assert producers.late(), "the older one is"
    again = ProducerStates()
    again.load(producers.states.snapshot_bytes(), 151)
    assert again.has_late_transaction(producers.now_ms, TIMEOUT_MS)
    producers.now_ms += 500
    assert producers.late()
    producers.end(200, producer_id=39, epoch=2)
    assert producers.late(), "the other one is, too"
    producers.end(250, producer_id=57, epoch=9)
    assert not producers.late()


KEPT = ("producer_id", "producer_epoch", "coordinator_epoch", "last_timestamp_ms", "txn_first_offset", "batches")


def test_a_snapshot_keeps_what_there_is() -> None:
    first, second = ProducerState(1), ProducerState(11)
    first.producer_epoch, first.coordinator_epoch, first.txn_first_offset = 2, 3, 100
    first.batches.append(AppendedBatch(1, 2, 3, -1))
    second.producer_epoch, second.coordinator_epoch, second.last_timestamp_ms = 12, 13, 123456
    read = decode_snapshot(encode_snapshot([first, second]))
    for wanted, found in zip((first, second), read, strict=True):
        assert {name: getattr(found, name) for name in KEPT} == {name: getattr(wanted, name) for name in KEPT}

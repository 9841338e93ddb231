"""These tests cover share_state/shard.py by itself: what one partition of `__share_group_state` replays, what it answers while
that is not replicated, and records that nobody can read. test_coordinator.py has the life of share partitions.
"""

from __future__ import annotations

import logging

import pytest

from ottla.server.base.promise import Promise
from ottla.server.share_state.batches import StateBatch
from ottla.server.share_state.errors import ShareStateError
from ottla.server.share_state.records import VALUE_VERSION, Change, decode, encode
from ottla.server.share_state.shard import A_STEP, ShareStateShard
from ottla.server.share_state.state import NO_EPOCH, SharePartition, ShareState, ShareUpdate
from ottla.wire.batch import read_header
from ottla.wire.errors import ErrorCode
from ottla.wire.records import Record, build_batch, decode_records
from tests.server.coordination.fakes import LaggingLog
from tests.server.coordination.memory import CoordinatorClock, slow_ticks
from tests.server.share_state.fakes import NAME, TOPIC_ID, refused

OTHER = SharePartition("g", TOPIC_ID, 1)
ACKNOWLEDGED = StateBatch(10, 12, 1, 2)


def shard_over(log: LaggingLog, updates_per_snapshot: int = 500) -> ShareStateShard:
    """Returns a shard that has loaded what is in the log."""
    shard = ShareStateShard(
        0, 3, lambda batch: log.append(0, batch), CoordinatorClock(), updates_per_snapshot, lambda *name: True
    )
    for _ in shard.load(lambda: log.read(0), lambda: log.replicated(0)):
        pass
    return shard


def loaded(*changes: Change) -> ShareStateShard:
    """Returns a shard that has loaded these changes, each from a batch of its own."""
    log = LaggingLog(lag=False)
    for change in changes:
        log.append(0, encode([change], 0))
    return shard_over(log)


# What is replayed


def test_an_update_is_laid_over_its_snapshot() -> None:
    shard = loaded((NAME, ShareState(4, 2, 5, 10, 0)), (NAME, ShareUpdate(4, 6, 10, 3, (ACKNOWLEDGED,))))
    assert shard.find(NAME) == ShareState(4, 2, 6, 10, 3, (ACKNOWLEDGED,))
    assert refused(lambda: shard.read(NAME, 5)) is ErrorCode.FENCED_LEADER_EPOCH
    assert refused(lambda: shard.update(NAME, 1, 6, 10, 0, ())) is ErrorCode.FENCED_STATE_EPOCH


def test_an_update_without_its_snapshot_counts_alone() -> None:
    shard = loaded((NAME, ShareUpdate(4, 6, 10, 3, (ACKNOWLEDGED,))))
    assert shard.find(NAME) == ShareState(4, 0, 6, 10, 3, (ACKNOWLEDGED,))
    assert refused(lambda: shard.read(NAME, 5)) is ErrorCode.FENCED_LEADER_EPOCH


def test_an_update_may_leave_the_leader_epoch_and_the_start_as_they_are() -> None:
    shard = loaded((NAME, ShareState(0, 2, 5, 10, 0)), (NAME, ShareUpdate(0, NO_EPOCH, -1, 1)))
    assert shard.find(NAME) == ShareState(0, 2, 5, 10, 1)
    assert refused(lambda: shard.read(NAME, 4)) is ErrorCode.FENCED_LEADER_EPOCH


def test_a_later_snapshot_lowers_no_epoch_that_was_seen() -> None:
    shard = loaded((NAME, ShareState(0, 2, 5, 10, 0)), (NAME, ShareState(1, 1, 4, 20, 0)))
    assert shard.find(NAME) == ShareState(1, 1, 4, 20, 0)
    assert refused(lambda: shard.read(NAME, 4)) is ErrorCode.FENCED_LEADER_EPOCH
    assert refused(lambda: shard.update(NAME, 1, 5, 20, 0, ())) is ErrorCode.FENCED_STATE_EPOCH


def test_a_tombstone_takes_its_share_partition_only() -> None:
    shard = loaded((NAME, ShareState(0, 1, 1, 10)), (OTHER, ShareState(0, 1, 1, 20)), (NAME, None))
    assert (shard.names(), len(shard), shard.find(NAME)) == ([OTHER], 1, None)
    assert shard.redundant_before() == 1, "the snapshot of the other one"


def test_updates_are_counted_over_a_restart() -> None:
    log = LaggingLog(lag=False)
    shard = shard_over(log, 2)
    shard.initialize(NAME, 1, 0)
    shard.update(NAME, 1, 0, 0, 0, (StateBatch(0, 0, 1, 2),))
    again = shard_over(log, 2)
    for _ in range(2):
        again.update(NAME, 1, 0, 0, 0, (StateBatch(0, 0, 1, 2),))
    written = [decode(record.key or b"", record.value) for batch in log.read(0) for record in decode_records(batch)]
    assert [type(each[1]) for each in written if each] == [ShareState, ShareUpdate, ShareUpdate, ShareState]
    assert again.redundant_before() == 3


# Passes, in turns


def shard_with(count: int, log: LaggingLog, batches: tuple[StateBatch, ...] = ()) -> ShareStateShard:
    """Returns a shard of so many share partitions, on whose clock every step takes a turn."""
    shard = shard_over(log)
    for number in range(count):
        shard.write(*written(number, batches))
    shard.clock.ticks_ns = slow_ticks()  # type: ignore[method-assign]  # of this clock only
    return shard


def written(number: int, batches: tuple[StateBatch, ...] = ()) -> tuple[bytes, list[Change]]:
    changes: list[Change] = [(SharePartition("g", TOPIC_ID, number), ShareState(0, 1, 1, 0, 0, batches, 0, 0))]
    return encode(changes, 0), changes


def counts(log: LaggingLog, after: int) -> list[int]:
    """Returns how many records each batch has, after the first ones."""
    return [read_header(batch).records_count for batch in log.read(0)][after:]


def advance(shard: ShareStateShard) -> None:
    assert isinstance(shard.clock, CoordinatorClock)
    shard.clock.advance(0)


def test_a_deleted_topic_is_forgotten_in_turns() -> None:
    log = LaggingLog(lag=False)
    shard = shard_with(2 * A_STEP + 1, log)
    shard._exists = lambda topic_id, partition: partition == 2 * A_STEP
    forgotten = shard.forget_missing()
    assert isinstance(forgotten, Promise)
    assert counts(log, 2 * A_STEP + 1) == [A_STEP]
    shard.delete(SharePartition("g", TOPIC_ID, 2 * A_STEP))
    advance(shard)
    assert forgotten.result() is None
    assert len(shard) == 0
    assert counts(log, 2 * A_STEP + 1) == [A_STEP, 1, A_STEP]


def test_cold_snapshots_are_written_in_turns() -> None:
    """It writes what is there by the time of each turn."""
    log = LaggingLog(lag=False)
    shard = shard_with(2 * A_STEP, log)
    snapshots = shard.snapshot_cold(0)
    assert isinstance(snapshots, Promise)
    assert counts(log, 2 * A_STEP) == [A_STEP]
    last, gone = (SharePartition("g", TOPIC_ID, 2 * A_STEP - number) for number in (1, 2))
    shard.update(last, 1, 1, 7, 0, ())
    shard.delete(gone)
    advance(shard)
    assert snapshots.result() == 2 * A_STEP - 1
    assert counts(log, 2 * A_STEP) == [A_STEP, 1, 1, A_STEP - 1]
    state = shard.find(last)
    assert state is not None
    assert state.start_offset == 7
    assert shard.find(gone) is None


def test_share_partitions_with_much_in_flight_take_turns_sooner() -> None:
    log = LaggingLog(lag=False)
    many = tuple(StateBatch(2 * offset, 2 * offset, 1, 2) for offset in range(A_STEP))
    shard = shard_with(3, log, many)
    snapshots = shard.snapshot_cold(0)
    assert counts(log, 3) == [1]
    advance(shard)
    assert isinstance(snapshots, Promise)
    assert snapshots.result() == 3
    assert counts(log, 3) == [1, 1, 1]


def test_a_pass_ends_with_its_shard() -> None:
    shard = shard_with(2 * A_STEP, LaggingLog(lag=False))
    snapshots = shard.snapshot_cold(0)
    shard.unload()
    advance(shard)
    assert isinstance(snapshots, Promise)
    assert refused(snapshots.result) is ErrorCode.NOT_COORDINATOR


# What is answered


def test_what_was_loaded_is_answered_once_it_is_replicated() -> None:
    log = LaggingLog()
    log.append(0, encode([(NAME, ShareState(0, 1, 1, 10))], 0))
    shard = shard_over(log)
    answer = shard.answer(shard.read(NAME, 1))
    assert isinstance(answer, Promise)
    assert not answer.done()
    log.replicate_all()
    assert answer.result() == ShareState(0, 1, 1, 10)
    assert shard.answer(shard.read(NAME, 1)) == ShareState(0, 1, 1, 10), "nothing to wait for"


def test_a_write_that_waits_when_the_partition_is_lost_is_refused() -> None:
    log = LaggingLog(lag=False)
    shard = shard_over(log)
    log.lag = True
    shard.initialize(NAME, 1, 0)
    answer = shard.answer(None)
    shard.unload()
    assert isinstance(answer, Promise)
    with pytest.raises(ShareStateError) as error:
        answer.result()
    assert error.value.code is ErrorCode.NOT_COORDINATOR
    assert refused(lambda: shard.initialize(NAME, 2, 0)) is ErrorCode.NOT_COORDINATOR


# What cannot be read


def test_a_record_that_nobody_can_read_is_skipped_and_those_beside_it_count(caplog: pytest.LogCaptureFixture) -> None:
    log, whole = LaggingLog(lag=False), encode([(NAME, ShareState(0, 1, 1, 10)), (OTHER, ShareState(0, 1, 1, 20))], 0)
    first, second = decode_records(whole)
    assert first.value is not None
    strange = (VALUE_VERSION + 1).to_bytes(2, "big") + bytes(first.value)[2:]
    unknown = b"\x00\x07" + bytes(first.key or b"")[2:]
    values = ((first.key, strange), (unknown, first.value), (second.key, second.value))
    log.append(0, build_batch([Record(0, 0, key, value, []) for key, value in values]))
    with caplog.at_level(logging.ERROR):
        shard = shard_over(log)
    assert shard.names() == [OTHER]
    (line,) = caplog.messages
    assert line.startswith("partition 0 of __share_group_state: skipped a malformed record at offset 0")

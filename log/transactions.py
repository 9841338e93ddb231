"""Transactions as a log's readers see them: who was aborted in what they read (KIP-98).

The state of a transaction is `ProducerStates`' business and what stays of an aborted one `TxnIndex`'; here they meet the
segments: a marker that was appended goes into both, and a reader asks across all segments.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.log.disk.files import Buffer, FileSlice
from ottla.log.index import CorruptIndex
from ottla.log.markers import build_marker, end_transaction
from ottla.log.replay import rebuild_txn_index
from ottla.log.segment import TXN_INDEX_SUFFIX, Segment
from ottla.log.txn_index import NO_ABORTS, AbortedTransaction, TxnIndex
from ottla.log.validate import Origin
from ottla.wire.batch import BatchHeader, read_header

if TYPE_CHECKING:
    from ottla.log.partition import AppendInfo, PartitionLog

_log = logging.getLogger("ottla.log.transactions")


def note_marker(log: PartitionLog, header: BatchHeader, base_offset: int, parts: Sequence[Buffer]) -> None:
    """The control batch in `parts` was appended at `base_offset`, to the active segment. StorageError, and the log's directory is
    offline: readers would not hear of who was aborted.
    """
    log.producers.forget_replicated(log.high_watermark)
    completed = end_transaction(log.producers, header, base_offset, parts)
    if completed is None or not completed.aborted:
        return
    segment = log.segments.active
    with log.directory.guard(f"appending to {log.path}", whole=True):
        try:
            index = segment.change_txn_index()
        except CorruptIndex as error:
            _rebuild(log, segment, error)  # with this marker, which is in the log by now
            return
    index.append(completed.index_entry)
    if len(index) == 1:
        _make_file(log, segment.path(TXN_INDEX_SUFFIX))


def _make_file(log: PartitionLog, path: str) -> None:
    """Kafka, too, makes the index's file with the first entry. What is in it is written with the other indexes.

    Nothing is raised: the marker is in the log and counts, also where the directory goes offline by this.
    """
    try:
        log.directory.disk.open(path, create=True).close()
    except OSError as error:
        failure = log.directory.fail(f"making {path}", error)
        _log.warning("%s is not there before its segment is full: %s", path, failure)
    log.unsynced.names_in(log.path)


def append_marker(
    log: PartitionLog,
    *,
    producer_id: int,
    producer_epoch: int,
    commit: bool,
    coordinator_epoch: int,
    leader_epoch: int,
    transaction_version: int = 0,
) -> AppendInfo:
    """Ends a producer's transaction, whether it has one here or not. Raises InvalidProducerEpoch and TransactionCoordinatorFenced
    with nothing changed (see ProducerStates.check_marker), and StorageError.
    """
    marker = build_marker(
        producer_id, producer_epoch, commit=commit, coordinator_epoch=coordinator_epoch, timestamp_ms=log.now_ms()
    )
    log.producers.check_marker(read_header(marker), coordinator_epoch, transaction_version)
    with log.directory.guard(f"appending to {log.path}"):
        _txn_index(log, log.segments.active)  # nothing may be missing when the marker is written
    return log.append_as_leader(marker, leader_epoch=leader_epoch, origin=Origin.COORDINATOR)


def collect_aborted(log: PartitionLog, fetch_offset: int, upto: int) -> list[AbortedTransaction]:
    """The aborted transactions that overlap the offsets from `fetch_offset` to below `upto`. StorageError, CorruptRecord."""
    found: list[AbortedTransaction] = []
    segments = log.segments
    try:
        for index in range(segments.floor(fetch_offset), len(segments)):
            entries = _txn_index(log, segments[index])
            if entries is not NO_ABORTS and entries.collect(fetch_offset, upto, found):
                break
    except OSError as error:
        raise log.directory.fail(f"reading {log.path}", error) from error
    return found


def aborted_in_read(log: PartitionLog, fetch_offset: int, read: FileSlice) -> list[AbortedTransaction]:
    """The aborted transactions that somebody needs to know of who reads `read` for `fetch_offset`. StorageError, CorruptRecord.

    As in Kafka these may be a few more than overlap the records: where the read ends, only the offset index is asked.
    """
    segments = log.segments
    try:
        if fetch_offset >= segments.active.base_offset and _txn_index(log, segments.active) is NO_ABORTS:
            return []  # nearly all reads
        index, last = segments.floor(fetch_offset), len(segments) - 1
        while index < last and segments[index].file is not read.file:
            index += 1
        upto = segments[index].offset_index.offset_at(read.position + read.length)
    except OSError as error:
        raise log.directory.fail(f"reading {log.path}", error) from error
    if upto is None:
        upto = log.log_end_offset if index == last else segments[index + 1].base_offset
    return collect_aborted(log, fetch_offset, upto)


def _txn_index(log: PartitionLog, segment: Segment) -> TxnIndex:
    try:
        return segment.txn_index
    except CorruptIndex as error:
        _rebuild(log, segment, error)
        return segment.txn_index


def _rebuild(log: PartitionLog, segment: Segment, error: CorruptIndex) -> None:
    _log.warning("the transaction index of %r is built anew: %s", segment, error)
    rebuild_txn_index(log.directory.disk, log.path, log.segments, segment, start_offset=log.log_start_offset)

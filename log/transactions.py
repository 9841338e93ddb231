"""Transactions as the users of a log see them: ending one, and finding out which were aborted in what was read (KIP-98).

`ProducerStates` keeps the state of transactions and `TxnIndex` what stays of aborted ones; `PartitionLog` updates both with every
append. The functions here look across all segments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.log.markers import build_marker
from ottla.log.txn_index import NO_ABORTS, AbortedTransaction
from ottla.log.validate import Origin
from ottla.wire.batch import read_header

if TYPE_CHECKING:
    from ottla.log.append_info import AppendInfo
    from ottla.log.disk.files import FileSlice
    from ottla.log.partition import PartitionLog


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
        log.txn_index_of(log.segments.active)  # loaded first, because nothing may fail once the marker is written
    return log.append_as_leader(marker, leader_epoch=leader_epoch, origin=Origin.COORDINATOR)


def collect_aborted(log: PartitionLog, fetch_offset: int, upto: int) -> list[AbortedTransaction]:
    """Returns the aborted transactions that overlap the offsets from `fetch_offset` to below `upto`. Raises StorageError or
    CorruptRecord.
    """
    found: list[AbortedTransaction] = []
    segments = log.segments
    try:
        for index in range(segments.floor(fetch_offset), len(segments)):
            entries = log.txn_index_of(segments[index])
            if entries is not NO_ABORTS and entries.collect(fetch_offset, upto, found):
                break
    except OSError as error:
        raise log.directory.fail(f"reading {log.path}", error) from error
    return found


def aborted_in_read(log: PartitionLog, fetch_offset: int, read: FileSlice) -> list[AbortedTransaction]:
    """Returns the aborted transactions whose records may be in `read`, which was read for `fetch_offset`. Raises StorageError or
    CorruptRecord.

    As in Kafka these may be a few more than overlap the records, because only the offset index says where the read ends.
    """
    segments = log.segments
    try:
        if fetch_offset >= segments.active.base_offset and log.txn_index_of(segments.active) is NO_ABORTS:
            return []  # as for nearly all reads
        index, last = segments.floor(fetch_offset), len(segments) - 1
        while index < last and segments[index].file is not read.file:
            index += 1
        upto = segments[index].offset_at(read.position + read.length)
    except OSError as error:
        raise log.directory.fail(f"reading {log.path}", error) from error
    if upto is None:
        upto = log.log_end_offset if index == last else segments[index + 1].base_offset
    return collect_aborted(log, fetch_offset, upto)

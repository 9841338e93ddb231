"""The cuts that make a follower's log a beginning of its leader's again.

A leader that finds the follower's last epoch ended earlier in its own log answers a Fetch with a diverging epoch (KIP-595); where
to cut then, `log.following.diverging_offset` says. Every leader since Kafka 2.7 answers so. ottla talks to none that is older,
and so never asks OffsetForLeaderEpoch itself.

A leader that does not have the offset at all answers OFFSET_OUT_OF_RANGE, and is asked for its own range. A follower that is
longer is cut; one that ends before the leader's start has nothing that the leader still has, and begins anew there, empty.

A leader's epochs do not reach below its log's start, which DeleteRecords can put into the middle of a batch. A follower that ends
right there may have other records at that batch's offsets, and no answer says so: it learns it from the batch.

A cut below the high watermark loses records that all in-sync replicas once had. That happens only after an unclean election, and
is logged as a warning; or where the bytes are damaged, and the replica is out of sync for that reason (repairs.py).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from ottla.log.errors import CorruptRecord
from ottla.log.following import diverging_offset
from ottla.wire.batch import read_header

if TYPE_CHECKING:
    from ottla.log.partition import PartitionLog

_FAR: Final = 2**63 - 1
_BASE_OFFSET_BYTES: Final = 8
"""A batch begins with its base offset."""

logger = logging.getLogger("ottla.server.replication")


def cut(log: PartitionLog, offset: int, why: str) -> bool:
    """Cuts `log` at `offset`, and the leader epochs that began there or later with it. Returns whether anything changed. Raises
    StorageError."""
    if offset < log.high_watermark:
        logger.warning(
            "%s-%d is cut at offset %d, below its high watermark %d, and loses records that were replicated: %s",
            log.topic,
            log.partition,
            offset,
            log.high_watermark,
            why,
        )
    before = log.log_end_offset, log.leader_epoch
    log.truncate_to(offset)
    return (log.log_end_offset, log.leader_epoch) != before


def cut_to_high_watermark(log: PartitionLog) -> None:
    """Cuts a log that knows no leader epoch, and so cannot compare itself with its leader's, to what is certainly replicated.
    Raises StorageError."""
    cut(log, log.high_watermark, "")


def cut_diverging(log: PartitionLog, epoch: int, end_offset: int) -> bool:
    """Cuts `log` after the leader's answer that `epoch` ends at `end_offset` there. Returns whether anything changed. Raises
    StorageError."""
    return cut(log, diverging_offset(log, epoch, end_offset), f"the leader's epoch {epoch} ends at offset {end_offset}")


def cut_where_leader_starts(log: PartitionLog, records: memoryview) -> bool:
    """Cuts a log that ends at its leader's start to where the leader's first batch begins, if it starts in the middle of that.

    `records` is what the leader answered. Returns whether anything was cut, which the leader has deleted. Raises StorageError.
    """
    base_offset = int.from_bytes(records[:_BASE_OFFSET_BYTES], "big", signed=True) if records else log.log_end_offset
    if not 0 <= base_offset < log.log_end_offset or log.log_start_offset == log.log_end_offset:
        return False
    logger.info(
        "%s-%d is cut at offset %d: its leader's log starts at %d, in the middle of another batch",
        log.topic,
        log.partition,
        base_offset,
        log.log_end_offset,
    )
    return log.truncate_to(base_offset)


def fit_into(log: PartitionLog, start_offset: int, end_offset: int) -> bool:
    """Brings the end of `log` into the range of its leader's, which begins at `start_offset` and ends at `end_offset`. Returns
    whether it was outside. Raises StorageError."""
    if log.log_end_offset > end_offset:
        return cut(log, end_offset, f"the leader's log ends at offset {end_offset}")
    if log.log_end_offset >= start_offset:
        return False
    logger.info(
        "%s-%d ends at offset %d, and the leader begins at %d: it begins anew there, empty",
        log.topic,
        log.partition,
        log.log_end_offset,
        start_offset,
    )
    log.truncate_fully_and_start_at(start_offset)
    return True


def cut_damage(log: PartitionLog, offset: int) -> None:
    """Cuts `log` where its damaged bytes begin: everything below `offset` was read and is sound. Where the damage is in a header,
    so that the place cannot be told by offsets, everything goes, and the log begins anew at its start. Raises StorageError."""
    try:
        log.truncate_to(offset)
        is_sound = _ends_at(log, offset)
    except CorruptRecord:
        is_sound = False
    if not is_sound:
        log.truncate_fully_and_start_at(log.log_start_offset)


def _ends_at(log: PartitionLog, offset: int) -> bool:
    """Returns whether the last bytes of the files are those of the batch that ends at `offset`. Raises CorruptRecord."""
    end = offset
    for batch in log.segments.batches(max(offset - 1, 0), _FAR):
        end = read_header(batch).next_offset
    return end == offset

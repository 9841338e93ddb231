"""The cuts that make a follower's log a beginning of its leader's again.

A leader that finds the follower's last epoch ended earlier in its own log answers a Fetch with a diverging epoch (KIP-595); where
to cut then, `log.following.diverging_offset` says. Every leader since Kafka 2.7 answers so. ottla talks to none that is older,
and so never asks OffsetForLeaderEpoch itself.

A leader that does not have the offset at all answers OFFSET_OUT_OF_RANGE, and is asked for its own range. A follower that is
longer is cut; one that ends before the leader's start has nothing that the leader still has, and begins anew there, empty.

A cut below the high watermark loses records that all in-sync replicas once had. That happens only after an unclean election, and
is logged as a warning.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.log.following import diverging_offset

if TYPE_CHECKING:
    from ottla.log.partition import PartitionLog

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

"""The meaning of a leader's answer about one partition for its follower: `take` carries it out.

| answer | what follows |
|---|---|
| records | they are appended as they are, in slices of a MiB; high watermark and log start are taken over |
| a diverging epoch | the log is cut where it parts from the leader's (truncation.py) |
| OFFSET_OUT_OF_RANGE | the leader is asked where its log begins and ends |
| FENCED_LEADER_EPOCH | nothing is fetched until the metadata has the new epoch |
| any other error | a pause: the metadata of one side is behind, or the leader cannot read |
| records that are wrong, or more than the disk has room for | what was whole before them is kept; a pause |
| records for a disk that failed | nothing more is fetched |

An answer without records, and with nothing else, is one of these with no records.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ottla.log.errors import CorruptRecord, NoRoom, StorageError
from ottla.log.following import append_as_follower
from ottla.server.replication.truncation import cut_diverging, cut_to_high_watermark, cut_where_leader_starts
from ottla.wire.batch import LENGTH_OVERHEAD
from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.server.replication.following import Following
    from ottla.wire.messages.fetch import PartitionData

SLICE_BYTES: Final = 1 << 20
"""The number of bytes that are appended at once, before others have a turn: a few milliseconds of work."""
_SIZE_AT: Final = 8

logger = logging.getLogger("ottla.server.replication")

_EXPECTED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""The errors that say no more than that the metadata of one side is behind."""


def take(following: Following, data: PartitionData, delay_until: float) -> Iterator[None]:
    """Carries out an answer, and pauses where others should have a turn; after each pause `following` may be over, and the caller
    does not go on then. `delay_until` is when a pause would end that the answer makes necessary.
    """
    code = data.error_code
    try:
        if code == ErrorCode.NONE:
            diverging = data.diverging_epoch
            if diverging is not None and diverging.end_offset >= 0:
                if not cut_diverging(following.log, diverging.epoch, diverging.end_offset):
                    logger.error(
                        "%s: the leader says that the logs diverge, but its answer leaves nothing to cut", following.name
                    )
                    following.delay(delay_until)
            else:
                yield from _append(following, data, delay_until)
        elif code == ErrorCode.OFFSET_OUT_OF_RANGE:
            following.look_up()
        elif code == ErrorCode.FENCED_LEADER_EPOCH:
            logger.info("%s: epoch %d of leader %d is over", following.name, following.leader_epoch, following.leader)
            following.stop()
        else:
            level = logging.INFO if code in _EXPECTED else logging.WARNING
            logger.log(level, "%s: leader %d answers with %s", following.name, following.leader, name_of(code))
            following.delay(delay_until)
    except CorruptRecord as error:
        logger.error("%s: %s; it is fetched again", following.name, error)
        following.delay(delay_until)
    except NoRoom:  # logged by the directory, once
        following.delay(delay_until)
    except StorageError as error:
        logger.error("%s is no longer fetched: %s", following.name, error)
        following.stop()


def begin(following: Following, delay_until: float) -> None:
    """Ends the state TRUNCATING: cuts the log to what is certainly replicated, and goes on to fetch."""
    try:
        cut_to_high_watermark(following.log)
        following.fetch()
    except NoRoom:
        following.delay(delay_until)
    except StorageError as error:
        logger.error("%s is not fetched: %s", following.name, error)
        following.stop()


def _append(following: Following, data: PartitionData, delay_until: float) -> Iterator[None]:
    """Appends the records of an answer, and takes over its offsets. Raises CorruptRecord and StorageError."""
    before = following.log.log_end_offset
    records = memoryview(data.records or b"")  # type: ignore[arg-type]  # never a region: it was received
    if data.log_start_offset == before:
        cut_where_leader_starts(following.log, records)
    for piece in _slices(records):
        append_as_follower(following.log, piece, following.leader_epoch)
        if len(piece) < len(records):
            yield
    log = following.log
    log.raise_high_watermark(min(data.high_watermark, log.log_end_offset))
    log.raise_log_start_offset(min(data.log_start_offset, log.high_watermark))
    following.lag = max(0, data.high_watermark - log.log_end_offset)
    if following.replica.watchers:
        following.replica.wake()
    if records and log.log_end_offset == before:  # the first batch is of an epoch that the metadata here do not have yet
        following.delay(delay_until)


def _slices(records: memoryview) -> Iterator[memoryview]:
    """Yields the records in pieces of whole batches, each of SLICE_BYTES or one batch more; what is torn at the end goes with the
    last."""
    start = at = 0
    while len(records) - at > _SIZE_AT + 4:
        size = int.from_bytes(records[at + _SIZE_AT : at + _SIZE_AT + 4], "big", signed=True) + LENGTH_OVERHEAD
        if size <= LENGTH_OVERHEAD:  # wrong: whoever appends it says so
            break
        at += size
        if at - start >= SLICE_BYTES and at < len(records):
            yield records[start:at]
            start = at
    yield records[start:]


def name_of(code: int) -> str:
    """Returns the name of an error code, or its number if it is none that this version knows."""
    known = ErrorCode._value2member_map_.get(code)
    return known.name if known is not None else f"error {code}"

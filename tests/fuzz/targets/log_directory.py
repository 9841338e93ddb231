"""A log directory with one partition, every file of which may hold anything: an input is a list of files, some of them sound.

- It opens, or the partition is refused by name (`LogManager.unavailable`), or the whole directory by a StorageError. An index, a
  snapshot, a checkpoint may hold any bytes: nothing else comes of it.
- What is open can be read, searched and appended to, and whatever is wrong with it is a LogError. The new batch comes after all
  others.
- After an unclean stop whose recovery point is 0 every batch was checked: reading then fails nowhere.
- A stop and another start, clean or not, change nothing of what can be read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from random import Random
from typing import Final

from ottla.log.config import LogConfig
from ottla.log.disk import checkpoint
from ottla.log.disk.checkpoint import EpochEntry
from ottla.log.errors import CorruptRecord, LogError, StorageError
from ottla.log.following import append_as_follower
from ottla.log.management.manager import LogManager
from ottla.log.markers import build_marker
from ottla.log.names import offset_name
from ottla.log.partition import PartitionLog
from ottla.log.producers import ProducerStates
from ottla.log.timestamps import max_timestamp_offset, offset_for_timestamp
from ottla.log.transactions import aborted_in_read, collect_aborted
from ottla.wire.batch import iter_batches, read_header, stamp
from ottla.wire.records import Record, build_batch
from tests.fuzz.draw import Draw, block
from tests.fuzz.targets.scan import file_of
from tests.memdisk import MemDisk

_NOW_MS: Final = 1_700_000_000_000
_ROOT: Final = "/data"
_PARTITION: Final = f"{_ROOT}/t-0"
_TOPIC_ID: Final = bytes(range(16))
_MOST_FILES: Final = 12
_FAR: Final = 2**62
"""Beyond this, offsets do not count up for long."""
_BASES: Final = (0, 1, 3, 6, 9, 100, 2**31 + 5, 2**40)
_OF_SEGMENTS: Final = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".log.swap", ".log.cleaned", ".log.deleted")
_OF_PARTITION: Final = (checkpoint.LEADER_EPOCHS, checkpoint.PARTITION_METADATA)
_OF_DIRECTORY: Final = (
    checkpoint.RECOVERY_POINTS,
    checkpoint.LOG_START_OFFSETS,
    checkpoint.CLEANER_OFFSETS,
    checkpoint.HIGH_WATERMARKS,
    checkpoint.CLEAN_SHUTDOWN,
)
_KINDS: Final = (*_OF_SEGMENTS, *_OF_PARTITION, *_OF_DIRECTORY)
_CONFIG: Final = replace(LogConfig.from_overrides({}, None), index_interval_bytes=100, segment_bytes=2_000)


def check(data: bytes) -> None:
    draw = Draw(data)
    appended = draw.block()
    disk = MemDisk(lambda: _NOW_MS)
    disk.makedirs(_PARTITION)
    for _ in range(_MOST_FILES):
        if draw.left:
            _write(disk, draw)
    clean = disk.exists(f"{_ROOT}/{checkpoint.CLEAN_SHUTDOWN}")
    manager = _opened(disk)
    log = None if manager is None else manager.get("t", 0)
    if manager is None or log is None:
        assert manager is None or ("t", 0) in manager.unavailable or manager.directories[0].failed
        return
    assert log.log_start_offset <= log.log_end_offset
    if log.topic_id is None:
        manager.create("t", 0, _TOPIC_ID, _CONFIG)  # as a broker does when it knows the topics
    batches = _batches(log)
    if not clean and not disk.exists(f"{_ROOT}/{checkpoint.RECOVERY_POINTS}"):
        assert batches is not None, "a log that was checked as a whole cannot be read"
    _use(log)
    if log.log_end_offset < _FAR:
        _append(log, appended)
    _restart(disk, manager, log, clean=clean or bool(len(data) & 1))


def _write(disk: MemDisk, draw: Draw) -> None:
    """Writes one file of the input."""
    kind = draw.one_of(_KINDS)
    if kind in _OF_DIRECTORY:
        path = f"{_ROOT}/{kind}"
    elif kind in _OF_PARTITION:
        path = f"{_PARTITION}/{kind}"
    else:
        path = f"{_PARTITION}/{offset_name(draw.one_of(_BASES))}{kind}"
    content = draw.block()
    disk.write_bytes(path, file_of(Draw(content)) if ".log" in kind else content)


def _opened(disk: MemDisk) -> LogManager | None:
    """Returns the log manager of the directory, None if that cannot be opened."""
    manager = LogManager(disk, [_ROOT], lambda: _NOW_MS, _CONFIG, random=Random(1))
    try:
        manager.open_all()
    except StorageError:
        return None
    return manager


def _batches(log: PartitionLog) -> list[bytes] | None:
    """Returns all batches, None where one is damaged."""
    try:
        found = list(log.iterate_batches(log.log_start_offset))
    except LogError:
        return None
    offsets = [read_header(batch).base_offset for batch in found]
    assert offsets == sorted(set(offsets)), "offsets do not ascend"
    assert not offsets or offsets[-1] < log.log_end_offset
    return found


def _use(log: PartitionLog) -> None:
    """Reads and searches wherever somebody may ask."""
    start, end = log.log_start_offset, log.log_end_offset
    assert start <= log.last_stable_offset <= end
    for offset in {start, start + 1, (start + end) // 2, end - 1, end, end + 1}:
        for max_bytes in (1, 200, 1 << 20):
            try:
                found = log.read(offset, max_bytes, upto=end)
                if found is not None:
                    list(iter_batches(found.read()))
                    aborted_in_read(log, offset, found)
            except (LogError, ValueError):  # a torn or damaged batch is the reader's to find
                continue
    for timestamp_ms in (-1, 0, 1_000, _NOW_MS, 2**62):
        _tolerant(partial(offset_for_timestamp, log, timestamp_ms))
    _tolerant(partial(max_timestamp_offset, log))
    _tolerant(lambda: collect_aborted(log, start, end))
    for epoch in (-1, 0, 1, 2**31 - 1):
        found_epoch, found_end = log.end_offset_for_epoch(epoch)
        assert found_epoch.bit_length() < 32
        assert found_end <= end


def _tolerant(operation: object) -> None:
    assert callable(operation)
    try:
        operation()
    except LogError:
        return


def _append(log: PartitionLog, follower_bytes: bytes) -> None:
    """Appends one good batch as a leader, and whatever the input says as a follower."""
    end = log.log_end_offset
    try:
        info = log.append_as_leader(build_batch([Record(0, _NOW_MS, b"k", b"v")]), leader_epoch=max(log.leader_epoch, 0))
    except StorageError:
        return
    assert (info.base_offset, log.log_end_offset) == (end, end + 1)
    with contextlib.suppress(LogError):
        append_as_follower(log, file_of(Draw(follower_bytes)))
    assert log.log_end_offset >= end + 1


def _would_be_cut(log: PartitionLog) -> bool:
    """Returns whether offsets are missing between two segments, or go back within one."""
    segments = list(log.segments)
    try:
        return any(segment.next_offset() != following.base_offset for segment, following in pairwise(segments))
    except CorruptRecord:
        return True


def _restart(disk: MemDisk, manager: LogManager, log: PartitionLog, *, clean: bool) -> None:
    before = _batches(log)
    if before is None:
        return
    start, end = log.log_start_offset, log.log_end_offset
    # After an unclean stop the log ends there; after a clean one it is left alone.
    manager.close(clean or _would_be_cut(log))
    again = _opened(disk)
    assert again is not None
    other = again.get("t", 0)
    assert other is not None, f"it does not open again: {again.unavailable}"
    assert _batches(other) == before, "other batches after a restart"
    assert (other.log_start_offset, other.log_end_offset) == (start, end)
    again.close(clean=False)


def seeds() -> Iterator[bytes]:
    records = [Record(0, _NOW_MS + at, b"k", b"value", []) for at in range(3)]
    batches = []
    for number, base in enumerate((0, 3, 6)):
        batch = build_batch(records, producer_id=7, producer_epoch=0, base_sequence=3 * number, transactional=True)
        batches.append(stamp(read_header(batch), base, 1) + batch[16:])
    end = build_marker(7, 0, commit=False, coordinator_epoch=1, timestamp_ms=_NOW_MS)
    marker = stamp(read_header(end), 9, 1) + end[16:]
    states = ProducerStates()
    for batch in batches:
        states.update(read_header(batch), read_header(batch).base_offset)
    first = _segment(*batches[:2])
    second = _segment(batches[2], marker)
    epochs = _file(checkpoint.LEADER_EPOCHS, 0, checkpoint.encode_epochs([EpochEntry(1, 0)]))
    metadata = _file(checkpoint.PARTITION_METADATA, 0, checkpoint.encode_partition_metadata(_TOPIC_ID))
    clean = _file(checkpoint.CLEAN_SHUTDOWN, 0, checkpoint.encode_clean_shutdown(4))
    points = _file(checkpoint.RECOVERY_POINTS, 0, checkpoint.encode_offsets({("t", 0): 6}))
    starts = _file(checkpoint.LOG_START_OFFSETS, 0, checkpoint.encode_offsets({("t", 0): 3}))
    snapshot = _file(".snapshot", 9, states.snapshot_bytes())
    index = _file(".index", 0, bytes.fromhex("00000005 000000a0"))
    times = _file(".timeindex", 0, (_NOW_MS + 2).to_bytes(8, "big") + bytes.fromhex("00000005"))
    aborted = _file(".txnindex", 6, bytes(2) + b"".join(number.to_bytes(8, "big") for number in (7, 0, 9, 10)))
    logs = _file(".log", 0, first) + _file(".log", 6, second)
    nothing = block(b"")
    yield nothing + logs
    yield nothing + logs + epochs + metadata + clean
    yield nothing + logs + points + starts + snapshot
    yield nothing + logs + index + times + aborted + clean + snapshot
    yield nothing + _file(".log", 0, first) + _file(".log.swap", 6, second)
    yield nothing + _file(".log", 0, first) + _file(".log.cleaned", 6, second) + clean
    yield nothing + _file(".log", 2**31 + 5, second)
    yield block(_segment(stamp(read_header(end), 30, 2) + end[16:])) + logs


def _segment(*batches: bytes) -> bytes:
    """Packs batches for `file_of`."""
    return b"".join(b"\0" + block(batch) for batch in batches)


def _file(kind: str, base: int, content: bytes) -> bytes:
    """Packs a file for `_write`."""
    place = bytes([_BASES.index(base)]) if kind in _OF_SEGMENTS else b""
    return bytes([_KINDS.index(kind)]) + place + block(content)

"""One bit of one small file is wrong: nothing that was written is lost or hidden without a line in the log.

Every bit of every small file of a directory is flipped, and the directory is opened, put through retention, and read by all the
ways by which consumers find records. What may differ in silence is in UNPROTECTED, with the reason.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any, Final

import pytest

from ottla.log.errors import LogError, StorageError
from ottla.log.management.manager import LogManager
from ottla.log.management.passes import retention_steps, run_pass
from ottla.log.partition import PartitionLog
from ottla.log.timestamps import max_timestamp_offset, offset_for_timestamp
from ottla.log.transactions import append_marker, collect_aborted
from ottla.wire.records import decode_records
from tests.log.support import NOW_MS, TOPIC_ID, batch, settings
from tests.memdisk import MemDisk

SIZE: Final = len(batch())
HOUR_MS: Final = 3_600_000
LATE_MS: Final = NOW_MS + 20 * HOUR_MS
CONFIG: Final = settings(
    segment_bytes=4 * SIZE, index_interval_bytes=SIZE, retention_ms=24 * HOUR_MS, message_timestamp_after_max_ms=1 << 60
)
UNPROTECTED: Final = {
    "topic id",  # the metadata know it, too: a partition of another topic is set aside, with a line
    "directory id",  # a controller sees another directory; this broker knows no other place that has it
    "epochs",  # as in Kafka; by a wrong one a follower cuts too much, which it fetches again
    "high watermark",  # as in Kafka; too low a one rises with the next fetches of the in-sync replicas
    "cleaned",  # what is cleaned twice is the same; where too much counts as clean, it is cleaned with what comes next
}
"""The state that nothing vouches for, each with the reason why records are safe all the same."""


def open_manager(disk: MemDisk) -> LogManager:
    """Opens the directory as a broker's start does. Raises StorageError."""
    manager = LogManager(disk, ["/data"], lambda: LATE_MS, CONFIG, random=Random(1))
    try:
        manager.lock()
        manager.format("cluster", 1)
        manager.open_all()
    except StorageError:
        manager.close(clean=False)
        raise
    return manager


def contents(disk: MemDisk, path: str = "/data") -> dict[str, bytes]:
    """Returns the bytes of all files, by path."""
    found: dict[str, bytes] = {}
    for name in disk.list(path):
        inner = f"{path}/{name}"
        found |= contents(disk, inner) if disk.is_dir(inner) else {inner: disk.read_bytes(inner)}
    return found


def written(*, clean: bool) -> dict[str, bytes]:
    """Returns the files of a directory with three segments, four epochs, an aborted and a committed transaction, deleted records
    and a cleaned partition."""
    disk = MemDisk(lambda: LATE_MS)
    manager = open_manager(disk)
    log = manager.create("t", 0, TOPIC_ID, CONFIG)
    for at in range(6):
        log.append_as_leader(batch(timestamp_ms=NOW_MS + at * 1000, producer=(9, 0, at)), leader_epoch=at // 3)
    for at, commit in enumerate((False, True)):
        data = batch(timestamp_ms=NOW_MS + (6 + at) * 1000, producer=(7, 0, at), transactional=True)
        log.append_as_leader(data, leader_epoch=2)
        append_marker(log, producer_id=7, producer_epoch=0, commit=commit, coordinator_epoch=0, leader_epoch=2)
    log.append_as_leader(batch(timestamp_ms=NOW_MS + 8000), leader_epoch=3)
    log.delete_records_before(1)
    log.flush()
    manager.directories[0].set_cleaned(("t", 0), 4)
    manager.checkpoint_pass()
    manager.close(clean)
    return contents(disk)


def seen_of(log: PartitionLog) -> dict[str, Any]:
    """Returns what clients find in the log, by all the ways by which they look."""
    seconds = [NOW_MS + at * 1000 - 1 for at in range(10)]
    return {
        "records": _found(lambda: [each.offset for data in log.iterate_batches(1) for each in decode_records(data)]),
        "each read": [_found(partial(_first, log, at)) for at in range(1, log.log_end_offset)],
        "start": log.log_start_offset,
        "end": log.log_end_offset,
        "stable": log.last_stable_offset,
        "aborted": _found(lambda: [each[:3] for each in collect_aborted(log, 1, log.log_end_offset)]),
        "times": [_found(partial(offset_for_timestamp, log, at)) for at in seconds],
        "latest": _found(lambda: max_timestamp_offset(log)),
        "sequences": [state.last_sequence for id_ in (7, 9) if (state := log.producers.get(id_)) is not None],
        "topic id": log.topic_id,
        "epochs": log.epochs.entries,
        "high watermark": log.checkpointed_high_watermark,
    }


def _first(log: PartitionLog, offset: int) -> bytes | None:
    read = log.read(offset, SIZE, upto=log.log_end_offset)
    return None if read is None else read.read()


def _found(look: Callable[[], object]) -> object:
    try:
        return look()
    except LogError as error:
        return f"{type(error).__name__}: {error}"


def seen_after_start(files: dict[str, bytes]) -> dict[str, Any] | str:
    """Opens a directory with these files, and returns what is found in it, or why the directory or its partition is refused."""
    disk = MemDisk(lambda: LATE_MS)
    disk.makedirs("/data/t-0")
    for path, data in files.items():
        disk.write_bytes(path, data)
    try:
        manager = open_manager(disk)
    except StorageError as error:
        return str(error)
    run_pass(retention_steps(manager, LATE_MS))
    log = manager.get("t", 0)
    if log is None:
        return manager.unavailable["t", 0]
    found = seen_of(log) | {"directory id": manager.directory_ids, "cleaned": dict(manager.directories[0].cleaned)}
    manager.close(clean=False)
    return found


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The warnings and errors in the log; pytest would keep the lines of ten thousand starts."""
    found: list[str] = []
    handler = logging.Handler(logging.WARNING)
    monkeypatch.setattr(handler, "emit", lambda record: found.append(record.getMessage()))
    ours = logging.getLogger("ottla.log")
    monkeypatch.setattr(ours, "handlers", [handler])
    monkeypatch.setattr(ours, "propagate", False)
    return found


def flips(data: bytes) -> Iterator[bytes]:
    for bit in range(8 * len(data)):
        yield data[: bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1 :]


@pytest.mark.parametrize("clean", [True, False])
def test_no_bit_hides_anything_in_silence(clean: bool, lines: list[str]) -> None:
    files = written(clean=clean)
    right = seen_after_start(files)
    assert isinstance(right, dict)
    assert right["records"] == list(range(1, 11))
    assert right["aborted"] == [(7, 6, 7)]
    small = {path: data for path, data in files.items() if not path.endswith((".log", ".lock"))}
    assert len(small) > 15
    hidden = set()
    for path, data in small.items():
        for count, flipped in enumerate([b"", data[: len(data) // 2], *flips(data)]):
            lines.clear()
            found = seen_after_start(files | {path: flipped})
            if isinstance(found, str) or lines:
                continue
            hidden |= {(path, count - 2, what) for what in right if found[what] != right[what] and what not in UNPROTECTED}
    assert hidden == set()

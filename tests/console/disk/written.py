"""Data directories for the pages of files: written by our log without a broker, with every kind of batch, damaged on purpose."""

from __future__ import annotations

import hashlib
from pathlib import Path
from random import Random
from typing import Final

from ottla.log.config import LogConfig
from ottla.log.disk import checkpoint
from ottla.log.disk.checkpoint import MetaProperties
from ottla.log.disk.directory import LogDirectory
from ottla.log.disk.files import OpenFiles, OsDisk
from ottla.log.markers import build_marker
from ottla.log.open_options import Opening
from ottla.log.opening.recovery import create_log
from ottla.log.partition import PartitionLog
from ottla.log.validate import Origin
from ottla.wire.records import Record, build_batch

NOW_MS: Final = 1_795_737_600_000
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
FIRST: Final = f"{0:020d}.log"
META: Final = MetaProperties("the-cluster", 1, "AAAAAAAAAAAAAAAAAAAAAQ")


def new_log(path: Path, topic: str, **overrides: str) -> PartitionLog:
    config = LogConfig.from_overrides({name.replace("_", "."): value for name, value in overrides.items()})
    directory = LogDirectory(OsDisk(), str(path), OpenFiles(8))
    return create_log(directory, Opening(topic, 0, None, config, lambda: NOW_MS, Random(0), clean=True))


def append(log: PartitionLog, count: int, codec: int = 0, value: bytes = b"<b>value</b>" * 8, time_ms: int = NOW_MS) -> None:
    records = [Record(0, time_ms, b"key-%d" % number, value) for number in range(count)]
    log.append_as_leader(build_batch(records, codec=codec), leader_epoch=codec)


def append_aborted(log: PartitionLog, producer_id: int) -> None:
    """Appends a record of a transaction, and the marker that aborts it."""
    record = [Record(0, NOW_MS, b"k", b"aborted")]
    batch = build_batch(record, base_sequence=0, transactional=True, producer_id=producer_id, producer_epoch=0)
    log.append_as_leader(batch, leader_epoch=9)
    marker = build_marker(producer_id, 0, commit=False, coordinator_epoch=4, timestamp_ms=NOW_MS)
    log.append_as_leader(marker, leader_epoch=9, origin=Origin.COORDINATOR)


def write_meta(path: Path) -> None:
    """Makes a log directory of the path, stopped cleanly."""
    (path / checkpoint.META_PROPERTIES).write_bytes(checkpoint.encode_meta_properties(META, NOW_MS))
    (path / checkpoint.CLEAN_SHUTDOWN).write_bytes(checkpoint.encode_clean_shutdown(3))
    (path / checkpoint.RECOVERY_POINTS).write_bytes(checkpoint.encode_offsets({("orders", 0): 17}))
    (path / checkpoint.HIGH_WATERMARKS).write_bytes(checkpoint.encode_offsets({("orders", 0): 17}))


def write_orders(path: Path) -> Path:
    """Makes `orders-0` with a batch of each codec (offsets 0 to 14) and an aborted transaction (15, 16); returns the segment."""
    log = new_log(path, "orders", index_interval_bytes="100")
    for codec in range(len(CODECS)):
        append(log, codec + 1, codec)
    append_aborted(log, 7)
    log.close()
    write_meta(path)
    return path / "orders-0" / FIRST


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0xFF
    path.write_bytes(data)


def fingerprint(path: Path) -> dict[str, str]:
    """Returns what is in a tree: bytes, sizes, and when each file was written."""
    return {
        str(
            one.relative_to(path)
        ): f"{one.stat().st_mtime_ns} {hashlib.sha256(one.read_bytes()).hexdigest() if one.is_file() else ''}"
        for one in sorted(path.rglob("*"))
    }

"""Logs on a real disk, written by ottla's own log, and all their records read by the simplest way there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ottla.log.disk.files import OsDisk
from ottla.log.validate import Origin
from ottla.pipeline.data_source.columns import read
from ottla.pipeline.data_source.segments import Place, Slice, Wanted, find, slices, with_log
from ottla.wire.batch import iter_batches
from ottla.wire.records import Record, build_batch, decode_records
from tests.log.support import NOW_MS, Rig, marker, settings

ALL = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


def rig(directory: Path, **changes: Any) -> Rig:
    """Partition "t" 0 in a log directory."""
    return Rig(settings(**changes), OsDisk(), directory=str(directory))


def end_transaction(log: Rig, producer_id: int, *, commit: bool) -> None:
    log.log.append_as_leader(marker(producer_id, 0, commit=commit), leader_epoch=0, origin=Origin.COORDINATOR)


def numbered(first: int, count: int, codec: int = 0) -> bytes:
    """Records that say their offset, a second apart."""
    records = [Record(0, NOW_MS + at * 1000, b"k%d" % at, b"value %d" % at * 5, []) for at in range(first, first + count)]
    return build_batch(records, codec=codec)


def fill(log: Rig, batches: int, count: int = 10, codec: int = 0) -> None:
    for at in range(batches):
        log.append(numbered(log.log.log_end_offset, count, codec if codec else at % 5))


def place(path: Path) -> Place:
    (found,) = find(str(path))
    return found


def plan(path: Path, split_bytes: int = 1 << 30, **wanted: Any) -> list[Slice]:
    where = place(path)
    return with_log(where, lambda log: slices(log, where, Wanted(**wanted), split_bytes))


def rows(parts: list[Slice], columns: tuple[str, ...] = ALL, **options: Any) -> list[dict[str, Any]]:
    return [row for part in parts for batch in read(part, columns, **options) for row in batch.to_pylist()]


def offsets(path: Path, split_bytes: int = 1 << 30, **wanted: Any) -> list[int]:
    return [row["offset"] for row in rows(plan(path, split_bytes, **wanted), ("offset",))]


def by_hand(path: Path) -> list[Record]:
    """Every record of every data batch in the partition's files."""
    found: list[Record] = []
    for file in sorted((path / "t-0").glob("*.log")):
        for header, data in iter_batches(file.read_bytes()):
            found += [] if header.is_control else decode_records(data)
    return found


def contents(path: Path) -> dict[str, bytes]:
    """All files below a directory: what nobody may have changed."""
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}

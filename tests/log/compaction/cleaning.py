"""A compacted log in memory with a cleaner, for the tests of compaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, Final, NamedTuple

from ottla.log.append_info import AppendInfo
from ottla.log.compaction.cleaner import Cleaner, Throttle
from ottla.log.compaction.cleaner_manager import CleanerSettings, Cleaning, LogCleanerManager
from ottla.log.compaction.cleaning_job import CleanedGroup
from ottla.log.validate import Origin
from ottla.wire.batch import BatchHeader, check_crc, iter_batches
from ottla.wire.records import Record, build_batch, decode_records
from tests.log.support import Rig, marker, settings

COMPACT: Final = frozenset({"compact"})
Pair = tuple[bytes, bytes | None]


class Seen(NamedTuple):
    """A record as a reader sees it."""

    offset: int
    key: bytes | None
    value: bytes | None


def compacted(**changes: Any) -> Any:
    """Settings of a compacted topic that is due as soon as anything is dirty; tombstones stay for 1,000 ms."""
    return settings(
        **{
            "cleanup_policy": COMPACT,
            "min_cleanable_dirty_ratio": 0.0,
            "delete_retention_ms": 1_000,
            "segment_bytes": 1 << 20,
            "index_interval_bytes": 100,
            **changes,
        }
    )


class CleanerRig(Rig):
    """`put` writes, `roll` ends a segment, `clean` cleans all but the active one."""

    def __init__(self, *, cleaner: CleanerSettings | None = None, disk: Any = None, **changes: Any) -> None:
        self.cleaner_settings = cleaner or CleanerSettings()
        super().__init__(compacted(**changes), disk)

    def start(self) -> None:
        super().start()
        self.cleaner = LogCleanerManager(self.manager, lambda: self.now_ms, Random(1), self.cleaner_settings)

    # Writing

    def put(
        self,
        *pairs: Pair,
        producer: tuple[int, int, int] | None = None,
        transactional: bool = False,
        timestamps: Sequence[int] = (),
        codec: int = 0,
        timestamp_type: int = 0,
    ) -> AppendInfo:
        """One batch. `producer` is (id, epoch, base sequence)."""
        times = timestamps or [self.now_ms] * len(pairs)
        producer_id, epoch, sequence = producer or (-1, -1, -1)
        data = build_batch(
            [Record(0, at, key, value, []) for (key, value), at in zip(pairs, times, strict=True)],
            codec=codec,
            timestamp_type=timestamp_type,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
        return self.append(data)

    def put_each(self, keys: Iterable[int], value: bytes = b"v") -> None:
        """A batch a key."""
        for key in keys:
            self.put((b"%d" % key, value))

    def end(self, producer_id: int, *, commit: bool, epoch: int = 0) -> AppendInfo:
        """A transaction's marker."""
        data = marker(producer_id, epoch, commit=commit)
        return self.log.append_as_leader(data, leader_epoch=0, origin=Origin.COORDINATOR)

    def roll(self) -> None:
        self.log.roll()

    # Cleaning

    def clean(self, **bounds: Any) -> int:
        """Rolls, and cleans until nothing is due; returns how many cleanings there were."""
        self.roll()
        return self.cleaner.clean_pass(**bounds)

    def begin(self) -> Cleaning:
        """A cleaning, prepared and not begun."""
        self.roll()
        cleaning = self.cleaner.next_cleaning()
        assert cleaning is not None
        self.log.flush()
        self.cleaner.prepare(cleaning)
        return cleaning

    @property
    def cleaned_upto(self) -> int | None:
        return self.log.directory.cleaned.get(("t", 0))

    # Looking

    def batches(self) -> list[tuple[BatchHeader, bytes]]:
        """Returns the batches that lie in the log, with its CRCs checked."""
        found = []
        for data in self.log.iterate_batches(self.log.log_start_offset) if self.log.size_bytes else ():
            ((header, view),) = iter_batches(data)
            assert check_crc(view, header)
            found.append((header, bytes(view)))
        return found

    def headers(self) -> list[BatchHeader]:
        return [header for header, _ in self.batches()]

    def seen(self) -> list[Seen]:
        """All records that are not markers."""
        return [
            Seen(record.offset, record.key, record.value)
            for header, data in self.batches()
            if not header.is_control
            for record in decode_records(data)
        ]

    def keys(self) -> list[int]:
        return [int(record.key or b"-1") for record in self.seen()]

    def offsets(self) -> list[int]:
        return [record.offset for record in self.seen()]

    def markers(self) -> list[int]:
        """Offsets of transaction markers that have their record."""
        return [header.base_offset for header in self.headers() if header.is_control and header.records_count]

    def empty(self) -> list[int]:
        """Last offsets of batches that lost all their records."""
        return [header.last_offset for header in self.headers() if not header.records_count]


BATCH_BYTES = 70
"""About what a batch of put_each takes."""


def cleaned_groups(rig: CleanerRig, cleaning: Cleaning) -> list[CleanedGroup]:
    cleaner = Cleaner(rig.disk, cleaning.job, Throttle(float("inf"), lambda: 0.0, lambda seconds: None))
    return list(cleaner.groups())


def segments(rig: CleanerRig, count: int, step_ms: int = 0) -> None:
    """So many segments of one record, each `step_ms` after the one before."""
    for key in range(count):
        rig.put_each([key])
        rig.roll()
        rig.now_ms += step_ms

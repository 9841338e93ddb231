"""A log in memory for tests: a disk that can fail, a clock that stands still, and batches by the dozen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from ottla.log.append_info import AppendInfo
from ottla.log.config import LogConfig
from ottla.log.disk.files import Buffer, Disk
from ottla.log.management.manager import LogManager
from ottla.log.partition import PartitionLog
from ottla.log.segment import Segment
from ottla.wire.batch import iter_batches
from ottla.wire.compression import decompressed_pieces
from ottla.wire.records import Record, build_batch, decode_records
from tests.memdisk import MemDisk

NOW_MS = 1_700_000_000_000
TOPIC_ID = bytes(range(16))
DIRECTORY = "/data"


def settings(**changes: Any) -> LogConfig:
    """Kafka's defaults but for the changes, which need not be in the bounds of a setting."""
    return replace(LogConfig.from_overrides({}, None), **changes)


def batch(
    count: int = 1,
    *,
    timestamp_ms: int = NOW_MS,
    step_ms: int = 0,
    value: bytes = b"v" * 100,
    producer: tuple[int, int, int] | None = None,
    transactional: bool = False,
    codec: int = 0,
) -> bytes:
    """`count` records, `step_ms` apart; `producer` is (id, epoch, base sequence)."""
    producer_id, producer_epoch, base_sequence = producer or (-1, -1, -1)
    return build_batch(
        [Record(0, timestamp_ms + at * step_ms, b"k", value, []) for at in range(count)],
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
    )


def marker(producer_id: int, producer_epoch: int, *, commit: bool, coordinator_epoch: int = 0) -> bytes:
    """A transaction marker's control batch."""
    key, value = b"\0\0\0" + bytes([commit]), b"\0\0" + coordinator_epoch.to_bytes(4, "big")
    return build_batch(
        [Record(0, NOW_MS, key, value, [])],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def count_decompressed(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Returns a function for how many bytes came out of codecs, piece by piece, since this call."""
    taken = 0

    def counted(*arguments: Any) -> Iterator[bytes]:
        nonlocal taken
        for piece in decompressed_pieces(*arguments):
            taken += len(piece)
            yield piece

    monkeypatch.setattr("ottla.wire.record_pieces.decompressed_pieces", counted)
    return lambda: taken


def last_time_entry(segment: Segment) -> tuple[int, int]:
    """The entry that the time index gets when the segment ends: the greatest timestamp, and the last offset of its batch."""
    segment.write_indexes(final=True)
    assert segment.time_index.last()[0] == segment.max_timestamp
    return segment.time_index.last()


class Rig:
    """One partition, "t" 0, in a LogManager on a MemDisk; `now_ms` is the time until it is set."""

    def __init__(
        self,
        config: LogConfig | None = None,
        disk: Disk | None = None,
        seed: int = 1,
        *,
        directory: str = DIRECTORY,
        topic_id: bytes | None = TOPIC_ID,
        now_ms: int = NOW_MS,
    ) -> None:
        self.now_ms = now_ms
        self.directory = directory
        self.topic_id = topic_id
        self.config = config or settings()
        self.disk = disk or MemDisk(lambda: self.now_ms)
        self.random = Random(seed)
        self.start()

    def start(self) -> None:
        """Opens what is on the disk, as a broker's start does."""
        self.manager = LogManager(self.disk, [self.directory], lambda: self.now_ms, self.config, random=self.random)
        self.manager.open_all()
        self.log: PartitionLog = self.manager.create("t", 0, self.topic_id, self.config)

    def restart(self, *, clean: bool) -> None:
        """Stops and starts; an unclean stop loses nothing that was written, as kill -9 does not."""
        self.manager.close(clean)
        self.start()

    @property
    def memory(self) -> MemDisk:
        assert isinstance(self.disk, MemDisk)
        return self.disk

    @property
    def path(self) -> str:
        return f"{self.directory}/t-0"

    @property
    def bases(self) -> list[int]:
        """Base offsets of the segments."""
        return [segment.base_offset for segment in self.log.segments]

    def append(self, data: Buffer | None = None, *, leader_epoch: int = 0) -> AppendInfo:
        return self.log.append_as_leader(data if data is not None else batch(), leader_epoch=leader_epoch)

    def fill(self, batches: int, **fields: Any) -> None:
        for _ in range(batches):
            self.append(batch(**fields))

    def names(self, suffix: str = "") -> list[str]:
        return [name for name in self.disk.list(self.path) if name.endswith(suffix)]

    def read(self, offset: int = 0, max_bytes: int = 1 << 30) -> list[int]:
        """Offsets of all records from the batch with `offset` on, over all segments."""
        offsets: list[int] = []
        log = self.log
        while offset < log.log_end_offset:
            found = log.read(offset, max_bytes, upto=log.log_end_offset)
            if found is None:
                break
            for header, data in iter_batches(found.read()):
                offsets += [record.offset for record in decode_records(data)]
                offset = header.next_offset
        return offsets

"""Checks one partition's directory, written by ottla or by Apache Kafka. Nothing is changed, and no file is trusted.

The segments are walked in order, batch by batch (segment.py). Everything that is derived from the batches is compared with
them on the way: indexes, producer snapshots and leader epochs. After an unclean stop, a start rebuilds the indexes from the
segment with the recovery point on anyway. Those are not checked: Kafka leaves zeros in them, and ottla leaves them empty.

Damage counts as corruption if the offsets were synced (they are below the recovery point), or if sound batches follow it in a
place where no start would look for them. Otherwise it is a torn tail (findings.py).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

from ottla.commands.log.checks.findings import Finding, Meaning, Remedy
from ottla.commands.log.checks.segment import OffsetIndexCheck, SegmentCheck, TimeIndexCheck, TxnIndexCheck, Wrong
from ottla.commands.log.files import METADATA_SNAPSHOT, TOO_LARGE, open_to_read, read_whole
from ottla.commands.log.segment_walk import Batch, SegmentWalk
from ottla.log.disk.checkpoint import (
    LEADER_EPOCHS,
    PARTITION_METADATA,
    EpochEntry,
    read_epochs,
    read_partition_metadata,
    uuid_text,
)
from ottla.log.disk.files import OsDisk
from ottla.log.errors import CorruptSnapshot, InconsistentMetadata
from ottla.log.producers import NO_OFFSET, ProducerState, decode_snapshot
from ottla.wire.batch import NO_LEADER_EPOCH

_NAME: Final = re.compile(r"([0-9]{20})\.(log|index|timeindex|txnindex|snapshot)")
_LEFTOVER: Final = re.compile(r".+\.(cleaned|tmp)")
_FILES: Final = frozenset({LEADER_EPOCHS, PARTITION_METADATA, "quorum-state"})
_DAMAGED: Final = re.compile(r".+\.damaged(\.\d+)?")


@dataclass(slots=True)
class Expected:
    """The facts about a partition that the files around it state. A field is None if they say nothing."""

    clean: bool = True
    recovery_point: int | None = None
    log_start_offset: int | None = None
    high_watermark: int | None = None
    compacted: bool = False
    topic_id: bytes | None = None
    every_append_synced: bool = False


@dataclass(slots=True)
class SegmentState:
    """The result of a walk through a segment. `damage` is as in SegmentCheck; `next_offset` is the offset after the last sound
    batch."""

    path: Path
    base_offset: int
    size: int
    next_offset: int
    sound: list[tuple[int, int]] = field(default_factory=list)
    damage: list[tuple[int, int, str]] = field(default_factory=list)
    torn: bool = False


class PartitionCheck:
    """`run` fills `findings`, `segments`, `end_offset` and `epochs`, which are the offsets where the batches' epoch changes.

    `bases`: check only the segments with these base offsets.
    """

    def __init__(
        self,
        path: Path,
        expected: Expected | None = None,
        *,
        deep: bool = False,
        advance: Callable[[int], object] = int,
        bases: Iterable[int] | None = None,
    ) -> None:
        self.path = path
        self.expected = expected or Expected()
        self.findings: list[Finding] = []
        self.segments: list[SegmentState] = []
        self.end_offset = 0
        self._deep = deep
        self._advance = advance
        self._only = None if bases is None else sorted(bases)
        self._producers: dict[int, tuple[int, int]] = {}  # producer id -> last sequence, last offset
        self._snapshots: list[tuple[int, Path]] = []
        self._open: dict[int, int] = {}  # producer id -> first offset of its transaction
        self._first_offset = 0
        self._walking: SegmentCheck | None = None
        self.epochs: list[EpochEntry] = []

    def add(self, path: Path, position: int | None, what: str, meaning: Meaning, remedy: Remedy) -> None:
        self.findings.append(Finding(str(path), position, what, meaning, remedy))

    def run(self) -> None:
        """Checks everything. Raises OSError if a file cannot be read."""
        names = sorted(entry.name for entry in self.path.iterdir())
        parts = {name: found for name in names if (found := _NAME.fullmatch(name))}
        bases = every = sorted(int(found[1]) for found in parts.values() if found[2] == "log")
        if self._only is None:
            self._names(names, parts, set(bases))
        else:
            bases = [base for base in bases if base in self._only]
        self._snapshots = sorted((int(found[1]), self.path / name) for name, found in parts.items() if found[2] == "snapshot")
        if self._only is not None:
            self._snapshots = []
        self.end_offset = self._first_offset = bases[0] if bases else 0
        for base in bases:
            after = bisect_right(every, base)
            self._segment(base, every[after] if after < len(every) else None)
        self._end()
        if self._only is None:
            self._epoch_file()
            self._partition_metadata()

    # Names

    def _names(self, names: list[str], parts: dict[str, re.Match[str]], bases: set[int]) -> None:
        for name in names:
            path = self.path / name
            if found := parts.get(name):
                if found[2] not in {"log", "snapshot"} and int(found[1]) not in bases:
                    self.add(path, None, "an index without its log", Meaning.LEFTOVER, Remedy.REMOVE)
            elif _LEFTOVER.fullmatch(name):
                self.add(path, None, "left behind by an interrupted step", Meaning.LEFTOVER, Remedy.REMOVE)
            elif name.endswith(".deleted"):
                self.add(path, None, "a deleted segment waiting to be removed", Meaning.NOTE, Remedy.START)
            elif name.endswith(".swap"):
                self.add(path, None, "an interrupted compaction whose output is complete", Meaning.LEFTOVER, Remedy.START)
            elif _DAMAGED.fullmatch(name):
                self.add(path, None, "what a start or a repair took out", Meaning.NOTE, Remedy.KEPT)
            elif name not in _FILES and not METADATA_SNAPSHOT.fullmatch(name):
                self.add(path, None, "not a file name that Kafka uses", Meaning.NOTE, Remedy.BY_HAND)
        if not bases:
            self.add(self.path, None, "there is no segment; a broker will start with an empty one", Meaning.NOTE, Remedy.START)

    # Segments

    def _is_rebuilt(self, following: int | None) -> bool:
        """Returns whether the next start would rebuild the derived files of the segment that ends before `following`."""
        recovery_point = self.expected.recovery_point
        return not self.expected.clean and recovery_point is not None and (following is None or following > recovery_point)

    def _segment(self, base: int, following: int | None) -> None:
        path = self.path / f"{base:020d}.log"
        file = open_to_read(path)
        walk = SegmentWalk(file, self._advance)
        checks = _Indexes(self, path, base, empty=file.size == 0, skip=self._is_rebuilt(following))
        check: SegmentCheck

        def on_batch(batch: Batch) -> None:
            checks.batch(batch)
            self._batch(batch, check, checks)

        check = SegmentCheck(walk, base, max(self.end_offset, base), deep=self._deep, on_batch=on_batch)
        if base < self.end_offset:
            self.add(
                path,
                None,
                f"it begins below offset {self.end_offset}, where the previous one ends",
                Meaning.CORRUPT,
                Remedy.CHOICE,
            )
        self._walking = check
        check.run()
        self.end_offset = check.expected
        state = SegmentState(path, base, file.size, check.expected, check.sound, check.damage, check.torn)
        self.segments.append(state)
        for position, why in check.unread:
            self.add(path, position, why, Meaning.NOTE, Remedy.NONE)
        if check.damage:
            self._damage(state, is_last=following is None)
        else:
            checks.end(is_last=following is None)

    def _damage(self, state: SegmentState, *, is_last: bool) -> None:
        recovery_point = self.expected.recovery_point
        for position, offset, why in state.damage:
            tail = is_last and state.torn
            if tail and (recovery_point is None or offset >= recovery_point):
                self.add(state.path, position, why, Meaning.TORN, Remedy.CUT)
                continue
            synced = "" if recovery_point is None or offset >= recovery_point else f", below the recovery point {recovery_point}"
            lost = self.expected.clean or self.expected.every_append_synced or recovery_point is None or offset < recovery_point
            meaning = Meaning.CORRUPT if lost else Meaning.TORN
            behind = "" if tail or lost else "; sound batches follow it, which a broker would take out, and keep beside the log"
            self.add(state.path, position, f"{why} (at offset {offset}{synced}){behind}", meaning, Remedy.CHOICE)

    def _batch(self, batch: Batch, check: SegmentCheck, checks: _Indexes) -> None:
        header = batch.header
        while self._snapshots and self._snapshots[0][0] <= header.base_offset:
            self._snapshot(*self._snapshots.pop(0))
        epoch = header.partition_leader_epoch
        if epoch > NO_LEADER_EPOCH and (not self.epochs or epoch != self.epochs[-1].epoch):
            self.epochs.append(EpochEntry(epoch, header.base_offset))
        if header.producer_id < 0:
            return
        if not header.is_control:
            self._producers[header.producer_id] = header.last_sequence, header.last_offset
            if header.is_transactional:
                self._open.setdefault(header.producer_id, header.base_offset)
            return
        marker = check.marker_of(batch)
        if marker is not None:
            first = self._open.pop(header.producer_id, None)
            if marker.aborted and (first is not None or not self._begins_whole):
                checks.aborted(header.producer_id, first, header.base_offset)

    @property
    def _begins_whole(self) -> bool:
        """Does the walk cover the begin of every transaction? An abort without any records has no entry in the index."""
        return self._only is None and self._first_offset == 0

    @property
    def is_damaged(self) -> bool:
        """Has the walk found damage before the current batch?"""
        return any(state.damage for state in self.segments) or (self._walking is not None and bool(self._walking.damage))

    # Producer snapshots

    def _snapshot(self, offset: int, path: Path) -> None:
        try:
            if (data := read_whole(path)) is None:
                raise CorruptSnapshot(TOO_LARGE)
            states = decode_snapshot(data)
        except CorruptSnapshot as error:
            self.add(path, None, str(error), Meaning.REBUILDABLE, Remedy.REMOVE)
            return
        for state in states:
            if (why := self._why_not(state, offset)) is not None:
                self.add(path, None, why, Meaning.REBUILDABLE, Remedy.REMOVE)
                return

    def _why_not(self, state: ProducerState, offset: int) -> str | None:
        """Returns how the snapshot at `offset` contradicts the log; None if it does not. Missing producers may have expired."""
        if state.last_offset == NO_OFFSET or state.last_offset < self._first_offset:
            return None  # the last batch it wrote has been deleted from the log
        if state.last_offset >= offset:
            return f"producer {state.producer_id} has offset {state.last_offset} in a snapshot of what lies before {offset}"
        if self.is_damaged:
            return None  # the snapshot may describe batches that are lost
        found = self._producers.get(state.producer_id)
        if found != (state.last_sequence, state.last_offset) and not self.expected.compacted:
            there = "the log has none of its batches" if found is None else f"the log has {found[0]} at offset {found[1]}"
            return f"producer {state.producer_id} has sequence {state.last_sequence} at offset {state.last_offset}, but {there}"
        return None

    def _end(self) -> None:
        """Checks what can only be checked once every batch has been seen."""
        for offset, path in self._snapshots:
            if offset <= self.end_offset:
                self._snapshot(offset, path)
            elif not self.is_damaged:
                self.add(path, None, f"it lies beyond the log's end, {self.end_offset}", Meaning.REBUILDABLE, Remedy.REMOVE)
        synced_upto = self.expected.recovery_point
        is_reported = any(state.damage for state in self.segments[-1:])
        if self._only is None and synced_upto is not None and synced_upto > self.end_offset and not is_reported:
            what = f"the log ends at offset {self.end_offset}, but was synced up to {synced_upto}"
            self.add(self.path, None, what, Meaning.CORRUPT, Remedy.LINES)

    # Files of the partition

    def _epoch_file(self) -> None:
        path = self.path / LEADER_EPOCHS
        try:
            entries = read_epochs(OsDisk(), str(path))
        except CorruptSnapshot as error:
            self.add(path, None, str(error), Meaning.REBUILDABLE, Remedy.EPOCHS)
            return
        starts = [entry.start_offset for entry in entries]
        if any(a.epoch >= b.epoch or a.start_offset >= b.start_offset for a, b in pairwise(entries)):
            self.add(path, None, "its epochs are not in ascending order", Meaning.REBUILDABLE, Remedy.EPOCHS)
            return
        limit = self._rebuilt_from()
        for (epoch, offset), (_, end) in pairwise([*self.epochs, EpochEntry(-1, self.end_offset)]):
            at = max(offset, self.expected.log_start_offset or 0)
            if at >= end:
                continue  # its records have been deleted
            after = bisect_right(starts, at)
            said = entries[after - 1].epoch if after else None
            if said != epoch and (limit is None or offset < limit):
                there = "none" if said is None else f"epoch {said}"
                what = f"the batch at offset {offset} has epoch {epoch}, but the file says {there}"
                self.add(path, None, what, Meaning.REBUILDABLE, Remedy.EPOCHS)
                return
        if starts and starts[-1] > self.end_offset:
            what = f"epoch {entries[-1].epoch} begins at {starts[-1]}, beyond the log's end at {self.end_offset}"
            self.add(path, None, what, Meaning.REBUILDABLE, Remedy.EPOCHS)

    def _rebuilt_from(self) -> int | None:
        """Returns the offset from which the next start reads everything again; None if it does not."""
        if self.expected.clean or self.expected.recovery_point is None:
            return None
        bases = [segment.base_offset for segment in self.segments if segment.base_offset <= self.expected.recovery_point]
        return max(bases, default=0)

    def _partition_metadata(self) -> None:
        path = self.path / PARTITION_METADATA
        if self.path.name.startswith("__cluster_metadata-"):
            return
        if not path.exists():  # before the first record nothing is lost, and a crash may leave it so
            if self.expected.topic_id is not None and self.end_offset > self._first_offset:
                what = "it is missing: Apache Kafka sets such a partition aside and starts an empty one"
                self.add(path, None, what, Meaning.IDENTITY, Remedy.METADATA)
            return
        remedy = Remedy.METADATA if self.expected.topic_id is not None else Remedy.COPY
        try:
            topic_id = read_partition_metadata(OsDisk(), str(path))
        except InconsistentMetadata as error:
            self.add(path, None, str(error).removeprefix(f"{path} "), Meaning.IDENTITY, remedy)
            return
        if topic_id is None:
            self.add(path, None, "it is empty", Meaning.IDENTITY, remedy)
        elif self.expected.topic_id is not None and topic_id != self.expected.topic_id:
            ours, theirs = uuid_text(topic_id), uuid_text(self.expected.topic_id)
            what = f"it has topic id {ours}, the metadata log {theirs}: these records belong to a topic that was deleted"
            self.add(path, None, what, Meaning.IDENTITY, Remedy.BY_HAND)


class _Indexes:
    """The checks of the index files beside one segment."""

    def __init__(self, partition: PartitionCheck, log: Path, base_offset: int, *, empty: bool, skip: bool) -> None:
        self._partition = partition
        self._files: dict[Path, OffsetIndexCheck | TimeIndexCheck | TxnIndexCheck] = {}
        self._skip = skip
        if skip:
            return
        for suffix, make in ((".index", OffsetIndexCheck), (".timeindex", TimeIndexCheck)):
            path = log.with_suffix(suffix)
            if path.exists():
                if (data := self._read(path)) is not None:
                    self._files[path] = make(data, base_offset)
            elif not empty:
                self._refuse(path, None, "it is missing")
        path = log.with_suffix(".txnindex")
        data = self._read(path) if path.exists() else b""
        if data is not None:
            self._files[path] = TxnIndexCheck(data, compacted=partition.expected.compacted)

    def _refuse(self, path: Path, position: int | None, what: str) -> None:
        self._partition.add(path, position, what, Meaning.REBUILDABLE, Remedy.INDEXES)

    def _read(self, path: Path) -> bytes | None:
        data = read_whole(path)
        if data is None:
            self._refuse(path, None, TOO_LARGE)
        return data

    def batch(self, batch: Batch) -> None:
        for check in self._files.values():
            if isinstance(check, OffsetIndexCheck):
                check.batch(batch.position, batch.header)
            elif isinstance(check, TimeIndexCheck):
                check.batch(batch.header)

    def aborted(self, producer_id: int, first_offset: int | None, last_offset: int) -> None:
        for check in self._files.values():
            if isinstance(check, TxnIndexCheck):
                check.aborted(producer_id, first_offset, last_offset)

    def end(self, *, is_last: bool) -> None:
        for path, check in self._files.items():
            if isinstance(check, TimeIndexCheck):
                check.end(is_last=is_last)
            else:
                check.end()
            wrong: Wrong | None = check.wrong
            if wrong is not None:
                self._refuse(path, *wrong)

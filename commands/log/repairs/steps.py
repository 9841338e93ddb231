"""The steps of `ottla log repair`. Each one is announced before it is carried out, and durable when it returns.

Their order makes a crash between two steps, or within one, harmless: the directory is then damaged in fewer places than before,
and the same command continues. For a log that loses bytes, the clean-shutdown marker is removed first, so that the next start
checks the logs, and the checkpoints are lowered, so that nothing written later counts as synced. Then the bytes are saved beside
the segment as `<segment>.<position>.damaged`, and only after that the segment is truncated, or replaced by one without them.
Derived files come last; until then they contradict the log, which the next repair would notice.

`--skip` leaves a log with a gap in its offsets, as compaction does: consumers continue after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final

from ottla.commands.log.checks.directory import CHECKPOINTS, LogDirectoryCheck, partition_of
from ottla.commands.log.checks.findings import Remedy
from ottla.commands.log.checks.partition import PartitionCheck, SegmentState
from ottla.commands.log.checks.segment import holes
from ottla.log.config_def import INT_MAX
from ottla.log.disk import checkpoint
from ottla.log.disk.checkpoint import (
    LEADER_EPOCHS,
    PARTITION_METADATA,
    EpochEntry,
    encode_epochs,
    encode_partition_metadata,
    read_epochs,
)
from ottla.log.disk.files import Disk, OpenFiles
from ottla.log.errors import CorruptSnapshot
from ottla.log.names import LOG_SUFFIX, SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX, offset_in, offset_name
from ottla.log.rebuild import rebuild_txn_index
from ottla.log.segment import Segment
from ottla.log.segments import Segments

COPY_BYTES: Final = 1024 * 1024
INDEX_INTERVAL_BYTES: Final = 4096  # Kafka's default, but any interval is valid
DAMAGED: Final = ".damaged"
TEMPORARY: Final = ".tmp"  # removed by a repair and by ottla's start


class Damage(StrEnum):
    """The treatment of a log that is damaged in its middle, or in bytes that were synced."""

    LEAVE = "leave"
    CUT = "cut"
    SKIP = "skip"


@dataclass(slots=True)
class Step:
    """One step. `text` announces what `run` is going to do. `run` may raise OSError."""

    text: str
    run: Callable[[], None]


class Repair:
    """The steps for one log directory and for those of its partitions that were checked.

    `aside`: the directory for damaged bytes, if they are not to stay beside their segment.
    """

    def __init__(
        self, disk: Disk, directory: LogDirectoryCheck, partitions: list[PartitionCheck], *, damage: Damage, aside: Path | None
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._damage = damage
        self._partitions = [PartitionRepair(disk, check, damage=damage, aside=aside) for check in partitions]

    def steps(self) -> Iterator[Step]:
        marker = self._directory.path / checkpoint.CLEAN_SHUTDOWN
        if marker.exists() and any(partition.loses_bytes for partition in self._partitions) and not self._is_undecided:
            yield Step(f"remove {marker}, so that the next start checks the logs", lambda: remove(self._disk, [marker]))
        yield from self._checkpoints()
        for finding in self._directory.findings:
            if finding.remedy is Remedy.REMOVE:
                yield self._removal(Path(finding.path))
        for partition in self._partitions:
            yield from partition.steps()

    @property
    def _is_undecided(self) -> bool:
        """Does some partition's damage stay? Then no start may check the logs, since it would drop what follows the damage."""
        return any(partition.is_undecided for partition in self._partitions)

    def _removal(self, path: Path) -> Step:
        return Step(f"remove {path}", lambda: remove(self._disk, [path]))

    def _checkpoints(self) -> Iterator[Step]:
        """Yields steps that reduce the checkpoints to what is certain: only logs that exist, and no offset beyond their end."""
        ends = {partition_of(repair.check.path): repair.end_offset for repair in self._partitions if not repair.is_undecided}
        there = {partition_of(path) for path in self._directory.partitions()}
        unreadable = {Path(finding.path).name for finding in self._directory.findings if finding.remedy is Remedy.LINES}
        for name in CHECKPOINTS:
            offsets = self._directory.checkpoints[name]
            if name == checkpoint.RECOVERY_POINTS and not offsets and self._is_undecided:
                continue  # without it nothing would count as synced
            kept = {
                partition: min(offset, ends.get(partition, offset)) for partition, offset in offsets.items() if partition in there
            }
            if kept != offsets or (name in unreadable and not offsets):
                path = self._directory.path / name
                data = checkpoint.encode_offsets(kept)
                yield Step(f"rewrite {path} for the logs after the repair", partial(self._write, path, data))

    def _write(self, path: Path, data: bytes) -> None:
        self._disk.write_bytes(str(path), data)


class PartitionRepair:
    """The steps for one partition. `end_offset` is where its log will end."""

    def __init__(self, disk: Disk, check: PartitionCheck, *, damage: Damage, aside: Path | None) -> None:
        self.check = check
        self._disk = disk
        self._aside = aside
        self._plan: list[tuple[SegmentState, str]] = []  # (segment, "cut" | "skip" | "drop"), in their order
        self.end_offset = check.end_offset
        self.is_undecided = False
        """The partition is damaged, and the user has not said what to do: nothing may change what the damage means."""
        self._decide(damage)

    @property
    def loses_bytes(self) -> bool:
        return bool(self._plan)

    def _decide(self, damage: Damage) -> None:
        remedies = {
            finding.path: finding.remedy for finding in self.check.findings if finding.remedy in (Remedy.CUT, Remedy.CHOICE)
        }
        hurt = [state for state in self.check.segments if str(state.path) in remedies]
        if not hurt:
            return
        only_tail = hurt == self.check.segments[-1:] and remedies[str(hurt[0].path)] is Remedy.CUT
        if only_tail or damage is Damage.CUT:
            self._decide_cut(self.check.segments.index(hurt[0]))
        elif damage is Damage.SKIP:
            for state in hurt:
                if not state.damage:
                    continue
                keep = state.sound or len(self.check.segments) == 1 or state is self.check.segments[-1]
                self._plan.append((state, "skip" if keep else "drop"))
        self.is_undecided = not self._plan

    def _decide_cut(self, first: int) -> None:
        state = self.check.segments[first]
        before = self.check.segments[first - 1].next_offset if first else state.base_offset
        self.end_offset = state.damage[0][1] if state.damage else before
        begin = first + 1 if state.damage or first == 0 else first
        # The last segment first: the damage goes with the cut, at the end, so an interrupted repair finds it again.
        self._plan = [(later, "drop") for later in reversed(self.check.segments[begin:])]
        if begin > first:
            self._plan.append((state, "cut"))

    def steps(self) -> Iterator[Step]:
        # Leftovers first, since later steps create files of the same names for a while.
        for finding in self.check.findings:
            if finding.remedy is Remedy.REMOVE and Path(finding.path).exists():
                path = Path(finding.path)
                yield Step(f"remove {path}", partial(remove, self._disk, [path]))
            elif finding.remedy is Remedy.ASIDE:
                yield self._set_aside(Path(finding.path))
        for state, how in self._plan:
            yield from {"cut": self._cut, "skip": self._skip, "drop": self._drop}[how](state)
        if self._plan:
            yield from self._snapshots()
        yield from self._epochs()
        yield from self._metadata()
        if not self.is_undecided:
            yield from self._indexes()

    # The log itself

    def _saved_to(self, path: Path, position: int | str) -> Path:
        name = f"{path.name}.{position}{DAMAGED}"
        return path.with_name(name) if self._aside is None else self._aside / f"{path.parent.name}.{name}"

    def _set_aside(self, path: Path) -> Step:
        return Step(f"rename {path} to {path.name}{DAMAGED}", lambda: rename(self._disk, path, f"{path}{DAMAGED}"))

    def _cut(self, state: SegmentState) -> Iterator[Step]:
        position = state.damage[0][0] if state.damage else 0
        saved = self._saved_to(state.path, position)
        yield Step(
            f"cut {state.path} at position {position}, offset {self.end_offset}; save {state.size - position} bytes to {saved}",
            lambda: self._save_and_cut(state.path, position, state.size, saved),
        )

    def _save_and_cut(self, path: Path, position: int, size: int, saved: Path) -> None:
        save(self._disk, path, [(position, size)], saved)
        file = self._disk.open(str(path))
        file.truncate(position)
        file.sync()

    def _skip(self, state: SegmentState) -> Iterator[Step]:
        lost = list(holes(state.sound, state.size))
        places = ", ".join(f"{start} to {end}" for start, end in lost[:3]) + (", ..." if lost[3:] else "")
        saved = self._saved_to(state.path, lost[0][0] if len(lost) == 1 else "<position>")
        text = f"take the bytes at {places} out of {state.path} and save them to {saved}"
        yield Step(text, lambda: self._save_and_skip(state, lost))

    def _save_and_skip(self, state: SegmentState, lost: list[tuple[int, int]]) -> None:
        for start, end in lost:
            save(self._disk, state.path, [(start, end)], self._saved_to(state.path, start))
        temporary = f"{state.path}{TEMPORARY}"
        copy(self._disk, str(state.path), state.sound, temporary)
        self._disk.rename(temporary, str(state.path))
        self._disk.sync_dir(str(state.path.parent))

    def _drop(self, state: SegmentState) -> Iterator[Step]:
        saved = self._saved_to(state.path, 0)
        yield Step(f"remove {state.path} and save it to {saved}", lambda: self._save_and_drop(state, saved))

    def _save_and_drop(self, state: SegmentState, saved: Path) -> None:
        save(self._disk, state.path, [(0, state.size)], saved)
        # The log first: indexes without a log are leftovers, which the next start or repair removes.
        remove(self._disk, [path for suffix in SEGMENT_SUFFIXES if (path := state.path.with_suffix(suffix)).exists()])

    # What is derived from the log

    def _snapshots(self) -> Iterator[Step]:
        """Yields the removal of snapshots that contain what is taken out."""
        first = min(state.damage[0][1] if state.damage else state.base_offset for state, _ in self._plan)
        named = {Path(finding.path) for finding in self.check.findings}
        stale = [
            path
            for path in sorted(self.check.path.glob(f"*{SNAPSHOT_SUFFIX}"))
            if offset_in(path.name) > first and path not in named
        ]
        if stale:
            names = ", ".join(path.name for path in stale)
            text = f"remove {names} of {self.check.path}, which still contain what is taken out"
            yield Step(text, lambda: remove(self._disk, stale))

    def _epochs(self) -> Iterator[Step]:
        path = self.check.path / LEADER_EPOCHS
        wrong = any(finding.path == str(path) and finding.remedy is Remedy.EPOCHS for finding in self.check.findings)
        try:
            entries = read_epochs(self._disk, str(path))
        except CorruptSnapshot:
            entries = []
        kept = self._epochs_of_batches() if wrong else [entry for entry in entries if entry.start_offset < self.end_offset]
        if wrong or (self._plan and kept != entries):
            data = encode_epochs(kept)
            yield Step(f"rewrite {path} from the batches", lambda: self._disk.write_bytes(str(path), data))

    def _epochs_of_batches(self) -> list[EpochEntry]:
        """Returns the epochs as recovery would find them: ascending, the first one at the log's start or later."""
        start = self.check.expected.log_start_offset or 0
        found: list[EpochEntry] = []
        for epoch, offset in self.check.epochs:
            if offset >= self.end_offset or (found and epoch <= found[-1].epoch):
                continue
            if found and offset <= start:
                found.pop()
            found.append(EpochEntry(epoch, max(offset, start)))
        return found

    def _metadata(self) -> Iterator[Step]:
        path = str(self.check.path / PARTITION_METADATA)
        topic_id = self.check.expected.topic_id
        wanted = any(finding.remedy is Remedy.METADATA and finding.path == path for finding in self.check.findings)
        if wanted and topic_id is not None:
            data = encode_partition_metadata(topic_id)
            yield Step(f"rewrite {path} from the metadata log", lambda: self._disk.write_bytes(path, data))

    def _indexes(self) -> Iterator[Step]:
        bases = {int(Path(finding.path).stem) for finding in self.check.findings if finding.remedy is Remedy.INDEXES}
        gone = {state.base_offset for state, how in self._plan if how == "drop"}
        bases |= {state.base_offset for state, _ in self._plan}
        for base in sorted(bases - gone):
            text = f"rebuild the indexes of {self.check.path / offset_name(base)}.log"
            yield Step(text, partial(self._rebuild, base))

    def _rebuild(self, base: int) -> None:
        disk, path = self._disk, str(self.check.path)
        logs = sorted(offset_in(name) for name in disk.list(path) if name.endswith(LOG_SUFFIX) and offset_in(name) >= 0)
        segments = Segments([self._segment(base_offset) for base_offset in logs])
        segment = segments[logs.index(base)]
        segment.rebuild_indexes()
        rebuild_txn_index(disk, path, segments, segment, start_offset=self.check.expected.log_start_offset or logs[0])
        for written in segment.write_indexes(final=True):
            disk.open(written).sync()
        disk.sync_dir(path)

    def _segment(self, base_offset: int) -> Segment:
        path = str(self.check.path)
        return Segment(
            self._disk,
            path,
            base_offset,
            size=self._disk.size(f"{path}/{offset_name(base_offset)}.log"),
            open_files=OpenFiles(4),
            index_bytes=INT_MAX,
            index_interval_bytes=INDEX_INTERVAL_BYTES,
            now_ms=0,
        )


# Files


def remove(disk: Disk, paths: list[Path]) -> None:
    for path in paths:
        disk.remove(str(path))
        disk.sync_dir(str(path.parent))


def rename(disk: Disk, old: Path, new: str) -> None:
    disk.rename(str(old), new)
    disk.sync_dir(str(old.parent))


def copy(disk: Disk, source: str, places: list[tuple[int, int]], target: str) -> None:
    """Creates a file with the source's bytes at these places. The content is synced, but not yet the file's name."""
    if disk.exists(target):
        disk.remove(target)
    old, new = disk.open(source), disk.open(target, create=True)
    for start, end in places:
        for position in range(start, end, COPY_BYTES):
            data = old.pread(min(COPY_BYTES, end - position), position)
            written = 0
            while written < len(data):
                written += new.append([data[written:]])
    new.sync()


def save(disk: Disk, source: Path, places: list[tuple[int, int]], target: Path) -> None:
    """Saves damaged bytes to a side file, durably. A file that an earlier repair saved is kept."""
    temporary = f"{target}{TEMPORARY}"
    copy(disk, str(source), places, temporary)
    if disk.exists(str(target)) and not same(disk, temporary, str(target)):
        number = 1
        while disk.exists(f"{target}.{number}"):
            number += 1
        target = Path(f"{target}.{number}")
    disk.rename(temporary, str(target))
    disk.sync_dir(str(target.parent))


def same(disk: Disk, one: str, other: str) -> bool:
    first, second = disk.open(one), disk.open(other)
    return first.size == second.size and all(
        first.pread(COPY_BYTES, position) == second.pread(COPY_BYTES, position) for position in range(0, first.size, COPY_BYTES)
    )

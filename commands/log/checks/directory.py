"""Checks of whole data directories: what `ottla log verify` looks at besides the partitions (partition.py).

It checks `meta.properties` (readable, and with the same cluster and node in all directories), `.kafka_cleanshutdown`, the
checkpoints against the logs, the metadata log's snapshots and quorum-state, and each partition's topic id against the metadata
log. A path may be a log directory, a partition's directory or a segment file; a partition is always held against the checkpoints
of the log directory around it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from ottla.commands.log.checks.findings import Finding, Meaning, Remedy
from ottla.commands.log.checks.partition import Expected, PartitionCheck
from ottla.commands.log.files import METADATA_SNAPSHOT, SEGMENT_FILE
from ottla.commands.log.known_topics import METADATA_DIRECTORY, KnownTopics, read_topics
from ottla.commands.log.segment_walk import first_damage
from ottla.log.disk import checkpoint
from ottla.log.disk.checkpoint import MetaProperties, TopicPartition
from ottla.log.disk.files import OsDisk
from ottla.log.errors import CorruptSnapshot, InconsistentMetadata

CHECKPOINTS: Final = (
    checkpoint.RECOVERY_POINTS,
    checkpoint.LOG_START_OFFSETS,
    checkpoint.HIGH_WATERMARKS,
    checkpoint.CLEANER_OFFSETS,
)
_PARTITION: Final = re.compile(r"(.+)-([0-9]+)")
_DELETED: Final = re.compile(r".+\.[0-9a-f]{32}-delete")
_ASIDE: Final = re.compile(r".+\.[0-9a-f]{32}-(stray|future)")
_FILES: Final = frozenset(
    {
        *CHECKPOINTS, checkpoint.LOG_START_OFFSETS + checkpoint.CHECKSUM_SUFFIX, checkpoint.META_PROPERTIES,
        checkpoint.CLEAN_SHUTDOWN, checkpoint.LOCK, "bootstrap.checkpoint",
    }
)  # fmt: skip
_RESERVED: Final = frozenset(checkpoint.uuid_text(bytes(15) + bytes([last])) for last in range(3))


def partition_of(path: Path) -> TopicPartition | None:
    """Returns the partition whose directory this is, judging by its name; None if it is none."""
    found = _PARTITION.fullmatch(path.name)
    return (found[1], int(found[2])) if found else None


def is_partition(path: Path) -> bool:
    return path.is_dir() and partition_of(path) is not None and not (path / checkpoint.META_PROPERTIES).exists()


class LogDirectoryCheck:
    """One log directory. `files` checks the directory's own files, `check_partition` one of its partitions.

    If only a single partition is checked, the files of the directory around it are read but not checked: `files` is not called.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints: dict[str, dict[TopicPartition, int]] = {}
        self.findings: list[Finding] = []
        self.topics: KnownTopics | None = None
        self.meta = self._meta_properties()
        self.is_log_directory = self.meta is not None or any((path / name).exists() for name in CHECKPOINTS)
        self.clean = not self.is_log_directory or (path / checkpoint.CLEAN_SHUTDOWN).exists()
        for name in CHECKPOINTS:
            self.checkpoints[name] = self._offsets(name)

    def add(self, path: Path, what: str, meaning: Meaning, remedy: Remedy, position: int | None = None) -> None:
        self.findings.append(Finding(str(path), position, what, meaning, remedy))

    def _meta_properties(self) -> MetaProperties | None:
        path = self.path / checkpoint.META_PROPERTIES
        try:
            return checkpoint.read_meta_properties(OsDisk(), str(path))
        except InconsistentMetadata as error:
            self.add(path, str(error).removeprefix(f"{path}: ").removeprefix(f"{path} "), Meaning.IDENTITY, Remedy.COPY)
            return None

    def _offsets(self, name: str) -> dict[TopicPartition, int]:
        path = self.path / name
        try:
            return checkpoint.read_offsets(OsDisk(), str(path))
        except CorruptSnapshot as error:
            self.add(path, str(error).removeprefix(f"{path}: "), Meaning.REBUILDABLE, Remedy.LINES)
            return {}

    def partitions(self) -> list[Path]:
        return sorted(path for path in self.path.iterdir() if is_partition(path))

    def files(self) -> None:
        """Checks the directory's own files and the names in it. Raises OSError."""
        if not self.is_log_directory and not self.findings and not self.partitions():
            what = "not a data directory: it has neither meta.properties nor a partition"
            self.add(self.path, what, Meaning.IDENTITY, Remedy.NONE)
            return
        if not (self.path / checkpoint.META_PROPERTIES).exists():
            self.add(self.path / checkpoint.META_PROPERTIES, "it is missing: whose data is this?", Meaning.IDENTITY, Remedy.COPY)
        elif self.meta is not None and self.meta.directory_id in _RESERVED:
            self.add(self.path / checkpoint.META_PROPERTIES, "its directory.id is reserved", Meaning.IDENTITY, Remedy.COPY)
        if not self.clean:
            what = (
                "the last stop was not clean, or a broker is running: the next start will read what is beyond the recovery points"
            )
            self.add(self.path, what, Meaning.NOTE, Remedy.START)
        for path in sorted(self.path.iterdir()):
            if path.is_dir():
                self._directory(path)
            elif path.name.endswith(".tmp"):
                self.add(path, "left behind by an interrupted step", Meaning.LEFTOVER, Remedy.REMOVE)
            elif path.name not in _FILES:
                self.add(path, "not a file name that Kafka uses", Meaning.NOTE, Remedy.BY_HAND)
        self._lines()

    def _directory(self, path: Path) -> None:
        if _DELETED.fullmatch(path.name):
            self.add(path, "a deleted partition waiting to be removed", Meaning.NOTE, Remedy.START)
        elif _ASIDE.fullmatch(path.name):
            self.add(path, "a partition that was set aside or is being moved", Meaning.NOTE, Remedy.BY_HAND)
        elif not is_partition(path):
            self.add(path, "not a partition", Meaning.NOTE, Remedy.BY_HAND)

    def _lines(self) -> None:
        """Checks that the checkpoints name only logs that exist."""
        there = {partition_of(path) for path in self.partitions()}
        for name, offsets in self.checkpoints.items():
            missing = [f"{topic}-{partition}" for topic, partition in offsets if (topic, partition) not in there]
            if missing:
                what = f"it names {missing[0]}{f' and {len(missing) - 1} more' if missing[1:] else ''}, not in this directory"
                self.add(self.path / name, what, Meaning.REBUILDABLE, Remedy.LINES)

    def placed(self) -> None:
        """Checks that every partition which the metadata log places in this directory exists."""
        if self.topics is None or self.meta is None:
            return
        for (topic, partition), directory_id in sorted(self.topics.placed.items()):
            path = self.path / f"{topic}-{partition}"
            if directory_id == self.meta.directory_id and not path.is_dir():
                self.add(path, "the metadata log places this partition here, but it is missing", Meaning.CORRUPT, Remedy.COPY)

    def expected(self, path: Path) -> Expected:
        """Returns what the directory's files say about the partition at `path`."""
        name = partition_of(path)
        topic_id = self.topics.ids.get(name[0]) if name is not None and self.topics is not None else None
        if name is None or not self.is_log_directory:
            return Expected(topic_id=topic_id)
        is_metadata = path.name == METADATA_DIRECTORY
        return Expected(
            clean=self.clean,
            recovery_point=None if is_metadata else self.checkpoints[checkpoint.RECOVERY_POINTS].get(name, 0),
            log_start_offset=self.checkpoints[checkpoint.LOG_START_OFFSETS].get(name),
            high_watermark=self.checkpoints[checkpoint.HIGH_WATERMARKS].get(name),
            compacted=name in self.checkpoints[checkpoint.CLEANER_OFFSETS],
            topic_id=topic_id,
            every_append_synced=is_metadata,
        )

    def check_partition(
        self, path: Path, *, deep: bool, advance: Callable[[int], object], bases: list[int] | None = None
    ) -> PartitionCheck:
        """Checks a whole partition, or only its segments with these `bases`. Raises OSError."""
        check = PartitionCheck(path, self.expected(path), deep=deep, advance=advance, bases=bases)
        check.run()
        if bases is None:
            self._against_checkpoints(check)
            self._against_topics(check)
        if path.name == METADATA_DIRECTORY and bases is None:
            self._quorum_state(check, path / "quorum-state")
            self._metadata_snapshots(check)
        return check

    def _against_checkpoints(self, check: PartitionCheck) -> None:
        start, end = check.expected.log_start_offset, check.end_offset
        if start is not None and start > end:
            what = f"the log of {check.path.name} ends at offset {end}, before its start, {start}"
            check.add(self.path / checkpoint.LOG_START_OFFSETS, None, what, Meaning.REBUILDABLE, Remedy.LINES)
        high_watermark, synced_upto = check.expected.high_watermark, check.expected.recovery_point
        is_reported = check.is_damaged or (synced_upto is not None and synced_upto > end)
        if high_watermark is not None and high_watermark > end and check.expected.clean and not is_reported:
            what = f"the log of {check.path.name} ends at offset {end}, below its high watermark, {high_watermark}"
            check.add(self.path / checkpoint.HIGH_WATERMARKS, None, what, Meaning.REBUILDABLE, Remedy.LINES)

    def _against_topics(self, check: PartitionCheck) -> None:
        name = partition_of(check.path)
        if (
            self.topics is not None
            and name is not None
            and name[0] not in self.topics.ids
            and check.path.name != METADATA_DIRECTORY
        ):
            what = "the metadata log has no such topic; a broker sets the directory aside"
            check.add(check.path, None, what, Meaning.IDENTITY, Remedy.BY_HAND)

    def _quorum_state(self, check: PartitionCheck, path: Path) -> None:
        """Checks quorum-state. It may be missing before the first start, but no broker starts with one that it cannot read."""
        try:
            if path.exists() and not isinstance(json.loads(path.read_bytes())["leaderEpoch"], int):
                raise ValueError("leaderEpoch is not a number")
        except (ValueError, KeyError, TypeError):
            what = "it is not JSON with a leaderEpoch; a broker does not start with it"
            check.add(path, None, what, Meaning.IDENTITY, Remedy.COPY)

    def _metadata_snapshots(self, check: PartitionCheck) -> None:
        """Checks the snapshots of the metadata. One that is damaged is not needed if the log has everything since an older one
        that is not; a broker that starts sees that as well.
        """
        start = check.segments[0].base_offset if check.segments else 0
        replaceable = False
        for path in sorted(check.path.glob("*.checkpoint")):
            end_offset = int(path.name[:20]) if METADATA_SNAPSHOT.fullmatch(path.name) else -1
            place = first_damage(path)
            if place is None:
                replaceable = replaceable or end_offset >= max(start, check.expected.log_start_offset or 0)
                continue
            position, why = place
            remedy = Remedy.ASIDE if replaceable and end_offset <= check.end_offset and not check.is_damaged else Remedy.COPY
            check.add(path, position, f"a metadata snapshot: {why}", Meaning.CORRUPT, remedy)


class Checker:
    """Checks all paths of one command. `findings()` yields findings as they come; `partitions` keeps what a repair needs."""

    def __init__(self, paths: list[Path], *, deep: bool = False, metadata: Path | None = None) -> None:
        self.directories: dict[Path, LogDirectoryCheck] = {}
        self.partitions: list[tuple[LogDirectoryCheck, PartitionCheck]] = []
        self.found: list[Finding] = []
        self._whole: list[LogDirectoryCheck] = []
        self._deep = deep
        self.work: list[tuple[LogDirectoryCheck, Path, list[int] | None]] = []
        for path in paths:
            self._take(path.absolute() if path.name in {"", ".", ".."} else path)
        self._read_topics(metadata)

    def _take(self, path: Path) -> None:
        found = SEGMENT_FILE.fullmatch(path.name)
        if found and not path.is_dir():
            self.work.append((self._directory(path.absolute().parent.parent), path.parent, [int(found[1])]))
        elif is_partition(path):
            self.work.append((self._directory(path.absolute().parent), path, None))
        else:
            directory = LogDirectoryCheck(path)
            self.directories[path.absolute()] = directory
            self._whole.append(directory)
            self.work += [(directory, inside, None) for inside in directory.partitions()]

    def _directory(self, path: Path) -> LogDirectoryCheck:
        if path not in self.directories:
            self.directories[path] = LogDirectoryCheck(path)
        return self.directories[path]

    def _read_topics(self, metadata: Path | None) -> None:
        places = [directory.path / METADATA_DIRECTORY for directory in self.directories.values()]
        if metadata is not None:
            places.append(metadata if metadata.name == METADATA_DIRECTORY else metadata / METADATA_DIRECTORY)
        nodes = [directory.meta.node_id for directory in self.directories.values() if directory.meta is not None]
        for place in places:
            if (topics := read_topics(place, nodes[0] if nodes else -1)) is not None:
                for directory in self.directories.values():
                    directory.topics = topics
                return

    @property
    def total_bytes(self) -> int:
        """Returns about how many bytes `advance` will have been called with at the end. Raises OSError."""
        return sum(
            log.stat().st_size
            for _, path, bases in self.work
            for log in path.glob("*.log")
            if bases is None or log.name[:20] in {f"{base:020d}" for base in bases}
        )

    def run(self, advance: Callable[[int], object] = int) -> None:
        """Runs all checks and collects the findings in `found`."""
        self.found = list(self.findings(advance))

    def findings(self, advance: Callable[[int], object] = int) -> Iterator[Finding]:
        """Yields the findings. `advance` is called with the bytes of segments read since. Raises OSError if reading fails."""
        for directory in self._whole:
            directory.files()
            directory.placed()
        for directory in self.directories.values():
            yield from directory.findings
        yield from self._one_cluster()
        for directory, path, bases in self.work:
            check = directory.check_partition(path, deep=self._deep, advance=advance, bases=bases)
            self.partitions.append((directory, check))
            yield from check.findings

    def _one_cluster(self) -> Iterator[Finding]:
        """Checks that all directories name the same cluster and node, that their ids differ, and that no partition is in two."""
        known = [(directory, directory.meta) for directory in self._whole if directory.meta is not None]
        for at, (directory, meta) in enumerate(known):
            file = str(directory.path / checkpoint.META_PROPERTIES)
            for other, theirs in known[:at]:
                if (meta.cluster_id, meta.node_id) != (theirs.cluster_id, theirs.node_id):
                    ours, others = (f"node {one.node_id} of cluster {one.cluster_id}" for one in (meta, theirs))
                    yield Finding(
                        file, None, f"it names {ours}, but {other.path} names {others}", Meaning.IDENTITY, Remedy.BY_HAND
                    )
                elif meta.directory_id == theirs.directory_id:
                    yield Finding(file, None, f"{other.path} has the same directory.id", Meaning.IDENTITY, Remedy.BY_HAND)
        seen: dict[str, Path] = {}
        for directory, path, bases in self.work:
            if bases is None and path.name != METADATA_DIRECTORY:
                if path.name in seen and seen[path.name] != directory.path:
                    what = f"{seen[path.name]} holds the same partition"
                    yield Finding(str(path), None, what, Meaning.IDENTITY, Remedy.BY_HAND)
                seen[path.name] = directory.path

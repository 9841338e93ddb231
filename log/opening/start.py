"""Opens every partition of every log directory at the broker's start, in threads if there is something to recover.

The clean-shutdown marker of a directory says how the last stop was; it is removed before anything else happens, or the next crash
would look like a clean stop. After a clean stop, opening takes a few small reads a partition, all of them in Python, which one
thread does as fast as several. After an unclean stop most of the work is reading the log and computing CRCs. Neither holds the
interpreter's lock while batches are large, so `num.recovery.threads.per.data.dir` threads share the partitions of each directory,
for all directories at once. With one thread a directory and a single directory no thread is started, so that a test on a
simulated disk sees every operation in order.

The threads only open partitions. The thread that called `run` hands these over, in the order of their names; no other thread ever
touches the manager. A partition that cannot be opened is `unavailable`, and the others are served; if that is only because room
or descriptors ran out, it is also in `without_room`, for `open_again`. `stop` may be called from any thread or signal handler:
`run` then raises OpeningStopped after reading about one more MiB, with the directory as a crash would leave it.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from ottla.log.disk import checkpoint
from ottla.log.disk.checkpoint import TopicPartition
from ottla.log.disk.directory import LogDirectory
from ottla.log.disk.files import Disk
from ottla.log.errors import (
    CorruptLog,
    CorruptRecord,
    CorruptSnapshot,
    InconsistentMetadata,
    NoRoom,
    OpeningStopped,
    StorageError,
)
from ottla.log.open_options import Opening
from ottla.log.opening.recovery import bytes_to_check, open_log
from ottla.log.partition import PartitionLog

_log = logging.getLogger("ottla.log.start")

PROGRESS_INTERVAL_MS: Final = 5_000
_LOOK_SECONDS: Final = 0.25
_MAX_OFFSET: Final = 2**63 - 1


class Job:
    """One partition to open, and the result: its log or the problem, which may only be that room or descriptors ran out
    (`lacks_room`)."""

    __slots__ = ("directory", "lacks_room", "log", "opening", "problem")

    def __init__(self, directory: LogDirectory, opening: Opening) -> None:
        self.directory = directory
        self.opening = opening
        self.log: PartitionLog | None = None
        self.problem: str | None = None
        self.lacks_room = False

    @property
    def topic_partition(self) -> TopicPartition:
        return self.opening.topic, self.opening.partition


class _Unopened:
    """The checkpointed offsets of a partition that could not be opened. A log start that nothing vouches for is not among them,
    because what is written gets a checksum."""

    __slots__ = ("checkpointed_high_watermark", "first_base_offset", "log_start_offset", "recovery_point")

    def __init__(self, opening: Opening) -> None:
        self.recovery_point = opening.recovery_point
        self.log_start_offset = 0 if opening.is_start_doubtful else opening.log_start_offset
        self.checkpointed_high_watermark = opening.high_watermark
        self.first_base_offset = 0


class _Work:
    """The partitions of one directory: all of them (`jobs`), and those that are yet to be opened (`waiting`)."""

    __slots__ = ("broker_epoch", "clean", "directory", "jobs", "waiting")

    def __init__(self, directory: LogDirectory, broker_epoch: int | None) -> None:
        self.directory = directory
        self.clean = broker_epoch is not None
        self.broker_epoch = broker_epoch
        self.jobs: list[Job] = []
        self.waiting: deque[Job] = deque()


class Start:
    """Opens all partitions, once; the module's docstring says how.

    `partitions` returns the partitions that are to be opened in a directory; `opening` returns the Opening of one, without its
    checkpoints.
    """

    def __init__(
        self,
        disk: Disk,
        directories: Sequence[LogDirectory],
        *,
        partitions: Callable[[LogDirectory], Sequence[TopicPartition]],
        opening: Callable[[LogDirectory, TopicPartition], Opening],
        now_ms: Callable[[], int],
        threads: int,
    ) -> None:
        assert threads > 0
        self._disk = disk
        self._directories = directories
        self._partitions = partitions
        self._opening = opening
        self._now_ms = now_ms
        self._threads = threads
        self._stopped = threading.Event()
        self._crashed: list[BaseException] = []
        self._checked_bytes: dict[int, int] = {}  # by thread, so that no two threads write the same entry
        self._total_bytes = 0
        self._works: Sequence[_Work] = ()
        self._runner = 0  # the thread that runs `run`, and the only one that logs the progress
        self._began_ms = self._said_ms = 0
        self.logs: list[PartitionLog] = []
        self.unavailable: dict[TopicPartition, str] = {}
        self.without_room: dict[TopicPartition, Job] = {}
        """The unavailable partitions that may be tried again; whoever does that takes them out."""

    def stop(self) -> None:
        """Makes `run` and `open_again` end early by raising OpeningStopped."""
        self._stopped.set()

    def run(self) -> int | None:
        """Fills `logs` and `unavailable`. Returns the broker epoch of the last stop, None if that was not clean in every
        directory. The marker of an earlier epoch is that of a directory which was not there in the last run.

        A directory that fails is offline, and the others are opened. Raises OpeningStopped, StorageError where a partition is in
        two places, and NoRoom if descriptors or room ran out before it was known what a directory holds.
        """
        self._began_ms = self._said_ms = self._now_ms()
        self._runner = threading.get_ident()
        works = self._works = [work for directory in self._directories if (work := self._prepare(directory)) is not None]
        self._check_places(works)
        self._open(works)
        self._runner = 0
        for work in works:
            for job in work.jobs:
                if job.log is not None:
                    self.logs.append(job.log)
                elif job.problem is not None:
                    self.unavailable[job.topic_partition] = job.problem
                    job.directory.unopened[job.topic_partition] = _Unopened(job.opening)
                    if job.lacks_room:
                        self.without_room[job.topic_partition] = job
            if work.jobs:
                stop = "a clean" if work.clean else "an unclean"
                took_ms = self._now_ms() - self._began_ms
                opened = sum(job.log is not None for job in work.jobs)
                _log.info("opened %d partitions in %s after %s stop, %d ms", opened, work.directory.path, stop, took_ms)
        self._works = ()  # so that nothing of the opening is kept but what is to be opened again
        epochs = {work.broker_epoch for work in works}
        return epochs.pop() if len(works) == len(self._directories) and len(epochs) == 1 else None

    def open_again(self, partition: TopicPartition) -> None:
        """Tries once more to open a partition of `without_room`; the result is in its job. Any thread may call this, for one
        partition at a time. Raises OpeningStopped.
        """
        job = self.without_room[partition]
        job.problem, job.lacks_room = None, False
        job.opening.producer_total = None  # it would make room in logs that are in use; the manager adds it (LogManager.adopt)
        path = f"{job.directory.path}/{job.opening.directory_name}"
        if job.directory.failed is None and not self._disk.is_dir(path):  # removed by hand, perhaps to make room
            job.problem = f"{path} was removed before there was room to open it"
        else:
            self._open_partition(job)

    # Finding the partitions

    def _prepare(self, directory: LogDirectory) -> _Work | None:
        """Reads a directory's checkpoints and lists its partitions; returns None if the directory is offline or goes offline.
        Raises NoRoom: what is in the directory must not be taken for new then, or opened as if the last stop had been clean.
        """
        if directory.failed is not None:
            return None
        disk, path = self._disk, directory.path
        marker = f"{path}/{checkpoint.CLEAN_SHUTDOWN}"
        try:
            broker_epoch = checkpoint.read_clean_shutdown(disk, marker)
            work = _Work(directory, broker_epoch)
            if work.clean:
                disk.remove(marker)
                disk.sync_dir(path)
            recovery_points, points_known = self._read_offsets(directory, checkpoint.RECOVERY_POINTS)
            log_starts, _ = self._read_offsets(directory, checkpoint.LOG_START_OFFSETS)
            starts = directory.starts_written = checkpoint.read_as_written(disk, f"{path}/{checkpoint.LOG_START_OFFSETS}")
            cleaned, cleaned_known = self._read_offsets(directory, checkpoint.CLEANER_OFFSETS)
            high_watermarks, _ = self._read_offsets(directory, checkpoint.HIGH_WATERMARKS)
            directory.cleaned = cleaned
            any_gap = 0 if points_known and cleaned_known else _MAX_OFFSET
            found = {name: name for name in self._partitions(directory)}
            mentioned = recovery_points.keys() | log_starts.keys() | high_watermarks.keys()
            directory.mentioned.update(found.get(name, name) for name in mentioned)  # so that each name is kept once
            for topic_partition in found:
                opening = self._opening(directory, topic_partition)
                opening.clean = work.clean
                opening.recovery_point = recovery_points.get(topic_partition, 0)
                opening.log_start_offset = log_starts.get(topic_partition, 0)
                opening.is_start_doubtful = starts is None
                opening.cleaned_upto = max(cleaned.get(topic_partition, 0), any_gap)
                opening.high_watermark = high_watermarks.get(topic_partition, 0)
                opening.progress = self._progress
                work.jobs.append(Job(directory, opening))
        except OSError as error:
            failure = directory.fail("opening", error)
            if isinstance(failure, NoRoom):
                raise NoRoom(f"{directory.path} cannot be opened: {error}") from error
            return None
        work.waiting.extend(work.jobs)
        return work

    def _read_offsets(self, directory: LogDirectory, name: str) -> tuple[dict[TopicPartition, int], bool]:
        """Returns (the offsets in a checkpoint file, whether all of it could be read). A missing file counts as read and
        empty."""
        path = f"{directory.path}/{name}"
        try:
            found = checkpoint.read_offsets(self._disk, path)
        except CorruptSnapshot as error:
            _log.warning("a checkpoint file is ignored: %s", error)
            return {}, False
        possible = {at: offset for at, offset in found.items() if 0 <= offset <= _MAX_OFFSET}
        if len(possible) < len(found):
            _log.warning("%s: %d lines have an impossible offset and are ignored", path, len(found) - len(possible))
        return possible, len(possible) == len(found)

    def _check_places(self, works: Sequence[_Work]) -> None:
        found: dict[str, str] = {}
        for work in works:
            for job in work.jobs:
                name = job.opening.directory_name
                other = found.setdefault(name, work.directory.path)
                if other != work.directory.path:
                    raise StorageError(f"{name} is in two log directories, {other} and {work.directory.path}")

    # Opening

    def _open(self, works: Sequence[_Work]) -> None:
        crew = [work for work in works if not work.clean for _ in range(min(self._threads, len(work.jobs)))]
        threads = []
        if len(crew) > 1:
            threads = [threading.Thread(target=self._work_through, args=(work,), name="recovery", daemon=True) for work in crew]
        for thread in threads:
            thread.start()
        try:
            for work in works:
                if work.clean or not threads:
                    self._work_through(work)
            for thread in threads:
                while thread.is_alive():
                    thread.join(_LOOK_SECONDS)
                    self._say()
        except BaseException:
            self.stop()
            for thread in threads:
                thread.join()
            raise
        if self._crashed:
            raise self._crashed[0]
        if self._stopped.is_set():
            raise OpeningStopped("the start was stopped while partitions were being opened")

    def _work_through(self, work: _Work) -> None:
        try:
            while work.waiting and not self._stopped.is_set():
                try:
                    job = work.waiting.popleft()
                except IndexError:  # another thread took the last one
                    return
                self._open_partition(job)
                if threading.get_ident() == self._runner:
                    self._say()
        except OpeningStopped:
            return
        except BaseException as crash:  # noqa: BLE001 - raised again by the thread that called `run`
            self._crashed.append(crash)
            self.stop()

    def _open_partition(self, job: Job) -> None:
        directory, opening = job.directory, job.opening
        if directory.failed is not None:
            job.problem = directory.failed
            return
        try:
            job.log = open_log(directory, opening)
        except (CorruptLog, CorruptRecord, InconsistentMetadata) as error:
            remedy = "ottla log verify shows what is wrong; while no broker runs, a copy or ottla log repair fixes it"
            _log.error("%s stays offline: %s; %s", opening.directory_name, error, remedy)
            job.problem = str(error)
        except OSError as error:
            failure = directory.fail(f"opening {opening.directory_name}", error)
            job.problem, job.lacks_room = str(failure), isinstance(failure, NoRoom)

    # Logging the progress

    def _progress(self, checked_bytes: int) -> None:
        """Counts the bytes of a piece of a log that recovery has checked; raises OpeningStopped after `stop`."""
        if self._stopped.is_set():
            raise OpeningStopped("the start was stopped while partitions were being opened")
        me = threading.get_ident()
        self._checked_bytes[me] = self._checked_bytes.get(me, 0) + checked_bytes
        if me == self._runner:
            self._say()

    def _say(self) -> None:
        """Logs a line every few seconds if the start takes long; only then are the bytes in all counted."""
        now_ms = self._now_ms()
        if now_ms - self._said_ms < PROGRESS_INTERVAL_MS:
            return
        self._said_ms = now_ms
        jobs = [job for work in self._works for job in work.jobs]
        left = sum(job.log is None and job.problem is None for job in jobs)
        if not left:
            return
        if not self._total_bytes:
            self._total_bytes = sum(bytes_to_check(self._disk, job.directory, job.opening) for job in jobs)
        _log.info(
            "opening: %d of %d partitions left, %d of %d MiB checked, %d s",
            left,
            len(jobs),
            sum(self._checked_bytes.values()) >> 20,
            self._total_bytes >> 20,
            (now_ms - self._began_ms) // 1000,
        )

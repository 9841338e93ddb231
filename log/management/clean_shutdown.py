"""A clean shutdown of many partitions: what a start without recovery needs is written and synced for many of them at once.

A partition that was written to has some eight fsyncs ahead of it, of 2.8 ms each here: one after the other, a thousand partitions
took 24 s, and a supervisor that waits ten seconds for a stop kills the broker before that. Fsyncs that are under way together
share the file system's journal: in sixteen threads one costs a tenth. The threads only sync (`FlushJob.run`); the caller does the
rest.

Where very many partitions were written to, the whole file system is synced instead, twice for all of them: it is one commit of
the journal, and the files that are written meanwhile do not wait for anybody's. Each sync also waits for what others have written
to the file system: with two for every 256 partitions, 10,000 took 18 s.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from ottla.log.errors import StorageError

if TYPE_CHECKING:
    from ottla.log.disk.files import Lock
    from ottla.log.flush import FlushJob
    from ottla.log.partition import PartitionLog

_AT_ONCE: Final = 256  # partitions, each of which holds its open files until it is synced
_MANY: Final = 64
"""With so many partitions of one directory to sync, the whole file system is synced. Where few are, most of it may be others'
data."""

_Closing = tuple["PartitionLog", "FlushJob"]


def sync_all(logs: Iterable[PartitionLog], threads: int, locks: Mapping[str, Lock]) -> None:
    """Writes what each log's next start needs, and syncs it: many of a directory by its lock, all others in `threads` threads. A
    log for which this fails fails again in its own `close`, which reports it. `locks` are those of directories, by path.
    """
    by_directory: dict[str, list[PartitionLog]] = {}
    for log in logs:
        by_directory.setdefault(log.directory.path, []).append(log)
    for path, of_directory in by_directory.items():
        _sync_directory(of_directory, threads, locks.get(path))


def _sync_directory(logs: Iterable[PartitionLog], threads: int, lock: Lock | None) -> None:
    """Syncs the logs of one directory: with their file system if they are many, and if `lock` is given and can do that."""
    few: list[_Closing] = []
    many: list[_Closing] = []
    for log in logs:
        if log.closed or log.directory.failed is not None:
            continue
        try:
            job = log.start_close()
        except StorageError:
            continue
        if job is None:
            continue
        few.append((log, job))
        if lock is not None and (many or len(few) >= _MANY):
            many += few
            if not _stage(few):
                lock = None
            few = []
        elif len(few) >= _AT_ONCE:
            _run([job for _, job in few], threads)
            few = []
    _run([job for _, job in few], threads)
    if many and (lock is None or not _is_synced(many, lock)):
        _sync_anew(many, threads)


def _stage(closing: Iterable[_Closing]) -> bool:
    """Stages the jobs for a sync of the file system; returns whether that worked."""
    try:
        for _, job in closing:
            job.stage()
    except StorageError:
        return False
    return True


def _is_synced(closing: list[_Closing], lock: Lock) -> bool:
    """Returns whether syncs of the file system have made everything durable that belongs to the jobs, which are finished then."""
    if not lock.sync_file_system():
        return False
    try:
        named = [job.put_in_place() for _, job in closing]
    except StorageError:
        return False
    if any(named) and not lock.sync_file_system():
        return False
    for _, job in closing:
        job.finish()
    return True


def _sync_anew(closing: list[_Closing], threads: int) -> None:
    """Syncs, one by one, logs that could not be synced with their file system; what their jobs took goes to new ones."""
    for at in range(0, len(closing), _AT_ONCE):
        jobs = []
        for log, job in closing[at : at + _AT_ONCE]:
            job.give_up()
            with suppress(StorageError):
                jobs.append(log.start_flush())
        _run([job for job in jobs if job is not None], threads)


def _run(jobs: list[FlushJob], threads: int) -> None:
    waiting = deque(jobs)
    synced: set[FlushJob] = set()

    def work() -> None:
        while True:
            try:
                job = waiting.popleft()
            except IndexError:
                return
            with suppress(StorageError):
                job.run()
                synced.add(job)

    crew = [threading.Thread(target=work, name="sync") for _ in range(min(threads, len(jobs)))]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    for job in jobs:
        if job in synced:
            job.finish()
        else:
            job.give_up()

"""Compacts the logs that are due, every `log.cleaner.backoff.ms`, outside the event loop's process.

Decisions, and everything that touches a log's segments, happen here on the loop (log/compaction/cleaner_manager.py), in turns
where they are about all logs, and take microseconds, except for two checkpoint files that are synced here: one when a cleaning
begins, and one with every new segment. The fsyncs of logs go to threads. The work itself is done by a worker process, which is
started when a log is due and ended when no log is due any more: an idle broker has none. `log.cleaner.threads` limits how many
there are at once. If no other process may work on the files (a test's are in memory, or are not synced), the same work is done in
a thread of this process.

When a worker dies, only its current cleaning is lost: what it was writing is removed, and the next pass tries the log again.
After a second death the log is left uncleaned. If no worker can be started, the next pass tries again. A cleaning whose log is
truncated or deleted is cancelled by ending the worker.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Container, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import ottla
from ottla.log.compaction.cleaner import Cleaner, Throttle
from ottla.log.compaction.cleaner_manager import CleanerSettings, Cleaning, LogCleanerManager
from ottla.log.compaction.cleaning_job import CleanedGroup, CleaningAborted, CleaningJob, CleaningStats, MapTooSmall
from ottla.log.disk.files import StateUnknown
from ottla.log.errors import CorruptRecord, LogError, StorageError
from ottla.server.base.answers import wait_for
from ottla.server.base.clock import wait_at_most
from ottla.server.base.scheduler import flush_in_thread
from ottla.server.base.turns import take_steps

if TYPE_CHECKING:
    from random import Random

    from ottla.log.disk.files import Disk
    from ottla.log.management.manager import LogManager
    from ottla.server.base.clock import Clock

logger = logging.getLogger("ottla.server.cleaning")

_LINE_BYTES: Final = 1 << 26
_LOOK_SECONDS: Final = 0.5
"""The time between two checks of whether the log of a busy or throttled worker has been deleted or truncated."""
_DEATHS: Final = 2
"""After this many workers have died while cleaning a log, the log is left uncleaned."""
_START: Final = "import sys; sys.path.insert(0, {root!r}); from ottla.log.compaction.process import main; sys.exit(main())"

T = TypeVar("T")
Result = CleanedGroup | CleaningStats


class WorkerDied(LogError):
    """The worker process ended in the middle of a cleaning. Clients never see this error."""


class NoWorker(LogError):
    """The system cannot start a process now, which says nothing about the log or its disk. Clients never see this error."""


class Worker(Protocol):
    """A worker carries out cleanings, one at a time."""

    def clean(self, cleaning: Cleaning) -> AsyncIterator[Result]:
        """Yields the cleaned groups of segments as they are made, and the stats at the end. Raises CleaningAborted,
        CorruptRecord, MapTooSmall, OSError, NoWorker or WorkerDied. Once this has ended, the worker writes nothing more for the
        cleaning.
        """
        ...

    async def close(self) -> None:
        """Ends the worker; no more cleanings come."""
        ...

    def call_off(self) -> None:
        """Cancels the cleaning that is under way."""
        ...


def settings_from_broker(values: Mapping[str, Any]) -> CleanerSettings:
    """Returns the broker's `log.cleaner.*` settings."""
    return CleanerSettings(
        threads=values["log.cleaner.threads"],
        dedupe_buffer_size=values["log.cleaner.dedupe.buffer.size"],
        io_buffer_load_factor=values["log.cleaner.io.buffer.load.factor"],
        io_buffer_size=values["log.cleaner.io.buffer.size"],
        io_max_bytes_per_second=values["log.cleaner.io.max.bytes.per.second"],
        backoff_ms=values["log.cleaner.backoff.ms"],
    )


class LogCleaner:
    """Runs the cleaning passes. `values` returns the broker's current settings; a change takes effect with the next pass."""

    def __init__(
        self,
        logs: LogManager,
        disk: Disk,
        clock: Clock,
        random: Random,
        values: Callable[[], Mapping[str, Any]],
        new_worker: Callable[[], Worker] | None = None,
    ) -> None:
        self.manager = LogCleanerManager(logs, clock.now_ms, random)
        self._values = values
        self._clock = clock
        in_process = disk.is_open_to_processes and bool(sys.executable)
        self._new_worker = new_worker or (lambda: ProcessWorker(clock) if in_process else ThreadWorker(disk, clock))
        self._workers: list[Worker] = []
        self._deaths: dict[tuple[str, int], int] = {}
        self._stopped = False

    async def run_pass(self) -> None:
        """Cleans logs until none is due; then deletes old segments of compacted logs."""
        settings = self.manager.settings = settings_from_broker(self._values())
        await asyncio.gather(*(self._clean_due() for _ in range(settings.threads)))
        if not self._stopped:
            await wait_for(take_steps(self.manager.delete_old(), self._clock))

    def stop(self) -> None:
        """Makes the current pass end soon; the scheduler waits for it."""
        self._stopped = True
        for worker in self._workers:
            worker.call_off()

    async def _clean_due(self) -> None:
        """Cleans one due log after the other, as one of Kafka's cleaner threads does."""
        worker: Worker | None = None
        tried: set[tuple[str, int]] = set()  # so that a log that fails is tried only once in a pass
        try:
            while not self._stopped and (cleaning := await self._choose(tried)) is not None:
                tried.add(cleaning.partition)
                if worker is None:
                    worker = self._new_worker()
                    self._workers.append(worker)
                if await self._clean(worker, cleaning):
                    tried.discard(cleaning.partition)
        finally:
            if worker is not None:
                self._workers.remove(worker)
                await worker.close()

    async def _choose(self, but: Container[tuple[str, int]]) -> Cleaning | None:
        return await wait_for(take_steps(self.manager.choose(but), self._clock))

    async def _clean(self, worker: Worker, cleaning: Cleaning) -> bool:
        """Cleans one log. Returns whether that succeeded; logs the reason if it did not."""
        manager, log = self.manager, cleaning.log
        try:
            if self._stopped:  # while it was chosen
                raise CleaningAborted("the broker stops")
            if (flush := cleaning.flush_job()) is not None:
                await flush_in_thread(flush)
            manager.prepare(cleaning)
            async with aclosing(worker.clean(cleaning)) as results:  # type: ignore[type-var]  # they are generators
                async for result in results:
                    if isinstance(result, CleaningStats):
                        manager.finish(cleaning, result)
                        self._deaths.pop(cleaning.partition, None)
                        return True
                    await self._swap(cleaning, result)
        except CleaningAborted:
            logger.info("%r was cancelled", cleaning)
        except (CorruptRecord, MapTooSmall) as error:
            manager.leave_alone(log, str(error))
        except WorkerDied as error:
            self._note_death(cleaning, error)
        except NoWorker as error:
            logger.warning("%r waits for the next pass: %s", cleaning, error)
        except StorageError as error:  # a directory that goes offline is logged elsewhere; a lack of descriptors or space is not
            logger.warning("%r failed: %s", cleaning, error)
        except OSError as error:
            if not cleaning.is_void:
                log.directory.fail(f"compacting {log.path}", error)
        except Exception as error:
            logger.exception("%r failed", cleaning)
            manager.leave_alone(log, repr(error))
        try:
            manager.give_up(cleaning)
        except StorageError as error:
            logger.warning("cannot remove the unfinished files of %r: %s", cleaning, error)
        return False

    async def _swap(self, cleaning: Cleaning, group: CleanedGroup) -> None:
        swap = self.manager.swap(cleaning, group)
        for step in swap.steps:
            if swap.is_void:
                raise CleaningAborted("the log has changed")
            step()
            await _in_thread(swap.sync)

    def _note_death(self, cleaning: Cleaning, error: WorkerDied) -> None:
        deaths = self._deaths[cleaning.partition] = self._deaths.get(cleaning.partition, 0) + 1
        logger.error("%r: %s", cleaning, error)
        if deaths >= _DEATHS:
            self.manager.leave_alone(cleaning.log, f"{error}, {deaths} times")


async def _in_thread(action: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, action)


class ProcessWorker:
    """A worker that is a process of its own (log/compaction/process.py), started with the first cleaning."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._process: asyncio.subprocess.Process | None = None
        self._called_off = False

    async def _begin(self) -> asyncio.subprocess.Process:
        root = os.path.dirname(next(iter(ottla.__path__)))
        try:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # never import from the working directory
                "-c",
                _START.format(root=root),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=_LINE_BYTES,
                start_new_session=True,  # Ctrl-C at the terminal must reach only the broker, which then ends the worker
            )
        except OSError as error:  # no memory, no descriptors, no such program: none of these is a fault of the log's disk
            raise NoWorker(f"no worker process could be started: {error}") from error

    async def clean(self, cleaning: Cleaning) -> AsyncIterator[Result]:
        """See Worker."""
        await self._end_if_dead()
        process = self._process = self._process or await self._begin()
        ended = False
        try:
            self._send(process, cleaning.job)
            while not ended:
                message = await self._next(process, cleaning)
                ended = "group" not in message
                if "failed" in message:
                    _raise(message)
                yield CleaningStats(**message["done"]) if ended else CleanedGroup(*message["group"])
        finally:
            if not ended:
                await self._kill()

    async def _end_if_dead(self) -> None:
        """Discards a worker that was killed while idle, so that its death is not blamed on the next log."""
        process = self._process
        if process is not None and (process.returncode is not None or process.stdin is None or process.stdin.is_closing()):
            await self._kill()

    @staticmethod
    def _send(process: asyncio.subprocess.Process, job: CleaningJob) -> None:
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(job.fields()).encode() + b"\n")
        except RuntimeError as error:  # uvloop raises it if it already knows that the process has ended
            raise WorkerDied("the worker process has ended before it could start") from error

    async def _next(self, process: asyncio.subprocess.Process, cleaning: Cleaning) -> dict[str, Any]:
        """Returns the worker's next message. Raises CleaningAborted if the cleaning is cancelled before one comes."""
        assert process.stdout is not None
        reading = asyncio.ensure_future(process.stdout.readline())
        try:
            while not reading.done():
                await wait_at_most(self._clock, _LOOK_SECONDS, (reading,))
                if cleaning.is_void or self._called_off:
                    raise CleaningAborted("the cleaning is no longer wanted")
            line = reading.result()
        finally:
            reading.cancel()
        if not line.endswith(b"\n"):  # the end of its output, perhaps in the middle of a line
            status = await process.wait()
            self._process = None
            raise WorkerDied(f"the worker process ended with status {status}")
        message: dict[str, Any] = json.loads(line)
        return message

    async def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            if process.returncode is None:
                process.kill()
            await process.wait()

    def call_off(self) -> None:
        """See Worker."""
        self._called_off = True
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    async def close(self) -> None:
        """See Worker. The process ends when its stdin is closed."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            await process.wait()


def _raise(message: dict[str, Any]) -> None:
    reason: str = message["reason"]
    match message["failed"]:
        case "disk":
            raise OSError(message["errno"], reason)
        case "unknown":
            raise StateUnknown(message["errno"], reason)
    raise CorruptRecord(reason)


class ThreadWorker:
    """A worker that is a thread of this process. Where its throttle makes it wait, it waits for the event loop, which knows the
    broker's clock.
    """

    def __init__(self, disk: Disk, clock: Clock) -> None:
        self._disk = disk
        self._clock = clock
        self._called_off = asyncio.Event()

    async def clean(self, cleaning: Cleaning) -> AsyncIterator[Result]:
        """See Worker."""
        loop = asyncio.get_running_loop()

        def wait(seconds: float) -> None:
            if seconds > 0:
                asyncio.run_coroutine_threadsafe(self._pause(cleaning, seconds), loop).result()
            if self._called_off.is_set() or cleaning.is_void:
                raise CleaningAborted("the cleaning is no longer wanted")

        # Not `monotonic`: the thread asks for the time, and the loop's may stand still while the loop has nothing to do.
        throttle = Throttle(cleaning.job.bytes_per_second, lambda: self._clock.ticks_ns() / 1e9, wait)
        cleaner = Cleaner(self._disk, cleaning.job, throttle)
        groups = cleaner.groups()
        while (group := await _in_thread(lambda: next(groups, None))) is not None:
            yield group
        yield cleaner.stats

    async def _pause(self, cleaning: Cleaning, seconds: float) -> None:
        """Returns after `seconds`, or as soon as it is known that the cleaning is no longer wanted."""
        called_off = asyncio.ensure_future(self._called_off.wait())
        try:
            until = self._clock.monotonic() + seconds
            while not (self._called_off.is_set() or cleaning.is_void) and (left := until - self._clock.monotonic()) > 0:
                await wait_at_most(self._clock, min(left, _LOOK_SECONDS), (called_off,))
        finally:
            called_off.cancel()

    def call_off(self) -> None:
        """See Worker."""
        self._called_off.set()

    async def close(self) -> None:
        """See Worker."""

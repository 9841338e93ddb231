"""Where logs are compacted: every `log.cleaner.backoff.ms`, all that are due, outside the event loop's process.

What is decided, and what touches a log's segments, happens here on the loop (log/compaction/cleaner_manager.py) and takes
microseconds, but for two checkpoint files a cleaning, which are synced there, as all are; the fsyncs of logs go to threads. The
work itself is done by a worker process, begun when a log is due and ended when none is any more: an idle broker has none.
`log.cleaner.threads` is how many there may be at once. Where files are not the system's own (a throwaway broker in a test) the
same work is done in a thread of this process.

A worker that dies takes its cleaning with it and nothing else: what it was writing is removed, the log is tried again at the
next pass, and left alone after the second time. Where none can be begun, the next pass tries again. A cleaning whose log is cut
or deleted is called off by ending the worker.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import ottla
from ottla.log.compaction.cleaner import Cleaner, Throttle
from ottla.log.compaction.cleaner_manager import CleanerSettings, Cleaning, LogCleaner
from ottla.log.compaction.cleaning_job import CleanedGroup, CleaningAborted, CleaningJob, CleaningStats, MapTooSmall
from ottla.log.disk.files import OsDisk, StateUnknown
from ottla.log.errors import CorruptRecord, LogError, StorageError

if TYPE_CHECKING:
    from ottla.log.disk.files import Disk
    from ottla.log.manager import LogManager

logger = logging.getLogger("ottla.server.cleaning")

_LINE_BYTES: Final = 1 << 26
_LOOK_SECONDS: Final = 0.5
"""How often a worker at work is compared with what became of its log."""
_DEATHS: Final = 2
"""A log is left alone after so many workers died over it."""
_START: Final = "import sys; sys.path.insert(0, {root!r}); from ottla.log.compaction.process import main; sys.exit(main())"

T = TypeVar("T")
Result = CleanedGroup | CleaningStats


class WorkerDied(LogError):
    """The process that did a cleaning ended in the middle of it. Never sent."""


class NoWorker(LogError):
    """The system gives us no process now. Says nothing of the log or its disk. Never sent."""


class Worker(Protocol):
    """Does cleanings, one at a time."""

    def clean(self, cleaning: Cleaning) -> AsyncIterator[Result]:
        """The groups as they are made, and the stats at the end. CleaningAborted, CorruptRecord, MapTooSmall, OSError,
        NoWorker, WorkerDied. The worker writes nothing more for the cleaning when this has ended."""
        ...

    async def close(self) -> None:
        """No more cleanings come."""
        ...

    def call_off(self) -> None:
        """End what is under way."""
        ...


def settings_from_broker(values: Mapping[str, Any]) -> CleanerSettings:
    """`log.cleaner.*`."""
    return CleanerSettings(
        threads=values["log.cleaner.threads"],
        dedupe_buffer_size=values["log.cleaner.dedupe.buffer.size"],
        io_buffer_load_factor=values["log.cleaner.io.buffer.load.factor"],
        io_buffer_size=values["log.cleaner.io.buffer.size"],
        io_max_bytes_per_second=values["log.cleaner.io.max.bytes.per.second"],
        backoff_ms=values["log.cleaner.backoff.ms"],
    )


class LogCleaning:
    """The passes. `values` gives the broker's settings as they are now: they count from the next pass on."""

    def __init__(
        self,
        logs: LogManager,
        disk: Disk,
        now_ms: Callable[[], int],
        values: Callable[[], Mapping[str, Any]],
        new_worker: Callable[[], Worker] | None = None,
    ) -> None:
        self.cleaner = LogCleaner(logs, now_ms)
        self._values = values
        in_process = type(disk) is OsDisk and bool(sys.executable)
        self._new_worker = new_worker or (ProcessWorker if in_process else lambda: ThreadWorker(disk))
        self._workers: list[Worker] = []
        self._deaths: dict[tuple[str, int], int] = {}
        self._stopped = False

    async def run_pass(self) -> None:
        """Cleans what is due, until nothing is; then retention for compacted logs."""
        settings = self.cleaner.settings = settings_from_broker(self._values())
        await asyncio.gather(*(self._clean_due() for _ in range(settings.threads)))
        if not self._stopped:
            self.cleaner.delete_old()

    def stop(self) -> None:
        """Ends the pass under way soon; the scheduler waits for it."""
        self._stopped = True
        for worker in self._workers:
            worker.call_off()

    async def _clean_due(self) -> None:
        """What one of Kafka's cleaner threads does."""
        worker: Worker | None = None
        tried: set[tuple[str, int]] = set()  # a log that fails is not tried again and again in one pass
        try:
            while not self._stopped and (cleaning := self.cleaner.next_cleaning(tried)) is not None:
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

    async def _clean(self, worker: Worker, cleaning: Cleaning) -> bool:
        """True if the log is cleaner than before."""
        cleaner, log = self.cleaner, cleaning.log
        try:
            await self._flush(cleaning)
            cleaner.prepare(cleaning)
            async with aclosing(worker.clean(cleaning)) as results:  # type: ignore[type-var]  # they are generators
                async for result in results:
                    if isinstance(result, CleaningStats):
                        cleaner.finish(cleaning, result)
                        self._deaths.pop(cleaning.partition, None)
                        return True
                    await self._swap(cleaning, result)
        except CleaningAborted:
            logger.info("%r is cancelled", cleaning)
        except (CorruptRecord, MapTooSmall) as error:
            cleaner.leave_alone(log, str(error))
        except WorkerDied as error:
            self._note_death(cleaning, error)
        except NoWorker as error:
            logger.warning("%r waits for the next pass: %s", cleaning, error)
        except StorageError as error:  # logged where the directory went offline, but descriptors and room are not
            logger.warning("%r failed: %s", cleaning, error)
        except OSError as error:
            if not cleaning.is_void:
                log.directory.fail(f"compacting {log.path}", error)
        except Exception as error:
            logger.exception("%r failed", cleaning)
            cleaner.leave_alone(log, repr(error))
        try:
            cleaner.give_up(cleaning)
        except StorageError as error:
            logger.warning("the remains of %r are not removed: %s", cleaning, error)
        return False

    async def _flush(self, cleaning: Cleaning) -> None:
        job = cleaning.flush_job()
        if job is None:
            return
        try:
            await _in_thread(job.run)
        except StorageError:
            job.give_up()
            raise
        job.finish()

    async def _swap(self, cleaning: Cleaning, group: CleanedGroup) -> None:
        swap = self.cleaner.swap(cleaning, group)
        for step in swap.steps:
            if swap.is_void:
                raise CleaningAborted("the log has changed")
            step()
            await _in_thread(swap.sync)

    def _note_death(self, cleaning: Cleaning, error: WorkerDied) -> None:
        deaths = self._deaths[cleaning.partition] = self._deaths.get(cleaning.partition, 0) + 1
        logger.error("%r: %s", cleaning, error)
        if deaths >= _DEATHS:
            self.cleaner.leave_alone(cleaning.log, f"{error}, {deaths} times")


async def _in_thread(action: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, action)


class ProcessWorker:
    """A process (log/compaction/process.py), begun with the first cleaning."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._called_off = False

    async def _begin(self) -> asyncio.subprocess.Process:
        root = str(Path(next(iter(ottla.__path__))).parent)
        try:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # what lies in the working directory is not ours
                "-c",
                _START.format(root=root),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=_LINE_BYTES,
                start_new_session=True,  # Ctrl-C at the terminal is for the broker, which ends this one
            )
        except OSError as error:  # no memory, no descriptors, no such program: our disk has no part in it
            raise NoWorker(f"no process for it could be begun: {error}") from error

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
        """One that was killed when it had nothing to do is no fault of the log that is next."""
        process = self._process
        if process is not None and (process.returncode is not None or process.stdin is None or process.stdin.is_closing()):
            await self._kill()

    @staticmethod
    def _send(process: asyncio.subprocess.Process, job: CleaningJob) -> None:
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(job.fields()).encode() + b"\n")
        except RuntimeError as error:  # uvloop's, where its end is known already
            raise WorkerDied("the process that was to clean it is gone") from error

    async def _next(self, process: asyncio.subprocess.Process, cleaning: Cleaning) -> dict[str, Any]:
        """The next line, unless the cleaning is called off before it comes."""
        assert process.stdout is not None
        reading = asyncio.ensure_future(process.stdout.readline())
        try:
            while not reading.done():
                await asyncio.wait((reading,), timeout=_LOOK_SECONDS)
                if cleaning.is_void or self._called_off:
                    raise CleaningAborted("nobody waits for it")
            line = reading.result()
        finally:
            reading.cancel()
        if not line.endswith(b"\n"):  # it may have died over a line
            status = await process.wait()
            self._process = None
            raise WorkerDied(f"the process that cleaned it ended with status {status}")
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
        """See Worker. The process ends when its stdin does."""
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
    """The same work in a thread of this process."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._called_off = threading.Event()

    async def clean(self, cleaning: Cleaning) -> AsyncIterator[Result]:
        """See Worker."""

        def wait(seconds: float) -> None:
            until = time.monotonic() + seconds
            while not self._called_off.wait(min(seconds, _LOOK_SECONDS)) and not cleaning.is_void:
                if (seconds := until - time.monotonic()) <= 0:
                    return
            raise CleaningAborted("nobody waits for it")

        cleaner = Cleaner(self._disk, cleaning.job, Throttle(cleaning.job.bytes_per_second, time.monotonic, wait))
        groups = cleaner.groups()
        while (group := await _in_thread(lambda: next(groups, None))) is not None:
            yield group
        yield cleaner.stats

    def call_off(self) -> None:
        """See Worker."""
        self._called_off.set()

    async def close(self) -> None:
        """See Worker."""

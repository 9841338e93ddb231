"""Runs the broker's recurring work: retention, flushes, checkpoints, expiries. Each pass is a function of the layer it serves.

One pass of a kind runs at a time: the next one is due an interval after the last one ended. A pass that raises is logged, with
its traceback if the error is a bug of ours, and runs again when it is due next, because a broker that quietly stops deleting old
segments fails a week later.

fsync blocks for milliseconds, and longer on a busy disk, so flushes run in threads, and so does what a pass writes or lists;
everything else is quick and runs on the loop, in slices (`Scheduler.in_slices`) where there may be much of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from ottla.log.errors import LogError, StorageError
from ottla.server.base.clock import TURN_NS

if TYPE_CHECKING:
    from ottla.log.flush import FlushJob
    from ottla.log.management.manager import LogManager
    from ottla.server.base.clock import Cancellable, Clock

logger = logging.getLogger("ottla.server.scheduler")

MIN_INTERVAL_MS = 1

Job = Callable[[], object]


class Scheduler:
    """Runs passes, each of which has a name. `stop` ends them and waits for those that are under way."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: dict[str, Cancellable] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._stopped = False

    def every(self, name: str, interval_ms: int | Callable[[], int], action: Callable[[], object]) -> None:
        """Runs `action`, a plain or an async function, every `interval_ms`, the first time after one interval. An interval that
        may change is given as a function, which is called each time."""
        assert name not in self._due
        self._plan(name, interval_ms, action)

    def _plan(self, name: str, interval_ms: int | Callable[[], int], action: Callable[[], object]) -> None:
        if not self._stopped:
            seconds = max(interval_ms() if callable(interval_ms) else interval_ms, MIN_INTERVAL_MS) / 1000
            self._due[name] = self._clock.call_pass(name, seconds, lambda: self._run(name, interval_ms, action))

    def _run(self, name: str, interval_ms: int | Callable[[], int], action: Callable[[], object]) -> asyncio.Task[None] | None:
        """Begins the pass; returns the task of one that has not ended yet."""
        try:
            result = action()
        except (LogError, OSError) as error:
            logger.error("the %s pass failed; it runs again at its next time: %s", name, error)
            result = None
        except Exception:
            logger.exception("the %s pass failed; it runs again at its next time", name)
            result = None
        if not isinstance(result, Awaitable):
            self._plan(name, interval_ms, action)
            return None
        task = asyncio.ensure_future(self._finish(name, interval_ms, action, result))
        self._running[name] = task
        task.add_done_callback(lambda _: self._running.pop(name, None))
        return task

    async def _finish(
        self, name: str, interval_ms: int | Callable[[], int], action: Callable[[], object], result: Awaitable[object]
    ) -> None:
        try:
            await result
        except (LogError, OSError) as error:
            logger.error("the %s pass failed; it runs again at its next time: %s", name, error)
        except Exception:
            logger.exception("the %s pass failed; it runs again at its next time", name)
        self._plan(name, interval_ms, action)

    def in_slices(self, steps: Iterator[Job | None]) -> Awaitable[None] | None:
        """Goes through the steps of a pass in slices, between which the event loop has a turn. A job that a step yields is done
        in a thread before the next step; it must not raise. Returns None if one slice was enough. A stop leaves out what remains,
        but waits for a job and for what is done about it.
        """
        is_over, job = self._slice(steps)
        return None if is_over else self._rest(steps, job)

    def _slice(self, steps: Iterator[Job | None]) -> tuple[bool, Job | None]:
        """Returns whether nothing is left to do, and the job that is to be done next."""
        ticks = self._clock.ticks_ns
        until = ticks() + TURN_NS
        for job in steps:
            if job is not None or ticks() >= until:
                return False, job
        return True, None

    async def _rest(self, steps: Iterator[Job | None], job: Job | None) -> None:
        is_over = False
        while not is_over:
            if job is not None:
                await asyncio.get_running_loop().run_in_executor(None, job)
            else:
                await asyncio.sleep(0)
                if self._stopped:
                    return
            is_over, job = self._slice(steps)

    async def stop(self) -> None:
        self._stopped = True
        for due in self._due.values():
            due.cancel()
        if self._running:
            await asyncio.wait(list(self._running.values()))


async def flush_in_thread(job: FlushJob) -> None:
    """Does a flush in a thread of the loop's pool. Raises StorageError."""
    try:
        await asyncio.get_running_loop().run_in_executor(None, job.run)
    except BaseException:  # if a job stayed in flight, the log could never be flushed again
        job.give_up()
        raise
    job.finish()


async def flush_in_threads(scheduler: Scheduler, logs: LogManager, now_ms: int) -> int:
    """Does every flush that is due, each in a thread of the loop's pool; returns how many logs were flushed."""

    async def flush(job: FlushJob) -> int:
        try:
            await flush_in_thread(job)
        except StorageError:  # logged where the directory went offline; all its partitions answer KAFKA_STORAGE_ERROR from now on
            return 0
        return 1

    flushes: list[asyncio.Task[int]] = []

    def steps() -> Iterator[None]:
        for job in logs.flush_steps(now_ms):
            if job is not None:
                flushes.append(asyncio.ensure_future(flush(job)))
            yield

    rest = scheduler.in_slices(steps())
    if rest is not None:
        await rest
    return sum(await asyncio.gather(*flushes))

"""Opens, after the start, the partitions for which the start had no room or no descriptor.

Opening a partition takes descriptors and, after a kill, perhaps room for an index that is built again. If it fails for want of
these, that says nothing about the disk. So the others are served, and those that are left are tried again: one a second, and once
one could be opened, the next ones without a pause. Each attempt runs in a thread, because recovery may have to read a whole
segment. Until then a partition is like any that could not be opened: clients get KAFKA_STORAGE_ERROR, its lines in the
checkpoints are kept, and a stop is not marked as clean.

The module is loaded if the start had to leave a partition out.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ottla.server.partitions.backlog import RETRY_SECONDS
from ottla.server.partitions.flushing import Run, run_in_thread

if TYPE_CHECKING:
    from ottla.log.disk.checkpoint import TopicPartition
    from ottla.log.errors import StorageError
    from ottla.log.management.manager import LogManager
    from ottla.server.base.clock import Clock

logger = logging.getLogger("ottla.server.replicas")


class Reopening:
    """Opens the partitions of `logs` that wait for room. `opened` is called with the topic and index of each one that is open."""

    def __init__(self, logs: LogManager, clock: Clock, opened: Callable[[str, int], None], run: Run | None = None) -> None:
        self._logs = logs
        self._clock = clock
        self._opened = opened
        self._run = run or run_in_thread
        self._jobs = logs.opening.without_room
        self._waiting: deque[TopicPartition] = deque(self._jobs)
        self._is_running = False
        self._closed: asyncio.Event | None = None
        problem = next(iter(self._jobs.values())).problem
        logger.error(
            "not available until there is room: %d partitions that the start could not open; %s", len(self._jobs), problem
        )
        clock.call_later(RETRY_SECONDS, self._try_next)

    def waits(self, topic: str, index: int) -> bool:
        """Returns whether the partition may yet be opened."""
        job = self._jobs.get((topic, index))
        return job is not None and job.directory.failed is None

    async def close(self) -> None:
        """Ends the attempts. Returns when none is under way any more."""
        self._closed = asyncio.Event()
        if self._is_running:
            self._logs.stop_opening()
            await self._closed.wait()

    def _try_next(self) -> None:
        if self._closed is None:
            self._is_running = True
            name = self._waiting.popleft()
            self._run(partial(self._logs.opening.open_again, name), partial(self._ended, name))

    def _ended(self, name: TopicPartition, error: StorageError | None) -> None:
        self._is_running = False
        if self._closed is not None:  # what was opened is as it was on disk, and nobody uses it
            self._closed.set()
            return
        job = self._jobs[name]
        if job.lacks_room:
            self._waiting.append(name)
            self._clock.call_later(RETRY_SECONDS, self._try_next)
            return
        del self._jobs[name]
        if job.log is None:
            self._logs.unavailable[name] = job.problem or str(error)
            logger.error("%s-%d stays offline: %s", *name, self._logs.unavailable[name])
        else:
            self._logs.adopt(job.log)
            logger.info("%s-%d, which the start had no room for, is open", *name)
            self._opened(*name)
        if self._waiting:
            self._clock.call_later(0, self._try_next)

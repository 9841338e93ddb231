"""Acknowledges appends after an fsync, with group commit: many answers wait for one flush, and the event loop waits for none.

Where `flush.messages` makes a flush due, an append returns at once and its answer waits (log/flush.py says when). The waiting
answers are kept here. One flush of each log runs at a time, in a thread of the loop's pool; everything that is appended meanwhile
waits for the next one, which begins when this one ends. So the more requests are in flight, the more of them share an fsync, and
flushes of different logs run side by side. The first flush begins one turn of the loop after the append that asked for it, so
that it covers what other connections had sent by then.

If a flush fails, the requests that waited for it fail with a StorageError. If the disk failed, the log directory goes offline and
nothing is ever flushed there again. If only file descriptors or space ran out, the batches are in the log all the same and the
next flush covers them. So, as with every answer that says an append failed, a client that retries and must not write twice needs
an idempotent producer.

The module is loaded with the first answer that has to wait; by default there is none.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.log.errors import StorageError

if TYPE_CHECKING:
    from ottla.log.flush import FlushJob
    from ottla.log.partition import PartitionLog
    from ottla.server.base.clock import Clock
    from ottla.server.partitions.replica import Replica

MAX_OFFSET: Final = 2**63 - 1

OnDurable = Callable[[StorageError | None], object]
"""A function that is called, on the loop, with None when an append is durable, or with the reason when it cannot be made durable.
"""

Run = Callable[[Callable[[], None], Callable[[StorageError | None], None]], None]
"""`run(job, done)` runs `job` off the loop and then calls `done`, on the loop, with the StorageError that it raised or None."""


def run_in_thread(job: Callable[[], None], done: Callable[[StorageError | None], None]) -> None:
    """Runs `job` in the running loop's own thread pool and then calls `done`. An exception other than StorageError is a bug of
    ours and also reaches the loop's exception handler.
    """

    def ended(future: asyncio.Future[None]) -> None:
        error = future.exception()
        if error is not None and not isinstance(error, StorageError):
            done(StorageError(f"it failed because of a bug: {error!r}"))
            raise error
        done(error)

    asyncio.get_running_loop().run_in_executor(None, job).add_done_callback(ended)


class _Queue:
    """The answers that wait for flushes of one log, in the order of their appends."""

    __slots__ = ("replica", "waiting")

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.waiting: deque[tuple[int, OnDurable]] = deque()
        """(end offset, function to call) of each answer."""


class Flushing:
    """Runs the flushes that answers wait for. `when_durable` is called for each append that may not be acknowledged
    before one.
    """

    def __init__(self, clock: Clock, run: Run = run_in_thread) -> None:
        self._clock = clock
        self._run = run
        self._queues: dict[PartitionLog, _Queue] = {}
        """The queues of the logs that have a flush under way or scheduled."""
        self.flushes = 0
        self._idle: asyncio.Event | None = None

    def when_durable(self, replica: Replica, end_offset: int, durable: OnDurable) -> None:
        """Calls `durable` once, later, when everything below `end_offset` is flushed as `flush.messages` asks or cannot be."""
        log = replica.log
        queue = self._queues.get(log)
        if queue is None:
            queue = self._queues[log] = _Queue(replica)
            self._clock.call_later(0, lambda: self._begin(log, queue))
        queue.waiting.append((end_offset, durable))

    def _begin(self, log: PartitionLog, queue: _Queue) -> None:
        if log.closed and not log.awaits_flush(queue.waiting[-1][0]):  # it was moved to another directory, and is durable there
            self._release(log, queue)
            return
        try:
            log.check_usable()
            if any(end_offset > log.log_end_offset for end_offset, _ in queue.waiting):
                raise StorageError(f"{log!r} was truncated before it was flushed")
            job = log.start_flush()
        except StorageError as error:
            self._fail(log, queue, MAX_OFFSET, error)
            return
        if job is None:  # the periodic flush came first
            self._release(log, queue)
            return
        self.flushes += 1
        self._run(job.run, lambda error: self._ended(log, queue, job, error))

    def _ended(self, log: PartitionLog, queue: _Queue, job: FlushJob, error: StorageError | None) -> None:
        if error is not None:
            job.give_up()
            self._fail(log, queue, job.upto, error)
            return
        job.finish()
        self._release(log, queue)

    def _release(self, log: PartitionLog, queue: _Queue) -> None:
        """Calls the functions whose offset the recovery point has reached, and schedules a flush for the rest."""
        waiting = queue.waiting
        released = []
        while waiting and not log.awaits_flush(waiting[0][0]):
            released.append(waiting.popleft()[1])
        self._go_on(log, queue)
        if released:  # readers see more now, whatever flushed it
            queue.replica.wake()
        for durable in released:
            durable(None)

    def _fail(self, log: PartitionLog, queue: _Queue, upto: int, error: StorageError) -> None:
        """Fails the answers that the flush was for; fails all of them if there will be no other flush of this log."""
        lost = log.closed or log.directory.failed is not None
        failed = [durable for end_offset, durable in queue.waiting if lost or end_offset <= upto]
        queue.waiting = deque(entry for entry in queue.waiting if not lost and entry[0] > upto)
        self._go_on(log, queue)
        for durable in failed:
            durable(error)

    def _go_on(self, log: PartitionLog, queue: _Queue) -> None:
        if queue.waiting:
            self._clock.call_later(0, lambda: self._begin(log, queue))
            return
        del self._queues[log]
        if self._idle is not None and not self._queues:
            self._idle.set()

    async def settle(self) -> None:
        """Returns when no flush is under way."""
        if self._queues:
            self._idle = asyncio.Event()
            await self._idle.wait()

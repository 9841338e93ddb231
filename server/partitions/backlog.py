"""The decisions in the metadata that the disk does not show yet: partitions that are to be made, and logs that are to be deleted.

The metadata changes at once, for 10,000 partitions as for one, but the files of one take about 0.4 ms. So the backlog works in
slices, with a turn of the event loop between two, and nobody waits for more than a slice. The first slice is part of the change
itself: a few partitions are there as soon as the metadata names them. Whoever has to know that all are there waits for `settled`.

Deletions come first, because they make room, and those of a slice share one fsync.

A partition for which there was no room or no descriptor is put off, and so are all that come after it. Every second one of them
is tried, and when that succeeds, the others follow. The one that failed goes to the end: it may need more room than the others.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from ottla.log.errors import NoRoom
from ottla.server.base.clock import TURN_NS
from ottla.server.base.promise import Promise

if TYPE_CHECKING:
    from ottla.server.base.clock import Clock
    from ottla.server.partitions.replica import Replica

logger = logging.getLogger("ottla.server.replicas")

RETRY_SECONDS: Final = 1.0
"""The time from a failure for want of room to the next attempt, which takes a fraction of a millisecond."""

TopicIdPartition = tuple[bytes, int]
"""A partition's topic id and index. By its name, a topic could not be told from a deleted one that had the same."""


class Backlog:
    """Does the work on disk, in slices.

    `make` makes a partition, unless the metadata does not want it here any more, and returns whether it did; its last argument
    is `is_new`. It raises NoRoom and logs any other failure. `delete` deletes a partition that was removed; `sync` makes
    deletions durable. Both log their failures.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        make: Callable[[TopicIdPartition, bool], bool],
        delete: Callable[[Replica], None],
        sync: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._make = make
        self._delete = delete
        self._sync = sync
        self._to_make: deque[tuple[TopicIdPartition, bool]] = deque()
        self._names: set[TopicIdPartition] = set()
        """The partitions in `_to_make`."""
        self._to_delete: deque[Replica] = deque()
        self._put_off: dict[TopicIdPartition, bool] = {}
        """The partitions for which there was no room, each with its `is_new`."""
        self._made = self._deleted = 0
        self._waiting: list[tuple[int, int, Promise[None]]] = []
        """Promises, each with what `_made` and `_deleted` have to reach first."""
        self._slice_ends = 0  # in ticks
        self._has_next_slice = False
        self._has_retry = False
        self._closed = False

    def __contains__(self, partition: TopicIdPartition) -> bool:
        """Returns whether the partition is to be made in one of the next slices."""
        return partition in self._names

    def waits_for_room(self, partition: TopicIdPartition) -> bool:
        return partition in self._put_off

    def make(self, partition: TopicIdPartition, *, is_new: bool) -> None:
        """Makes the partition, now or in one of the next slices."""
        if partition not in self._names and partition not in self._put_off:
            self._add(partition, is_new)
            self._advance()

    def delete(self, replicas: Iterable[Replica]) -> None:
        """Deletes partitions that were removed, now or in the next slices."""
        self._to_delete.extend(replicas)
        self._advance()

    def put_off(self, partitions: Mapping[TopicIdPartition, bool], error: NoRoom) -> None:
        """Keeps partitions for which there is no room, each with its `is_new`, and everything that is still to be made, until
        there is."""
        before = len(self._put_off)
        self._put_off.update(self._to_make)
        self._made += len(self._to_make)
        self._to_make.clear()
        self._names.clear()
        self._put_off.update(partitions)
        if len(self._put_off) > before:
            logger.error("not available until there is room: %d partitions; %s", len(self._put_off), error)
        self._plan_retry()

    def settled(self) -> Promise[None] | None:
        """Returns a promise that is kept when the disk shows what the metadata says now, or None if it does already. What is put
        off for want of room is not waited for."""
        return self._promise(len(self._to_make), len(self._to_delete))

    def deleted(self) -> Promise[None] | None:
        """Returns a promise that is kept when what is to be deleted now is, or None if it is already."""
        return self._promise(0, len(self._to_delete))

    def _promise(self, to_make: int, to_delete: int) -> Promise[None] | None:
        if not to_make and not to_delete:
            return None
        promise: Promise[None] = Promise()
        self._waiting.append((self._made + to_make, self._deleted + to_delete, promise))
        return promise

    def close(self, *, clean: bool) -> None:
        """Ends the work. If `clean`, what is to be deleted is deleted first; what is to be made is made by the next start."""
        self._closed = True
        if clean and self._to_delete:
            while self._to_delete:
                self._delete(self._to_delete.popleft())
            self._sync()
        self._keep(self._waiting)

    # Slices

    def _add(self, partition: TopicIdPartition, is_new: bool) -> None:
        self._to_make.append((partition, is_new))
        self._names.add(partition)

    def _advance(self) -> None:
        """Goes on with what is left of a slice, if this turn of the event loop has not used one up."""
        if self._has_next_slice:
            return
        now = self._clock.ticks_ns()
        if now >= self._slice_ends:
            self._slice_ends = now + TURN_NS
        self._run()

    def _next_slice(self) -> None:
        self._has_next_slice = False
        if not self._closed:
            self._slice_ends = self._clock.ticks_ns() + TURN_NS
            self._run()

    def _run(self) -> None:
        """Works until the slice is over or nothing is left. The step that it is in is completed, and the deletions are synced."""
        deleted = self._deleted
        while self._to_delete or self._to_make:
            self._step()
            if self._clock.ticks_ns() >= self._slice_ends:
                self._has_next_slice = True
                self._clock.call_later(0, self._next_slice)
                break
        if self._deleted > deleted:
            self._sync()
        if self._waiting:
            self._keep([each for each in self._waiting if each[0] <= self._made and each[1] <= self._deleted])

    def _keep(self, promises: list[tuple[int, int, Promise[None]]]) -> None:
        self._waiting = [each for each in self._waiting if each not in promises]
        for _, _, promise in promises:
            if not promise.done():  # else nobody waits any more
                promise.set_result(None)

    def _step(self) -> None:
        """Deletes or makes one partition."""
        if self._to_delete:
            self._delete(self._to_delete.popleft())
            self._deleted += 1
            return
        partition, is_new = self._to_make.popleft()
        self._names.remove(partition)
        self._made += 1
        try:
            made = self._make(partition, is_new)
        except NoRoom as error:
            self.put_off({partition: is_new}, error)
        else:
            if made and self._put_off:
                self._take_up()

    # Room

    def _plan_retry(self) -> None:
        if not self._has_retry:
            self._has_retry = True
            self._clock.call_later(RETRY_SECONDS, self._retry)

    def _retry(self) -> None:
        """Tries the partition that has waited longest, and with it all others if there is room."""
        self._has_retry = False
        while self._put_off and not self._closed:
            partition, is_new = next(iter(self._put_off.items()))
            del self._put_off[partition]
            try:
                made = self._make(partition, is_new)
            except NoRoom:
                self._put_off[partition] = is_new
                self._plan_retry()
                return
            if made:
                self._take_up()
                self._advance()
                return

    def _take_up(self) -> None:
        """Takes up the partitions that were put off, since there is room for one."""
        logger.info("there is room again: creating %d more partitions that waited for it", len(self._put_off))
        for partition, is_new in self._put_off.items():
            self._add(partition, is_new)
        self._put_off.clear()

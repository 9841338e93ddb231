"""The coordinator runtime keeps the shards of one internal topic: a shard is loaded when this broker becomes the leader of its
partition and unloaded when it no longer is.

Groups are stored in `__consumer_offsets`, transactions in `__transaction_state` and the state of share groups in
`__share_group_state`, and all three load in the same way. A partition is read from its start, in slices of some milliseconds so
that other requests are served in between; meanwhile requests for it are answered COORDINATOR_LOAD_IN_PROGRESS. A partition that
cannot be read is never left half loaded, and nothing is ever answered from a part of it: its requests are answered
NOT_COORDINATOR, as in Kafka, and each of them tries to load it again. Only where bytes are damaged is that left alone for
DAMAGED_RETRY_SECONDS; the log then says which file is damaged, where, and how to repair it, or, in a cluster, who takes over
(server/replication/repairs.py).

A shard belongs to one partition in one leader epoch. When this broker leads the partition in a newer epoch, another broker may
have led it in between, so the shard is loaded anew.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, ValuesView
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from ottla.log.errors import CorruptRecord, LogError
from ottla.server.base.answers import combine_answers
from ottla.server.base.clock import Clock
from ottla.server.base.errors import NotLeaderOrFollower
from ottla.server.base.promise import Promise
from ottla.server.coordination.shard import CoordinatorShard
from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.server.coordination.internal_topic import Appended

logger = logging.getLogger("ottla.server.shards")

LOAD_SLICE_SECONDS: Final = 0.01
"""The time for which shards, all of them together, are loaded before others may come first."""
DAMAGED_RETRY_SECONDS: Final = 60.0
"""A damaged partition is read again at most this often. Every attempt reads it up to the damage, and as a repair needs the broker
stopped, only bytes that were wrong in memory are right the next time."""


class CoordinatorLog(Protocol):
    """The partitions of an internal topic, as a runtime uses them. `internal_topic.InternalTopicLog` implements it."""

    @property
    def in_doubt(self) -> bool:
        """Returns whether this broker does not know at the moment what it leads."""
        ...

    def partition_count(self) -> int:
        """Returns 0 while the topic does not exist."""
        ...

    def leads(self, partition: int) -> bool:
        """Returns whether this broker leads the partition, by the metadata."""
        ...

    def leader_epoch(self, partition: int) -> int:
        """Returns the partition's leader epoch, or -1 if there is no such partition."""
        ...

    def append(self, partition: int, batch: bytes) -> Appended:
        """Writes one batch. Returns its base offset, and a promise if it is not replicated yet. Raises log errors."""
        ...

    def read(self, partition: int) -> Iterator[bytes]:
        """Yields all batches from the partition's start to its end."""
        ...

    def replicated(self, partition: int) -> Promise[None] | None:
        """Returns a promise that is kept when everything that the partition holds now is replicated, or None if it is already.
        Raises log errors, and NotLeaderOrFollower if another broker leads the partition.
        """
        ...


T = TypeVar("T")
S = TypeVar("S", bound=CoordinatorShard[Any])

Make = Callable[[int, int, Callable[[bytes], "Appended"]], S]
"""Creates an empty shard from a partition, its leader epoch and a function that appends a batch to the partition."""


class CoordinatorRuntime(Generic[S]):
    """Holds the shards by partition, including those that are still loading. `loaded` and `unloaded` are called with each shard
    when it has been loaded or unloaded; `refusal` is the coordinator's own exception, which is made of an error code.
    """

    def __init__(
        self,
        topic: str,
        log: CoordinatorLog,
        clock: Clock,
        make: Make[S],
        refusal: type[Exception],
        *,
        loaded: Callable[[S], object],
        unloaded: Callable[[S], object] = lambda shard: None,
    ) -> None:
        self._topic = topic
        self._log = log
        self._clock = clock
        self._make = make
        self._refusal = refusal
        self._loaded = loaded
        self._unloaded = unloaded
        self._shards: dict[int, S] = {}
        self._loading: deque[tuple[S, Iterator[None]]] = deque()
        self._has_next_slice = False
        self._damaged: dict[int, tuple[int, float]] = {}
        """The partitions whose bytes are damaged: the leader epoch in which that was found, and when to read them again."""

    def __iter__(self) -> Iterator[int]:
        """Iterates over the partitions."""
        return iter(self._shards)

    def __getitem__(self, partition: int) -> S:
        return self._shards[partition]

    def get(self, partition: int) -> S | None:
        return self._shards.get(partition)

    def values(self) -> ValuesView[S]:
        return self._shards.values()

    def loaded_shard(self, partition: int) -> S:
        """Returns the partition's shard as `take_over` does. Raises the `refusal` of NOT_COORDINATOR if there is none, or if this
        broker does not know whether it is still the coordinator, and of COORDINATOR_LOAD_IN_PROGRESS while it is loading.
        """
        shard = None if self._log.in_doubt else self._shards.get(partition) or self.take_over(partition)
        if shard is None:
            raise self._refusal(ErrorCode.NOT_COORDINATOR)
        if shard.loading:
            raise self._refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return shard

    def loaded_shards(self) -> ValuesView[S]:
        """Returns the shards of all partitions that this broker leads. Raises the `refusal` of COORDINATOR_LOAD_IN_PROGRESS
        while some of them are loading, and of NOT_COORDINATOR if this broker does not know whether it leads them.
        """
        if self._log.in_doubt:
            raise self._refusal(ErrorCode.NOT_COORDINATOR)
        self.refresh()
        if any(shard.loading for shard in self._shards.values()):
            raise self._refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return self._shards.values()

    def answer_or(self, value: T, refused: Callable[[ErrorCode], T]) -> T | Promise[T]:
        """Does what `CoordinatorShard.answer_or` does, for answers about all shards."""
        waiting = [shard.outcome() for shard in self._shards.values() if shard.unreplicated is not None]
        return combine_answers(waiting, lambda codes: next((refused(code) for code in codes if code), value))

    def on_each(self, action: Callable[[S], object], what: str) -> None:
        """Calls `action` with each shard that is loaded, as `attempt` does."""
        for shard in list(self._shards.values()):
            if not shard.loading:
                self.attempt(action, shard, what)

    def attempt(self, action: Callable[[S], object], shard: S, what: str) -> None:
        """Calls `action`, which nobody has requested, with a shard. If its records cannot be written, now or before what it
        promises is done, logs that one cannot do `what`.
        """

        def log_failure(get: Callable[[], object]) -> None:
            try:
                get()
            except (self._refusal, LogError) as error:
                if self._shards.get(shard.partition) is shard:  # otherwise it is the new coordinator's
                    shard.logger.warning("partition %d of %s: cannot %s: %s", shard.partition, self._topic, what, error)

        def act() -> None:
            under_way = action(shard)
            if isinstance(under_way, Promise):
                under_way.add_done_callback(lambda done: log_failure(done.result))

        log_failure(act)

    def take_over(self, partition: int) -> S | None:
        """Returns the shard, and starts to load it if it is not there yet; a small shard is loaded by the time this returns,
        unless others are loading.
        Returns None if this broker does not lead the partition or cannot read it.
        """
        if partition not in self._shards and self._log.leads(partition) and not self._is_damaged(partition):
            log = self._log
            shard = self._make(partition, log.leader_epoch(partition), lambda batch: log.append(partition, batch))
            self._shards[partition] = shard
            self._loading.append((shard, shard.load(lambda: log.read(partition), lambda: log.replicated(partition))))
            if not self._has_next_slice:
                self._load_some()
        return self._shards.get(partition)

    def _is_damaged(self, partition: int) -> bool:
        """Returns whether the partition was found damaged in this leader epoch, and it is too early to read it again."""
        if partition not in self._damaged:
            return False
        epoch, retry_at = self._damaged[partition]
        if epoch == self._log.leader_epoch(partition) and self._clock.monotonic() < retry_at:
            return True
        del self._damaged[partition]
        return False

    @property
    def damaged(self) -> int:
        """Returns how many partitions could not be loaded when they were last read, because their bytes are damaged."""
        return len(self._damaged)

    def refresh(self) -> None:
        """Loads all partitions that this broker leads and unloads the others."""
        for partition in {*range(self._log.partition_count()), *self._shards, *self._damaged}:
            self.follow(partition)

    def follow(self, partition: int) -> None:
        """Loads or unloads one partition, whose leader or leader epoch may have changed."""
        shard = self._shards.get(partition)
        if shard is not None and not self._is_led_by(shard):
            self.unload(partition)
        if self._damaged and not self._log.leads(partition):
            self._damaged.pop(partition, None)
        self.take_over(partition)

    def _is_led_by(self, shard: S) -> bool:
        partition = shard.partition
        return self._log.leads(partition) and self._log.leader_epoch(partition) == shard.leader_epoch

    def unload(self, partition: int) -> None:
        """Drops the shard, if there is one; requests that wait in it are answered NOT_COORDINATOR."""
        shard = self._shards.pop(partition, None)
        if shard is not None:
            shard.unload()
            self._unloaded(shard)

    def close(self) -> None:
        """Unloads all shards."""
        for partition in list(self._shards):
            self.unload(partition)

    def _load_some(self) -> None:
        """Loads shards for the length of a slice, in turn, and leaves the rest to the next one."""
        self._has_next_slice = False
        until = self._clock.ticks_ns() + round(LOAD_SLICE_SECONDS * 1_000_000_000)
        while self._loading:
            shard, steps = self._loading.popleft()
            is_wanted = self._shards.get(shard.partition) is shard  # otherwise it was unloaded meanwhile
            if is_wanted and not self._load(shard, steps, until):
                self._loading.append((shard, steps))
            if self._loading and self._clock.ticks_ns() >= until:  # after a step, so that also a slow clock sees an end
                self._has_next_slice = True
                self._clock.call_later(0, self._load_some)
                return

    def _load(self, shard: S, steps: Iterator[None], until: int) -> bool:
        """Loads a shard until the clock shows `until`; returns whether nothing of it is left."""
        try:
            for _ in steps:
                if self._clock.ticks_ns() >= until:
                    return False
        except (LogError, NotLeaderOrFollower, OSError) as error:
            logger.error("partition %d of %s cannot be loaded: %s", shard.partition, self._topic, error)
            if isinstance(error, CorruptRecord):
                self._damaged[shard.partition] = shard.leader_epoch, self._clock.monotonic() + DAMAGED_RETRY_SECONDS
            self.unload(shard.partition)
            return True
        self._loaded(shard)
        return True

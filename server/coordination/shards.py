"""The partitions of an internal topic whose coordinator this broker is: loaded when it leads them, forgotten when it does not.

Groups live in `__consumer_offsets` and transactions in `__transaction_state`; a partition of either is taken over in one way.
It is read from its start, in slices of some milliseconds so that other requests are served in between; who asks for it meanwhile
is told COORDINATOR_LOAD_IN_PROGRESS. One that cannot be read is not half loaded: the next who asks for it tries again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, ValuesView
from typing import Final, Generic, Protocol, TypeVar

from ottla.log.errors import LogError
from ottla.server.base.clock import Clock
from ottla.server.coordination.internal_topic import Appended

logger = logging.getLogger("ottla.server.shards")

LOAD_SLICE_SECONDS: Final = 0.02


class ShardLog(Protocol):
    """The partitions of an internal topic, as `internal_topic.InternalTopicLog` gives access to them."""

    def partition_count(self) -> int:
        """0 while the topic does not exist."""
        ...

    def leader(self, partition: int) -> int | None:
        """The leading broker's id; None without one."""
        ...

    def append(self, partition: int, batch: bytes) -> Appended:
        """Appends one batch. Raises the errors of the log."""
        ...

    def read(self, partition: int) -> Iterator[bytes]:
        """All batches from the partition's start to its end."""
        ...


class Loadable(Protocol):
    """One partition's state."""

    partition: int
    loading: bool
    """Until `load` has replayed everything."""

    def load(self, read: Callable[[], Iterator[bytes]]) -> Iterator[None]:
        """Replays the partition, a batch a step; what `read` raises comes through."""
        ...


S = TypeVar("S", bound=Loadable)


class Shards(Generic[S]):
    """By partition, those that are loading among them. `make` gives an empty one; `loaded` and `unloaded` are told of each."""

    def __init__(
        self,
        topic: str,
        log: ShardLog,
        clock: Clock,
        node_id: int,
        make: Callable[[int], S],
        *,
        loaded: Callable[[S], object],
        unloaded: Callable[[S], object] = lambda shard: None,
        is_stale: Callable[[S], bool] = lambda shard: False,
    ) -> None:
        """`is_stale`: the partition was led by somebody else since this shard was loaded."""
        self._topic = topic
        self._log = log
        self._clock = clock
        self._node_id = node_id
        self._make = make
        self._loaded = loaded
        self._unloaded = unloaded
        self._is_stale = is_stale
        self._shards: dict[int, S] = {}

    def __iter__(self) -> Iterator[int]:
        """The partitions."""
        return iter(self._shards)

    def __getitem__(self, partition: int) -> S:
        return self._shards[partition]

    def get(self, partition: int) -> S | None:
        return self._shards.get(partition)

    def values(self) -> ValuesView[S]:
        return self._shards.values()

    def take_over(self, partition: int) -> S | None:
        """The shard, begun to be loaded where it is not there; a small one is loaded when this returns. None: the partition is
        not this broker's, or not readable.
        """
        if partition not in self._shards and self._log.leader(partition) == self._node_id:
            shard = self._shards[partition] = self._make(partition)
            self._load_slice(shard, shard.load(lambda: self._log.read(partition)))
        return self._shards.get(partition)

    def refresh(self) -> None:
        """Loads all partitions that this broker leads and unloads the others."""
        for partition in {*range(self._log.partition_count()), *self._shards}:
            self.follow(partition)

    def follow(self, partition: int) -> None:
        """The leader of one partition may have changed: loads it or unloads it."""
        shard = self._shards.get(partition)
        if shard is not None and (self._log.leader(partition) != self._node_id or self._is_stale(shard)):
            self.unload(partition)
        self.take_over(partition)

    def unload(self, partition: int) -> None:
        shard = self._shards.pop(partition, None)
        if shard is not None:
            self._unloaded(shard)

    def close(self) -> None:
        for partition in list(self._shards):
            self.unload(partition)

    def _load_slice(self, shard: S, steps: Iterator[None]) -> None:
        if self._shards.get(shard.partition) is not shard:
            return  # unloaded meanwhile
        until = self._clock.monotonic() + LOAD_SLICE_SECONDS
        try:
            for _ in steps:
                if self._clock.monotonic() >= until:
                    self._clock.call_later(0, lambda: self._load_slice(shard, steps))
                    return
        except (LogError, OSError) as error:
            logger.error("partition %d of %s cannot be loaded: %s", shard.partition, self._topic, error)
            self.unload(shard.partition)
            return
        self._loaded(shard)

"""The shards of one internal topic on this broker: loaded when it leads their partitions, unloaded when it does not.

Groups live in `__consumer_offsets`, transactions in `__transaction_state` and the state of share groups in `__share_group_state`;
a partition of each is taken over in one way. It is read from its start, in slices of some milliseconds so that other requests are
served in between; requests for it are answered COORDINATOR_LOAD_IN_PROGRESS meanwhile. One that cannot be read is not half
loaded: the next request for it tries again.

A shard belongs to a partition and a leader epoch. When this broker leads the partition in a newer epoch, another broker may have
led it in between, and the shard is loaded anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, ValuesView
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from ottla.log.errors import LogError
from ottla.server.base.clock import Clock
from ottla.server.coordination.shard import CoordinatorShard

if TYPE_CHECKING:
    from ottla.server.coordination.internal_topic import Appended

logger = logging.getLogger("ottla.server.shards")

LOAD_SLICE_SECONDS: Final = 0.02


class CoordinatorLog(Protocol):
    """The partitions of an internal topic, as `internal_topic.InternalTopicLog` gives access to them."""

    def partition_count(self) -> int:
        """Returns 0 while the topic does not exist."""
        ...

    def leader(self, partition: int) -> int | None:
        """Returns the leading broker's id; None without one."""
        ...

    def leader_epoch(self, partition: int) -> int:
        """Returns the epoch of the partition's leader; -1 without such a partition."""
        ...

    def append(self, partition: int, batch: bytes) -> Appended:
        """Writes one batch. Returns its base offset, and a promise where it is not replicated yet. Raises log errors."""
        ...

    def read(self, partition: int) -> Iterator[bytes]:
        """Returns all batches from the partition's start to its end."""
        ...


S = TypeVar("S", bound=CoordinatorShard[Any])

Make = Callable[[int, int, Callable[[bytes], "Appended"]], S]
"""Returns an empty shard of a partition, led in an epoch, to which the function appends."""


class CoordinatorRuntime(Generic[S]):
    """The shards by partition, those that are loading among them. `loaded` and `unloaded` are called with each."""

    def __init__(
        self,
        topic: str,
        log: CoordinatorLog,
        clock: Clock,
        node_id: int,
        make: Make[S],
        *,
        loaded: Callable[[S], object],
        unloaded: Callable[[S], object] = lambda shard: None,
    ) -> None:
        self._topic = topic
        self._log = log
        self._clock = clock
        self._node_id = node_id
        self._make = make
        self._loaded = loaded
        self._unloaded = unloaded
        self._shards: dict[int, S] = {}

    def __iter__(self) -> Iterator[int]:
        """Iterates over the partitions."""
        return iter(self._shards)

    def __getitem__(self, partition: int) -> S:
        return self._shards[partition]

    def get(self, partition: int) -> S | None:
        return self._shards.get(partition)

    def values(self) -> ValuesView[S]:
        return self._shards.values()

    def take_over(self, partition: int) -> S | None:
        """Returns the shard, and begins to load it where it is not there; a small one is loaded when this returns. Returns None
        where the partition is not led by this broker, or cannot be read.
        """
        if partition not in self._shards and self._log.leader(partition) == self._node_id:
            log = self._log
            shard = self._make(partition, log.leader_epoch(partition), lambda batch: log.append(partition, batch))
            self._shards[partition] = shard
            self._load_slice(shard, shard.load(lambda: log.read(partition)))
        return self._shards.get(partition)

    def refresh(self) -> None:
        """Loads all partitions that this broker leads and unloads the others."""
        for partition in {*range(self._log.partition_count()), *self._shards}:
            self.follow(partition)

    def follow(self, partition: int) -> None:
        """Loads or unloads one partition, whose leader or leader epoch may have changed."""
        shard = self._shards.get(partition)
        if shard is not None and not self._is_led_by(shard):
            self.unload(partition)
        self.take_over(partition)

    def _is_led_by(self, shard: S) -> bool:
        partition = shard.partition
        return self._log.leader(partition) == self._node_id and self._log.leader_epoch(partition) == shard.leader_epoch

    def unload(self, partition: int) -> None:
        """Forgets the shard, if there is one; what waits in it is answered NOT_COORDINATOR."""
        shard = self._shards.pop(partition, None)
        if shard is not None:
            shard.unload()
            self._unloaded(shard)

    def close(self) -> None:
        """Unloads all shards."""
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

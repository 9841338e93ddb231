"""`Topics` is the view of the cluster's topics that the groups of one protocol on one shard need: ids, partition counts, hashes
and changes.

A hash is cached until its topic changes. Each group asks, with its next heartbeat, whether one of its topics has changed since it
last did: so a change costs nothing for the groups that do not read the topic, and nobody looks at all groups.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Set
from itertools import islice
from typing import Final, Protocol

from ottla.server.base.turns import Steps, in_runs
from ottla.server.group.cluster import Cluster
from ottla.server.group.modern.java_order import copied_capacity, hash_order, string_hash
from ottla.server.group.modern.metadata_hash import group_hash, topic_hash

MANY_CHANGES: Final = 1_000
"""The names of so many changes are kept. A group that has missed more takes its own topics for changed."""
NAMES_A_STEP: Final = 1_000
"""The hashes of so many names are computed before others may come first."""


class Sees(Protocol):
    """A group, which keeps how many changes it has seen."""

    topics_seen: int


class Topics:
    """The topics of the cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._hashes: dict[str, int] = {}
        self._name_hashes: dict[str, int] = {}  # as Java computes them
        self._changes = 0
        """The number of changes, the newest of which are `_changed`."""
        self._changed: deque[str] = deque(maxlen=MANY_CHANGES)

    def ids(self, names: Iterable[str]) -> list[bytes]:
        """Returns the ids of those topics that exist, in the order of the names."""
        found = (self._cluster.topics.get(name) for name in names)
        return [topic.topic_id for topic in found if topic is not None]

    def ids_in_hash_order(self, names: Collection[str]) -> Steps[list[bytes]]:
        """Makes steps that return the ids of those topics that exist, in the order in which Kafka iterates over a set of these
        names, which are distinct."""
        present = [name for name in names if name in self._cluster.topics]
        hashes: dict[str, int] = {}  # a topic that changes between two steps loses its place among those that are known
        for run in in_runs(present, NAMES_A_STEP):
            self._name_hashes.update((name, string_hash(name)) for name in run if name not in self._name_hashes)
            hashes.update((name, self._name_hashes[name]) for name in run)
            yield None
        in_order = hash_order(sorted(present), lambda name: hashes[name], copied_capacity(len(names)))
        return self.ids(in_order)

    def partitions_in(self, names: Iterable[str]) -> int:
        """Returns how many partitions these topics have together."""
        found = (self._cluster.topics.get(name) for name in names)
        return sum(len(topic.partitions) for topic in found if topic is not None)

    def partition_counts(self, topic_ids: Iterable[bytes]) -> dict[bytes, int]:
        """Returns the number of partitions of each topic that exists."""
        found = {topic_id: self._cluster.topics_by_id.get(topic_id) for topic_id in topic_ids}
        return {topic_id: len(topic.partitions) for topic_id, topic in found.items() if topic is not None}

    def hash_of(self, names: Iterable[str]) -> int:
        """Returns the hash of a group that reads these topics. Topics that do not exist are left out."""
        return group_hash({name: self._hash(name) for name in names if name in self._cluster.topics})

    def hash_in_steps(self, names: Collection[str]) -> Steps[int]:
        """Makes steps that return the same. The hash of each topic takes the longest, unless it is known."""
        for run in in_runs(list(names), NAMES_A_STEP):
            for name in run:
                if name in self._cluster.topics:
                    self._hash(name)
            yield None
        return self.hash_of(names)

    def changed(self, name: str) -> None:
        """Notes that the topic has changed."""
        self._hashes.pop(name, None)
        self._name_hashes.pop(name, None)
        self._changes += 1
        self._changed.append(name)

    def have_changed(self, group: Sees, reads_any: Callable[[Set[str]], bool]) -> bool:
        """Returns whether topics that the group reads may have changed since this was last asked for it."""
        missed, group.topics_seen = self._changes - group.topics_seen, self._changes
        if not missed:
            return False
        return missed > len(self._changed) or reads_any(set(islice(reversed(self._changed), missed)))

    def _hash(self, name: str) -> int:
        if name not in self._hashes:
            self._hashes[name] = topic_hash(self._cluster.topics[name], self._rack_of)
        return self._hashes[name]

    def _rack_of(self, broker_id: int) -> str | None:
        broker = self._cluster.brokers.get(broker_id)
        return None if broker is None else broker.rack

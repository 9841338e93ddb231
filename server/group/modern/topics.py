"""`Topics` is the view of the cluster's topics that the groups of one protocol on one shard need: ids, partition counts, hashes
and changes.

A hash is cached until its topic changes. The next heartbeat finds the groups that are affected by changes, for all changes until
then at once: a thousand topics that are created together cost one look at the groups, not a thousand.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Set
from typing import Final

from ottla.server.base.turns import Steps, in_runs
from ottla.server.group.cluster import Cluster
from ottla.server.group.modern.java_order import copied_capacity, hash_order, string_hash
from ottla.server.group.modern.metadata_hash import group_hash, topic_hash

MANY_CHANGES: Final = 1_000
"""After this many changed topics the affected groups are looked up without waiting for a heartbeat."""
NAMES_A_STEP: Final = 1_000
"""The hashes of so many names are computed before others may come first."""


class Topics:
    """The topics of the cluster. Calls `on_change(names)` with the topics that have changed, before groups rely on them."""

    def __init__(self, cluster: Cluster, on_change: Callable[[Set[str]], None]) -> None:
        self._cluster = cluster
        self._on_change = on_change
        self._hashes: dict[str, int] = {}
        self._name_hashes: dict[str, int] = {}  # as Java computes them
        self._changed: set[str] = set()

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

    def hash_each(self, names: Iterable[str]) -> Steps[None]:
        """Makes steps that compute the hashes of these topics, after which `hash_of` has little to do."""
        for name in names:
            if name in self._cluster.topics:
                self._hash(name)
            yield None

    def changed(self, name: str) -> None:
        """Notes that the topic has changed."""
        self._hashes.pop(name, None)
        self._name_hashes.pop(name, None)
        self._changed.add(name)
        if len(self._changed) >= MANY_CHANGES:
            self.report_changes()

    def report_changes(self) -> None:
        """Reports the topics that have changed since the last call. It is called by every heartbeat, before it looks at its
        group.
        """
        if self._changed:
            changed, self._changed = self._changed, set()
            self._on_change(changed)

    def _hash(self, name: str) -> int:
        if name not in self._hashes:
            self._hashes[name] = topic_hash(self._cluster.topics[name], self._rack_of)
        return self._hashes[name]

    def _rack_of(self, broker_id: int) -> str | None:
        broker = self._cluster.brokers.get(broker_id)
        return None if broker is None else broker.rack

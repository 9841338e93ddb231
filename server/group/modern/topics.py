"""The topics of the cluster as assignments need them: ids, numbers of partitions, and hashes, kept until a topic changes."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.server.group.group import Cluster
from ottla.server.group.modern.metadata_hash import group_hash, topic_hash


class Topics:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._hashes: dict[str, int] = {}

    def ids(self, names: Iterable[str]) -> list[bytes]:
        """Of those that exist, in the order of the names."""
        found = (self._cluster.topics.get(name) for name in names)
        return [topic.topic_id for topic in found if topic is not None]

    def partition_counts(self, topic_ids: Iterable[bytes]) -> dict[bytes, int]:
        """Of those that exist."""
        found = {topic_id: self._cluster.topics_by_id.get(topic_id) for topic_id in topic_ids}
        return {topic_id: len(topic.partitions) for topic_id, topic in found.items() if topic is not None}

    def hash_of(self, names: Iterable[str]) -> int:
        """Of a group that reads these topics; those that do not exist are left out."""
        return group_hash({name: self._hash(name) for name in names if name in self._cluster.topics})

    def forget(self, name: str) -> None:
        """The topic is not what it was."""
        self._hashes.pop(name, None)

    def _hash(self, name: str) -> int:
        if name not in self._hashes:
            self._hashes[name] = topic_hash(self._cluster.topics[name], self._rack_of)
        return self._hashes[name]

    def _rack_of(self, broker_id: int) -> str | None:
        broker = self._cluster.brokers.get(broker_id)
        return None if broker is None else broker.rack

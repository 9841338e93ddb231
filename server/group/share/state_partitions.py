"""`StatePartitions` tracks in which partitions a share group has state with the share coordinator.

A partition of a subscribed topic takes two steps: it is *initializing* from the record that says so until the share coordinator
has answered, then *initialized*, and only then do members get it. A topic whose offsets are being deleted is *deleting* until the
share coordinator has deleted all of its state. There is a record before the request and one after the answer, so that a crash
loses nothing: partitions that have been initializing for a long time are initialized again, and topics that are deleting are
deleted again when the group or its offsets are deleted.

All of it is one record, ShareGroupStatePartitionMetadata. It does not have the time at which partitions began to initialize;
after a restart it is the time of the record's replay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from ottla.server.group.modern.java_order import hash_order, uuid_hash
from ottla.server.group.records import ProtocolRecord
from ottla.wire.messages.internal.share_group_state_partition_metadata_key import ShareGroupStatePartitionMetadataKey
from ottla.wire.messages.internal.share_group_state_partition_metadata_value import (
    ShareGroupStatePartitionMetadataValue,
    TopicInfo,
    TopicPartitionsInfo,
)


class TopicPartitions(NamedTuple):
    """Partitions of one topic. `since_ms` is when the last of them began to initialize, or 0 if they are initialized."""

    name: str
    partitions: frozenset[int]
    since_ms: int = 0


ByTopic = dict[bytes, TopicPartitions]
"""Partitions by topic id."""


_NO_TOPICS: Final[ByTopic] = {}
_NO_NAMES: Final[Mapping[bytes, str]] = {}


class StatePartitions(NamedTuple):
    """The state partitions of a group. It is never changed: each step returns another object."""

    initializing: ByTopic = _NO_TOPICS
    initialized: ByTopic = _NO_TOPICS
    deleting: Mapping[bytes, str] = _NO_NAMES
    """Topic id -> name."""

    def partitions_of(self, topic_id: bytes, since_ms: int) -> frozenset[int]:
        """Returns the partitions that are initialized, or have been initializing since some time after `since_ms`."""
        done, begun = self.initialized.get(topic_id), self.initializing.get(topic_id)
        partitions = done.partitions if done is not None else frozenset()
        return partitions | begun.partitions if begun is not None and begun.since_ms > since_ms else partitions

    def has(self, topic_id: bytes, partition: int) -> bool:
        """Returns whether the partition is initialized or initializing."""
        both = self.initializing.get(topic_id), self.initialized.get(topic_id)
        return any(topic is not None and partition in topic.partitions for topic in both)

    def has_all(self, topic_id: bytes, count: int) -> bool:
        """Returns whether all `count` partitions of the topic are initialized. The cost does not depend on their number."""
        done = self.initialized.get(topic_id)
        return done is not None and len(done.partitions) == count

    @property
    def all_partitions(self) -> dict[bytes, tuple[str, frozenset[int]]]:
        """Returns the name, and the initialized or initializing partitions, of each topic by its id."""
        both = _merged(self.initialized, self.initializing)
        return {topic_id: (topic.name, topic.partitions) for topic_id, topic in both.items()}

    # Steps

    def begun(self, topics: ByTopic) -> StatePartitions:
        """Returns the state in which these partitions are initializing and their topics no longer deleting."""
        initializing = _merged(self.initializing, topics)
        deleting = {topic_id: name for topic_id, name in self.deleting.items() if topic_id not in initializing}
        return StatePartitions(initializing, self.initialized, deleting)

    def done(self, topics: ByTopic) -> StatePartitions:
        """Returns the state in which those of these partitions that are still initializing are initialized; the others were
        deleted meanwhile."""
        done = _within(self.initializing, topics)
        return self._replace(initializing=_without(self.initializing, topics), initialized=_merged(self.initialized, done))

    def failed(self, topics: ByTopic) -> StatePartitions:
        """Returns the state after the share coordinator refused these partitions, so that the next heartbeat tries again."""
        return self._replace(initializing=_without(self.initializing, topics))

    def deleting_topics(self, topics: Mapping[bytes, str]) -> StatePartitions:
        """Returns the state in which these topics are deleting."""
        rest = self.without_topics(topics.keys())
        return rest._replace(deleting={**self.deleting, **topics})

    def deleted(self, topic_ids: Collection[bytes]) -> StatePartitions:
        """Returns the state after the share coordinator has deleted these topics."""
        return self._replace(deleting={topic_id: name for topic_id, name in self.deleting.items() if topic_id not in topic_ids})

    def without_topics(self, topic_ids: Collection[bytes]) -> StatePartitions:
        """Returns the state without these topics."""
        return StatePartitions(
            {topic_id: topic for topic_id, topic in self.initializing.items() if topic_id not in topic_ids},
            {topic_id: topic for topic_id, topic in self.initialized.items() if topic_id not in topic_ids},
            {topic_id: name for topic_id, name in self.deleting.items() if topic_id not in topic_ids},
        )

    # Records

    def record(self, group_id: str) -> ProtocolRecord:
        value = ShareGroupStatePartitionMetadataValue(
            _infos(self.initializing),
            _infos(self.initialized),
            [TopicInfo(topic_id, self.deleting[topic_id]) for topic_id in hash_order(self.deleting, uuid_hash)],
        )
        return ProtocolRecord(ShareGroupStatePartitionMetadataKey(group_id), value)


NOTHING: Final = StatePartitions()
"""The state of a group that has never had state partitions. After all of them are deleted, a group has an equal object."""


def from_value(value: ShareGroupStatePartitionMetadataValue, now_ms: int) -> StatePartitions:
    return StatePartitions(
        _by_topic(value.initializing_topics, now_ms),
        _by_topic(value.initialized_topics, 0),
        {bytes(topic.topic_id): topic.topic_name for topic in value.deleting_topics},
    )


def _by_topic(infos: Iterable[TopicPartitionsInfo], since_ms: int) -> ByTopic:
    return {bytes(info.topic_id): TopicPartitions(info.topic_name, frozenset(info.partitions), since_ms) for info in infos}


def _infos(topics: ByTopic) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(topic_id, topics[topic_id].name, sorted(topics[topic_id].partitions))
        for topic_id in hash_order(topics, uuid_hash)
    ]


def _merged(kept: ByTopic, new: ByTopic) -> ByTopic:
    merged = dict(kept)
    for topic_id, topic in new.items():
        former = merged.get(topic_id)
        merged[topic_id] = topic if former is None else topic._replace(partitions=former.partitions | topic.partitions)
    return merged


def _within(kept: ByTopic, asked: ByTopic) -> ByTopic:
    """Returns those of the partitions asked for that are kept."""
    found = {}
    for topic_id, topic in asked.items():
        if topic_id in kept and (partitions := topic.partitions & kept[topic_id].partitions):
            found[topic_id] = topic._replace(partitions=partitions)
    return found


def _without(kept: ByTopic, gone: ByTopic) -> ByTopic:
    left = {}
    for topic_id, topic in kept.items():
        partitions = topic.partitions - gone[topic_id].partitions if topic_id in gone else topic.partitions
        if partitions:
            left[topic_id] = topic._replace(partitions=partitions)
    return left

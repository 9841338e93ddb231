"""In which partitions a share group has state with the share coordinator, and how far it got with that.

A partition of a subscribed topic goes through two steps: it is *initializing* from the record that says so until the share
coordinator has answered, then *initialized*, and only then do members get it. A topic whose offsets are being deleted is
*deleting* until the share coordinator has forgotten all of it. There is a record before the call and one after the answer, so
what a crash interrupts is known after it: what is initializing for long is begun again, what is deleting is deleted again when
somebody deletes the group or the offsets.

All of it is one record, ShareGroupStatePartitionMetadata. The moment at which partitions began initializing is not in it; it
counts from the record's replay.
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
    """Partitions of one topic. `since_ms`: when the last of them began to be initialized; 0 for those that are."""

    name: str
    partitions: frozenset[int]
    since_ms: int = 0


ByTopic = dict[bytes, TopicPartitions]
"""By topic id."""


_NO_TOPICS: Final[ByTopic] = {}
_NO_NAMES: Final[Mapping[bytes, str]] = {}


class StatePartitions(NamedTuple):
    """Never changed: each step is another object."""

    initializing: ByTopic = _NO_TOPICS
    initialized: ByTopic = _NO_TOPICS
    deleting: Mapping[bytes, str] = _NO_NAMES
    """Topic id -> name."""

    def partitions_of(self, topic_id: bytes, since_ms: int) -> frozenset[int]:
        """Those that are initialized, or on their way there for no longer than since `since_ms`."""
        done, begun = self.initialized.get(topic_id), self.initializing.get(topic_id)
        partitions = done.partitions if done is not None else frozenset()
        return partitions | begun.partitions if begun is not None and begun.since_ms > since_ms else partitions

    def has_all(self, topic_id: bytes, count: int) -> bool:
        """Are all `count` partitions of the topic initialized? Costs the same for any number of them."""
        done = self.initialized.get(topic_id)
        return done is not None and len(done.partitions) == count

    @property
    def all_partitions(self) -> dict[bytes, tuple[str, frozenset[int]]]:
        """Topic id -> its name and partitions that are initialized or on their way there."""
        both = _merged(self.initialized, self.initializing)
        return {topic_id: (topic.name, topic.partitions) for topic_id, topic in both.items()}

    # Steps

    def begun(self, topics: ByTopic) -> StatePartitions:
        """These partitions are initializing now, and their topics not deleting any more."""
        return StatePartitions(
            _merged(self.initializing, topics),
            self.initialized,
            {topic_id: name for topic_id, name in self.deleting.items() if topic_id not in self.initializing | topics},
        )

    def done(self, topics: ByTopic) -> StatePartitions:
        """These partitions are initialized."""
        return self._replace(
            initializing=_without(self.initializing, topics), initialized=_merged(self.initialized, topics)
        )  # fmt: skip

    def failed(self, topics: ByTopic) -> StatePartitions:
        """The share coordinator did not take these: the next heartbeat tries again."""
        return self._replace(initializing=_without(self.initializing, topics))

    def deleting_topics(self, topics: Mapping[bytes, str]) -> StatePartitions:
        """State of these initialized topics is about to be deleted."""
        initialized = {topic_id: each for topic_id, each in self.initialized.items() if topic_id not in topics}
        return self._replace(initialized=initialized, deleting={**self.deleting, **topics})

    def deleted(self, topic_ids: Collection[bytes]) -> StatePartitions:
        """State of these topics is gone."""
        return self._replace(deleting={topic_id: name for topic_id, name in self.deleting.items() if topic_id not in topic_ids})

    def without_topics(self, topic_ids: Collection[bytes]) -> StatePartitions:
        """Nothing is left of these topics."""
        return StatePartitions(
            {topic_id: each for topic_id, each in self.initializing.items() if topic_id not in topic_ids},
            {topic_id: each for topic_id, each in self.initialized.items() if topic_id not in topic_ids},
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
"""Of a group that never began anywhere. One whose partitions are all deleted has another object, which says as little."""


def from_value(value: ShareGroupStatePartitionMetadataValue, now_ms: int) -> StatePartitions:
    return StatePartitions(
        _by_topic(value.initializing_topics, now_ms),
        _by_topic(value.initialized_topics, 0),
        {bytes(each.topic_id): each.topic_name for each in value.deleting_topics},
    )


def _by_topic(infos: Iterable[TopicPartitionsInfo], since_ms: int) -> ByTopic:
    return {bytes(each.topic_id): TopicPartitions(each.topic_name, frozenset(each.partitions), since_ms) for each in infos}


def _infos(topics: ByTopic) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(topic_id, topics[topic_id].name, sorted(topics[topic_id].partitions))
        for topic_id in hash_order(topics, uuid_hash)
    ]


def _merged(kept: ByTopic, new: ByTopic) -> ByTopic:
    merged = dict(kept)
    for topic_id, each in new.items():
        former = merged.get(topic_id)
        merged[topic_id] = each if former is None else each._replace(partitions=former.partitions | each.partitions)
    return merged


def _without(kept: ByTopic, gone: ByTopic) -> ByTopic:
    left = {}
    for topic_id, each in kept.items():
        partitions = each.partitions - gone[topic_id].partitions if topic_id in gone else each.partitions
        if partitions:
            left[topic_id] = each._replace(partitions=partitions)
    return left

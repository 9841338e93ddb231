"""Keeps the committed offsets: how far each group has read each partition.

Only `replay` changes them. A commit inside a transaction is kept apart, under its producer id, until the transaction's marker
makes it count or drops it; of a transactional and a plain commit for the same partition the later record counts.

How long offsets are kept depends on the group: a group without members loses them `offsets.retention.minutes` after its last
member left, a group that never had members (a "simple" one) that long after each commit, and a stable consumer group loses only
those of topics it is not subscribed to. A client with OffsetCommit before version 5 may set its own retention time, which then
counts instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter

from ottla.server.group.group import Group
from ottla.server.group.records import OffsetRecord, offset_tombstone
from ottla.server.group.requests import Commit
from ottla.wire.messages.internal.offset_commit_key import OffsetCommitKey
from ottla.wire.messages.internal.offset_commit_value import OffsetCommitValue
from ottla.wire.primitives import ZERO_UUID, WireStruct

NO_PRODUCER_ID = -1
NO_EXPIRY = -1
FOR_EVER = 2**63 - 1


class CommittedOffset(WireStruct):
    """An offset that was replayed; `record_offset` is the offset of its record in the log."""

    __slots__ = ("record_offset", "value")

    def __init__(self, value: OffsetCommitValue, record_offset: int) -> None:
        self.value = value
        self.record_offset = record_offset


ByPartition = dict[int, CommittedOffset]
ByTopic = dict[str, ByPartition]
IsMissing = Callable[[str, bytes], bool]
"""Returns whether the topic of a committed offset is not there, given its name and the topic id that was committed with it."""


class Offsets:
    """The offsets of all groups of one shard."""

    def __init__(self) -> None:
        self._groups: dict[str, ByTopic] = {}
        self._pending: dict[int, dict[str, ByTopic]] = {}  # producer id -> group -> ...
        self._open: dict[str, set[int]] = {}  # group -> producer ids with pending commits
        self._readers: dict[str, dict[str, None]] = {}  # topic -> groups with offsets of it, pending ones included, in order
        self.last_record = -1
        """The offset of the last record that was replayed, that of a tombstone included."""

    # Reading

    def of_group(self, group_id: str) -> ByTopic:
        return self._groups.get(group_id, {})

    def get(self, group_id: str, topic: str, topic_id: bytes, partition: int) -> OffsetCommitValue | None:
        """Returns the committed offset, or None. An offset of a former topic of this name (both ids are known and differ) does
        not count.
        """
        committed = self._groups.get(group_id, {}).get(topic, {}).get(partition)
        if committed is None or is_stale(committed.value.topic_id, topic_id):
            return None
        return committed.value

    def is_unstable(self, group_id: str, topic: str, partition: int) -> bool:
        """Says whether an open transaction may still change this offset."""
        return any(partition in topics.get(topic, {}) for topics in self._pending_of(group_id))

    def _pending_of(self, group_id: str) -> Iterator[ByTopic]:
        """Yields a group's offsets of each open transaction. All of them may have been deleted."""
        for producer_id in self._open.get(group_id, ()):
            yield self._pending[producer_id].get(group_id, {})

    # Records to append

    @staticmethod
    def commit(group_id: str, commits: Sequence[Commit], now_ms: int, retention_ms: int) -> list[OffsetRecord]:
        """Returns the records of a commit. `retention_ms` is what the client asked for (versions 2 to 4), or -1 for the broker's
        setting.
        """
        expire_ms = NO_EXPIRY if retention_ms == -1 else min(now_ms + retention_ms, FOR_EVER)
        return [
            OffsetRecord(
                OffsetCommitKey(group_id, commit.topic, commit.partition),
                OffsetCommitValue(commit.offset, commit.leader_epoch, commit.metadata, now_ms, expire_ms, commit.topic_id),
            )
            for commit in commits
        ]

    def count(self, group_id: str) -> int:
        """Returns how many offsets a group has at most: those that are pending in a transaction count there once more."""
        return sum(len(each) for topics in (self.of_group(group_id), *self._pending_of(group_id)) for each in topics.values())

    def keys_of_group(self, group_id: str) -> list[tuple[str, int]]:
        """Returns the topics and partitions of all offsets of a group, including pending ones, in order."""
        keys = set(_keys(self.of_group(group_id)))
        for topics in self._pending_of(group_id):
            keys.update(_keys(topics))
        return sorted(keys)

    def delete_group(self, group_id: str) -> list[OffsetRecord]:
        """Returns tombstones for all offsets of a group, including pending ones."""
        return [offset_tombstone(group_id, topic, partition) for topic, partition in self.keys_of_group(group_id)]

    def delete(self, group_id: str, topic: str, partitions: Iterable[int]) -> list[OffsetRecord]:
        """Returns tombstones for those of the offsets that exist, including pending ones."""
        committed = self.of_group(group_id).get(topic, {})
        return [
            offset_tombstone(group_id, topic, partition)
            for partition in dict.fromkeys(partitions)
            if partition in committed or self.is_unstable(group_id, topic, partition)
        ]

    def group_ids(self) -> list[str]:
        """Returns the groups that have offsets, including pending ones."""
        return list(dict.fromkeys((*self._groups, *self._open)))

    def group_ids_with(self, topic: str) -> list[str]:
        """Returns the groups that have offsets of a topic, including pending ones."""
        return list(self._readers.get(topic, ()))

    def delete_of_topic(self, group_id: str, topic: str, upto: int) -> list[OffsetRecord]:
        """Returns tombstones for a group's offsets of a deleted topic, including pending ones. Those whose records come after the
        offset `upto` belong to another topic, which was made anew under the same name.
        """
        found: dict[int, int] = {}
        for topics in (self.of_group(group_id), *self._pending_of(group_id)):
            for partition, offset in topics.get(topic, {}).items():
                found[partition] = max(found.get(partition, -1), offset.record_offset)
        return [offset_tombstone(group_id, topic, partition) for partition in sorted(found) if found[partition] <= upto]

    def delete_of_missing(self, group_id: str, is_missing: IsMissing, upto: int) -> list[OffsetRecord]:
        """Returns tombstones, as `delete_of_topic`, for the offsets of all topics that `is_missing` says are not there."""
        found: dict[tuple[str, int], CommittedOffset] = {}
        for topics in (self.of_group(group_id), *self._pending_of(group_id)):
            for topic, partition in _keys(topics):
                offset, known = topics[topic][partition], found.get((topic, partition))
                if known is None or known.record_offset < offset.record_offset:
                    found[topic, partition] = offset
        return [
            offset_tombstone(group_id, topic, partition)
            for (topic, partition), offset in sorted(found.items(), key=itemgetter(0))
            if offset.record_offset <= upto and is_missing(topic, offset.value.topic_id)
        ]

    def expire(self, group: Group, now_ms: int, retention_ms: int) -> tuple[list[OffsetRecord], bool]:
        """Returns tombstones for offsets that are too old, and whether the group has no offsets left after that."""
        topics = self.of_group(group.group_id)
        open_transactions = group.group_id in self._open
        if not group.may_expire_offsets:
            return [], not topics and not open_transactions
        tombstones = []
        left = 0
        for topic, partitions in topics.items():
            for partition, committed in partitions.items():
                if (
                    not group.is_subscribed(topic)
                    and _is_expired(group, committed.value, now_ms, retention_ms)
                    and not self.is_unstable(group.group_id, topic, partition)
                ):
                    tombstones.append(offset_tombstone(group.group_id, topic, partition))
                else:
                    left += 1
        return tombstones, left == 0 and not open_transactions

    # Replay

    def replay(self, record: OffsetRecord, record_offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        key, value = record.key, record.value
        self.last_record = record_offset
        if value is None:
            _remove(self._groups, key.group, key.topic, key.partition)
            for pending_id in self._open.get(key.group, ()):
                pending = self._pending[pending_id]
                _remove(pending, key.group, key.topic, key.partition)
                pending.setdefault(key.group, {})  # the end of the transaction finds its groups here
            self._forget_reader(key.group, key.topic)
        elif producer_id == NO_PRODUCER_ID:
            self._put(self._groups, key.group, key.topic, key.partition, CommittedOffset(value, record_offset))
        else:
            pending = self._pending.setdefault(producer_id, {})
            self._put(pending, key.group, key.topic, key.partition, CommittedOffset(value, record_offset))
            self._open.setdefault(key.group, set()).add(producer_id)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Replays the marker that ends a transaction: its commits count from now on, or are dropped."""
        for group_id, topics in self._pending.pop(producer_id, {}).items():
            self._open[group_id].discard(producer_id)
            if not self._open[group_id]:
                del self._open[group_id]
            for topic, partitions in topics.items():
                for partition, offset in partitions.items() if committed else ():
                    known = self._groups.get(group_id, {}).get(topic, {}).get(partition)
                    if known is None or known.record_offset < offset.record_offset:
                        self._put(self._groups, group_id, topic, partition, offset)
                self._forget_reader(group_id, topic)

    def _put(self, groups: dict[str, ByTopic], group_id: str, topic: str, partition: int, offset: CommittedOffset) -> None:
        """Puts an offset among those that count, or among those of a transaction."""
        topics = groups.get(group_id)
        if topics is None:
            topics = groups[group_id] = {}
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[topic] = {}
            self._readers.setdefault(topic, {})[group_id] = None
        partitions[partition] = offset

    def _forget_reader(self, group_id: str, topic: str) -> None:
        """Removes a group from the readers of a topic, unless it still has an offset of it, a pending one included."""
        readers = self._readers.get(topic)
        if readers is None or topic in self.of_group(group_id) or any(topic in topics for topics in self._pending_of(group_id)):
            return
        readers.pop(group_id, None)
        if not readers:
            del self._readers[topic]


def is_stale(committed_topic_id: bytes, topic_id: bytes) -> bool:
    return committed_topic_id != topic_id and ZERO_UUID not in (committed_topic_id, topic_id)


def _is_expired(group: Group, value: OffsetCommitValue, now_ms: int, retention_ms: int) -> bool:
    if value.expire_timestamp != NO_EXPIRY:
        return now_ms >= value.expire_timestamp
    return now_ms - group.expires_from_ms(value.commit_timestamp) >= retention_ms


def _keys(topics: ByTopic) -> Iterator[tuple[str, int]]:
    for topic, partitions in topics.items():
        for partition in partitions:
            yield topic, partition


def _remove(groups: dict[str, ByTopic], group_id: str, topic: str, partition: int) -> None:
    """Removes one offset, and the entries of its topic and group if it was their last."""
    topics = groups.get(group_id, {})
    partitions = topics.get(topic, {})
    if partitions.pop(partition, None) is None:
        return
    if not partitions:
        del topics[topic]
    if not topics:
        del groups[group_id]

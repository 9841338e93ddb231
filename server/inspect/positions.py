"""The positions of a group in each partition: what it has committed, and what it has yet to read.

The lag of a partition is what a consumer would still get: the offsets from the committed one to the high watermark, and none if
there are only the markers of transactions. A partition that members read, and for which nothing is committed, counts from its
start. A share group has start offsets in place of commits. Whether there are only markers is on the disk; who may not wait for a
read in each partition counts them in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.log.errors import LogError
from ottla.server.base.promise import Promise
from ottla.server.group.kind import Kind
from ottla.server.group.offsets import is_stale
from ottla.server.inspect.assignments import assigned_partitions
from ottla.server.share_state.errors import ShareStateError
from ottla.wire.batch import read_header

if TYPE_CHECKING:
    from ottla.log.partition import PartitionLog
    from ottla.server.group.group import Group
    from ottla.server.group.shard import GroupShard
    from ottla.server.requests.context import BrokerContext
    from ottla.server.share_state.coordinator import Summary

_UNKNOWN = -1


class Position(NamedTuple):
    """A group's position in a partition; None is for what is not known."""

    topic: str
    partition: int
    offset: int | None
    """The committed offset, or the one at which a share group starts."""
    lag: int | None
    metadata: str = ""
    committed_ms: int | None = None

    def describe(self) -> dict[str, Any]:
        """Returns it as JSON has it."""
        return self._asdict()


def positions(context: BrokerContext, shard: GroupShard, group: Group, *, reads: bool) -> list[Position]:
    """Returns a group's positions, by topic and partition: all that it has committed, and all that its members read.
    If it `reads` the logs, a lag of markers alone is 0."""
    found = _share_positions(context, group) if group.kind is Kind.SHARE else _committed_positions(context, shard, group, reads)
    return sorted(found, key=lambda each: (each.topic, each.partition))


def topics_of(context: BrokerContext, shard: GroupShard, group: Any) -> set[str]:
    """Returns the topics that a group reads, or may read soon: those of its positions, and those that members subscribe to."""
    found = {topic for topic, _ in assigned_partitions(context.metadata, group)}
    if group.kind is Kind.SHARE:
        found.update(topic.name for topic in group.state_partitions.initialized.values())
    else:
        found.update(topic for topic in shard.offsets.of_group(group.group_id) if topic in context.metadata.topics)
    if group.kind in (Kind.CONSUMER, Kind.SHARE):
        for member in group.members.values():
            found.update(member.topics)
    return found


def _committed_positions(context: BrokerContext, shard: GroupShard, group: Group, reads: bool) -> Iterator[Position]:
    left = assigned_partitions(context.metadata, group)
    for topic, partitions in shard.offsets.of_group(group.group_id).items():
        image = context.metadata.topics.get(topic)
        for partition, committed in partitions.items():
            value = committed.value
            if image is None or is_stale(value.topic_id, image.topic_id):
                continue
            left.discard((topic, partition))
            lag = lag_behind(context, topic, partition, value.offset, reads=reads)
            yield Position(topic, partition, value.offset, lag, value.metadata, value.commit_timestamp)
    for topic, partition in left:
        yield Position(topic, partition, None, lag_behind(context, topic, partition, 0, reads=reads))


def _share_positions(context: BrokerContext, group: Any) -> Iterator[Position]:
    for topic_id, topic in group.state_partitions.initialized.items():
        for partition in topic.partitions:
            summary = _share_summary(context, group.group_id, topic_id, partition)
            replica = context.replicas.get(topic.name, partition)
            if summary is None or replica is None or _UNKNOWN in (summary.start_offset, summary.delivery_complete_count):
                yield Position(topic.name, partition, None, None)
            else:
                lag = replica.log.high_watermark - summary.start_offset - summary.delivery_complete_count
                yield Position(topic.name, partition, summary.start_offset, max(0, lag))


def _share_summary(context: BrokerContext, group_id: str, topic_id: bytes, partition: int) -> Summary | None:
    """Returns what the share coordinator keeps of a partition; None if it cannot tell now."""
    coordinator = context.existing_share_coordinator
    if coordinator is None:
        return None
    try:
        summary = coordinator.read_summary(group_id, topic_id, partition)
    except ShareStateError:
        return None
    return None if isinstance(summary, Promise) else summary


def lag_behind(context: BrokerContext, topic: str, partition: int, offset: int, *, reads: bool) -> int | None:
    """Returns how many offsets a consumer that has come to `offset` has yet to read; None if this broker does not have the
    partition. Unless it `reads` the log, markers at its end count."""
    replica = context.replicas.get(topic, partition)
    if replica is None:
        return None
    log = replica.log
    offset = max(offset, log.log_start_offset)
    lag = log.high_watermark - offset
    return lag if lag > 0 and (not reads or _has_data(log, offset)) else 0


def _has_data(log: PartitionLog, offset: int) -> bool:
    """Returns whether there is any batch from `offset` on that is no marker; one that cannot be read counts as one."""
    try:
        for batch in log.iterate_batches(offset):
            header = read_header(batch)
            if header.base_offset >= log.high_watermark:
                return False
            if not header.is_control:
                return True
    except LogError:
        return True
    return False

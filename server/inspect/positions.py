"""How far a group has come in each partition: what it has committed, and what it has yet to read.

The lag of a partition is what a consumer would still get: the offsets from the committed one to the high watermark, and none if
there are only the markers of transactions. A partition that members read, and for which nothing is committed, counts from its
start. A share group has start offsets in place of commits.
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
    """How far a group has come in a partition; None is for what is not known."""

    topic: str
    partition: int
    offset: int | None
    """What is committed, or where a share group starts."""
    lag: int | None
    metadata: str = ""
    committed_ms: int | None = None

    def describe(self) -> dict[str, Any]:
        """Returns it as JSON has it."""
        return self._asdict()


def positions(context: BrokerContext, shard: GroupShard, group: Group) -> list[Position]:
    """Returns a group's positions, by topic and partition: all that it has committed, and all that its members read."""
    found = _share_positions(context, group) if group.kind is Kind.SHARE else _committed_positions(context, shard, group)
    return sorted(found, key=lambda each: (each.topic, each.partition))


def _committed_positions(context: BrokerContext, shard: GroupShard, group: Group) -> Iterator[Position]:
    left = assigned_partitions(context.metadata, group)
    for topic, partitions in shard.offsets.of_group(group.group_id).items():
        image = context.metadata.topics.get(topic)
        for partition, committed in partitions.items():
            value = committed.value
            if image is None or is_stale(value.topic_id, image.topic_id):
                continue
            left.discard((topic, partition))
            lag = lag_behind(context, topic, partition, value.offset)
            yield Position(topic, partition, value.offset, lag, value.metadata, value.commit_timestamp)
    for topic, partition in left:
        yield Position(topic, partition, None, lag_behind(context, topic, partition, 0))


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


def lag_behind(context: BrokerContext, topic: str, partition: int, offset: int) -> int | None:
    """Returns how many offsets a consumer that has come to `offset` has yet to read; None if this broker does not have the
    partition."""
    replica = context.replicas.get(topic, partition)
    if replica is None:
        return None
    log = replica.log
    offset = max(offset, log.log_start_offset)
    lag = log.high_watermark - offset
    return lag if lag > 0 and _has_data(log, offset) else 0


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

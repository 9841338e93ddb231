"""Reassignments (KIP-455): partitions that move to other brokers, in any Kafka cluster, over a connection of our own, since
librdkafka has no requests for them. The controller is asked; in a KRaft cluster every broker passes that on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.commands.clients import direct
from ottla.commands.clients.brokers import check
from ottla.commands.clients.partition import Partition
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest


class Moving(NamedTuple):
    """A partition that is being moved: the replicas that it has meanwhile, those of them that come, and those that will go."""

    partition: Partition
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def after(self) -> tuple[int, ...]:
        """The replicas that it has when it is done."""
        return tuple(one for one in self.replicas if one not in self.removing)

    @property
    def before(self) -> tuple[int, ...]:
        """The replicas that it keeps if that is cancelled."""
        return tuple(one for one in self.replicas if one not in self.adding)


def under_way(controller: direct.Connection, timeout_ms: int) -> list[Moving]:
    """Returns the reassignments under way, sorted. Raises Failure."""
    answer = controller.call(ListPartitionReassignmentsRequest(timeout_ms, None))
    check(answer.error_code, answer.error_message)
    return sorted(
        Moving(
            Partition(topic.name, one.partition_index),
            tuple(one.replicas),
            tuple(one.adding_replicas),
            tuple(one.removing_replicas),
        )
        for topic in answer.topics
        for one in topic.partitions
    )


def reassign(
    controller: direct.Connection, timeout_ms: int, wanted: Mapping[Partition, Sequence[int] | None]
) -> dict[Partition, str]:
    """Has partitions move to these brokers, the preferred leader first; None cancels a move. The cluster takes some and refuses
    others: returns the refusals in words. Raises Failure if all of it is refused."""
    by_topic: dict[str, list[ReassignablePartition]] = {}
    for partition, replicas in wanted.items():
        one = ReassignablePartition(partition.number, None if replicas is None else list(replicas))
        by_topic.setdefault(partition.topic, []).append(one)
    topics = [ReassignableTopic(topic, partitions) for topic, partitions in by_topic.items()]
    answer = controller.call(AlterPartitionReassignmentsRequest(timeout_ms, topics=topics))
    check(answer.error_code, answer.error_message)
    return {
        Partition(topic.name, one.partition_index): direct.words(one.error_code, one.error_message)
        for topic in answer.responses
        for one in topic.partitions
        if one.error_code
    }

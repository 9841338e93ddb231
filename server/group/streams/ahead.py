"""Works out ahead of a heartbeat, in turns with everything else (server/base/turns.py), what would take it long.

A heartbeat runs without a pause (shard.py), and a topology of thousands of topics, or offsets of thousands of tasks, take more
than others should wait for. What the request brings is the same whatever happens to the group meanwhile. How the topology fits
the topics may be another by then: the heartbeat takes that from here only if both are still what they were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

from ottla.server.base.turns import Steps, at_once
from ottla.server.group.cluster import Cluster
from ottla.server.group.errors import GroupError
from ottla.server.group.modern.topics import Topics
from ottla.server.group.streams.answers import topology_value
from ottla.server.group.streams.group import StreamsGroup
from ottla.server.group.streams.topology import ConfiguredTopology, configure, required_topics
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.internal.streams_group_topology_value import StreamsGroupTopologyValue
from ottla.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, TaskOffset

T = TypeVar("T")
Offsets = Mapping[str, Mapping[int, int]]
"""The offsets of tasks by subtopology and partition."""


class Compared(NamedTuple):
    """A topology as configured for the topics that had this hash, or why it cannot be."""

    topology: StreamsGroupTopologyValue
    metadata_hash: int
    outcome: ConfiguredTopology | GroupError


class Ahead(NamedTuple):
    """The findings ahead of a heartbeat: the topology, as a record has it, and the offsets that the request brings, or what is
    wrong with these; and how the group's topology, or this one, fits the topics, if the heartbeat will have to know.
    """

    topology: StreamsGroupTopologyValue | None = None
    offsets: Offsets | GroupError | None = None
    end_offsets: Offsets | GroupError | None = None
    compared: Compared | None = None

    def configured(self, topology: StreamsGroupTopologyValue, metadata_hash: int, cluster: Cluster) -> ConfiguredTopology:
        """Returns the topology as configured for the topics, which have this hash. Raises GroupError as `configure` does."""
        known = self.compared
        if known is None or known.metadata_hash != metadata_hash or known.topology != topology:
            return at_once(configure(topology, cluster.topics))
        return value_of(known.outcome)


def value_of(outcome: T | GroupError) -> T:
    """Returns the outcome, or raises it if it is an error."""
    if isinstance(outcome, GroupError):
        raise outcome
    return outcome


def look_ahead(
    request: StreamsGroupHeartbeatRequest, group: StreamsGroup | None, topics: Topics, cluster: Cluster, now_ms: int
) -> Steps[Ahead]:
    """Makes steps that work out what a heartbeat to this group will need; it is None if there is none yet."""
    brought = None if request.topology is None else (yield from topology_value(request.topology))
    known = None if group is None else group.topology
    topology = brought if known is None else known
    compared = None
    if topology is not None and (group is None or group.configured is None or group.refresh_due(now_ms)):
        compared = yield from _compare(topology, group, topics, cluster)
    offsets = yield from _by_task(request.task_offsets)
    return Ahead(brought, offsets, (yield from _by_task(request.task_end_offsets)), compared)


def is_needed(request: StreamsGroupHeartbeatRequest, group: StreamsGroup | None, now_ms: int) -> bool:
    """Returns whether there is anything to work out."""
    if request.topology is not None or request.task_offsets is not None or request.task_end_offsets is not None:
        return True
    return group is not None and (group.configured is None or group.refresh_due(now_ms))


def _compare(
    topology: StreamsGroupTopologyValue, group: StreamsGroup | None, topics: Topics, cluster: Cluster
) -> Steps[Compared | None]:
    """Makes steps that compare a topology with the topics, unless nothing has changed since the group's was last compared."""
    required = required_topics(topology)
    metadata_hash = yield from topics.hash_in_steps(required)
    if group is not None and group.configured is not None and metadata_hash == group.metadata.metadata_hash:
        return None
    outcome: ConfiguredTopology | GroupError
    try:
        outcome = yield from configure(topology, cluster.topics)
    except GroupError as error:
        outcome = error
    return Compared(topology, metadata_hash, outcome)


def _by_task(offsets: Sequence[TaskOffset] | None) -> Steps[Offsets | GroupError | None]:
    """Makes steps that return offsets by task. A task must not be named twice, whether or not it exists."""
    if offsets is None:
        return None
    nested: dict[str, dict[int, int]] = {}
    for task in offsets:
        partitions = nested.setdefault(task.subtopology_id, {})
        if task.partition in partitions:
            text = f"Task {task.subtopology_id}_{task.partition} has two offsets in this request."
            return GroupError(ErrorCode.INVALID_REQUEST, text)
        partitions[task.partition] = task.offset
        yield None
    return nested

"""The rules of who leads when nodes of a simulated cluster come, go and are told to lead, as functions of the image.

They are Kafka's: a leader is alive and in sync, a node that is gone leaves the in-sync replicas unless it is the last of them,
and then the partition has no leader. Only what makes a follower fall behind is missing, because there is one copy.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING

from ottla.server.metadata.image import NO_LEADER
from ottla.server.testkit.fields import Refused
from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord

if TYPE_CHECKING:
    from ottla.server.metadata.image import MetadataImage, PartitionImage, TopicImage


def elect_all(image: MetadataImage, alive: Collection[int]) -> list[PartitionChangeRecord]:
    """Returns what changes when the cluster starts: a new leader epoch for every partition, with the leader that it had or else
    the first that can lead; without one if none can."""
    records = []
    for topic, index, partition in _partitions(image):
        leader = partition.leader if _can_lead(partition.leader, partition, alive) else _first(partition, alive)
        if leader != NO_LEADER or partition.leader != NO_LEADER:
            records.append(PartitionChangeRecord(index, topic.topic_id, leader=leader))
    return records


def lose(image: MetadataImage, node_id: int, alive: Collection[int]) -> list[PartitionChangeRecord]:
    """Returns what changes when a node is gone; `alive` are the others."""
    records = []
    for topic, index, partition in _partitions(image):
        record = PartitionChangeRecord(index, topic.topic_id)
        if node_id in partition.isr and len(partition.isr) > 1:
            record.isr = [each for each in partition.isr if each != node_id]
        if partition.leader == node_id:
            record.leader = _first(partition, alive)
        if record.isr is not None or partition.leader == node_id:
            records.append(record)
    return records


def regain(image: MetadataImage, node_id: int) -> list[PartitionChangeRecord]:
    """Returns what changes when a node is back: it is in sync with all that it has, and leads what nobody led since."""
    records = []
    for topic, index, partition in _partitions(image):
        if node_id not in partition.replicas:
            continue
        record = PartitionChangeRecord(index, topic.topic_id)
        if node_id not in partition.isr:
            record.isr = _ordered(partition.replicas, (*partition.isr, node_id))
        if partition.leader == NO_LEADER:
            record.leader = node_id
        if record.isr is not None or partition.leader == NO_LEADER:
            records.append(record)
    return records


def move(
    image: MetadataImage, topic: str, index: int, leader: int | None, isr: Sequence[int] | None, alive: Collection[int]
) -> PartitionChangeRecord:
    """Returns the record that gives a partition this leader, NO_LEADER for none, and these in-sync replicas; None leaves either
    as it is. A leader that was not in sync is from then on; one that is no replica takes the place of the present leader.

    Raises Refused.
    """
    partition = image.partition(topic, index)
    if partition is None:
        raise Refused(f"there is no partition {topic}-{index}", HTTPStatus.NOT_FOUND)
    record = PartitionChangeRecord(index, image.topics[topic].topic_id)
    replicas, in_sync = list(partition.replicas), list(partition.isr)
    if leader is not None and leader != NO_LEADER:
        if leader not in alive:
            raise Refused(f"leader: node {leader} is not up, so it cannot lead", HTTPStatus.CONFLICT)
        if leader not in replicas:
            old = partition.leader if partition.leader in replicas else replicas[0]
            replicas[replicas.index(old)] = leader
            in_sync = [each for each in in_sync if each != old]
            record.replicas, record.directories = replicas, _directories(image, replicas)
        if leader not in in_sync:
            in_sync = _ordered(replicas, (*in_sync, leader))
    if isr is not None:
        for each in isr:
            if each not in replicas:
                raise Refused(f"isr: node {each} has no replica of {topic}-{index}; the replicas are on {replicas}")
        in_sync = _ordered(replicas, isr)
    leads = partition.leader if leader is None else leader
    if leads != NO_LEADER and leads not in in_sync:
        raise Refused(f"isr: the leader, node {leads}, must be among the in-sync replicas, not only {in_sync}")
    if not in_sync:
        raise Refused("isr must name at least one node")
    if leader is not None:
        record.leader = leader
    if in_sync != list(partition.isr):
        record.isr = in_sync
    return record


def check_forget(image: MetadataImage, node_id: int) -> None:
    """Raises Refused if a node has the only replica of a partition."""
    for topic, index, partition in _partitions(image):
        if set(partition.replicas) == {node_id}:
            raise Refused(
                f"node {node_id} has the only replica of {topic.name}-{index}; move it to another node first", HTTPStatus.CONFLICT
            )


def forget(image: MetadataImage, node_id: int, alive: Collection[int]) -> list[PartitionChangeRecord]:
    """Returns what changes when a node that leads nothing, and that `check_forget` lets go, is taken out of the cluster: others
    have its replicas. `alive` are those that may lead."""
    records = []
    for topic, index, partition in _partitions(image):
        if node_id not in partition.replicas:
            continue
        replicas = [each for each in partition.replicas if each != node_id]
        isr = [each for each in partition.isr if each != node_id] or replicas
        record = PartitionChangeRecord(index, topic.topic_id, isr=isr, replicas=replicas)
        record.directories = _directories(image, replicas)
        if partition.leader == NO_LEADER:
            record.leader = next((each for each in isr if each in alive), NO_LEADER)
        records.append(record)
    return records


def _partitions(image: MetadataImage) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
    for topic in image.topics.values():
        for index, partition in topic.partitions.items():
            yield topic, index, partition


def _can_lead(node_id: int, partition: PartitionImage, alive: Collection[int]) -> bool:
    return node_id in alive and node_id in partition.isr


def _first(partition: PartitionImage, alive: Collection[int]) -> int:
    """Returns the first replica that is alive and in sync, or NO_LEADER."""
    return next((each for each in partition.replicas if _can_lead(each, partition, alive)), NO_LEADER)


def _ordered(replicas: Sequence[int], nodes: Collection[int]) -> list[int]:
    """Returns nodes in the order of the replicas."""
    return [each for each in replicas if each in nodes]


def _directories(image: MetadataImage, replicas: Sequence[int]) -> list[bytes]:
    """Returns the directory of each replica, which is the same for all, because there is one copy; the node of a replica may be
    gone."""
    return [next(iter(image.brokers.values())).log_dirs[0]] * len(replicas)

"""Changes that the console makes in a cluster: each is one request or a few, and raises Failure with the cluster's reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.commands import admin
from ottla.commands.clients.brokers import Brokers
from ottla.commands.clients.client import explain
from ottla.commands.clients.partition import Partition
from ottla.commands.groups import kinds, offsets
from ottla.commands.groups import reset as group_reset
from ottla.commands.groups.rows import GroupState
from ottla.commands.output import Failure, counted
from ottla.commands.positions import Kind, Position, Span
from ottla.commands.topic import times
from ottla.console.cluster.source import Source

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message
    from confluent_kafka.admin import AdminClient


def create_topic(source: Source, name: str, partitions: int, replicas: int, settings: Mapping[str, str]) -> None:
    """Creates a topic; -1 partitions or replicas are the cluster's default. Raises Failure."""
    from confluent_kafka.admin import NewTopic

    new = NewTopic(name, partitions, replicas, config=dict(settings))
    ours = source.admin
    _settled(source, ours, name, ours.create_topics([new], **times(source.cluster)))


def delete_topic(source: Source, name: str) -> None:
    """Deletes a topic with all its records. Raises Failure."""
    ours = source.admin
    _settled(source, ours, name, ours.delete_topics([name], **times(source.cluster)))


def add_partitions(source: Source, topic: str, count: int) -> None:
    """Gives a topic `count` partitions in all. Raises Failure."""
    from confluent_kafka.admin import NewPartitions

    ours = source.admin
    _settled(source, ours, topic, ours.create_partitions([NewPartitions(topic, count)], **times(source.cluster)))


def delete_records(source: Source, where: Partition, before: int) -> None:
    """Deletes a partition's records before an offset, or all if it is -1. Raises Failure."""
    from confluent_kafka import TopicPartition

    ours = source.admin
    futures = ours.delete_records([TopicPartition(where.topic, where.number, before)], **times(source.cluster))
    _settled(source, ours, where.topic, {where.topic: next(iter(futures.values()))})


def delete_group(source: Source, state: GroupState) -> None:
    """Deletes a group with its offsets. Raises Failure."""
    ours = source.cluster.admin()  # held until the answer is there: with the client goes its request
    futures = ours.delete_consumer_groups([state.name], request_timeout=admin.GROUP_TIMEOUT_S)
    try:
        _, wrong = admin.settle_groups(source.cluster, futures)
    finally:
        source.changed()
    if wrong:
        raise Failure(f"group {state.name}: {wrong[state.name]}")


def delete_offsets(source: Source, state: GroupState, topic: str) -> None:
    """Has a group forget what it has committed in a topic. Raises Failure."""
    numbers = [one.partition.number for one in state.offsets if one.partition.topic == topic and one.committed is not None]
    listed = source.groups().by_name.get(state.name)
    if listed is None:
        raise Failure(f"group {state.name} has gone")
    try:
        with Brokers(source.cluster, source.summary().metadata) as brokers:
            offsets.delete_offsets(brokers, listed, topic, numbers)
    finally:
        source.changed()


def _settled(source: Source, ours: AdminClient, name: str, futures: Mapping[str, Any]) -> None:
    """Waits for the answer. Raises Failure. The client `ours` is held until then: with its last reference goes its request, and
    another page that failed may have let go of the source's meanwhile."""
    try:
        _, wrong = admin.settle(source.cluster, futures)
    finally:
        source.changed()
    if wrong:
        source.lost()
        raise Failure(f"topic {name}: {wrong[name]}")


class NewRecord(NamedTuple):
    """A record to be sent. With `partition` None the key decides."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]


def send(source: Source, record: NewRecord) -> tuple[int, int]:
    """Sends a record, and returns its partition and offset when all replicas in sync have it. Raises Failure."""
    from confluent_kafka import KafkaException

    timeout_ms = round(source.cluster.timeout_s * 1000)
    producer = source.cluster.producer(
        {
            "partitioner": "murmur2_random",
            "acks": "all",
            "enable.idempotence": "true",  # or a retry may write it twice
            "allow.auto.create.topics": "false",  # a topic that has just been deleted stays so
            "linger.ms": "0",
            "message.max.bytes": str(2 << 20),
            "message.timeout.ms": str(timeout_ms),
            "request.timeout.ms": str(timeout_ms),
        }
    )
    done: list[tuple[KafkaError | None, Message]] = []
    try:
        producer.produce(
            record.topic,
            record.value,
            record.key,
            partition=-1 if record.partition is None else record.partition,
            headers=list(record.headers),
            on_delivery=lambda error, message: done.append((error, message)),
        )
    except (KafkaException, BufferError) as error:
        raise Failure(explain(error.args[0]) if isinstance(error, KafkaException) else str(error)) from None
    producer.flush(source.cluster.timeout_s + 1)
    if not done:
        raise Failure("the record was not acknowledged in time; it may have been written all the same")
    wrong, message = done[0]
    if wrong is not None:
        raise Failure(explain(wrong))
    return message.partition() or 0, message.offset() or 0


class Moved(NamedTuple):
    """The outcome of a reset: the offsets before (as far as there are any) and after, and what each partition has."""

    before: Mapping[Partition, int]
    after: Mapping[Partition, int]
    have: Mapping[Partition, Span]
    asked: int | None = None
    """The offset that was asked for, if it was one; a partition that does not have it goes to the nearest that it has."""


def partitions_of(source: Source, state: GroupState, topic: str) -> list[Partition]:
    """Returns which partitions a reset is about: the topic's, or if `topic` is empty all that the group has committed. Raises
    Failure if there are none."""
    if topic:
        return group_reset.partitions_of([(topic, None)], source.summary().metadata.topics)
    if not (committed := sorted(_committed(state))):
        raise Failure(f"group {state.name}: no offset is committed; name a topic")
    return committed


def preview_reset(source: Source, state: GroupState, wanted: Sequence[Partition], place: Position) -> Moved:
    """Returns where the group would go on in these partitions. Raises Failure, KafkaException."""
    have = group_reset.spans_of(source.cluster, source.admin, wanted)
    after = group_reset.resolved(source.cluster, source.admin, place, have)
    return Moved(_committed(state), after, have, place.number if place.kind is Kind.OFFSET else None)


def look_at(source: Source, state: GroupState, after: Mapping[Partition, int]) -> Moved:
    """Returns the same for offsets that were chosen before. Raises Failure, KafkaException for partitions that have gone."""
    topics = source.summary().metadata.topics
    gone = [one for one in after if one.topic not in topics or one.number not in topics[one.topic].partitions]
    if gone:
        raise Failure(f"there is no {gone[0]}")
    return Moved(_committed(state), after, group_reset.spans_of(source.cluster, source.admin, sorted(after)))


def _committed(state: GroupState) -> dict[Partition, int]:
    return {one.partition: one.committed for one in state.offsets if one.committed is not None}


def outside(moved: Moved) -> str | None:
    """Returns which offset its partition does not have, if there is one; the end, where the next record will be, it has."""
    for one, offset in moved.after.items():
        if not moved.have[one].begin <= offset <= moved.have[one].end:
            return f"{one} has offsets {moved.have[one].begin} to {moved.have[one].end}, not {offset}; look at it again"
    return None


def why_not_to_reset(state: GroupState) -> str | None:
    """Returns why the cluster would refuse to move this group, or its members would undo it; None if nothing is in the way."""
    if state.members or state.state not in {"Empty", "Dead"}:
        return f"it has {counted(len(state.members), 'member')} (state {state.state}); stop them first, or they commit over it"
    return None


def reset(source: Source, state: GroupState, after: Mapping[Partition, int]) -> None:
    """Moves the group to these offsets. Raises Failure."""
    if why := why_not_to_reset(state):
        raise Failure(f"group {state.name}: {why}")
    try:
        if state.kind == kinds.SHARE:
            listed = source.groups().by_name.get(state.name)
            if listed is None:
                raise Failure(f"group {state.name} has gone")
            with Brokers(source.cluster, source.summary().metadata) as brokers:
                group_reset.alter_share(brokers, listed, after)
        else:
            group_reset.commit(source.cluster, source.cluster.admin(), state.name, after)
    finally:
        source.changed()

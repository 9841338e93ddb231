"""Topics as an administrator makes them and sees them, for tests of programs that make their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

from compat_tests.waiting import wait_for

_OF_TOPIC = 1
"""The source of a setting that was given to this very topic."""
_NOT_YET = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_LEADER_EPOCH,  # who answers knows less of the metadata yet
    KafkaError._NOENT,  # librdkafka's own, if none of the partitions has a leader
)


class Described(NamedTuple):
    partitions: int
    settings: dict[str, str]
    """Those that the topic was made with."""


def make_topics(bootstrap: str, partitions: int, *names: str) -> None:
    """Creates topics, and returns when their partitions answer; with Kafka that is some time after the request's answer. Raises
    KafkaException for those that cannot be created."""
    admin = AdminClient({"bootstrap.servers": bootstrap})  # kept in a name: its futures fail when it is collected
    for made in admin.create_topics([NewTopic(name, partitions, 1) for name in names]).values():
        made.result(30)
    wanted = {TopicPartition(name, number): OffsetSpec.latest() for name in names for number in range(partitions)}

    def are_served() -> bool:
        try:
            for found in admin.list_offsets(wanted).values():
                found.result(30)
        except KafkaException as failure:
            if failure.args[0].code() not in _NOT_YET:
                raise
            return False
        return True

    wait_for(are_served, f"{', '.join(names)} are served")


def committed_records(bootstrap: str, topic: str, partitions: int) -> list[Message]:
    """All committed records that a topic holds now, partition by partition in order."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": topic,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
    }
    reader = Consumer(settings)
    reader.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    found: list[Message] = []
    ended: set[int | None] = set()
    while len(ended) < partitions:
        message = reader.poll(30)
        assert message is not None, f"{topic} does not end"
        error = message.error()
        if error is None:
            found.append(message)
            continue
        assert error.code() == KafkaError._PARTITION_EOF, error.str()
        ended.add(message.partition())
    reader.close()
    return found


def described(bootstrap: str, wanted: Callable[[str], object]) -> dict[str, Described]:
    """All topics whose name is wanted."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    partitions = {name: len(topic.partitions) for name, topic in admin.list_topics(timeout=30).topics.items() if wanted(name)}
    if not partitions:
        return {}
    asked = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name) for name in partitions])
    settings = {
        resource.name: {name: entry.value for name, entry in future.result(30).items() if entry.source == _OF_TOPIC}
        for resource, future in asked.items()
    }
    return {name: Described(count, settings[name]) for name, count in partitions.items()}

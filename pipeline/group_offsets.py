"""Reads how far a job has come from the committed offsets of its group, where replay.py and sql/topic_sink.py keep that."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from confluent_kafka import Consumer

RETRY_S: Final = 0.2


def committed_offset(consumer: Consumer, topic: str, partition: int, timeout_s: float) -> int | None:
    """Returns the offset that the consumer's group has committed for a partition, None if there is none. Raises KafkaException.

    librdkafka gives up at the first broker that is not the coordinator yet, or no longer, as when the cluster has just made its
    topic of offsets or elects a new leader for it; this function tries again until the time is over.
    """
    from confluent_kafka import KafkaError, KafkaException, TopicPartition

    passing = {KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS}
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            found = consumer.committed([TopicPartition(topic, partition)], max(RETRY_S, deadline - time.monotonic()))[0]
        except KafkaException as error:
            if error.args[0].code() not in passing or time.monotonic() >= deadline:
                raise
            consumer.poll(RETRY_S)  # it has no partitions: this only waits, and lets it look for the coordinator
        else:
            return None if found.offset < 0 else int(found.offset)

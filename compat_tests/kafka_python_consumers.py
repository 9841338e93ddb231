"""Subscriptions of kafka-python's consumers, made so that no test waits for what this client has forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a plugin that is there before the library is imports this
    from kafka import KafkaConsumer


def subscribe(consumer: KafkaConsumer, *topics: str) -> KafkaConsumer:
    """Subscribes once the consumer knows the topics, which must exist; returns it. kafka-python 3.0.12 hangs now and then,
    whatever the broker, if it is given them between its first request for metadata and the answer."""
    for topic in topics:
        assert consumer.partitions_for_topic(topic)
    consumer.subscribe(topics)
    join_to_the_end(consumer)
    return consumer


def join_to_the_end(consumer: KafkaConsumer) -> None:
    """Has a consumer join its group for as long as that takes.

    In kafka-python 3.0.12, a poll that is over between the answers to JoinGroup and SyncGroup leaves the second to nobody: the
    member goes on with what it had, sends no heartbeat, and is expelled. It never joins again.
    """
    coordinator: Any = consumer._coordinator
    join = coordinator.ensure_active_group
    coordinator.ensure_active_group = lambda timeout_ms=None: join()

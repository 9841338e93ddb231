"""How consumers of kafka-python are subscribed, so that no test waits for what this client has forgotten."""

from __future__ import annotations

from kafka import KafkaConsumer


def subscribe(consumer: KafkaConsumer, *topics: str) -> KafkaConsumer:
    """Subscribes once the consumer knows the topics, which must exist; returns it. kafka-python 3.0.12 hangs now and then,
    whatever the broker, if it is given them between its first request for metadata and the answer."""
    for topic in topics:
        assert consumer.partitions_for_topic(topic)
    consumer.subscribe(topics)
    return consumer

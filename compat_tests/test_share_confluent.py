"""librdkafka's share consumers (ShareFetch and ShareAcknowledge v1), against ottla and against Apache Kafka."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import AcknowledgeType, Producer, ShareConsumer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from compat_tests.topics import make_topics
from compat_tests.waiting import wait_for

Unique = Callable[[str], str]
POLL_S = 0.3


def prepared(bootstrap: str, unique: Unique, records: int) -> tuple[str, str]:
    """A topic of one partition with records, and a group that reads from the start."""
    topic, group = unique("rd-share"), unique("rd-group")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    make_topics(bootstrap, 1, topic)
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "batch.num.messages": 10})
    for n in range(records):
        producer.produce(topic, str(n))
    assert producer.flush(30) == 0
    return topic, group


@contextmanager
def member(bootstrap: str, topic: str, group: str, **settings: str) -> Iterator[ShareConsumer]:
    dotted = {name.replace("_", "."): value for name, value in settings.items()}
    consumer = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": group, **dotted})
    consumer.subscribe([topic])
    try:
        yield consumer
    finally:
        consumer.close()


def polled(consumer: ShareConsumer) -> list[Any]:
    messages = list(consumer.poll(POLL_S))
    assert not [message.error() for message in messages if message.error()]
    return messages


def test_each_record_comes_to_one_of_two_members_once(bootstrap: str, unique: Unique) -> None:
    topic, group = prepared(bootstrap, unique, 300)
    seen: Counter[int] = Counter()
    with member(bootstrap, topic, group) as a, member(bootstrap, topic, group) as b:

        def all_there() -> bool:
            for each in (a, b):
                seen.update(message.offset() for message in polled(each))
            return len(seen) == 300

        wait_for(all_there, "all records were delivered")
        a.commit_sync(30.0)
        b.commit_sync(30.0)
    assert set(seen.values()) == {1}


def test_released_comes_again_and_rejected_does_not(bootstrap: str, unique: Unique) -> None:
    topic, group = prepared(bootstrap, unique, 20)
    seen: Counter[int] = Counter()
    with member(bootstrap, topic, group, share_acknowledgement_mode="explicit") as consumer:

        def all_settled() -> bool:
            for message in polled(consumer):
                offset = message.offset()
                seen[offset] += 1
                kind = AcknowledgeType.ACCEPT
                if offset % 4 == 0 and seen[offset] < 3:
                    kind = AcknowledgeType.RELEASE
                elif offset % 4 == 1:
                    kind = AcknowledgeType.REJECT
                consumer.acknowledge(message, kind)
            assert not [error for error in consumer.commit_sync(30.0).values() if error is not None]
            return len(seen) == 20 and all(seen[offset] == 3 for offset in range(0, 20, 4))

        wait_for(all_settled, "everything is settled")
        assert polled(consumer) == []
    assert seen == Counter({offset: 3 if offset % 4 == 0 else 1 for offset in range(20)})

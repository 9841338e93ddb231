"""Two producers go on while a broker under test ends and comes back, and note what was acknowledged."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

import ottla.testing
from compat_tests.waiting import collect, wait_for

RECONNECTS: Final = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50, "log_level": 0}


def connect(broker: ottla.testing.Broker, **settings: object) -> dict[str, Any]:
    """The settings of a client that comes back soon."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return {"bootstrap.servers": broker.bootstrap, **RECONNECTS, **named}


def read(broker: ottla.testing.Broker, topic: str, count: int, **settings: object) -> list[Any]:
    """Reads partition 0 of a topic from its beginning."""
    consumer = Consumer(connect(broker, group_id="reader", enable_auto_commit=False, **settings))
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])

    def poll() -> list[Any]:
        messages = consumer.consume(10_000, 0.2)
        assert [message.error() for message in messages if message.error()] == []
        return messages

    try:
        return collect(poll, count)
    finally:
        consumer.close()


def acknowledged_over(broker: ottla.testing.Broker, topic: str, times: int, end: Callable[[], object]) -> list[bytes]:
    """The values that two producers had acknowledged with acks=all, while `end` was called so many times. Between two calls
    something was acknowledged."""
    acknowledged: list[bytes] = []
    stop = threading.Event()

    def acknowledge(error: Any, message: Any) -> None:
        assert error is None
        acknowledged.append(message.value())

    def more_than(before: int) -> bool:
        return len(acknowledged) > before

    def work(name: str) -> None:
        producer = Producer(connect(broker, acks="all", enable_idempotence=True, linger_ms=1))
        number = 0
        while not stop.is_set():
            producer.produce(topic, f"{name}{number}".encode(), on_delivery=acknowledge)
            number += 1
            producer.poll(0.01)
        assert producer.flush(60) == 0

    workers = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for worker in workers:
        worker.start()
    try:
        for _ in range(times):
            wait_for(partial(more_than, len(acknowledged)), "something is acknowledged between two ends")
            end()
    finally:
        stop.set()
        for worker in workers:
            worker.join()
    return acknowledged

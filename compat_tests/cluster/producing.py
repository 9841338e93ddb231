"""Producing for the tests of replication: every record is acknowledged, or the test fails."""

from __future__ import annotations

from confluent_kafka import Producer


def produce(bootstrap: str, topic: str, count: int, size: int = 100, **settings: object) -> None:
    """Produces `count` records of `size` bytes; `settings` are the producer's, with _ for dots."""
    given = {key.replace("_", "."): value for key, value in settings.items()}
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"} | given)
    failed: list[object] = []

    def delivered(error: object, message: object) -> None:
        if error is not None:
            failed.append(error)

    for at in range(count):
        value = (at.to_bytes(4, "big") * (size // 4))[:size]
        while True:
            try:
                producer.produce(topic, value, str(at), on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(60) == 0
    assert not failed

"""kafka-python behind the protocol of the drivers: `python -m compat_tests.behaviours.drive_kafka_python`."""

from __future__ import annotations

from typing import Any

import kafka
from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, TopicPartition

from compat_tests.behaviours.lines import Arguments, Reader, emit, serve

PRODUCERS: dict[str, Any] = {}
READERS: dict[str, Reader] = {}


def describe(error: Exception) -> dict[str, Any]:
    return {"error": type(error).__name__, "code": getattr(error, "errno", None), "message": str(error)}


def settings_of(asked: Arguments, names: dict[str, str]) -> dict[str, Any]:
    """Returns the settings under kafka-python's names."""
    given = asked["settings"]
    return {
        "bootstrap_servers": asked["bootstrap"],
        **{own: given[name] for name, own in names.items() if name in given},
    }


def open_producer(asked: Arguments) -> None:
    names = {
        "idempotent": "enable_idempotence",
        "transactional_id": "transactional_id",
        "delivery_ms": "delivery_timeout_ms",
        "request_ms": "request_timeout_ms",
    }
    producer = KafkaProducer(**settings_of(asked, names))
    PRODUCERS[asked["of"]] = producer
    if "transactional_id" in asked["settings"]:
        producer.init_transactions()


def send(asked: Arguments) -> list[dict[str, Any]]:
    producer = PRODUCERS[asked["of"]]
    futures = [producer.send(asked["topic"], value.encode(), partition=0) for value in asked["values"]]
    found = []
    for future in futures:
        try:
            found.append({"offset": future.get().offset})
        except Exception as error:  # noqa: BLE001 - whatever it raises is what the table shows
            found.append(describe(error))
    return found


class Told(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    """Says which partitions come and go."""

    def __init__(self, name: str) -> None:
        self._name = name

    def _say(self, event: str, partitions: Any) -> None:
        emit({"of": self._name, "event": event, "partitions": sorted(one.partition for one in partitions)})

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._say("assigned", assigned)

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._say("revoked", revoked)


def open_reader(asked: Arguments) -> None:
    given, name = asked["settings"], asked["of"]
    names = {
        "group": "group_id",
        "client_id": "client_id",
        "instance_id": "group_instance_id",
        "session_ms": "session_timeout_ms",
        "heartbeat_ms": "heartbeat_interval_ms",
        "request_ms": "request_timeout_ms",
        "poll_ms": "max_poll_interval_ms",
        "check_crcs": "check_crcs",
        "reset": "auto_offset_reset",
    }
    settings = settings_of(asked, names)
    if given.get("commit") == "each":
        settings["enable_auto_commit"] = False
    consumer = KafkaConsumer(**settings)
    if "group" in given:
        consumer.subscribe([asked["topic"]], listener=Told(name))
    else:
        partition = TopicPartition(asked["topic"], 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)

    def poll() -> list[tuple[int, str]]:
        found = consumer.poll(timeout_ms=50).values()
        return [(record.offset, record.value.decode(errors="replace")) for records in found for record in records]

    commit = consumer.commit if given.get("commit") == "each" else None
    READERS[name] = Reader(name, poll, commit, consumer.close, describe)


def close(asked: Arguments) -> None:
    name = asked["of"]
    if name in PRODUCERS:
        PRODUCERS.pop(name).close(timeout=1)
    else:
        READERS.pop(name).close()


if __name__ == "__main__":
    serve(
        {
            "version": lambda _: kafka.__version__,
            "producer": open_producer,
            "send": send,
            "begin": lambda asked: PRODUCERS[asked["of"]].begin_transaction(),
            "commit": lambda asked: PRODUCERS[asked["of"]].commit_transaction(),
            "abort": lambda asked: PRODUCERS[asked["of"]].abort_transaction(),
            "consumer": open_reader,
            "close": close,
        },
        describe,
    )

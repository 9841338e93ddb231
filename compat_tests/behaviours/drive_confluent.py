"""confluent-kafka behind the protocol of the drivers: `python -m compat_tests.behaviours.drive_confluent`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from compat_tests.behaviours.lines import Arguments, Reader, emit, serve

PRODUCERS: dict[str, Sender] = {}
READERS: dict[str, Reader] = {}


def describe(error: Exception) -> dict[str, Any]:
    found = error.args[0] if error.args else None
    if isinstance(error, KafkaException) and isinstance(found, KafkaError):
        return describe_error(found)
    return {"error": type(error).__name__, "code": None, "message": str(error)}


def describe_error(error: KafkaError) -> dict[str, Any]:
    name = f"{error.name()} (fatal)" if error.fatal() else error.name()
    return {"error": name, "code": error.code(), "message": error.str()}


def settings_of(asked: Arguments, names: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    """Returns the settings under their names in librdkafka."""
    given = asked["settings"]
    return {
        "bootstrap.servers": asked["bootstrap"],
        "log_level": 0,
        **{dotted: given[name] for name, all_dotted in names.items() if name in given for dotted in all_dotted},
    }


class Sender:
    """A producer with a thread that has it call back."""

    def __init__(self, asked: Arguments) -> None:
        names = {
            "idempotent": ("enable.idempotence",),
            "transactional_id": ("transactional.id",),
            "delivery_ms": ("message.timeout.ms",),
            "request_ms": ("request.timeout.ms", "socket.timeout.ms"),
        }
        self._changed = threading.Condition()
        self._fatal: KafkaError | None = None
        self.producer = Producer(settings_of(asked, names) | {"error_cb": lambda _: None})
        if "transactional_id" in asked["settings"]:
            self.producer.init_transactions()
        self._closed = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while not self._closed.is_set():
            try:
                self.producer.poll(0.05)
            except KafkaException as error:  # what ends the producer; the records that it has are then left to the application
                with self._changed:
                    self._fatal = error.args[0]
                    self._changed.notify_all()
                return

    def send(self, asked: Arguments) -> list[dict[str, Any]]:
        found: dict[int, dict[str, Any]] = {}

        def delivered(at: int, error: KafkaError | None, message: Message) -> None:
            with self._changed:
                found[at] = {"offset": message.offset()} if error is None else describe_error(error)
                self._changed.notify_all()

        def sent(at: int) -> Callable[[KafkaError | None, Message], None]:
            return lambda error, message: delivered(at, error, message)

        for at, value in enumerate(asked["values"]):
            self.producer.produce(asked["topic"], value.encode(), partition=0, on_delivery=sent(at))
        with self._changed:
            self._changed.wait_for(lambda: len(found) == len(asked["values"]) or self._fatal is not None)
            fatal = {} if self._fatal is None else describe_error(self._fatal)
            return [found.get(at, fatal) for at in range(len(asked["values"]))]

    def close(self) -> None:
        self.producer.purge()
        self._closed.set()


def open_reader(asked: Arguments) -> None:
    given, name = asked["settings"], asked["of"]
    names: dict[str, tuple[str, ...]] = {
        "client_id": ("client.id",),
        "instance_id": ("group.instance.id",),
        "session_ms": ("session.timeout.ms",),
        "heartbeat_ms": ("heartbeat.interval.ms",),
        "request_ms": ("socket.timeout.ms",),
        "poll_ms": ("max.poll.interval.ms",),
        "check_crcs": ("check.crcs",),
        "reset": ("auto.offset.reset",),
    }
    settings = settings_of(asked, names) | {"group.id": given.get("group", "none")}
    if given.get("commit") == "each":
        settings["enable.auto.commit"] = False
    consumer = Consumer(settings)

    def partitions(event: str) -> Any:
        return lambda _, found: emit({"of": name, "event": event, "partitions": [one.partition for one in found]})

    if "group" in given:
        consumer.subscribe(
            [asked["topic"]],
            on_assign=partitions("assigned"),
            on_revoke=partitions("revoked"),
            on_lost=partitions("revoked"),
        )
    else:
        consumer.assign([TopicPartition(asked["topic"], 0, 0)])

    def poll() -> list[tuple[int, str]]:
        message = consumer.poll(0.05)
        if message is None:
            return []
        if (error := message.error()) is not None:
            raise KafkaException(error)
        offset, value = message.offset(), message.value()
        assert offset is not None
        return [(offset, "" if value is None else bytes(value).decode(errors="replace"))]

    def commit() -> None:
        consumer.commit(asynchronous=False)

    READERS[name] = Reader(name, poll, commit if given.get("commit") == "each" else None, consumer.close, describe)


def open_producer(asked: Arguments) -> None:
    PRODUCERS[asked["of"]] = Sender(asked)


def close(asked: Arguments) -> None:
    (PRODUCERS if asked["of"] in PRODUCERS else READERS).pop(asked["of"]).close()


if __name__ == "__main__":
    serve(
        {
            "version": lambda _: f"{confluent_kafka.version()} (librdkafka {confluent_kafka.libversion()[0]})",
            "producer": open_producer,
            "send": lambda asked: PRODUCERS[asked["of"]].send(asked),
            "begin": lambda asked: PRODUCERS[asked["of"]].producer.begin_transaction(),
            "commit": lambda asked: PRODUCERS[asked["of"]].producer.commit_transaction(),
            "abort": lambda asked: PRODUCERS[asked["of"]].producer.abort_transaction(),
            "consumer": open_reader,
            "close": close,
        },
        describe,
    )

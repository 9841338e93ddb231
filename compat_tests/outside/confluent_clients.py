"""The clients of librdkafka, through confluent-kafka."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from compat_tests.anomalies.history import Key
from compat_tests.outside import clients
from compat_tests.outside.clients import PATIENCE_S, Abortable, ClientError, Committed, Sent, decode, encode, in_time, place_of

QUIET = logging.getLogger("outside.librdkafka")  # which says at length that a killed broker is gone
QUIET.disabled = True
_SHARED = {
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "socket.timeout.ms": PATIENCE_S * 1000,
    "socket.connection.setup.timeout.ms": 2000,
}


class _Sender:
    def __init__(self, bootstrap: str, transactional_id: str | None) -> None:
        self._fatal = ""
        config: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 2,
            "error_cb": self._heard_of,  # without it, whatever is called next raises, be it a callback of the library itself
            **_SHARED,
        }
        if transactional_id is None:
            config["message.timeout.ms"] = clients.DELIVERY_S * 1000
        else:
            config |= {"transactional.id": transactional_id, "transaction.timeout.ms": clients.TRANSACTION_S * 1000}
        self._producer = Producer(config, logger=QUIET)

    def _heard_of(self, error: KafkaError) -> None:
        if error.fatal():
            self._fatal = str(error)

    def send(self, key: Key, value: int, sent: Sent) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            sent(message.offset() if error is None else None)

        if self._fatal:
            raise ClientError(self._fatal)
        topic, partition = place_of(key)
        try:
            self._producer.produce(topic, encode(value), partition=partition, on_delivery=delivered)
        except (KafkaException, BufferError) as error:
            raise ClientError(str(error)) from error
        self.turn(0)

    def turn(self, seconds: float) -> None:
        try:
            self._producer.poll(seconds)
        except (KafkaException, SystemError) as error:  # as when it has been fenced
            raise ClientError(str(_reason(error))) from error

    def init(self) -> None:
        self._insist(self._producer.init_transactions)

    def begin(self) -> None:
        try:
            self._producer.begin_transaction()
        except KafkaException as error:
            raise ClientError(str(error)) from error

    def send_offsets(self, group: str, offsets: Committed) -> None:
        metadata = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": group}, logger=QUIET).consumer_group_metadata()
        places = [TopicPartition(*place_of(key), offset) for key, offset in offsets.items()]
        send = self._producer.send_offsets_to_transaction
        self._insist(lambda timeout_s: in_time(lambda: send(places, metadata, timeout_s)))  # which may not keep to its time limit

    def commit(self) -> None:
        self._insist(self._producer.flush)  # here, because a flush is sure to call what waits for the records
        self._insist(self._producer.commit_transaction)

    def abort(self) -> None:
        self._insist(self._producer.abort_transaction)

    def _insist(self, ask: Callable[[float], Any]) -> None:
        """Asks, and again where the library says that this is right. Raises Abortable or ClientError."""
        until = time.monotonic() + 3 * PATIENCE_S
        while True:
            try:
                ask(PATIENCE_S)
            except (KafkaException, SystemError) as error:
                reason = _reason(error)
                if reason.txn_requires_abort():
                    raise Abortable(str(reason)) from error
                if not reason.retriable() or time.monotonic() > until:
                    raise ClientError(str(reason)) from error
            else:
                return

    def close(self) -> None:
        with suppress(KafkaException, ClientError):  # what they would say is that it is of no use any more
            self._producer.purge()
            self.turn(0)


def _reason(error: KafkaException | SystemError) -> KafkaError:
    """Returns what the library says. Sometimes it calls its logger while an exception of its own is pending already, of which
    Python makes a SystemError with that exception as the cause. Raises the error if it is another."""
    said = error.__cause__ if isinstance(error, SystemError) else error
    if not isinstance(said, KafkaException):
        raise error
    reason: KafkaError = said.args[0]
    return reason


class _Poller:
    def __init__(self, bootstrap: str, group: str, committed: bool) -> None:
        self._given_up = False
        """True if a thread is still in a call of the consumer, which therefore cannot be closed."""
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",  # never right here, and reported as nonmonotonic-poll
                "isolation.level": "read_committed" if committed else "read_uncommitted",
                "fetch.wait.max.ms": 200,
                **_SHARED,
            },
            logger=QUIET,
        )

    def assign(self, positions: Mapping[Key, int]) -> None:
        try:
            self._consumer.assign([TopicPartition(*place_of(key), offset) for key, offset in positions.items()])
        except KafkaException as error:
            raise ClientError(str(error)) from error

    def poll(self, seconds: float) -> list[tuple[Key, int, int]]:
        found: list[tuple[Key, int, int]] = []
        for message in self._consumer.consume(clients.MOST_POLLED, seconds):
            if message.error() is None:
                offset = message.offset()
                assert offset is not None
                found.append((f"{message.topic()}-{message.partition()}", offset, decode(message.value())))
        return found

    def commit(self, offsets: Committed) -> None:
        places = [TopicPartition(*place_of(key), offset) for key, offset in offsets.items()]
        commit = self._consumer.commit
        try:
            done = in_time(lambda: commit(offsets=places, asynchronous=False))  # it has no time limit of its own
        except clients.GivenUp:
            self._given_up = True
            raise
        except KafkaException as error:
            raise ClientError(str(error)) from error
        if wrong := [each.error for each in done or () if each.error is not None]:
            raise ClientError(str(wrong[0]))

    def committed(self, keys: list[Key]) -> Committed:
        try:
            found = self._consumer.committed([TopicPartition(*place_of(key)) for key in keys], PATIENCE_S)
        except KafkaException as error:
            raise ClientError(str(error)) from error
        if wrong := [each.error for each in found if each.error is not None]:
            raise ClientError(str(wrong[0]))
        return {f"{each.topic}-{each.partition}": max(each.offset, -1) for each in found}

    def close(self) -> None:
        if not self._given_up:
            self._consumer.close()


class Confluent:
    """See clients.Library."""

    name = "confluent"

    def sender(self, bootstrap: str, transactional_id: str | None = None) -> _Sender:
        return _Sender(bootstrap, transactional_id)

    def poller(self, bootstrap: str, group: str, *, committed: bool) -> _Poller:
        return _Poller(bootstrap, group, committed)

"""The clients of kafka-python."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from compat_tests.anomalies.history import Key
from compat_tests.outside import clients
from compat_tests.outside.clients import PATIENCE_S, Abortable, ClientError, Committed, Sent, decode, encode, in_time, place_of

_SHARED = {
    "reconnect_backoff_ms": 50,
    "reconnect_backoff_max_ms": 500,
    "request_timeout_ms": PATIENCE_S * 1000,
}
_Answer = TypeVar("_Answer")


def _asked(ask: Callable[[], _Answer]) -> _Answer:
    """Returns what it answers. Raises ClientError for any error of the library, which has many kinds."""
    try:
        return ask()
    except (KafkaError, OSError, ValueError, RuntimeError) as error:
        raise ClientError(repr(error)) from error


class _Sender:
    def __init__(self, bootstrap: str, transactional_id: str | None) -> None:
        config: dict[str, Any] = {"delivery_timeout_ms": clients.DELIVERY_S * 1000, "linger_ms": 2, **_SHARED}
        if transactional_id is not None:
            config |= {"transactional_id": transactional_id, "transaction_timeout_ms": clients.TRANSACTION_S * 1000}
        self._producer = _asked(lambda: KafkaProducer(bootstrap_servers=bootstrap, max_block_ms=PATIENCE_S * 1000, **config))

    def send(self, key: Key, value: int, sent: Sent) -> None:
        topic, partition = place_of(key)
        future = _asked(lambda: self._producer.send(topic, encode(value), partition=partition))
        future.add_callback(lambda metadata: sent(metadata.offset))
        future.add_errback(lambda _: sent(None))

    def turn(self, seconds: float) -> None:
        time.sleep(seconds)

    def init(self) -> None:
        _asked(self._producer.init_transactions)

    def begin(self) -> None:
        _asked(self._producer.begin_transaction)

    def send_offsets(self, group: str, offsets: Committed) -> None:
        places = {TopicPartition(*place_of(key)): OffsetAndMetadata(offset, "", -1) for key, offset in offsets.items()}
        self._abortable(lambda: self._producer.send_offsets_to_transaction(places, group))

    def commit(self) -> None:
        self._abortable(self._producer.commit_transaction)

    def abort(self) -> None:
        in_time(lambda: _asked(self._producer.abort_transaction))

    def _abortable(self, ask: Callable[[], Any]) -> None:
        """The library does not say which errors can be aborted: the broker does, when it is asked to."""

        def asked() -> None:
            try:
                _asked(ask)
            except ClientError as error:
                raise Abortable(str(error)) from error

        in_time(asked)  # out of time, it goes on asking

    def close(self) -> None:
        self._producer._sender.force_close()  # or it would go on repeating what nobody waits for
        with suppress(KafkaError):
            self._producer.close(timeout=0)


class _Poller:
    def __init__(self, bootstrap: str, group: str, committed: bool) -> None:
        self._consumer = _asked(
            lambda: KafkaConsumer(
                bootstrap_servers=bootstrap,
                group_id=group,
                enable_auto_commit=False,
                auto_offset_reset="earliest",  # never right here, and reported as nonmonotonic-poll
                isolation_level="read_committed" if committed else "read_uncommitted",
                fetch_max_wait_ms=200,
                max_poll_records=clients.MOST_POLLED,
                **_SHARED,
            )
        )

    def assign(self, positions: Mapping[Key, int]) -> None:
        places = {TopicPartition(*place_of(key)): offset for key, offset in positions.items()}
        _asked(lambda: self._consumer.assign(list(places)))
        for place, offset in places.items():
            _asked(partial(self._consumer.seek, place, offset))

    def poll(self, seconds: float) -> list[tuple[Key, int, int]]:
        found = _asked(lambda: self._consumer.poll(timeout_ms=int(seconds * 1000)))
        return [(f"{place.topic}-{place.partition}", each.offset, decode(each.value)) for place in found for each in found[place]]

    def commit(self, offsets: Committed) -> None:
        places = {TopicPartition(*place_of(key)): OffsetAndMetadata(offset, "", -1) for key, offset in offsets.items()}
        _asked(lambda: self._consumer.commit(places, timeout_ms=PATIENCE_S * 1000))

    def committed(self, keys: list[Key]) -> Committed:
        found: dict[Key, int] = {}
        for key in keys:
            place = TopicPartition(*place_of(key))
            offset = _asked(partial(self._consumer.committed, place, timeout_ms=PATIENCE_S * 1000))
            found[key] = -1 if offset is None else offset
        return found

    def close(self) -> None:
        with suppress(KafkaError):
            self._consumer.close(autocommit=False, timeout_ms=1000)


class KafkaPython:
    """See clients.Library."""

    name = "kafka-python"

    def __init__(self) -> None:
        logging.getLogger("kafka").setLevel(logging.CRITICAL)

    def sender(self, bootstrap: str, transactional_id: str | None = None) -> _Sender:
        return _Sender(bootstrap, transactional_id)

    def poller(self, bootstrap: str, group: str, *, committed: bool) -> _Poller:
        return _Poller(bootstrap, group, committed)

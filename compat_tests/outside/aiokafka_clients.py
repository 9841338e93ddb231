"""The clients of aiokafka. Its event loop runs in a thread of its own, which all of them share."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import TimeoutError as OutOfTime
from functools import partial
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError, for_code
from aiokafka.protocol.commit import OffsetFetchRequest
from aiokafka.structs import OffsetAndMetadata

from compat_tests.anomalies.history import Key
from compat_tests.outside import clients
from compat_tests.outside.clients import PATIENCE_S, Abortable, ClientError, Committed, GivenUp, Sent, decode, encode, place_of

_LONGEST_S = 3 * PATIENCE_S
_Answer = TypeVar("_Answer")


class _Loop:
    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="aiokafka", daemon=True).start()

    def ask(self, made: Callable[[], Coroutine[Any, Any, _Answer]], longest_s: float = _LONGEST_S) -> _Answer:
        """Runs what is made and returns its result. Raises ClientError; GivenUp if it takes too long."""
        running = asyncio.run_coroutine_threadsafe(made(), self._loop)
        try:
            return running.result(longest_s)
        except OutOfTime as error:
            running.cancel()
            raise GivenUp(f"no answer in {longest_s} s") from error
        except Exception as error:  # they have no class in common, and some are failed assertions
            raise ClientError(repr(error)) from error


class _Sender:
    def __init__(self, loop: _Loop, bootstrap: str, transactional_id: str | None) -> None:
        self._loop = loop
        self._sent: list[asyncio.Future[Any]] = []

        async def make() -> AIOKafkaProducer:
            more: dict[str, Any] = {"enable_idempotence": True}
            if transactional_id is not None:
                more = {"transactional_id": transactional_id, "transaction_timeout_ms": clients.TRANSACTION_S * 1000}
            return AIOKafkaProducer(
                bootstrap_servers=bootstrap, linger_ms=2, retry_backoff_ms=100, request_timeout_ms=PATIENCE_S * 1000, **more
            )

        self._producer = loop.ask(make)
        if transactional_id is None:
            self._start()

    def _start(self) -> None:
        try:
            self._loop.ask(self._producer.start)
        except ClientError:
            self.close()
            raise

    def send(self, key: Key, value: int, sent: Sent) -> None:
        topic, partition = place_of(key)

        def done(future: asyncio.Future[Any]) -> None:
            sent(None if future.cancelled() or future.exception() is not None else future.result().offset)

        async def send() -> None:
            future = await self._producer.send(topic, encode(value), partition=partition)
            future.add_done_callback(done)
            self._sent.append(future)

        self._loop.ask(send)

    def turn(self, seconds: float) -> None:
        time.sleep(seconds)

    def init(self) -> None:
        self._start()  # it has its producer id when it has started

    def begin(self) -> None:
        self._sent.clear()
        self._loop.ask(self._producer.begin_transaction)

    def send_offsets(self, group: str, offsets: Committed) -> None:
        places = {TopicPartition(*place_of(key)): OffsetAndMetadata(offset, "") for key, offset in offsets.items()}
        self._abortable(lambda: self._producer.send_offsets_to_transaction(places, group))

    def commit(self) -> None:
        async def commit() -> None:
            await self._producer.commit_transaction()
            await asyncio.wait(self._sent)  # they are done: now what waits for them is called, too
            await asyncio.sleep(0)

        self._abortable(commit)

    def abort(self) -> None:
        self._loop.ask(self._producer.abort_transaction)

    def _abortable(self, made: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """The library does not say which errors can be aborted: the broker does, when it is asked to."""
        try:
            self._loop.ask(made)
        except GivenUp:
            raise
        except ClientError as error:
            raise Abortable(str(error)) from error

    def close(self) -> None:
        _close(self._loop, self._producer.stop)


class _Poller:
    def __init__(self, loop: _Loop, bootstrap: str, group: str, committed: bool) -> None:
        self._loop = loop

        async def make() -> AIOKafkaConsumer:
            consumer = AIOKafkaConsumer(
                bootstrap_servers=bootstrap,
                group_id=group,
                enable_auto_commit=False,
                auto_offset_reset="earliest",  # never right here, and reported as nonmonotonic-poll
                isolation_level="read_committed" if committed else "read_uncommitted",
                fetch_max_wait_ms=200,
                request_timeout_ms=PATIENCE_S * 1000,
                retry_backoff_ms=100,
            )
            await consumer.start()
            _heed_errors(consumer)
            return consumer

        self._consumer = loop.ask(make)

    def assign(self, positions: Mapping[Key, int]) -> None:
        places = {TopicPartition(*place_of(key)): offset for key, offset in positions.items()}

        async def assign() -> None:
            self._consumer.assign(list(places))
            for place, offset in places.items():
                self._consumer.seek(place, offset)

        self._loop.ask(assign)

    def poll(self, seconds: float) -> list[tuple[Key, int, int]]:
        found = self._loop.ask(lambda: self._consumer.getmany(timeout_ms=int(seconds * 1000), max_records=clients.MOST_POLLED))
        return [(f"{place.topic}-{place.partition}", each.offset, decode(each.value)) for place in found for each in found[place]]

    def commit(self, offsets: Committed) -> None:
        places = {TopicPartition(*place_of(key)): offset for key, offset in offsets.items()}
        self._loop.ask(lambda: self._consumer.commit(places))

    def committed(self, keys: list[Key]) -> Committed:
        found: dict[Key, int] = {}
        for key in keys:
            place = TopicPartition(*place_of(key))
            offset = self._loop.ask(partial(self._consumer.committed, place))
            found[key] = -1 if offset is None else offset
        return found

    def close(self) -> None:
        _close(self._loop, self._consumer.stop)


def _heed_errors(consumer: AIOKafkaConsumer) -> None:
    """Has the library look at the error of a whole OffsetFetch. In its version 0.14 it does not, and takes an answer such as
    NOT_COORDINATOR for one without offsets.
    """
    coordinator = consumer._coordinator
    send = coordinator._send_req

    async def send_and_look(request: Any) -> Any:
        response = await send(request)
        if isinstance(request, OffsetFetchRequest) and (code := getattr(response, "error_code", 0)):
            coordinator.coordinator_dead()
            raise for_code(code)
        return response

    coordinator._send_req = send_and_look


def _close(loop: _Loop, stop: Callable[[], Awaitable[Any]]) -> None:
    async def within_a_second() -> None:
        try:
            async with asyncio.timeout(1):
                await stop()
        except (TimeoutError, KafkaError, OSError, asyncio.CancelledError) as error:  # the last from a task of the client itself
            logging.getLogger("outside").debug("a client was not closed: %r", error)

    loop.ask(within_a_second)


class AioKafka:
    """See clients.Library."""

    name = "aiokafka"

    def __init__(self) -> None:
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        self._loop = _Loop()

    def sender(self, bootstrap: str, transactional_id: str | None = None) -> _Sender:
        return _Sender(self._loop, bootstrap, transactional_id)

    def poller(self, bootstrap: str, group: str, *, committed: bool) -> _Poller:
        return _Poller(self._loop, bootstrap, group, committed)

"""The work of the clients, each in a thread of its own: they do one thing after the other, record what they asked for and what
they know of it, and go on until they are told to stop. What fails is no failure of the run: the checker judges what was recorded.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from compat_tests.anomalies.history import READ_COMMITTED, READ_UNCOMMITTED, Key, Recorded, Recorder
from compat_tests.outside.clients import PATIENCE_S, ClientError, GivenUp, Library, Poller, Sender, place_of
from compat_tests.outside.confluent_clients import QUIET

MOST_IN_FLIGHT: Final = 100
_NEVER_READ_SO_MANY: Final = 20_000
"""A reader begins anew at the beginning only while there is less to read."""


class SharedRecorder(Recorder):
    """A recorder for the threads of a run, with the numbers of processes and the values of records."""

    def __init__(self) -> None:
        super().__init__(time.monotonic_ns)
        self._lock = threading.RLock()
        self._processes = 0
        self._values = 0

    def _add(self, process: int, op: int, kind: str, fields: dict[str, Any]) -> None:
        with self._lock:
            super()._add(process, op, kind, fields)

    def invoke(self, process: int, f: str, **fields: Any) -> Recorded:
        with self._lock:
            return super().invoke(process, f, **fields)

    def process(self) -> int:
        """Returns the number of a new process."""
        with self._lock:
            self._processes += 1
            return self._processes

    def value(self) -> int:
        """Returns a number that nobody has had: a record's value, which so has one writer, or an offset to commit."""
        with self._lock:
            self._values += 1
            return self._values


@dataclass(slots=True)
class Place:
    """The place where clients work: the brokers' addresses, what is recorded, and the seed. `keys` are for everybody, `queues`
    those of them that no transaction writes to. `replicas` is how many each partition has.
    """

    bootstrap: str
    seed: int
    recorder: SharedRecorder
    keys: list[Key]
    queues: list[Key]
    replicas: int = 1
    stop: threading.Event = field(default_factory=threading.Event)


class Worker(ABC):
    """A client at work. `done` counts what it was told is done, `replaced` how often it had to begin as a new process, `given_up`
    how many calls of its library did not end.
    """

    pause_s: float = 0.05
    contested: str | None = None
    """The thing that it and others take from each other, again and again."""

    def __init__(self, place: Place, name: str) -> None:
        self.place = place
        self.name = name
        self.recorder = place.recorder
        self.random = Random(f"{place.seed}/{name}")
        self.process = self.recorder.process()
        self.done = 0
        self.replaced = 0
        self.given_up = 0
        self.wrong: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    @abstractmethod
    def once(self) -> None:
        """Does one thing. Raises ClientError if its client is of no more use."""

    def leave(self) -> None:  # noqa: B027 - not every worker has to
        """Closes its client."""

    def _run(self) -> None:
        try:
            while not self.place.stop.is_set():
                try:
                    self.once()
                    self.wait(self.random.expovariate(1 / self.pause_s))
                except ClientError as error:
                    self.given_up += isinstance(error, GivenUp)
                    self.replace()
                    self.place.stop.wait(self.random.uniform(0.2, 1))
            self.leave()
        except BaseException as error:  # noqa: BLE001 - the run raises it
            self.wrong = error

    def wait(self, seconds: float) -> None:
        self.place.stop.wait(seconds)

    def replace(self) -> None:
        """Begins anew, as a process that knows nothing."""
        self.recorder.mark(self.process, "crash")
        self.process = self.recorder.process()
        self.replaced += 1
        self.leave()


def sent(key: Key, offset: int | None, value: int) -> list[Any]:
    return ["send", key, [offset, value]]


class Queue(Worker):
    """Sends records, many at a time, with an idempotent producer."""

    def __init__(self, place: Place, library: Library) -> None:
        super().__init__(place, f"{library.name} sends")
        self._library = library
        self._sender: Sender | None = None
        self._in_flight = 0
        self._lock = threading.Lock()

    def once(self) -> None:
        if self._sender is None:
            self._sender = self._library.sender(self.place.bootstrap)
        if self._in_flight >= MOST_IN_FLIGHT:
            self._sender.turn(0.1)
            return
        key = self.random.choice(self.place.keys)
        for _ in range(self.random.randint(1, 5)):
            self._send(self._sender, key, self.recorder.value())

    def _send(self, sender: Sender, key: Key, value: int) -> None:
        operation = self.recorder.invoke(self.process, "send", mops=[sent(key, None, value)], idempotent=True)

        def known(offset: int | None) -> None:
            with self._lock:
                self._in_flight -= 1
                self.done += offset is not None
            if offset is None:
                operation.info()
            else:
                operation.ok(mops=[sent(key, offset, value)])

        with self._lock:
            self._in_flight += 1
        try:
            sender.send(key, value, known)
        except ClientError:
            known(None)
            raise

    def wait(self, seconds: float) -> None:
        if self._sender is not None:
            self._sender.turn(seconds)

    def leave(self) -> None:
        if self._sender is not None:
            until = time.monotonic() + (PATIENCE_S if self.place.stop.is_set() else 0)
            with suppress(ClientError):
                while self._in_flight and time.monotonic() < until:
                    self._sender.turn(0.1)
            self._sender.close()
            self._sender = None
            self._in_flight = 0


class Reading(Worker):
    """Reads all keys; now and then it goes back to the beginning."""

    pause_s = 0.02

    def __init__(self, place: Place, library: Library, *, committed: bool) -> None:
        self._isolation = READ_COMMITTED if committed else READ_UNCOMMITTED
        super().__init__(place, f"{library.name} reads {self._isolation}")
        self._library = library
        self._poller: Poller | None = None
        self._next_s = 0.0
        self._read = 0

    def once(self) -> None:
        if self._poller is None:
            group = f"reader {self.process}"
            self._poller = self._library.poller(self.place.bootstrap, group, committed=self._isolation == READ_COMMITTED)
            self._next_s = 0.0
        if time.monotonic() > self._next_s and self._read < _NEVER_READ_SO_MANY:
            self._poller.assign(dict.fromkeys(self.place.keys, 0))
            self.recorder.mark(self.process, "assign", positions=dict.fromkeys(self.place.keys, 0))
            self._next_s, self._read = time.monotonic() + self.random.uniform(10, 40), 0
        operation = self.recorder.invoke(self.process, "poll", isolation=self._isolation)
        try:
            records = self._poller.poll(0.3)
        except ClientError:
            operation.info()
            raise
        if not records:
            operation.info()  # an empty answer, or none
            return
        self._read += len(records)
        operation.ok(mops=[["poll", by_key(records)]])
        self.done += 1

    def leave(self) -> None:
        if self._poller is not None:
            self._poller.close()
            self._poller = None


def by_key(records: list[tuple[Key, int, int]]) -> dict[Key, list[list[int]]]:
    found: dict[Key, list[list[int]]] = {}
    for key, offset, value in records:
        found.setdefault(key, []).append([offset, value])
    return found


class Register(Worker):
    """Commits offsets of a group and asks for them, without being a member: what it commits are numbers, each a new one."""

    group = "register"
    pause_s = 0.1

    def __init__(self, place: Place, library: Library) -> None:
        super().__init__(place, f"{library.name} commits")
        self._library = library
        self._poller: Poller | None = None

    def once(self) -> None:
        if self._poller is None:
            self._poller = self._library.poller(self.place.bootstrap, self.group, committed=True)
            self._poller.assign(dict.fromkeys(self.place.queues, 0))
        key = self.random.choice(self.place.queues)
        if self.random.random() < 0.5:
            offsets = {key: self.recorder.value()}
            operation = self.recorder.invoke(self.process, "commit", group=self.group, offsets=offsets)
            self._ended(operation, lambda poller: poller.commit(offsets))
            return
        operation = self.recorder.invoke(self.process, "committed", group=self.group)
        self._ended(operation, lambda poller: {"offsets": dict(poller.committed([key]))})

    def _ended(self, operation: Recorded, ask: Callable[[Poller], dict[str, Any] | None]) -> None:
        assert self._poller is not None
        try:
            fields = ask(self._poller)
        except ClientError:
            operation.info()
            raise
        operation.ok(**(fields or {}))
        self.done += 1

    def leave(self) -> None:
        if self._poller is not None:
            self._poller.close()
            self._poller = None


class Administration(Worker):
    """Makes topics, asks which there are, and where partitions end. In a cluster it does not ask for topics: a broker knows a new
    one when it has fetched so much of the metadata, and nobody says when that is.
    """

    pause_s = 0.5

    def __init__(self, place: Place) -> None:
        super().__init__(place, "confluent administers")
        self._admin = AdminClient(
            {"bootstrap.servers": place.bootstrap, "reconnect.backoff.max.ms": 500, "socket.timeout.ms": PATIENCE_S * 1000},
            logger=QUIET,
        )
        self._names: Iterator[str] = (f"made-{number}" for number in range(1 << 30))

    def once(self) -> None:
        match self.random.choice(("ends", "ends", "ends", "topics" if self.place.replicas == 1 else "ends", "create")):
            case "create":
                topic = next(self._names)
                operation = self.recorder.invoke(self.process, "create", topic=topic)
                self._ended(operation, lambda: self._create(topic))
            case "topics":
                operation = self.recorder.invoke(self.process, "topics")
                self._ended(operation, lambda: {"names": sorted(self._admin.list_topics(timeout=PATIENCE_S).topics)})
            case _:
                operation = self.recorder.invoke(self.process, "poll", isolation=READ_UNCOMMITTED)
                self._ended(operation, lambda: {"ends": ends(self._admin, self.place.keys), "mops": []})

    def _create(self, topic: str) -> dict[str, Any]:
        self._admin.create_topics([NewTopic(topic, 1, self.place.replicas)])[topic].result(2 * PATIENCE_S)
        return {}

    def _ended(self, operation: Recorded, ask: Callable[[], dict[str, Any]]) -> None:
        try:
            fields = ask()
        except (KafkaException, TimeoutError, ClientError):
            operation.info()
            return
        operation.ok(**fields)
        self.done += 1


def ends(admin: AdminClient, keys: list[Key]) -> dict[Key, list[int]]:
    """Returns [high watermark, last stable offset] of the keys. Raises KafkaException, TimeoutError or ClientError."""
    places = {TopicPartition(*place_of(key)): OffsetSpec.latest() for key in keys}
    found: dict[Key, list[int]] = {key: [] for key in keys}
    for isolation in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED):  # the one that follows the other last
        asked = admin.list_offsets(places, isolation_level=isolation, request_timeout=PATIENCE_S)
        for place, future in asked.items():
            offset = future.result(2 * PATIENCE_S).offset
            if offset < 0:  # the library's own, for a request that did not get through
                raise ClientError(f"no offset of {place}")
            found[f"{place.topic}-{place.partition}"].insert(0, offset)
    return found

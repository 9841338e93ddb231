"""Stand-ins for what a broker gets from outside: a clock that is moved by hand, a broker in memory, a transport that records.

`MemoryBroker` has what handlers see: the real image, logs and sessions, on a disk in memory, with topics as they would come from
metadata records. Nothing listens, and there is no controller: a test that needs more takes the real Broker on a MemDisk.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, cast

from ottla.log.config import LogConfig
from ottla.log.errors import StorageError
from ottla.log.management.manager import LogManager
from ottla.server.base.clock import Turns
from ottla.server.base.network import OsNetwork
from ottla.server.base.randomness import from_seed
from ottla.server.base.turns import Workers
from ottla.server.broker import optional_parts
from ottla.server.metadata.controller_settings import current_settings
from ottla.server.metadata.image import MetadataImage
from ottla.server.metadata.operation import Caller
from ottla.server.partitions.fetch_sessions import FetchSessions
from ottla.server.partitions.flushing import Flushing
from ottla.server.partitions.replica import Replica
from ottla.server.partitions.replicas import Replicas
from ottla.server.requests.context import BrokerContext
from ottla.server.requests.request import Request
from ottla.server.requests.session import Session
from ottla.server.settings.broker_config import BrokerConfig
from ottla.wire.messages.internal.config_record import ConfigRecord
from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord
from ottla.wire.messages.internal.partition_record import PartitionRecord
from ottla.wire.messages.internal.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from ottla.wire.messages.internal.remove_topic_record import RemoveTopicRecord
from ottla.wire.messages.internal.topic_record import TopicRecord
from tests.memdisk import MemDisk

NOW_MS = 1_700_000_000_000
NODE_ID = 1
CLUSTER_ID = "b3R0bGFDb21wYXRUZXN0cw"
LISTENER = "PLAINTEXT"
MACHINE = "machine.test"
CALLER = Caller("User:ANONYMOUS", "127.0.0.1", "client", 0)


class NotingNetwork(OsNetwork):
    """The system's network, which notes what it is asked for; it knows no hosts but `hosts`, and its machine is `MACHINE`."""

    def __init__(self, **hosts: str) -> None:
        self.asked: list[tuple[str, object]] = []
        self.hosts = hosts

    def bind(self, host: str | None, port: int, *, send_buffer_bytes: int = -1, receive_buffer_bytes: int = -1) -> socket.socket:
        self.asked.append(("bind", host))
        return super().bind(host, port, send_buffer_bytes=send_buffer_bytes, receive_buffer_bytes=receive_buffer_bytes)

    async def serve(self, factory: Callable[[], asyncio.BaseProtocol], sock: socket.socket, backlog: int) -> asyncio.Server:
        self.asked.append(("serve", backlog))
        return await super().serve(factory, sock, backlog)

    async def connect_to(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, context: ssl.SSLContext | None = None
    ) -> None:
        self.asked.append(("connect_to", (host, port)))
        await super().connect_to(factory, host, port)

    async def address_of(self, host: str) -> str:
        self.asked.append(("address_of", host))
        if host not in self.hosts:
            raise OSError(f"no host {host}")
        return self.hosts[host]

    def own_host(self) -> str:
        self.asked.append(("own_host", None))
        return MACHINE


class Timer:
    """A callback of a ManualClock."""

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualClock:
    """Stands still until `advance`, which runs what comes due, each at its own moment."""

    def __init__(self, now_ms: int = NOW_MS) -> None:
        self._start_ms = now_ms
        self.turns = Turns(partial(self.call_later, 0))
        self._elapsed = 0.0
        self._order = itertools.count()
        self._timers: list[tuple[float, int, Timer]] = []

    def now_ms(self) -> int:
        return self._start_ms + round(self._elapsed * 1000)

    def monotonic(self) -> float:
        return self._elapsed

    def ticks_ns(self) -> int:
        return round(self.monotonic() * 1_000_000_000)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        timer = Timer(callback)
        heapq.heappush(self._timers, (self._elapsed + seconds, next(self._order), timer))
        return timer

    def call_pass(self, name: str, seconds: float, callback: Callable[[], object]) -> Timer:
        return self.call_later(seconds, callback)

    def advance(self, seconds: float = 0.0) -> None:
        """0 seconds run what was put off to the loop's next turn."""
        until = self._elapsed + seconds
        while self._timers and self._timers[0][0] <= until:
            due, _, timer = heapq.heappop(self._timers)
            self._elapsed = max(self._elapsed, due)
            if timer.callback is not None:
                timer.callback()
        self._elapsed = max(self._elapsed, until)

    def run_round(self) -> None:
        """Runs what is due now as one round of the loop: not what this puts off to the next one."""
        due = [heapq.heappop(self._timers)[2] for _ in range(sum(timer[0] <= self._elapsed for timer in self._timers))]
        for timer in due:
            if timer.callback is not None:
                timer.callback()

    def spend(self, seconds: float) -> None:
        """Time that what runs now takes; what comes due meanwhile runs with the next `advance`."""
        self._elapsed += seconds

    @property
    def waiting(self) -> int:
        """Timers that have neither run nor been cancelled, but for the one that notes the end of a round."""
        return sum(timer.callback not in (None, self.turns._end_round) for _, _, timer in self._timers)


def run_at_once(job: Callable[[], None], done: Callable[[StorageError | None], None]) -> None:
    """As server.flushing.run_in_thread, but here and now."""
    try:
        job()
    except StorageError as error:
        done(error)
    else:
        done(None)


def work_at_once(job: Callable[[], Any], done: Callable[[asyncio.Future[Any]], object]) -> None:
    """As server.base.turns.run_in_thread, but here and now."""
    loop = asyncio.new_event_loop()
    future: asyncio.Future[Any] = loop.create_future()
    loop.close()
    try:
        future.set_result(job())
    except Exception as error:  # noqa: BLE001 - for whoever waits
        future.set_exception(error)
    done(future)


class Threads:
    """Runs jobs in place of server.base.turns.run_in_thread, when the test says so."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[[], Any], Callable[[asyncio.Future[Any]], object]]] = []

    def run(self, job: Callable[[], Any], done: Callable[[asyncio.Future[Any]], object]) -> None:
        self.jobs.append((job, done))

    def end_first(self) -> None:
        work_at_once(*self.jobs.pop(0))


class MemoryBroker:
    """`context` is what handlers get; the rest is for the test to turn the screws. Topic ids are made from the name."""

    def __init__(self, topics: Mapping[str, int], settings: Mapping[str, str] | None = None, disk: MemDisk | None = None) -> None:
        self.clock = ManualClock()
        self.disk = disk or MemDisk(self.clock.now_ms)
        self.config, unknown = BrokerConfig.from_mapping(
            {"node.id": str(NODE_ID), "process.roles": "broker,controller", "controller.listener.names": "CONTROLLER"}
            | {"listeners": f"{LISTENER}://127.0.0.1:0", "controller.quorum.voters": "1@localhost:9093", "log.dirs": "/data"}
            | dict(settings or {})
        )
        assert not unknown
        self.image = MetadataImage(CLUSTER_ID)
        self.logs = LogManager(
            self.disk,
            self.config.log_dirs,
            self.clock.now_ms,
            LogConfig.from_overrides({}, self.config.values),
            random=Random(1),
            metadata_dir=self.config.metadata_log_dir,
        )
        self.logs.lock()
        self.logs.open_all()
        self.settings = current_settings(self.config, self.image)
        self.replicas = Replicas(self.logs, self.image, self.settings, self.clock, run_at_once)
        self.register_broker(NODE_ID, port=9092)
        for name, partitions in topics.items():
            self.create_topic(name, partitions)
        self.replicas.start()
        self.context = BrokerContext(
            config=self.config,
            settings=self.settings,
            metadata=self.image,
            controller=cast(Any, None),
            replicas=self.replicas,
            existing_groups=None,
            producer_ids=cast(Any, None),
            fetch_sessions=FetchSessions(2, self.clock.now_ms, from_seed(1)),
            clock=self.clock,
            random=from_seed(1),
            optional_parts=optional_parts,
            existing_flushing=Flushing(self.clock, run_at_once),
            existing_workers=Workers(work_at_once),
            existing_pattern_workers=Workers(work_at_once),
        )

    def hold_threads(self) -> Threads:
        """Lets what is to run in threads wait until the test says so."""
        threads = Threads()
        self.context.existing_workers = self.context.existing_pattern_workers = Workers(threads.run)
        return threads

    def register_broker(self, broker_id: int, port: int) -> None:
        endpoint = BrokerEndpoint(LISTENER, f"host{broker_id}", port, 0)
        self.image.apply(RegisterBrokerRecord(broker_id=broker_id, broker_epoch=broker_id, end_points=[endpoint], fenced=False))

    def create_topic(
        self, name: str, partitions: int = 1, *, leader: int = NODE_ID, followers: Sequence[int] = (), **settings: str
    ) -> bytes:
        """The new topic's id. `followers` are other brokers that have replicas, all in sync. Settings have _ for dots."""
        topic_id = self.topic_id(name)
        configs = [ConfigRecord(2, name, key.replace("_", "."), value) for key, value in settings.items()]
        replicas = [NODE_ID, *followers]
        records = [PartitionRecord(at, topic_id, replicas, replicas, leader=leader, leader_epoch=0) for at in range(partitions)]
        self.image.apply_all([TopicRecord(name, topic_id), *configs, *records])
        return topic_id

    @staticmethod
    def topic_id(name: str) -> bytes:
        return name.encode().ljust(16, b".")[:16]

    def delete_topic(self, name: str) -> None:
        self.image.apply(RemoveTopicRecord(self.topic_id(name)))

    def replica(self, topic: str = "t", index: int = 0) -> Replica:
        """A replica that the broker has."""
        replica = self.replicas.get(topic, index)
        assert replica is not None
        return replica

    def elect(self, name: str, leader: int, index: int = 0) -> None:
        """Another leader, and so the next leader epoch."""
        self.image.apply(PartitionChangeRecord(index, self.topic_id(name), leader=leader))

    def change_isr(self, name: str, isr: Sequence[int], index: int = 0) -> None:
        """Other replicas are in sync."""
        self.image.apply(PartitionChangeRecord(index, self.topic_id(name), isr=list(isr)))

    def request(self, api_version: int, api_key: int = 0, session: Session | None = None) -> Request:
        """A request of this version as its handler sees it, the first of its session where none is given."""
        return Request(self.context, session or self.session(), api_key, api_version, 1, "client")

    @staticmethod
    def session() -> Session:
        """Somebody who has just connected."""
        return Session(LISTENER, "127.0.0.1")


class FakeTransport(asyncio.Transport):
    """Takes bytes until `full`; then holds them back until `drain`, as a slow peer's socket would."""

    def __init__(self, peer: tuple[str, int] = ("10.0.0.1", 4321)) -> None:
        super().__init__({"peername": peer, "sslcontext": object()})  # not plain, so nothing goes by the descriptor
        self.sent = b""
        self.writes = 0
        self.held = b""
        self.full = False
        self.reading = True
        self.closed = False
        self.aborted = False
        self.high = 0
        self.protocol: Any = None

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high = high or 0

    def get_write_buffer_size(self) -> int:
        return len(self.held)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed, "written to after close"
        self.writes += 1
        if not self.full:
            self.sent += data
            return
        self.held += data
        if len(self.held) > self.high:
            self.protocol.pause_writing()

    def drain(self) -> None:
        """The peer read all that was held back."""
        held, self.held = self.held, b""
        self.sent += held
        if len(held) > self.high:
            self.protocol.resume_writing()

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True

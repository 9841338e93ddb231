"""A controller on a disk in memory, also on one that holds what Apache Kafka wrote (tests/kafka_directories.py)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from random import Random
from types import SimpleNamespace
from typing import Any, TypeVar

from ottla.log.config import LogConfig
from ottla.log.management.manager import LogManager
from ottla.server.base.clock import Turns
from ottla.server.base.network import OsNetwork
from ottla.server.metadata.controller_settings import current_settings
from ottla.server.metadata.image import Endpoint, MetadataImage
from ottla.server.metadata.opening import open_standalone
from ottla.server.metadata.operation import Outcome, Planning
from ottla.server.metadata.standalone import StandaloneController
from ottla.server.metadata.standalone_cluster import StandaloneCluster
from ottla.server.requests.kept_answers import KeptAnswers
from ottla.server.requests.long_answers import LongAnswers
from ottla.server.requests.request import Request
from ottla.server.requests.session import Session
from ottla.server.settings.broker_config import BrokerConfig
from ottla.server.txn.producer_ids import ProducerIds
from tests.kafka_directories import kafka_files
from tests.memdisk import MemDisk

T = TypeVar("T")
NOW_MS = 1_800_000_000_000
CLUSTER_ID = "AAECAwQFBgcICQoLDA0ODw"
DIRECTORY = "/data"
METADATA = f"{DIRECTORY}/__cluster_metadata-0"
ENDPOINT = Endpoint("PLAINTEXT", "broker.test", 9092, 0)


class Handle:
    """A callback that can be cancelled."""

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None


class StillClock:
    """Stands still; `run` runs what was asked for, however much later it was to be."""

    def __init__(self) -> None:
        self._handles: list[Handle] = []
        self.turns = Turns(lambda end_round: None)  # time stands still, so no round is ever spent

    def now_ms(self) -> int:
        return NOW_MS

    def monotonic(self) -> float:
        return 0.0

    def ticks_ns(self) -> int:
        return round(self.monotonic() * 1_000_000_000)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Handle:
        self._handles.append(Handle(callback))
        return self._handles[-1]

    def call_pass(self, name: str, seconds: float, callback: Callable[[], object]) -> Handle:
        return self.call_later(seconds, callback)

    def run(self) -> int:
        """Returns how many callbacks ran."""
        due, self._handles = [h.callback for h in self._handles if h.callback is not None], []
        for callback in due:
            callback()
        return len(due)


def at_once(operation: Coroutine[Any, Any, T]) -> T:
    """Returns what a coroutine returns that waits for nothing; with or without a running event loop."""
    try:
        operation.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError(f"{operation} waits for something")


def in_turns(operation: Coroutine[Any, Any, T]) -> T:
    """Returns what a coroutine returns that waits for nothing but turns of the event loop, of which it needs none."""
    while True:
        try:
            operation.send(None)
        except StopIteration as done:
            result: T = done.value
            return result


def planned(planning: Planning[T]) -> Outcome[T]:
    """Returns the outcome of a planning that nobody comes in between."""
    while True:
        try:
            next(planning)
        except StopIteration as end:
            outcome: Outcome[T] = end.value
            return outcome


class Node:
    """One broker's metadata half. `start` after each stop; `kill` is kill -9, `power_cut` takes what was not synced."""

    def __init__(self, **settings: str) -> None:
        self.disk = MemDisk()
        self.clock: Any = StillClock()
        self.random = Random(1)
        self.log_random = Random(2)  # one for all starts: names of deleted directories are drawn
        texts = {"node.id": "1", "log.dirs": DIRECTORY} | {name.replace("_", "."): text for name, text in settings.items()}
        self.config, unknown = BrokerConfig.from_mapping(texts)
        assert not unknown
        self.logs: LogManager | None = None
        self.cluster: StandaloneCluster
        self.controller: StandaloneController
        self.quotas: Any = None
        self.authorizer: Any = None

    def start(self) -> StandaloneController:
        """Formats, opens, registers: what Broker.start does."""
        values = self.config.values
        self.logs = LogManager(
            self.disk,
            self.config.log_dirs,
            self.clock.now_ms,
            LogConfig.from_overrides({}, values),
            metadata_dir=self.config.metadata_log_dir,
            random=self.log_random,
        )
        self.logs.lock()
        self.logs.format(CLUSTER_ID, self.config.node_id)
        self.logs.open_all()
        self.cluster = open_standalone(self.logs, self.disk, self.config, CLUSTER_ID, self.clock, self.random, OsNetwork())
        self.controller = self.cluster.controller
        at_once(self.cluster.register([ENDPOINT], rack=self.config.rack))
        return self.controller

    def stop(self) -> None:
        assert self.logs is not None
        at_once(self.cluster.leave())
        self.logs.close()

    def kill(self) -> None:
        assert self.logs is not None
        self.logs.close(clean=False)

    def power_cut(self, random: Random | None = None) -> None:
        self.disk.crash(random)

    @property
    def image(self) -> MetadataImage:
        return self.controller.image

    def context(self, api_version: int, listener: str = "PLAINTEXT") -> Request:
        """A request of this version, as a handler sees it."""
        broker: Any = SimpleNamespace(
            quotas=self.quotas,
            authorizer=self.authorizer,
            clock=self.clock,
            config=self.config,
            settings=current_settings(self.config, self.image),
            metadata=self.image,
            controller=self.controller,
            replicas=SimpleNamespace(settled_soon=lambda: None, deleted=lambda: None),
            producer_ids=ProducerIds(self.controller),
            kept_answers=KeptAnswers(),
            long_answers=LongAnswers(self.config.values["ottla.response.max.bytes"]),
        )
        return Request(broker, Session(listener, "127.0.0.1"), 0, api_version, 1, "client")


def write_kafka_directory(disk: MemDisk, name: str) -> None:
    """Puts what Kafka wrote on the disk, synced."""
    disk.makedirs(METADATA)
    for path, data in kafka_files(name).items():
        disk.write_bytes(f"{DIRECTORY}/{path}", data)
    disk.sync_dir(DIRECTORY)
    disk.sync_dir("/")


def dump(image: MetadataImage) -> dict[str, Any]:
    """Everything that records made of it, to compare."""
    return {
        "brokers": image.brokers,
        "topics": {name: (topic.topic_id, topic.partitions) for name, topic in image.topics.items()},
        "by id": {topic_id: topic.name for topic_id, topic in image.topics_by_id.items()},
        "configs": image.configs,
        "features": image.features,
        "next producer id": image.next_producer_id,
        "highest offset": image.highest_offset,
        "kept": image.kept,
    }

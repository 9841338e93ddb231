"""A broker with groups that are stuck, or well: clients in threads, and the verdict on each as the console gets it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import ottla.testing
from ottla.commands.clients.client import Cluster
from ottla.commands.output import Failure
from ottla.commands.why.facts import GroupFacts
from ottla.commands.why.gathering import Asked, gather
from ottla.commands.why.verdicts import Verdict, judge
from ottla.server.inspect.questions import QUESTIONS
from ottla.server.inspect.subject import BadQuestion, NoSuch, Subject

WATCH_S: Final = 0.5
PATIENCE_S: Final = 0.6
QUICK: Final[dict[str, Any]] = {
    "auto.offset.reset": "earliest",
    "auto.commit.interval.ms": 100,
    "fetch.wait.max.ms": 50,
    "fetch.error.backoff.ms": 50,
    "heartbeat.interval.ms": 100,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 50,
    "topic.metadata.refresh.interval.ms": 1000,
}

HEARTBEATS: Final[dict[str, Any]] = {
    f"group_{kind}_{least}heartbeat_interval_ms": 100 for kind in ("consumer", "streams") for least in ("", "min_")
}
"""The settings with which members learn what the broker assigns in a tenth of a second, not in 5 s."""


def until(holds: Callable[[], object], what: str, seconds: float = 20) -> None:
    """Waits until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"never happened: {what}"
        time.sleep(0.02)


class Inside:
    """Asks a broker in this process what the console that it runs would ask over its socket."""

    def __init__(self, broker: ottla.testing.Broker) -> None:
        kit, loop = broker._kit, broker._loop
        assert kit is not None
        assert loop is not None
        self._loop = loop
        self._subject = Subject(lambda: kit.lives.broker, kit.clock)

    def ask(self, question: str, **arguments: Any) -> Any:
        async def answer() -> Any:
            return QUESTIONS[question](self._subject, **arguments)

        try:
            return asyncio.run_coroutine_threadsafe(answer(), self._loop).result(10)
        except (NoSuch, BadQuestion) as error:
            raise Failure(str(error)) from error


class Reader:
    """A consumer that polls in a thread of its own, for as long as it is not `busy`."""

    def __init__(self, settings: dict[str, Any], topics: list[str], *, handle_s: float) -> None:
        self.consumer = Consumer(settings)
        self.read = 0
        self.errors: list[KafkaError] = []
        self._handle_s = handle_s
        self._stops, self._busy = threading.Event(), threading.Event()
        self.has_partitions = threading.Event()
        """Is told by a callback: to ask a consumer that another thread polls can block both, with the broker in this process."""
        if topics:
            self.consumer.subscribe(topics, on_assign=self._note, on_revoke=lambda *_: None)
        self._calls: list[Callable[[Consumer], object]] = []
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def _note(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        if partitions:
            self.has_partitions.set()

    def _poll(self) -> None:
        while not self._stops.is_set():
            while self._calls:
                self._calls.pop(0)(self.consumer)
            if self._busy.is_set():
                self._stops.wait(0.02)
                continue
            message = self.consumer.poll(0.02)
            if message is None:
                continue
            error = message.error()
            if error is not None:
                self.errors.append(error)
            else:
                self.read += 1
                if self._handle_s:
                    self._stops.wait(self._handle_s)

    def do(self, call: Callable[[Consumer], object]) -> None:
        """Has the thread call something with the consumer, soon."""
        done = threading.Event()

        def run(consumer: Consumer) -> None:
            call(consumer)
            done.set()

        self._calls.append(run)
        assert done.wait(10)

    def be_busy(self) -> None:
        self._busy.set()

    def close(self) -> None:
        self._stops.set()
        self._thread.join(20)
        self.consumer.close()


class World:
    """A broker and its clients, which end with it."""

    def __init__(self, **settings: Any) -> None:
        self.broker = ottla.testing.Broker(auto_create_topics_enable=False, **HEARTBEATS, **settings)
        self._readers: list[Reader] = []
        self.closing: list[Callable[[], object]] = []

    def __enter__(self) -> Self:
        self.broker.start()
        self.bootstrap = self.broker.bootstrap
        self.cluster = Cluster({"bootstrap.servers": self.bootstrap})
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap})
        self.inside = Inside(self.broker)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        threads = [threading.Thread(target=each) for each in [*self.closing, *(reader.close for reader in self._readers)]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        self.broker.stop()

    def topic(self, name: str, partitions: int = 1, **settings: str) -> str:
        config = {key.replace("_", "."): value for key, value in settings.items()}
        self.admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(30)
        return name

    def produce(self, topic: str, count: int = 10, *, partition: int = 0, size: int = 10, key: str | None = None) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 0, "message.max.bytes": 4_000_000})
        for number in range(count):
            producer.produce(topic, (str(number) * size)[:size], key, partition=partition)
        assert producer.flush(30) == 0

    def transaction(self, name: str, topic: str, count: int = 1, *, end: str | None = "commit") -> Producer:
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": name, "linger.ms": 0})
        producer.init_transactions(20)
        producer.begin_transaction()
        for number in range(count):
            producer.produce(topic, str(number), partition=0)
        producer.flush(20)
        if end == "commit":
            producer.commit_transaction(20)
        elif end == "abort":
            producer.abort_transaction(20)
        else:
            self.closing.append(lambda: producer.abort_transaction(20))
        return producer

    def reader(self, group: str, *topics: str, handle_s: float = 0, waits: bool = True, **settings: Any) -> Reader:
        """Starts a member, and waits until it has something, if it is said to."""
        given = {**QUICK, "bootstrap.servers": self.bootstrap, "group.id": group, "client.id": f"{group}-client"}
        given |= {key.replace("_", "."): value for key, value in settings.items()}
        if given.get("group.protocol") == "consumer":
            del given["heartbeat.interval.ms"]
        reader = Reader(given, list(topics), handle_s=handle_s)
        self._readers.append(reader)
        if waits:
            assert reader.has_partitions.wait(20), f"{group} has got no partitions"
        return reader

    def commit(self, group: str, topic: str, offset: int, partition: int = 0) -> None:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group})
        consumer.commit(offsets=[TopicPartition(topic, partition, offset)], asynchronous=False)
        consumer.close()

    def committed(self, group: str, topic: str, partition: int = 0) -> int | None:
        """Returns what is committed, by the broker's own look at it."""
        try:
            offsets = self.inside.ask("group", name=group)["offsets"]
        except Failure:
            return None
        found = [each["offset"] for each in offsets if (each["topic"], each["partition"]) == (topic, partition)]
        return found[0] if found else None

    def until_committed(self, group: str, topic: str, offset: int, partition: int = 0) -> None:
        until(lambda: self.committed(group, topic, partition) == offset, f"{group} has committed {offset}")

    def facts(self, group: str, watch_s: float = WATCH_S, *, has_inside: bool = True) -> GroupFacts:
        ours = self.cluster.admin()
        asked = Asked(
            self.cluster,
            ours,
            self.cluster.reach(ours),
            threading.Event().wait,
            lambda: int(time.time() * 1000),
            self.inside.ask if has_inside else None,
            PATIENCE_S,
        )
        return gather(asked, group, watch_s)

    def verdict_once(self, group: str, reason: str, watch_s: float = WATCH_S) -> Verdict:
        """Returns the first verdict for this reason, or after a while the last one. In a watch of half a second on a late machine
        a member may not fetch at all, which is a reason of its own."""
        end = time.monotonic() + 20
        verdict = self.verdict(group, watch_s)
        while verdict.reason != reason and time.monotonic() < end:
            verdict = self.verdict(group, watch_s)
        return verdict

    def verdict(self, group: str, watch_s: float = WATCH_S, *, has_inside: bool = True) -> Verdict:
        return judge(self.facts(group, watch_s, has_inside=has_inside))

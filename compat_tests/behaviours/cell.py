"""One scenario with one client: a broker of its own, and what can be seen from both sides."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

import ottla.testing
from compat_tests.behaviours.driver import Answer, Driver
from ottla.server.testkit.python.handles import Fault
from ottla.wire.errors import ErrorCode

TOPIC: Final = "topic"
GROUP: Final = "group"
SECONDS: Final = 15.0
"""The time that a client has for what a scenario asks of it."""
CLOSE_SECONDS: Final = 3.0
TIMES: Final = ((1.7, ""), (4.5, " after 2 to 4 s"), (6.6, " after 5 to 6 s"))
LONG: Final = " after 7 s or more"


class Cell:
    """The client, its broker with the topic `topic`, and what this scenario does to them."""

    def __init__(self, client: str, driver: Driver, broker: ottla.testing.Broker) -> None:
        self.client = client
        self.driver = driver
        self.broker = broker
        self._open: set[str] = set()
        self._unique = uuid.uuid4().hex[:6]
        self._faults: list[Fault] = []

    # The broker

    def fault(self, **given: Any) -> Fault:
        """Installs a fault."""
        fault = self.broker.fault(**given)
        self._faults.append(fault)
        return fault

    def count(self, **given: Any) -> Fault:
        """Counts requests from now on."""
        return self.fault(observe=True, **given)

    def remove_faults(self) -> None:
        for fault in self._faults:
            with contextlib.suppress(ValueError):  # it is gone already
                fault.remove()
        self._faults.clear()

    def seed(self, *values: str, partition: int = 0) -> None:
        """Writes records with another client, as one batch: the flush ends the linger."""
        producer = Producer({"bootstrap.servers": self.broker.bootstrap, "log_level": 0, "linger.ms": 5000})
        for value in values:
            producer.produce(TOPIC, value.encode(), partition=partition)
        assert producer.flush(SECONDS) == 0

    def log(self, *, committed: bool = False) -> list[str]:
        """Returns the values that the topic has, or those that are committed, read by another client."""
        isolation = "read_committed" if committed else "read_uncommitted"
        settings: dict[str, Any] = {
            "group.id": "reader",
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "log_level": 0,
        }
        settings |= {"fetch.wait.max.ms": 10, "enable.auto.commit": False}
        consumer = Consumer({"bootstrap.servers": self.broker.bootstrap, **settings})
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        found: list[str] = []
        while True:
            message = consumer.poll(SECONDS)
            assert message is not None, "the reader gets no answer"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                consumer.close()
                return found
            value = message.value()
            assert value is not None
            found.append(bytes(value).decode())

    def committed(self) -> int:
        """The offset that the group has committed, below 0 if none."""
        consumer = Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": GROUP, "log_level": 0})
        [found] = consumer.committed([TopicPartition(TOPIC, 0)], SECONDS)
        consumer.close()
        return found.offset

    # The client

    def producer(self, name: str = "p", seconds: float = SECONDS, **settings: Any) -> Answer:
        self._open.add(name)
        return self.driver.call("producer", seconds, of=self.of(name), bootstrap=self.broker.bootstrap, settings=settings)

    def send(self, *values: str, of: str = "p", seconds: float = SECONDS) -> Answer:
        return self.driver.call("send", seconds, of=self.of(of), topic=TOPIC, values=values)

    def end(self, how: str, of: str = "p", seconds: float = SECONDS) -> Answer:
        """Does "begin", "commit" or "abort"."""
        return self.driver.call(how, seconds, of=self.of(of))

    def consumer(self, name: str = "c", **settings: Any) -> Answer:
        self._open.add(name)
        asked = {"of": self.of(name), "bootstrap": self.broker.bootstrap, "topic": TOPIC, "settings": settings}
        return self.driver.call("consumer", SECONDS, **asked)

    def close(self, *names: str, seconds: float = CLOSE_SECONDS) -> bool:
        """Closes what is open, or what is named; whether that is done in time."""
        wanted = names or sorted(self._open)
        self._open.difference_update(wanted)
        calls = [self.driver.begin("close", of=self.of(name)) for name in wanted]
        return not [True for call in calls if self.driver.wait(call, seconds).hangs]

    def of(self, name: str) -> str:
        """The name for the driver, which serves many cells."""
        return f"{name}-{self._unique}"

    def events(self, of: str = "c") -> list[dict[str, Any]]:
        """Returns what a consumer has said so far."""
        return self.driver.events(self.of(of))

    def records(self, of: str = "c") -> list[str]:
        return [event["value"] for event in self.events(of) if event["event"] == "record"]

    def errors(self, of: str = "c", during: str | None = None) -> list[str]:
        """The errors that a consumer was told, without repetitions."""
        found = [event for event in self.events(of) if event["event"] == "error"]
        return list(dict.fromkeys(named(event) for event in found if during in (None, event["while"])))

    def assigned(self, of: str = "c") -> set[int]:
        """The partitions that a member has."""
        owned: set[int] = set()
        for event in self.events(of):
            if event["event"] == "assigned":
                owned.update(event["partitions"] or ())
            elif event["event"] == "revoked":
                owned.difference_update(event["partitions"] or ())
        return owned

    def wait(self, condition: Callable[[], bool], seconds: float = SECONDS) -> bool:
        """Waits for what consumers say."""
        return self.driver.wait_for(condition, seconds)

    def wait_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Waits for what the broker counts, too, which nobody reports: looks ten times a second."""
        until = self.seconds() + seconds
        while not condition():
            if self.seconds() > until:
                return False
            self.driver.wait_for(lambda: False, 0.1)
        return True

    @staticmethod
    def seconds() -> float:
        """The time, to take the difference of."""
        return time.monotonic()


def named(error: dict[str, Any]) -> str:
    """An error as the client calls it; where it has only a number, with Kafka's name."""
    name, code = str(error["error"]), error.get("code")
    if name == "sarama.KError" and code is not None:
        name = f"{name} {ErrorCode(code).name}"
    if name == "error":
        return "an error without a name"
    if error.get("said"):
        name = f"{name} {error['said']}"
    return f"`{name}`"


def outcome(answer: Answer, good: str) -> str:
    """Returns what became of a call, in words: `good` if it succeeded."""
    if answer.hangs:
        return f"no answer within {SECONDS:.0f} s"
    if answer.error is not None:
        return named(answer.error)
    return good


def after(seconds: float) -> str:
    """Returns how long something took, coarsely; nothing if it was quick."""
    return next((words for most, words in TIMES if seconds < most), LONG)


def counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


@contextlib.contextmanager
def cell_of(client: str, driver: Driver, partitions: int = 1) -> Iterator[Cell]:
    """A cell with a broker; both are gone at the end, and so is what the client had open."""
    settings: dict[str, Any] = {"group_min_session_timeout_ms": 500, "log_retention_check_interval_ms": 3_600_000}
    with ottla.testing.Broker(seed=1, **settings) as broker:
        broker.create_topic(TOPIC, partitions=partitions)
        cell = Cell(client, driver, broker)
        try:
            yield cell
        finally:
            cell.remove_faults()
            if not driver.over:
                cell.close()

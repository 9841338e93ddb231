"""Work that coordinators have part in, and that goes on while something is done to them.

A work has a topic of its own, to which numbers are written, and something that works them off: the members of a group, or
copiers with transactions. Each work says what a coordinator must never do to it: lose a commit that it acknowledged, have a
record processed again that was done with, or make the members share the partitions anew for no reason.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

from confluent_kafka import KafkaException, Producer

from compat_tests.cluster.coordinators import Coordinators, Described
from compat_tests.cluster.mixed import Mixed
from compat_tests.cluster.traffic import QUIET
from compat_tests.waiting import wait_for

PARTITIONS: Final = 3
SPREAD: Final = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
"""Replicas of the works' topics: each broker leads a partition."""
PATIENCE_S: Final = 120.0
"""The time that a piece of work may take, on a machine that may be busy with other things."""
PACE_S: Final = 0.01
"""From one record to the next, at least."""
MOST_WAITING: Final = 30
"""So many records at most are written and not worked off."""
PASSING: Final = frozenset(
    (
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
        "REQUEST_TIMED_OUT",
        "_TIMED_OUT",
        "_TRANSPORT",
        "_WAIT_COORD",
    )
)
"""The errors that a client may get while its coordinator moves; it tries again."""

Position = tuple[int, int]
"""Partition and offset of a record."""
Noted = Mapping[Any, int]
"""The acknowledged work at some time, in terms of one kind of work."""


class Work(ABC):
    """One kind of work in a cluster: `begin`, and then `feed`, `wait_for` and `stop_feeding` as often as wanted. After that,
    `faults` says what is wrong, and `outcome` what must be the same whoever coordinates. `end` comes last."""

    kind: ClassVar[str]
    members = 2
    """So many share the work."""
    shares = 3
    """So many partitions or tasks at least do they share."""

    def __init__(self, cluster: Mixed) -> None:
        self.cluster = cluster
        self.coordinators = Coordinators(cluster)
        self.fed = 0
        self.told: Counter[str] = Counter()
        """Errors that clients were told and that passed, by name."""
        self._stop, self._stop_feeding = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._feeding: threading.Thread | None = None
        self._wrong: list[BaseException] = []
        self._before = Described("", 0, ())

    @property
    def topic(self) -> str:
        return f"{self.kind}-in"

    @property
    @abstractmethod
    def done(self) -> int:
        """The number of records that are worked off, as a coordinator has acknowledged."""

    @abstractmethod
    def open(self) -> None:
        """Makes members or copiers, which begin to work."""

    @abstractmethod
    def described(self) -> Described:
        """Describes the group whose members share the work."""

    @abstractmethod
    def faults(self) -> list[str]:
        """Returns what is wrong, when all is worked off."""

    def noted(self) -> Noted:
        """Returns what has been acknowledged until now; nothing, if `lost` cannot say more than `faults` in the end."""
        return {}

    def lost(self, noted: Noted) -> list[str]:
        """Returns what the coordinator does not have of that any more."""
        return []

    def outcome(self) -> dict[str, object]:
        """Returns what must be the same whoever coordinates."""
        now = self.described()
        return {"state": now.state, "shares": now.shares, "epochs": now.epoch - self._before.epoch}

    def ends(self) -> dict[tuple[str, int], int]:
        """Returns the ends of the topic's partitions, when all is written."""
        return {(self.topic, index): len(range(index, self.fed, PARTITIONS)) for index in range(PARTITIONS)}

    def behind(self, offsets: Mapping[tuple[str, int], int]) -> dict[int, int]:
        """Returns how far a group's offsets are behind the ends, by partition."""
        return {index: end - offsets.get((topic, index), 0) for (topic, index), end in self.ends().items()}

    def value(self, number: int) -> str:
        return str(number)

    def begin(self) -> None:
        """Begins, and waits until the members have shared the partitions."""
        self.cluster.create(self.topic, SPREAD)
        self.open()
        self.settle()

    def settle(self) -> None:
        """Waits until the group is stable, and takes its epoch as that to count from."""
        last: Described | None = None

        def is_stable() -> bool:
            nonlocal last
            self.raise_failure()
            before, last = last, self.described()
            is_shared = len(last.shares) == self.members and sum(last.shares) >= self.shares and all(last.shares)
            return last == before and last.state == "Stable" and is_shared

        wait_for(is_stable, lambda: f"{self.kind}: {last}\n{self.cluster.tails()}", PATIENCE_S)
        assert last is not None
        self._before = last

    def feed(self) -> None:
        """Begins to write records, one by one, until `stop_feeding`."""
        assert self._feeding is None
        self._stop_feeding.clear()
        self._feeding = self._spawn(self._feed)

    def stop_feeding(self) -> None:
        """Returns when all that is written is acknowledged."""
        self._stop_feeding.set()
        if self._feeding is not None:
            self._feeding.join()
            self._feeding = None
        self.raise_failure()

    def wait_for(self, wanted: int) -> None:
        """Waits until so many records are worked off."""

        def is_done() -> bool:
            self.raise_failure()
            return self.done >= wanted

        wait_for(is_done, lambda: f"{self.kind}: {self.done} of {self.fed} are done, {wanted} wanted, {self.told}", PATIENCE_S)

    def end(self) -> None:
        """Ends all that runs. Nothing is raised, so that it may be called after a failure."""
        self._stop.set()
        self._stop_feeding.set()
        for thread in self._threads:
            thread.join()

    def raise_failure(self) -> None:
        if self._wrong:
            raise AssertionError(f"{self.kind}: {self._wrong[0]!r}") from self._wrong[0]

    def _spawn(self, run: Callable[[], None]) -> threading.Thread:
        def guarded() -> None:
            try:
                run()
            except BaseException as error:  # noqa: BLE001 - raised again where the work is waited for
                self._wrong.append(error)

        thread = threading.Thread(target=guarded, name=self.kind, daemon=True)
        thread.start()
        self._threads.append(thread)
        return thread

    def _feed(self) -> None:
        # With more in flight, librdkafka sends the next ones to a new leader before it knows what the last one took of those
        # before them. That leader refuses the gap, and the client begins a new epoch and writes them a second time.
        one = {"max.in.flight.requests.per.connection": 1}
        producer = Producer(
            {"bootstrap.servers": self.cluster.bootstrap, "enable.idempotence": True, "reconnect.backoff.max.ms": 200} | one,
            logger=QUIET,
        )
        failed: list[str] = []
        while not self._stop_feeding.is_set():
            if self.fed - self.done >= MOST_WAITING:
                producer.poll(PACE_S)
                continue
            producer.produce(
                self.topic,
                self.value(self.fed),
                partition=self.fed % PARTITIONS,
                on_delivery=lambda error, _: failed.append(str(error)) if error else None,
            )
            self.fed += 1
            producer.poll(PACE_S)
        left = producer.flush(PATIENCE_S)
        assert not failed, f"records were given up: {failed[0]}"
        assert not left, f"{left} records were not acknowledged"


def counted(what: str, found: Sequence[object]) -> list[str]:
    """Returns a line about what was found, or none if nothing was."""
    return [f"{len(found)} {what}, the first is {found[0]}"] if found else []


def passes(error: KafkaException, told: Counter[str]) -> bool:
    """Counts what a client was told; returns whether it passes."""
    failure = error.args[0]
    told[failure.name()] += 1
    return bool(failure.retriable()) or failure.name() in PASSING

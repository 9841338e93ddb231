"""Transactions at work: copiers, and a Kafka Streams application that counts words exactly once, as a streams group
(KIP-1071) or as a classic one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from random import Random
from typing import ClassVar, Final

from confluent_kafka import Consumer, TopicPartition

from compat_tests.cluster.coordinators import Described
from compat_tests.cluster.copying import Copier, committed_values
from compat_tests.cluster.mixed import Mixed
from compat_tests.cluster.traffic import QUIET
from compat_tests.cluster.work import PARTITIONS, PATIENCE_S, SPREAD, Work, counted
from compat_tests.java_client import compiled
from compat_tests.java_process import JavaProcess
from compat_tests.word_count import APPLICATION, JARS, WORDS, settings

A_TRANSACTION: Final = 10
"""So many records at most."""
WORDS_A_LINE: Final = 4
_COMPLETE: Final = "CompleteCommit"


class Copies(Work):
    """Copiers that each copy everything, one as the member of a group for each of `protocols`."""

    kind = "transactions"

    def __init__(self, cluster: Mixed, protocols: Sequence[str]) -> None:
        super().__init__(cluster)
        self.protocols = protocols
        self.members, self.shares = len(protocols), len(protocols) * PARTITIONS
        self.copiers: list[Copier] = []

    @property
    def target(self) -> str:
        return f"{self.kind}-out"

    def open(self) -> None:
        self.cluster.create(self.target, SPREAD)
        for protocol in self.protocols:
            copier = Copier(self.cluster, self.topic, self.target, f"{self.kind}-{protocol}", protocol, self.told)
            self.copiers.append(copier)
            self._spawn(partial(self._run, copier))

    def _run(self, copier: Copier) -> None:
        try:
            while not self._stop.is_set():
                copier.copy(A_TRANSACTION, 0.1)
        finally:
            copier.close()

    def described(self) -> Described:
        """Describes both groups as one."""
        found = [self.coordinators.described(*each) for each in zip(self.protocols, self._groups(), strict=True)]
        states = {each.state for each in found}
        shares = tuple(share for each in found for share in each.shares) if all(each.shares for each in found) else (0,)
        return Described("/".join(sorted(states)), sum(each.epoch for each in found), shares)

    def _groups(self) -> list[str]:
        return [copier.group for copier in self.copiers]

    @property
    def done(self) -> int:
        return min(copier.copied for copier in self.copiers)

    def faults(self) -> list[str]:
        """See Work."""
        found = committed_values(self.cluster, self.target, PARTITIONS)
        wanted = {number: len(self.copiers) for number in range(self.fed)}
        lost = sorted(number for number, count in wanted.items() if found[number] < count)
        doubled = sorted(number for number, count in found.items() if count > wanted.get(number, 0))
        return [
            f"{self.kind}: {each}" for each in counted("records are lost", lost) + counted("records are there too often", doubled)
        ]

    def outcome(self) -> dict[str, object]:
        """See Work."""
        behind = {group: self.behind(self.coordinators.committed(group, stable=True)) for group in self._groups()}
        known = {copier.group.removeprefix(f"{self.topic}-") for copier in self.copiers}
        states = {name: state for name, state in self.coordinators.transactions().items() if name in known}
        return {**super().outcome(), "behind": behind, "transactions": states}


class WordCounting(Work):
    """An instance of the word count with two threads. Of each word, the counts 1, 2, ... n are what a reader must see."""

    kind = "streams"
    protocol: ClassVar = "streams"
    """Of the group: streams or classic."""
    shares = 2 * PARTITIONS
    """Lines are read by one subtopology, and words counted by the other."""

    def __init__(self, cluster: Mixed, directory: Path) -> None:
        super().__init__(cluster)
        self._directory = directory
        self._random = Random(1071)
        self._words: Counter[str] = Counter()
        self._counts: dict[str, list[int]] = defaultdict(list)
        self._count = 0
        self._process: JavaProcess | None = None

    @property
    def topic(self) -> str:
        return "lines"

    def value(self, number: int) -> str:
        words = self._random.choices(WORDS, k=WORDS_A_LINE)
        self._words.update(words)
        return " ".join(words)

    def open(self) -> None:
        self.cluster.create("counts", SPREAD)
        self._directory.mkdir(parents=True, exist_ok=True)
        compiled(self._directory, "WordCount", JARS)
        self._start()
        self._spawn(self._read)

    def _start(self) -> None:
        where = [self.cluster.bootstrap, APPLICATION, str(self._directory / "state")]
        # a machine that is busy with other things may take longer for a transaction than the 10 s of Streams
        own = [*settings(self.protocol), "producer.transaction.timeout.ms=60000"]
        log = self._directory / "streams.log"
        self._process = JavaProcess(JARS, "WordCount", *where, *own, log=log, classes=self._directory)
        self._process.wait_for_text("state RUNNING", PATIENCE_S)

    def kill_application(self) -> None:
        """Kills the application (kill -9) and starts it again, until its threads have the tasks of those that were killed, which
        are missed after their session."""
        self._end_process()
        self._start()
        self.settle()

    def _end_process(self) -> None:
        if self._process is not None:
            with redirect_stdout(StringIO()), self._process:  # what it has said is in the failure, if there is one
                self._process.kill()
            self._process = None

    def _read(self) -> None:
        consumer = Consumer(
            {"bootstrap.servers": self.cluster.bootstrap, "group.id": "unused", "isolation.level": "read_committed"}
            | {"reconnect.backoff.max.ms": 200},
            logger=QUIET,
        )
        consumer.assign([TopicPartition("counts", index, 0) for index in range(PARTITIONS)])
        while not self._stop.is_set():
            for message in consumer.consume(500, 0.2):
                if message.error() is None:
                    self._counts[(message.key() or b"").decode()].append(int(message.value() or b""))
                    self._count += 1
        consumer.close()

    def described(self) -> Described:
        return self.coordinators.described(self.protocol, APPLICATION)

    @property
    def done(self) -> int:
        return self._count // WORDS_A_LINE

    def raise_failure(self) -> None:
        """See Work. The application may have ended, too."""
        super().raise_failure()
        assert self._process is None or self._stop.is_set() or not self._process.over, self._process.tail()

    def faults(self) -> list[str]:
        """See Work."""
        wrong = sorted(word for word, count in self._words.items() if self._counts[word] != list(range(1, count + 1)))
        return [f"{self.kind}: {len(wrong)} words were miscounted, {wrong[0]}: {self._counts[wrong[0]]}"] if wrong else []

    def outcome(self) -> dict[str, object]:
        """See Work."""
        return {**super().outcome(), "behind": self.behind(self.coordinators.committed(APPLICATION, stable=True))}

    def end(self) -> None:
        """See Work."""
        super().end()
        if self._process is not None:
            self._process.stop()
            self._end_process()


class ClassicWordCounting(WordCounting):
    """The same as a classic group, whose leader shares the tasks. Not beside the other: both have the same topics."""

    kind = "classic-streams"
    protocol = "classic"

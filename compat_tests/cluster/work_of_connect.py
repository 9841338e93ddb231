"""Kafka Connect at work: two workers in distributed mode, of which one reads a file that grows into a topic, and one writes the
topic into another file.

Connect promises that a line comes at least once to the other file, and at least once to the topic; with
exactly.once.source.support, exactly once to the topic.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, ClassVar, Final

from compat_tests.cluster.coordinators import Described
from compat_tests.cluster.mixed import Mixed
from compat_tests.cluster.work import PARTITIONS, PATIENCE_S, Work, counted
from compat_tests.connect import EXACTLY_ONCE, GROUP, TOPICS, Files, Refused, Worker
from compat_tests.topics import committed_records
from compat_tests.waiting import wait_for

LINES_AT_ONCE: Final = 20
MOST_LINES: Final = 1_000
"""So many lines at most are written and not through: the source looks once a second whether there are more."""
_OF_THE_SOURCE: Final = {"batch_size": str(2 * MOST_LINES)}
"""Of Kafka's FileStreamSource: lines that it has read beyond a whole batch wait until the file grows."""
AGAIN: Final = ("came to the topic again", "came to the file again")
"""The names of the lines that are there more than once, which `told` counts besides errors."""
_LOOK_S: Final = 0.2
_REPLICATED: Final = {f"{name}_storage_replication_factor": "3" for name in ("config", "offset", "status")}


class Connecting(Work):
    """Connect, with sources that may write a line again."""

    kind = "connect"
    shares = 4
    """Two connectors, and a task of each."""
    exactly_once: ClassVar = False

    def __init__(self, cluster: Mixed, directory: Path) -> None:
        super().__init__(cluster)
        self._directory = directory
        self.workers: list[Worker] = []
        self._connectors: dict[str, dict[str, str]] = {}

    def open(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        self.files = Files(self._directory, self.topic)
        support = {"exactly_once_source_support": "enabled"} if self.exactly_once else {}
        for number in range(self.members):
            place = self._directory / f"worker-{number}"
            place.mkdir()
            self.workers.append(Worker(self.cluster.bootstrap, place, **_REPLICATED, **support))
            self.workers[-1].start()
        self._connectors = self.files.connectors(**self.source_settings())
        for name, settings in self._connectors.items():
            self.workers[0].create(name, settings)
        self._spawn(self._operate)

    def source_settings(self) -> dict[str, str]:
        return _OF_THE_SOURCE | (EXACTLY_ONCE if self.exactly_once else {})

    def _operate(self) -> None:
        """Restarts tasks that have failed, as an operator does, and counts why they had."""
        while not self._stop.wait(1):
            for name in self._connectors:
                for task in self._failed(name):
                    self.told[_reason(task["trace"])] += 1

    def _failed(self, name: str) -> list[Any]:
        """Returns the tasks of a connector that have failed, and restarts them; none if no worker can be asked now."""
        for worker in self.workers:
            try:
                failed = [task for task in (worker.status(name) or {"tasks": []})["tasks"] if task["state"] == "FAILED"]
                if failed:
                    worker.restart(name, only_failed=True)
            except (Refused, OSError):  # killed, or its leader is
                continue
            return failed
        return []

    def described(self) -> Described:
        """Describes who has how many connectors and tasks, as the workers know it."""
        places: list[tuple[str, str]] = []
        for name in self._connectors:
            if (status := self._status(name)) is None:
                return Described("Unknown", -1, ())
            places += [(each["state"], each["worker_id"]) for each in (status["connector"], *status["tasks"])]
        states = "/".join(sorted({state for state, _ in places}))
        shares = sorted(Counter(worker for _, worker in places).values(), reverse=True)
        return Described("Stable" if states == "RUNNING" else states, self.coordinators.generation(GROUP), tuple(shares))

    def _status(self, name: str) -> Any:
        for worker in self.workers:
            try:
                return worker.status(name)
            except (Refused, OSError):
                continue
        return None

    @property
    def done(self) -> int:
        return len(set(self.files.sunk()))

    def _feed(self) -> None:
        while not self._stop_feeding.wait(_LOOK_S):
            if self.fed - self.done < MOST_LINES:
                self.files.write(LINES_AT_ONCE)
                self.fed = len(self.files.written)

    def kill_worker(self, number: int) -> None:
        """Kills a worker (kill -9). When a line that was written later is through without it, it is started again, until it has
        its share."""
        self.workers[number].kill()
        self.wait_for(self.fed + 1)
        self.workers[number].start()
        self.settle()

    def restart_connectors(self) -> None:
        """Has Connect restart the connectors and their tasks, until they run."""
        for name in self._connectors:
            self.workers[0].restart(name)
        self.settle()

    def faults(self) -> list[str]:
        """See Work."""
        self._wait_until_committed()
        found: dict[int, list[str]] = defaultdict(list)
        for record in committed_records(self.cluster.bootstrap, self.topic, PARTITIONS):
            found[record.partition() or 0].append((record.value() or b"").decode().strip('"'))
        return [
            f"{self.kind}: {each}" for each in (*self._wrong_in_topic(found), *self._wrong_in_file(), *self._wrong_in_state())
        ]

    def _wait_until_committed(self) -> None:
        """Waits until the source's position is the end of its file, and the sink's offsets are those of all records."""
        position: list[int] = []

        def is_read() -> bool:
            nonlocal position
            position = [each["offset"]["position"] for each in self.workers[0].offsets("source")]
            return position == [self.files.source.stat().st_size]

        wait_for(is_read, lambda: f"the source has committed {position}", PATIENCE_S)

    def _wrong_in_topic(self, found: dict[int, list[str]]) -> Iterator[str]:
        counts = Counter(line for lines in found.values() for line in lines)
        yield from counted("lines are not in the topic", sorted(set(self.files.written) - counts.keys()))
        yield from counted("lines in the topic are not of the file", sorted(counts.keys() - set(self.files.written)))
        again = sorted(line for line, count in counts.items() if count > 1)
        self.told[AGAIN[0]] = len(again)
        if self.exactly_once:
            yield from counted("lines are in the topic again", again)

    def _wrong_in_file(self) -> Iterator[str]:
        counts = Counter(self.files.sunk())
        yield from counted("lines did not come to the other file", sorted(set(self.files.written) - counts.keys()))
        self.told[AGAIN[1]] = sum(count > 1 for count in counts.values())

    def _wrong_in_state(self) -> Iterator[str]:
        worker = self.workers[0]
        for name, settings in self._connectors.items():
            known = worker.settled("GET", f"/connectors/{name}")["config"]
            if known != settings | {"name": name}:
                yield f"the settings of {name} were {settings}, and are {known}"
        topics = self.cluster.admin.list_topics(timeout=30).topics
        for name, partitions in TOPICS.items():
            if [len(each.replicas) for each in topics[name].partitions.values()] != [3] * partitions:
                yield f"{name} has not {partitions} partitions with three replicas"

    def end(self) -> None:
        """See Work."""
        super().end()
        with redirect_stdout(StringIO()):  # what they have said is in the failure, if there is one
            for worker in self.workers:
                worker.kill()


class ConnectingOnce(Connecting):
    """Connect with exactly.once.source.support: a line is in the topic exactly once."""

    kind = "connect-once"
    exactly_once = True


def _reason(trace: str) -> str:
    """Returns the exception that a stack trace began with at the bottom: the last cause, by its class."""
    lines: Sequence[str] = [line for line in trace.splitlines() if line.startswith("Caused by: ")] or trace.splitlines()[:1]
    return lines[-1].removeprefix("Caused by: ").partition(":")[0].rpartition(".")[2]

"""Works of several kinds that go on at once, and what is done to the cluster meanwhile, round after round.

In a round, records are written at a steady pace. When every work has done with some, something is done to the cluster, and the
writing goes on until every work has gone on after it. Nothing that was acknowledged before may be gone then, and the round ends
when all records are worked off.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from compat_tests.cluster.coordinators import OFFSETS, SHARES, TRANSACTIONS
from compat_tests.cluster.features import finalized
from compat_tests.cluster.mixed import Mixed
from compat_tests.cluster.work import Work
from compat_tests.cluster.work_of_connect import Connecting, ConnectingOnce
from compat_tests.cluster.work_of_groups import ClassicGroup, ConsumerGroup, ShareGroup
from compat_tests.cluster.work_of_transactions import ClassicWordCounting, Copies, WordCounting

KINDS: Final = ("classic", "consumer", "share", "streams", "transactions")
APPLICATIONS: Final[Mapping[str, type[WordCounting | Connecting]]] = {
    each.kind: each for each in (ClassicWordCounting, WordCounting, ConnectingOnce, Connecting)
}
"""Programs of Apache Kafka, by kind of work: Streams and Connect."""
KINDS_SINCE: Final = {"classic": "3.9", "consumer": "4.0", "share": "4.2", "streams": "4.2", "transactions": "3.9"}
"""With which release's features (features.py) each begins."""
SOME: Final = 10
"""So many records does every work off before something is done, and after it."""
FIRST_LEADERS: Final = {OFFSETS: 2, TRANSACTIONS: 3, SHARES: 1}
PATHS: Final = {OFFSETS: (3, 1, 3, 2), TRANSACTIONS: (1, 3, 2, 3), SHARES: (3, 2, 3, 1)}
"""The places to which the coordinators go, round after round: with Apache Kafka as node 3, each move is from the one kind to the
other, and two of the three topics change in opposite directions."""


def make_work(kind: str, cluster: Mixed, directory: Path) -> Work:
    """Returns work of a kind; `directory` is for what it keeps."""
    if kind in APPLICATIONS:
        return APPLICATIONS[kind](cluster, directory / kind)
    if kind == "transactions":
        return Copies(cluster, ["classic", "consumer"] if "group.version" in finalized(cluster, 1) else ["classic"])
    groups: dict[str, type[ClassicGroup | ConsumerGroup | ShareGroup]] = {
        "classic": ClassicGroup,
        "consumer": ConsumerGroup,
        "share": ShareGroup,
    }
    return groups[kind](cluster)


class Round(NamedTuple):
    """`seconds`: how long it took to do what was done. `done`: how many records each work has done with in the round."""

    seconds: float
    done: dict[str, int]


class Workload:
    """The works of a cluster. More may begin at any time between two rounds."""

    def __init__(self, cluster: Mixed) -> None:
        self.cluster = cluster
        self.works: dict[str, Work] = {}

    def begin(self, works: Sequence[Work]) -> None:
        for work in works:
            self.works[work.kind] = work
            work.begin()

    def round(self, action: Callable[[], None]) -> Round:
        """Does something in the middle of work. Raises AssertionError if a commit is lost, or a work does not go on."""
        works = self.works.values()
        before = {work.kind: work.done for work in works}
        for work in works:
            work.feed()
        for work in works:
            work.wait_for(before[work.kind] + SOME)
        noted = {work: work.noted() for work in works}
        began = time.monotonic()
        action()
        seconds = time.monotonic() - began
        lost = [each for work, acknowledged in noted.items() for each in work.lost(acknowledged)]
        assert not lost, lost
        self.wait_for_more()
        for work in works:
            work.stop_feeding()
        for work in works:
            work.wait_for(work.fed)
        return Round(seconds, {work.kind: work.done - before[work.kind] for work in works})

    def wait_for_more(self) -> None:
        """Waits until every work has done with some more, while records are written."""
        before = {work: work.done for work in self.works.values()}
        for work, done in before.items():
            work.wait_for(done + SOME)

    def end(self) -> None:
        """Ends all works, as after a failure, too."""
        for work in self.works.values():
            work.end()

    def finish(self) -> dict[str, dict[str, object]]:
        """Returns the outcome of each kind, and ends the works. Raises AssertionError if something is wrong with one."""
        faults = [fault for work in self.works.values() for fault in work.faults()]
        assert not faults, faults
        outcomes = {kind: work.outcome() for kind, work in self.works.items()}
        self.end()
        for work in self.works.values():
            work.raise_failure()
        return outcomes


@contextmanager
def at_work(cluster: Mixed) -> Iterator[Workload]:
    """Starts a cluster of three whose internal topics have a partition each, and ends it, and all work there."""
    load = Workload(cluster)
    try:
        cluster.start()
        for topic, leader in FIRST_LEADERS.items():
            others = [node for node in cluster.brokers if node != leader]
            cluster.create(topic, [[leader, *others]], cleanup_policy="compact", min_insync_replicas="2")
        yield load
    finally:
        try:
            load.end()
        finally:
            cluster.stop()


def move_all(cluster: Mixed, turn: int) -> None:
    """Moves all coordinators to where they are due in a turn."""
    for topic, path in PATHS.items():
        cluster.lead(topic, path[turn % len(path)])


def replace_broker(cluster: Mixed, node: int, kind: str) -> None:
    """Stops a broker in order, has one of another kind take its directory over, and waits until all replicas are in sync and each
    partition is led by its first one again."""
    cluster.take_over(node, kind)
    cluster.wait_until_whole()


def kill_broker(load: Workload, node: int) -> None:
    """Kills a broker (kill -9). When others lead all that it led, and every work has gone on without it, it is started again,
    until all replicas are in sync and each partition is led by its first one again."""
    load.cluster.brokers[node].kill()
    load.cluster.wait_until_led_without(node)
    load.wait_for_more()
    load.cluster.brokers[node].start()
    load.cluster.wait_until_whole()


class Disturbance(NamedTuple):
    """`is_kill`: whether a broker is killed, and not only something of the application."""

    said: str
    action: Callable[[], None]
    is_kill: bool = False


def disturbances(load: Workload, work: Work) -> Iterator[Disturbance]:
    """Yields what is done to an application: each broker is killed; then an application of Streams, or of Connect a worker, and
    its connectors restart."""
    for node, broker in load.cluster.brokers.items():
        yield Disturbance(f"kill of {node}, {broker.kind}", partial(kill_broker, load, node), is_kill=True)
    if isinstance(work, WordCounting):
        yield Disturbance("kill of the application", work.kill_application)
    if isinstance(work, Connecting):
        yield Disturbance("kill of a worker", partial(work.kill_worker, 0))
        yield Disturbance("restart of the connectors", work.restart_connectors)

"""The stage with three brokers of ottla and of Apache Kafka under a controller of Kafka, each in a network of its own and with a
clock of its own. All topics have three replicas and `min.insync.replicas=2`, those of the coordinators too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from compat_tests.anomalies.history import Recorder
from compat_tests.anomalies.records import Anomaly
from compat_tests.cluster.coordinators import SETTINGS
from compat_tests.cluster.mixed import CLASSES, LETTERS, Mixed
from compat_tests.cluster.networks import Networks
from compat_tests.cluster.nodes import OttlaBroker
from compat_tests.outside.clocks import Clocks
from compat_tests.outside.planting import with_fault
from compat_tests.outside.stages import Stage
from compat_tests.reference.kafka import BrokerProcess
from compat_tests.waiting import wait_for
from ottla.wire.messages.metadata import MetadataRequest

SESSION_S: Final = 4.0
"""The time for which the controller waits for a heartbeat: shorter than what befalls a broker takes in most cases (faults.py)."""
OF_RUNS: Final = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "broker.session.timeout.ms": str(round(SESSION_S * 1000)),
    "replica.lag.time.max.ms": "3000",
}
_START_S: Final = 300
_SETTLED_S: Final = 120.0
_METADATA_VERSION: Final = 9


class Cluster(Stage):
    """`letters` names the brokers, as in `ook`; `clocks` is None where no clock is moved. `planted` is the name of a fault that
    is in all brokers of ottla, if there is to be one. `more` are settings of all nodes."""

    replicas = 3

    def __init__(
        self,
        directory: Path,
        letters: str,
        networks: Networks,
        clocks: Clocks | None,
        more: Mapping[str, str],
        planted: str = "",
    ) -> None:
        settings = {**SETTINGS, **OF_RUNS, **more}
        classes = {**CLASSES, "ottla": with_fault(OttlaBroker, planted)} if planted else CLASSES
        self._mixed = Mixed(directory, [LETTERS[letter] for letter in letters], settings, networks, classes=classes)
        self.brokers = self._mixed.brokers
        self.networks, self.clocks = networks, clocks
        for node, broker in self.brokers.items():
            broker.start_timeout_s = _START_S
            if clocks is not None:
                broker.inside = (*broker.inside, *clocks.words(node))

    def _processes(self) -> Sequence[BrokerProcess]:
        return *self.brokers.values(), self._mixed.controller

    def start(self) -> None:
        self._mixed.start()
        wait_for(
            lambda: len(self._mixed.admin.list_topics(timeout=10).brokers) == len(self.brokers),
            self._mixed.tails,
            _SETTLED_S,
        )

    def stop(self) -> list[Anomaly]:
        codes = {process.directory.name: process.stop() for process in self._processes()}
        return [Anomaly("no-stop", name, f"it ended with {code}") for name, code in codes.items() if code]

    def kill(self) -> None:
        for process in self._processes():
            process.kill()

    def compare(self, recorder: Recorder) -> list[Anomaly]:
        """All replicas have to come to be in sync, and to be the same bytes; every broker has to know the same topics."""
        found = []
        for name, wait in (("out-of-sync", self._mixed.wait_for_full_isr), ("unequal", self._wait_until_equal)):
            try:
                wait(_SETTLED_S)
            except AssertionError as error:
                found.append(Anomaly(name, "replicas", str(error)))
        for node in self.brokers:
            operation = recorder.invoke(-node, "topics")
            known = self._mixed.call(node, MetadataRequest(None), _METADATA_VERSION).topics
            operation.ok(names=sorted(str(topic.name) for topic in known))
        return found

    def _wait_until_equal(self, timeout_s: float) -> None:
        """The bytes count, not where segments begin: that depends on how many batches a follower fetched at once."""
        topics = self._mixed.admin.list_topics(timeout=10).topics
        places = [(name, index, each.replicas) for name, topic in topics.items() for index, each in topic.partitions.items()]

        def log(node: int, name: str, index: int) -> bytes:
            return b"".join(self._mixed.segments(node, name, index).values())

        def different() -> list[str]:
            return [f"{name}-{index}" for name, index, nodes in places if len({log(node, name, index) for node in nodes}) > 1]

        wait_for(lambda: not different(), lambda: f"not the same at all replicas: {different()}", timeout_s)

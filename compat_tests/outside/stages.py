"""The stages on which a run plays, with what each starts, breaks and stops. `OneBroker` is here, `clusters.py` has the cluster of
three."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final

from compat_tests.anomalies.history import Recorder
from compat_tests.anomalies.records import Anomaly
from compat_tests.cluster.networks import Networks
from compat_tests.outside.clocks import Clocks
from compat_tests.reference.kafka import BrokerProcess
from compat_tests.rooms import Room

NODE: Final = 1


class Stage(ABC):
    """Brokers that do not run yet, by their ids. What is None cannot be broken: `room` is the room of the only broker, `networks`
    and `clocks` are those of the nodes of a cluster. `replicas` is how many each partition gets.
    """

    brokers: Mapping[int, BrokerProcess]
    replicas: int = 1
    room: Room | None = None
    networks: Networks | None = None
    clocks: Clocks | None = None

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    @abstractmethod
    def start(self) -> None:
        """Starts everything, and returns when clients may come. Raises BrokerFailed."""

    @abstractmethod
    def stop(self) -> list[Anomaly]:
        """Stops everything in order, and returns what did not stop as it should. Raises BrokerFailed."""

    @abstractmethod
    def kill(self) -> None:
        """Ends everything, if it runs."""

    def compare(self, recorder: Recorder) -> list[Anomaly]:
        """Looks at what clients do not see, when they have stopped and everything runs; returns what is wrong, and takes down
        what the checker is to judge."""
        return []


class OneBroker(Stage):
    def __init__(self, broker: BrokerProcess, room: Room | None = None) -> None:
        self.brokers = {NODE: broker}
        self.room = room

    def start(self) -> None:
        self.brokers[NODE].start()

    def stop(self) -> list[Anomaly]:
        code = self.brokers[NODE].stop()
        return [Anomaly("no-stop", "the broker", f"it ended with {code}")] if code else []

    def kill(self) -> None:
        self.brokers[NODE].kill()

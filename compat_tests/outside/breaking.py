"""Breaks brokers as a plan says, and notices when one ends by itself."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from compat_tests.anomalies.records import Anomaly
from compat_tests.cluster.networks import OF_NETWORKS
from compat_tests.outside.faults import Fault
from compat_tests.outside.stages import Stage
from compat_tests.reference.kafka import BrokerFailed, BrokerProcess

_LOOK_S: Final = 0.1
_AFTER_FULL_S: Final = 15.0
"""So long after its disk was full a broker may end because of it, which Kafka does by design: it has no other log directory."""


class Breaking:
    """The brokers of a stage, and what was done to them."""

    def __init__(self, stage: Stage, say: Callable[[str], None] | None = None) -> None:
        self.stage = stage
        self.found: list[Anomaly] = []
        self.broken: Counter[str] = Counter()
        self.lives = len(stage.brokers)
        self.ended_by_itself = 0
        self._nodes = list(stage.brokers)
        self._say = say or (lambda _: None)
        self._may_end_until = 0.0
        self._began = time.monotonic()

    def through(self, plan: Iterable[Fault], seconds: float) -> None:
        """Breaks them as planned; returns after so many seconds, with everything repaired."""
        self._began = time.monotonic()
        for fault in plan:
            self._watch(fault.at_s)
            where = f" of {self._nodes[fault.node]}" if len(self._nodes) > 1 else ""
            self._say(f"{time.monotonic() - self._began:6.1f} s: {fault}{where}")
            self.broken[fault.kind] += 1
            self._break(fault)
        self._watch(seconds)

    def watch_for(self, seconds: float) -> None:
        self._watch(time.monotonic() - self._began + seconds)

    def _watch(self, until_s: float) -> None:
        while (left_s := self._began + until_s - time.monotonic()) > 0:
            time.sleep(min(left_s, _LOOK_S))
            self._revive()

    def _revive(self) -> None:
        """Starts brokers again that have ended by themselves."""
        for broker in self.stage.brokers.values():
            process = broker.process
            if process is None or process.poll() is None:
                continue
            self.ended_by_itself += 1
            if time.monotonic() > self._may_end_until:
                what = f"with {process.returncode}:\n{broker.log_tail(20)}"
                self.found.append(Anomaly("ended", broker.directory.name, what))
            self._say(f"{broker.directory.name} has ended by itself, with {process.returncode}")
            broker.kill()
            self._start(broker)

    def _start(self, broker: BrokerProcess) -> None:
        broker.start()
        self.lives += 1

    def _break(self, fault: Fault) -> None:
        node = self._nodes[fault.node]
        broker = self.stage.brokers[node]
        match fault.kind:
            case "kill" | "power":
                broker.kill()
                time.sleep(fault.lasts_s)
                self._start(broker)
            case "pause":
                assert broker.process is not None
                broker.process.send_signal(signal.SIGSTOP)
                try:
                    time.sleep(fault.lasts_s)
                finally:
                    broker.process.send_signal(signal.SIGCONT)
            case "full":
                self._fill(broker, fault)
            case "clock":
                assert self.stage.clocks is not None, "there is no clock to move"
                with self.stage.clocks.moved(node, fault.moved_s):
                    time.sleep(fault.lasts_s)
            case _:
                assert self.stage.networks is not None, "there is no network to cut"
                with self.stage.networks.cut(node, OF_NETWORKS[fault.kind]):
                    time.sleep(fault.lasts_s)

    def _fill(self, broker: BrokerProcess, fault: Fault) -> None:
        room = self.stage.room
        assert room is not None, "there is no file system to fill"
        room.take()
        try:
            time.sleep(fault.lasts_s)
            self._may_end_until = time.monotonic() + _AFTER_FULL_S
            if fault.killed:
                broker.kill()
        finally:
            room.give_back()
        if fault.killed:
            self._start(broker)
        self._revive()


def failed_to_start(error: BrokerFailed) -> Anomaly:
    return Anomaly("no-start", "the broker", str(error))

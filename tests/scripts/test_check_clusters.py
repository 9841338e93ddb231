"""The stage of three brokers of the checker outside (compat_tests/outside/clusters.py). Only small processes are started in the
brokers' places.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from compat_tests.outside.clocks import Clocks
from compat_tests.outside.clusters import Cluster
from tests.sim.cluster.planted import PLANTED

FAULT = PLANTED[0].name
NETWORKS: Any = SimpleNamespace(host=lambda node: f"10.0.0.{node}", inside=lambda node: ("at", str(node)))


def test_its_brokers_are_what_the_letters_say_and_keep_three_replicas(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "oko", NETWORKS, None, {"log.flush.interval.messages": "1"})
    assert {node: (broker.kind, broker.host) for node, broker in cluster.brokers.items()} == {
        1: ("ottla", "10.0.0.1"), 2: ("kafka", "10.0.0.2"), 3: ("ottla", "10.0.0.3"),
    }  # fmt: skip
    for broker in cluster.brokers.values():
        wanted = ("min.insync.replicas", "offsets.topic.replication.factor", "transaction.state.log.replication.factor")
        assert [broker.settings[name] for name in wanted] == ["2", "3", "3"]
        assert broker.settings["log.flush.interval.messages"] == "1"
    assert cluster.bootstrap.count(",") == 2


def test_a_planted_fault_is_in_the_brokers_of_ottla(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "oko", NETWORKS, None, {}, planted=FAULT)
    assert [FAULT in cluster.brokers[node].command() for node in (1, 3)] == [True, True]
    assert type(cluster.brokers[2]).__name__ == "KafkaBroker"


def test_each_broker_has_its_network_and_then_its_clock(tmp_path: Path) -> None:
    clocks = Clocks(tmp_path, [1, 2, 3])
    cluster = Cluster(tmp_path, "ook", NETWORKS, clocks, {})
    for node, broker in cluster.brokers.items():
        assert tuple(broker.inside) == ("at", str(node), *clocks.words(node))


def test_what_ends_with_another_code_did_not_stop_in_order(tmp_path: Path) -> None:
    """Only a JVM says with 143 that it did."""
    cluster = Cluster(tmp_path, "kok", NETWORKS, None, {})
    by_the_signal = "import signal, os; signal.signal(15, lambda *_: os._exit(143)); print(flush=True); signal.pause()"
    wrongly = "raise SystemExit(3)"
    for broker, program in zip(cluster.brokers.values(), (by_the_signal, by_the_signal, wrongly), strict=True):
        broker.process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
        assert broker.process.stdout is not None
        with broker.process.stdout as output:
            output.readline()
    assert [(anomaly.name, anomaly.where) for anomaly in cluster.stop()] == [("no-stop", "ottla-2"), ("no-stop", "kafka-3")]

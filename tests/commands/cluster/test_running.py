"""A cluster of pretended nodes: the order of its start and its end, nodes that end, a directory in use."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ottla.commands.cluster import process as processes
from ottla.commands.cluster.errors import ClusterError
from ottla.commands.cluster.layout import plan
from ottla.commands.cluster.running import Interrupted, Programs, RunningCluster, node_environment
from tests.commands.cluster.fake_nodes import environment, order


class Rig:
    """A directory for clusters of two brokers and two controllers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stop_asked = False
        self.clusters: list[RunningCluster] = []

    def cluster(self, fault: str = "", name: str = "c", **options: Any) -> RunningCluster:
        surroundings = environment(self.folder, fault) | {"KAFKA_NODE_ID": "9", "CLUSTER_ID": "other"}
        java = str(self.folder / "bin" / "java")
        layout = plan(self.folder / name, 2, 2, 0, Random())
        programs = Programs(java, self.folder / "jars", (java,))
        cluster = RunningCluster(layout, programs, surroundings, should_stop=lambda: self.stop_asked, **options)
        self.clusters.append(cluster)
        return cluster

    def order(self) -> list[str]:
        return [line for line in order(self.folder) if not line.startswith("with")]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path)
    yield rig
    for cluster in rig.clusters:
        cluster.kill()


def test_controllers_come_first_and_go_last(rig: Rig) -> None:
    cluster = rig.cluster()
    cluster.start()
    assert all(node.is_running for node in cluster.nodes)
    assert cluster.stop() == []
    lines = rig.order()
    assert sorted(lines[:2]) == ["format 3001", "format 3002"]
    assert sorted(lines[2:4]) == ["start controller 3001", "start controller 3002"]
    assert sorted(lines[4:6]) == ["start broker 1", "start broker 2"]
    assert lines[6:] == ["stop broker 2", "stop broker 1", "stop controller 3002", "stop controller 3001"]


def test_it_starts_again_on_the_same_directory_without_formatting(rig: Rig) -> None:
    first = rig.cluster()
    first.start()
    first.stop()
    again = rig.cluster()
    assert again.layout == first.layout
    again.start()
    again.stop()
    assert sum(line.startswith("format") for line in rig.order()) == 2
    log = (first.layout.folder(first.layout.brokers[0]) / "server.log").read_text()
    assert log.count("[KafkaServer id=1] started") == 2


def test_what_brokers_are_given(rig: Rig) -> None:
    cluster = rig.cluster(overrides=("num.partitions=3",))
    cluster.start()
    cluster.stop()
    given = [line for line in order(rig.folder) if line.startswith("with 1")]
    assert given == [f"with 1 --cluster-id {cluster.layout.cluster_id} --override num.partitions=3"]


def test_a_node_that_ends_is_reported_and_the_others_go_on(rig: Rig) -> None:
    cluster = rig.cluster()
    cluster.start()
    pid = cluster.brokers[0].pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    watch = cluster.ended()
    assert next(watch) is cluster.brokers[0]
    assert cluster.brokers[0].how_it_ended() == "ended by SIGKILL"
    assert [node.is_running for node in cluster.nodes] == [True, True, False, True]
    rig.stop_asked = True
    assert list(watch) == []
    assert cluster.stop() == []
    assert "stop broker 1" not in rig.order()


def test_a_broker_starts_again_by_hand(rig: Rig) -> None:
    cluster = rig.cluster()
    cluster.start()
    broker = cluster.brokers[1]
    with pytest.raises(ClusterError, match="broker 2 runs already"):
        broker.start()
    broker.kill()
    assert broker.wait(None)
    broker.start()
    cluster.wait_until_ready([broker])
    cluster.stop()
    assert rig.order().count("start broker 2") == 2


@pytest.mark.parametrize("who", ["controller 3002", "broker 1"])
def test_a_node_that_does_not_start_ends_the_start(rig: Rig, who: str) -> None:
    cluster = rig.cluster(f"{who} ends")
    with pytest.raises(ClusterError, match=rf"{who} did not start: it ended with exit code 1: listeners: no room \(its log is /"):
        cluster.start()
    assert not any(node.is_running for node in cluster.nodes)
    started = {line.removeprefix("start ") for line in rig.order() if line.startswith("start")}
    assert started == {line.removeprefix("stop ") for line in rig.order() if line.startswith("stop")}


def test_a_node_that_is_never_ready_ends_the_start(rig: Rig) -> None:
    cluster = rig.cluster("controller 3002 waits", ready_seconds=0.1)
    with pytest.raises(ClusterError, match=r"3002 not ready after 0 s; /.*server.log says what it waits for"):
        cluster.start()
    assert not any(node.is_running for node in cluster.nodes)


def test_a_start_can_be_given_up(rig: Rig) -> None:
    cluster = rig.cluster()
    rig.stop_asked = True
    with pytest.raises(Interrupted):
        cluster.start()
    assert not any(node.is_running for node in cluster.nodes)
    rig.stop_asked = False
    cluster = rig.cluster()
    cluster.start()
    cluster.stop()


def test_what_cannot_be_formatted_is_said(rig: Rig) -> None:
    with pytest.raises(ClusterError, match="controller 3001 cannot be formatted: it cannot"):
        rig.cluster("no format").start()


def test_a_directory_in_use_is_refused_with_the_processes(rig: Rig) -> None:
    cluster = rig.cluster()
    cluster.start()
    with pytest.raises(ClusterError, match=rf"--dir: the cluster in .*/c runs already \(pid .*{cluster.brokers[0].pid}"):
        rig.cluster().start()
    os.close(cluster._lock)  # as if the command had been killed: its nodes keep the lock
    cluster._lock = -1
    with pytest.raises(ClusterError, match="runs already"):
        rig.cluster().start()
    cluster.stop()


def test_a_port_in_use_leaves_nothing_behind(rig: Rig) -> None:
    cluster = rig.cluster()
    cluster.start()
    other = rig.cluster(name="other")
    other.layout = other.layout._replace(controllers=cluster.layout.controllers)
    with pytest.raises(ClusterError, match="of controller 3001, is in use"):
        other.start()
    assert not (rig.folder / "other").exists()
    cluster.stop()


def test_a_node_that_does_not_stop_is_killed(rig: Rig) -> None:
    cluster = rig.cluster("broker 2 stays")
    cluster.start()
    assert not cluster.brokers[1].stop(0.2)
    assert cluster.brokers[1].how_it_ended() == "ended by SIGKILL"
    cluster.kill()
    assert not any(node.is_running for node in cluster.nodes)


def test_settings_of_a_brokers_environment_are_no_settings_of_all() -> None:
    assert node_environment({"KAFKA_NODE_ID": "1", "CLUSTER_ID": "x", "PATH": "/bin", "OTTLA_CACHE": "/c"}) == {
        "PATH": "/bin",
        "OTTLA_CACHE": "/c",
    }


def test_a_port_without_a_node_does_not_answer() -> None:
    assert not processes.answers(1)


def test_brokers_are_bound_to_cores_and_controllers_are_not(rig: Rig) -> None:
    core = max(os.sched_getaffinity(0))
    cluster = rig.cluster(cores=[core])
    cluster.start()
    assert [os.sched_getaffinity(node.pid or 0) for node in cluster.brokers] == [{core}, {core}]
    assert [os.sched_getaffinity(node.pid or 0) for node in cluster.controllers] == [os.sched_getaffinity(0)] * 2
    cluster.brokers[0].stop()
    cluster.brokers[0].start()
    cluster.wait_until_ready(cluster.brokers)
    assert os.sched_getaffinity(cluster.brokers[0].pid or 0) == {core}
    assert cluster.stop() == []


def test_each_broker_has_the_next_core(rig: Rig) -> None:
    cluster = rig.cluster(cores=sorted(os.sched_getaffinity(0)))
    cluster.start()
    cores = sorted(os.sched_getaffinity(0))
    assert [node.core for node in cluster.brokers] == [cores[at % len(cores)] for at in range(2)]
    assert [node.core for node in cluster.controllers] == [None, None]


def test_a_core_that_is_not_there_is_said(rig: Rig) -> None:
    cluster = rig.cluster(cores=[100_000])
    with pytest.raises(
        ClusterError, match=r"^--cores: broker 1 cannot run on core 100000: Invalid argument; leave the option out$"
    ):
        cluster.start()
    assert not any(node.is_running for node in cluster.nodes)

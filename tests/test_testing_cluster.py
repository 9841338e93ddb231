"""ottla.testing.Cluster, whose nodes are pretended here; compat_tests/cluster/test_command.py has real ones."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ottla.commands.cluster import running
from ottla.commands.cluster.process import NodeProcess
from ottla.log.config_def import ConfigError
from ottla.testing import Cluster, ClusterError
from tests.commands.cluster.fake_nodes import environment, order


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the pretended programs, which every cluster of a test gets."""
    for name, text in environment(tmp_path).items():
        monkeypatch.setenv(name, text)
    java = str(tmp_path / "bin" / "java")
    monkeypatch.setattr(running, "find_programs", lambda *_: running.Programs(java, tmp_path, (java,)))
    return tmp_path


def test_entered_it_serves_and_left_it_leaves_nothing_behind(folder: Path) -> None:
    with Cluster(nodes=2, num_partitions=3) as cluster:
        directory = cluster.data_dir
        assert cluster.bootstrap == ",".join(broker.bootstrap for broker in cluster.brokers)
        assert [broker.node_id for broker in cluster.brokers] == list(cluster.nodes) == [1, 2]
        assert all(broker.is_running for broker in cluster.brokers)
        assert repr(cluster) == f"<ottla.testing.Cluster {cluster.bootstrap}>"
        with pytest.raises(RuntimeError, match="already running"):
            cluster.start()
    assert not directory.exists()
    given = next(line for line in order(folder) if line.startswith("with 1"))
    assert "--override num.partitions=3" in given
    assert "--override group.initial.rebalance.delay.ms=0" in given
    with pytest.raises(RuntimeError, match="is not running"):
        _ = cluster.bootstrap


def test_a_broker_is_killed_stopped_and_started(folder: Path) -> None:
    with Cluster(nodes=2) as cluster:
        first, second = cluster.brokers
        port, pid = first.port, first.pid
        first.kill()
        assert (first.is_running, second.is_running) == (False, True)
        assert not cluster.brokers[0].is_running
        first.start()
        assert (first.is_running, first.port, first.pid != pid) == (True, port, True)
        second.stop()
        assert not second.is_running
        assert "started" in first.log_file.read_text()
        assert first.data_dir == cluster.data_dir / "broker-1" / "data"
    assert order(folder).count("stop broker 2") == 1


def test_a_directory_of_yours_is_kept(folder: Path) -> None:
    kept = folder / "kept"
    with Cluster(nodes=1, data_dir=kept) as cluster:
        cluster_id = cluster.cluster_id
    with Cluster(nodes=2, data_dir=str(kept)) as cluster:
        assert cluster.cluster_id == cluster_id
        assert len(cluster.brokers) == 2


def test_in_a_loop() -> None:
    async def scenario() -> bool:
        async with Cluster(nodes=1) as cluster:
            return cluster.brokers[0].is_running

    assert asyncio.run(scenario())


def test_a_wrong_setting_is_reported_where_it_was_written() -> None:
    with pytest.raises(ConfigError, match=r"num\.partition"):
        Cluster(num_partition=3)
    with pytest.raises(ConfigError, match=r"num\.partitions"):
        Cluster(num_partitions="many")
    with pytest.raises(ClusterError, match=r"every node has a node\.id of its own"):
        Cluster(node_id=3).start()


def test_a_node_that_does_not_come_up_leaves_nothing_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAULT", "broker 1 ends")
    cluster = Cluster(nodes=1)
    with pytest.raises(ClusterError, match="broker 1 did not start"):
        cluster.start()
    monkeypatch.setenv("FAULT", "")
    with cluster:
        assert cluster.brokers[0].is_running


@pytest.mark.parametrize("fault", ["", "broker 1 ends"])
def test_a_stop_that_is_interrupted_leaves_nothing_behind(folder: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    """As by Ctrl-C in a test run that takes its time to end: in the stop of a cluster, or of one that did not come up."""
    monkeypatch.setenv("FAULT", fault)
    nodes: list[NodeProcess] = []

    def interrupted(node: NodeProcess, seconds: float = 0) -> bool:
        nodes.append(node)
        raise KeyboardInterrupt

    monkeypatch.setattr(NodeProcess, "stop", interrupted)
    with pytest.raises(KeyboardInterrupt), Cluster(nodes=2):
        pass
    assert nodes
    try:
        assert not any(node.is_running for node in nodes)
    finally:
        for node in nodes:
            node.kill()

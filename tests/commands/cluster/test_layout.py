"""Tests of a cluster's layout: new, again, with more brokers; and what is refused before anything is written."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from random import Random

import pytest

from ottla.commands.cluster import layout as layouts
from ottla.commands.cluster.errors import ClusterError
from ottla.commands.cluster.layout import Layout, Place, check_overrides, check_ports, load, plan, save, write_properties
from ottla.log.properties import parse_properties

RANDOM = Random(1)


def saved(directory: Path, nodes: int = 3, controllers: int = 1, port: int | None = 0) -> Layout:
    layout = plan(directory, nodes, controllers, port, RANDOM)
    directory.mkdir(exist_ok=True)
    save(layout)
    return layout


def ports(places: tuple[Place, ...]) -> list[int]:
    return [place.port for place in places]


def test_a_new_cluster_has_three_brokers_and_a_controller(tmp_path: Path) -> None:
    layout = plan(tmp_path / "new", None, None, None, RANDOM)
    assert [(place.name, place.port) for place in (*layout.controllers, *layout.brokers)] == [
        ("controller 3001", 19092),
        ("broker 1", 9092),
        ("broker 2", 9093),
        ("broker 3", 9094),
    ]
    assert layout.bootstrap == "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"
    assert re.fullmatch("[A-Za-z0-9_][A-Za-z0-9_-]{21}", layout.cluster_id)
    assert re.fullmatch("[A-Za-z0-9_][A-Za-z0-9_-]{21}", layout.controllers[0].directory_id)
    assert not (tmp_path / "new").exists()


def test_free_ports_differ_and_stay(tmp_path: Path) -> None:
    first = saved(tmp_path, nodes=4, controllers=3)
    assert len({*ports(first.brokers), *ports(first.controllers)}) == 7
    assert plan(tmp_path, None, None, None, RANDOM) == load(tmp_path) == first


def test_a_cluster_grows_but_does_not_shrink(tmp_path: Path) -> None:
    first = saved(tmp_path, nodes=2)
    more = plan(tmp_path, 4, None, None, RANDOM)
    assert more.brokers[:2] == first.brokers
    assert [place.node_id for place in more.brokers] == [1, 2, 3, 4]
    assert len({*ports(more.brokers), *ports(more.controllers)}) == 5
    assert more.controllers == first.controllers
    with pytest.raises(ClusterError, match=r"^--nodes: the cluster in .* has 2 brokers, with data that would be missing; leave"):
        plan(tmp_path, 1, None, None, RANDOM)
    with pytest.raises(ClusterError, match=r"^--controllers: the cluster in .* has 1, and the number stays"):
        plan(tmp_path, None, 3, None, RANDOM)


def test_port_0_keeps_ports_that_are_free(tmp_path: Path) -> None:
    first = saved(tmp_path)
    with socket.create_server(("127.0.0.1", first.brokers[1].port)):
        assert plan(tmp_path, None, None, None, RANDOM) == first
        again = plan(tmp_path, None, None, 0, RANDOM)
    assert [a == b for a, b in zip(first.brokers, again.brokers, strict=True)] == [True, False, True]


def test_brokers_move_to_other_ports_and_controllers_stay(tmp_path: Path) -> None:
    first = saved(tmp_path)
    moved = plan(tmp_path, None, None, 40_000, RANDOM)
    assert ports(moved.brokers) == [40_000, 40_001, 40_002]
    assert moved.controllers == first.controllers
    with pytest.raises(ClusterError, match="is a controller's; choose another"):
        plan(tmp_path, None, None, first.controllers[0].port - 1, RANDOM)


@pytest.mark.parametrize("port", [65_533, 65_534, 65_535])
def test_ports_end(tmp_path: Path, port: int) -> None:
    if port == 65_533:
        assert ports(plan(tmp_path, 3, None, port, RANDOM).brokers)[-1] == 65_535
        return
    with pytest.raises(ClusterError, match=f"--port: 3 brokers from {port} on need ports above 65535"):
        plan(tmp_path, 3, None, port, RANDOM)


def test_another_directory_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(ClusterError, match=f"--dir: {tmp_path} is not empty, and no cluster is in it"):
        plan(tmp_path, None, None, None, RANDOM)
    with pytest.raises(ClusterError, match=r"--dir: .*thesis.txt.*: Not a directory"):
        plan(tmp_path / "thesis.txt", None, None, None, RANDOM)
    with pytest.raises(ClusterError, match=r"log\.dirs cannot name a path with a comma"):
        plan(tmp_path / "a,b", None, None, None, RANDOM)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"cluster_id": "x", "controllers": [], "brokers": []}', "\xff"])
def test_a_damaged_file_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / layouts.FILE).write_bytes(content.encode("latin-1"))
    with pytest.raises(ClusterError, match=f"--dir: {tmp_path}/cluster.json does not describe a cluster"):
        plan(tmp_path, None, None, None, RANDOM)


def test_a_port_in_use_is_named_with_its_node(tmp_path: Path) -> None:
    layout = saved(tmp_path, controllers=2)
    check_ports(layout)
    for place, remedy in [(layout.brokers[1], "another --port"), (layout.controllers[1], "another --dir")]:
        with (
            socket.create_server(("127.0.0.1", place.port)),
            pytest.raises(ClusterError, match=f"listeners: {place.address}, of {place.name}, is in use; stop what .*{remedy}"),
        ):
            check_ports(layout)


def test_overrides_that_are_the_clusters_own_are_refused() -> None:
    check_overrides(["log.retention.ms=1000", "num.partitions=3"])
    with pytest.raises(ClusterError, match=r"every node has a node.id of its own"):
        check_overrides(["num.partitions=3", "node.id=4"])
    for text in ("num.partitions", "=3"):
        with pytest.raises(ClusterError, match=f"--override: '{text}' is not key=value"):
            check_overrides([text])


def test_settings_of_the_nodes(tmp_path: Path) -> None:
    layout = plan(tmp_path, 2, 2, None, RANDOM)
    broker, controller = layout.settings(layout.brokers[1], "host-1"), layout.settings(layout.controllers[0], "host-1")
    assert (broker["process.roles"], broker["node.id"], broker["broker.rack"]) == ("broker", "2", "host-1")
    assert (broker["listeners"], controller["listeners"]) == ("PLAINTEXT://127.0.0.1:9093", "CONTROLLER://127.0.0.1:19092")
    assert broker["controller.quorum.bootstrap.servers"] == "127.0.0.1:19092,127.0.0.1:19093"
    assert broker["log.dirs"] == f"{tmp_path}/broker-2/data"
    assert "broker.rack" not in controller
    assert "broker.rack" not in layout.settings(layout.brokers[0])
    shared = {name for name in broker if broker[name] == controller.get(name)}
    assert {"default.replication.factor", "offsets.topic.replication.factor"} <= shared


@pytest.mark.parametrize(("brokers", "replicas", "in_sync"), [(1, "1", "1"), (2, "2", "1"), (3, "3", "2"), (4, "3", "2")])
def test_replicas_by_the_number_of_brokers(brokers: int, replicas: str, in_sync: str) -> None:
    settings = layouts.replication(brokers)
    assert {settings[name] for name in settings if name.endswith("replication.factor")} == {replicas}
    assert {settings[name] for name in settings if name.endswith("min.isr")} == {in_sync}
    assert len(settings) == 6


def test_properties_are_read_as_they_were_written(tmp_path: Path) -> None:
    settings = {"log.dirs": "/tmp/kö\\fka \U0001f980/data", "node.id": "1"}
    write_properties(tmp_path / "server.properties", settings)
    read = {key: value for key, value, _ in parse_properties((tmp_path / "server.properties").read_bytes())}
    assert read == settings

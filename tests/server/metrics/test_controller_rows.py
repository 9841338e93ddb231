"""Tests of the rows that Kafka's controllers have; test_names.py has those of a whole broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ottla.server.metrics.controller_rows import CONTROLLER_ROWS
from tests.fakes import NODE_ID
from tests.followers import THREE, TWO
from tests.leader import Cluster

PREFIX = "kafka_controller_kafkacontroller_"


def rows(sources: Any) -> dict[str, float]:
    found = {}
    for name, _, _, _, make in CONTROLLER_ROWS:
        ((labels, value),) = make(sources)
        assert labels == ()
        found[name.removeprefix(PREFIX)] = value
    return found


def test_only_a_broker_that_is_its_own_controller_counts_as_one() -> None:
    def controllers(*, others: bool, registered: bool = True) -> float:
        config = SimpleNamespace(follows_controllers=others, node_id=NODE_ID)
        brokers = {NODE_ID: SimpleNamespace(fenced=False)} if registered else {}
        metadata = SimpleNamespace(brokers=brokers, topics={})
        return rows(SimpleNamespace(context=SimpleNamespace(config=config, metadata=metadata)))["activecontrollercount"]

    assert controllers(others=False) == 1
    assert controllers(others=False, registered=False) == 0
    assert controllers(others=True) == 0


def test_partitions_of_the_cluster() -> None:
    cluster = Cluster(TWO, THREE)

    def counted() -> tuple[float, float, float]:
        found = rows(SimpleNamespace(context=cluster.broker.context))
        return found["globalpartitioncount"], found["offlinepartitionscount"], found["preferredreplicaimbalancecount"]

    assert counted() == (1, 0, 0)
    cluster.change(leader=TWO)
    assert counted() == (1, 0, 1)
    cluster.change(leader=-1)
    assert counted() == (1, 1, 1)

"""Connections to all brokers of a cluster: made when one is first needed, kept, and closed at the end."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

import ottla.testing
from ottla.commands.clients.brokers import Brokers, by_broker, check
from ottla.commands.clients.client import Cluster
from ottla.commands.clients.partition import Partition
from ottla.commands.output import Failure
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.metadata import MetadataRequest

BROKER = 1


@pytest.fixture(scope="module")
def running() -> Iterator[ottla.testing.Broker]:
    with ottla.testing.Broker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("t", 3)])["t"].result(10)
        yield broker


def cluster(broker: ottla.testing.Broker) -> Cluster:
    return Cluster({"bootstrap.servers": broker.bootstrap}, timeout_s=10)


def metadata_with(brokers: dict[int, Any]) -> Any:
    """Returns metadata of a cluster, as a caller may already have it, with these brokers and the topic u."""
    return SimpleNamespace(brokers=brokers, topics={"u": SimpleNamespace(partitions={0: None, 1: None})})


def test_a_broker_is_connected_to_once_and_let_go_of_at_the_end(running: ottla.testing.Broker) -> None:
    with Brokers(cluster(running)) as brokers:
        first = brokers.at(BROKER)
        assert brokers.at(BROKER) is first
        assert [each.name for each in first.call(MetadataRequest(None)).topics] == ["t"]
    assert first.stream.fileno() == -1, "it is closed"


def test_a_broker_is_found_where_the_metadata_says(running: ottla.testing.Broker) -> None:
    place = SimpleNamespace(host="127.0.0.1", port=running.port)
    nowhere = SimpleNamespace(host="127.0.0.1", port=1)
    with Brokers(Cluster({}, timeout_s=10), metadata_with({7: place, 8: nowhere})) as brokers:
        assert brokers.at(7).who == f"127.0.0.1:{running.port}", "the other broker is not asked for"
        with pytest.raises(Failure, match=r"^127\.0\.0\.1:1: "):
            brokers.at(8)
        with pytest.raises(Failure, match="broker 9 is not available"):
            brokers.at(9)
        assert brokers.at(7).call(MetadataRequest([])).topics == []


def test_partitions_are_those_of_the_metadata_that_is_given_or_else_asked_for(running: ottla.testing.Broker) -> None:
    with Brokers(cluster(running)) as asked, Brokers(cluster(running), metadata_with({})) as given:
        assert [asked.partitions(topic) for topic in ("t", "u", "gone")] == [3, 0, 0]
        assert [given.partitions(topic) for topic in ("t", "u", "gone")] == [0, 2, 0]


def test_partitions_by_leader_are_those_that_have_one() -> None:
    def led_by(*leaders: int) -> Any:
        return SimpleNamespace(partitions={at: SimpleNamespace(leader=leader) for at, leader in enumerate(leaders)})

    metadata: Any = SimpleNamespace(brokers={}, topics={"t": led_by(2, 1, -1, 2), "u": led_by(1)})
    wanted = [Partition("t", number) for number in (3, 0, 1, 2, 4)] + [Partition("u", 0), Partition("gone", 0)]
    with Brokers(Cluster({}), metadata) as brokers:
        assert brokers.by_leader(wanted) == {2: {"t": [3, 0]}, 1: {"t": [1], "u": [0]}}


def test_an_error_code_becomes_a_failure_in_words() -> None:
    check(ErrorCode.NONE)
    with pytest.raises(Failure, match="it is full"):
        check(ErrorCode.INVALID_REQUEST, "it is full")
    with pytest.raises(Failure, match="Not coordinator"):
        check(ErrorCode.NOT_COORDINATOR)


def test_names_are_grouped_by_broker_in_order() -> None:
    assert by_broker([(2, "b"), (1, "a"), (2, "a")]) == {2: ["b", "a"], 1: ["a"]}

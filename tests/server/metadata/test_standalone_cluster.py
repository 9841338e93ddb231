"""StandaloneCluster: registering, leaving, and the work that comes back every second or hour."""

from __future__ import annotations

import asyncio

import pytest

from ottla.server.base.network import OsNetwork
from ottla.server.metadata.controller_settings import ControllerSettings
from ottla.server.metadata.feature_levels import SUPPORTED_FEATURES
from ottla.server.metadata.image import Endpoint
from ottla.server.metadata.standalone_cluster import SNAPSHOT_PASS_INTERVAL_MS
from ottla.server.settings.broker_config import BrokerConfig
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.fakes import CALLER
from tests.server.metadata.support import ENDPOINT, Node, at_once


def test_registration() -> None:
    node = Node(broker_rack="r1")
    node.start()
    broker = node.image.brokers[1]
    assert broker.active
    assert broker.rack == "r1"
    assert broker.endpoints == {"PLAINTEXT": ENDPOINT}
    assert broker.features == SUPPORTED_FEATURES
    assert len(broker.log_dirs) == 1
    first = broker.epoch
    other = Endpoint("OTHER", "h", 1, 0)
    epoch = at_once(node.cluster.register([ENDPOINT, other]))
    assert epoch == node.image.brokers[1].epoch > first
    assert node.image.brokers[1].endpoints["OTHER"] == other


@pytest.mark.parametrize(("protocol", "number"), [("PLAINTEXT", 0), ("SSL", 1), ("SASL_PLAINTEXT", 2), ("SASL_SSL", 3)])
def test_a_controllers_listener_is_registered_with_kafkas_number_of_its_protocol(protocol: str, number: int) -> None:
    texts = {
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@localhost:9093",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://localhost:9093",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:{protocol}",
    }
    config, _ = BrokerConfig.from_mapping({"node.id": "1", "log.dirs": "/data"} | texts)
    settings = ControllerSettings(config, {}, OsNetwork())
    assert settings.controller_endpoints == (Endpoint("CONTROLLER", "localhost", 9093, number),)


def test_who_leaves_leads_nothing_and_is_fenced_until_it_is_back() -> None:
    node = Node()
    node.start()
    asyncio.run(node.controller.create_topics(CreateTopicsRequest([CreatableTopic("a", 2, 1)]), CALLER))
    at_once(node.cluster.leave())
    broker = node.image.brokers[1]
    assert (broker.fenced, broker.in_controlled_shutdown) == (True, True)
    assert {(partition.leader, partition.isr) for partition in node.image.topics["a"].partitions.values()} == {(-1, (1,))}
    node.kill()
    node.start()
    assert node.image.brokers[1].active
    assert {(p.leader, p.leader_epoch) for p in node.image.topics["a"].partitions.values()} == {(1, 2)}


def test_who_begins_to_leave_leads_on() -> None:
    node = Node()
    node.start()
    broker = node.image.brokers[1]
    at_once(node.cluster.ready())
    at_once(node.cluster.begin_leaving())
    assert node.image.brokers[1] is broker
    assert broker.active


def test_there_is_nothing_to_close() -> None:
    node = Node()
    node.start()
    broker = node.image.brokers[1]
    at_once(node.cluster.close())
    assert node.image.brokers[1] is broker
    assert broker.active


def test_who_has_no_directory_left_to_write_to_leaves_silently() -> None:
    node = Node()
    node.start()
    assert node.logs is not None
    node.logs.directories[0].fail("testing", OSError("gone"))
    at_once(node.cluster.leave())
    assert node.image.brokers[1].active


def test_with_several_directories_nobody_knows_yet_where_a_replica_will_lie() -> None:
    node = Node(log_dirs="/data,/more")
    node.start()
    assert len(node.image.brokers[1].log_dirs) == 2
    asyncio.run(node.controller.create_topics(CreateTopicsRequest([CreatableTopic("a", 1, 1)]), CALLER))
    assert node.image.topics["a"].partitions[0].directories == (bytes(16),)


def test_what_comes_back_are_snapshots_and_with_a_key_for_tokens_their_end() -> None:
    plain = Node()
    plain.start()
    assert [(each.name, each.interval_ms) for each in plain.cluster.passes()] == [
        ("metadata snapshot", SNAPSHOT_PASS_INTERVAL_MS)
    ]
    node = Node(**{"delegation.token.secret.key": "key", "delegation.token.expiry.check.interval.ms": "77"})
    node.start()
    tokens, snapshots = node.cluster.passes()
    assert (tokens.name, tokens.interval_ms) == ("token expiration", 77)
    assert snapshots.name == "metadata snapshot"
    before = node.image.highest_offset
    assert tokens.action() is None
    assert node.image.highest_offset == before, "there is no token to remove"

"""The broker's configuration: from texts to checked values."""

from __future__ import annotations

import os
import re

import pytest

from ottla.log.config_def import ConfigError, InvalidSetting
from ottla.server.settings.broker_config import BrokerConfig
from ottla.server.settings.broker_settings import BROKER_SETTINGS, OWN_SETTINGS, advice, base_name
from tests.fakes import MACHINE, NotingNetwork

# As it comes with Kafka for a combined node, by key; the values that matter are all here.
STOCK = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "inter.broker.listener.name": "PLAINTEXT",
    "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": (
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
    ),
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "log.dirs": "/tmp/kraft-combined-logs",
    "num.partitions": "1",
    "num.recovery.threads.per.data.dir": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "log.retention.hours": "168",
    "log.segment.bytes": "1073741824",
    "log.retention.check.interval.ms": "300000",
}


def config(**texts: str) -> BrokerConfig:
    return BrokerConfig.from_mapping({name.replace("_", "."): text for name, text in texts.items()})[0]


def test_without_anything_it_is_a_loopback_broker() -> None:
    result = config()
    assert [str(listener) for listener in result.listeners] == ["PLAINTEXT://127.0.0.1:9092"]
    assert result.advertised_listeners == result.listeners
    assert result.log_dirs == [os.path.abspath("ottla-data")]
    assert result.metadata_log_dir == result.log_dirs[0]
    assert (result.node_id, result.rack, result.cluster_id) == (1, None, None)
    assert set(result.values) == set(BROKER_SETTINGS) | set(OWN_SETTINGS)


@pytest.mark.parametrize(
    "controllers", [{"controller.quorum.bootstrap.servers": "a:9093,b:9093"}, {"controller.quorum.voters": "2@a:9093,3@b:9093"}]
)
def test_kafka_s_file_of_a_broker_is_taken_as_it_is(controllers: dict[str, str]) -> None:
    texts = STOCK | {
        "process.roles": "broker",
        "listeners": "PLAINTEXT://:9092",
        "advertised.listeners": "PLAINTEXT://localhost:9092",
    }
    del texts["controller.quorum.voters"]
    result, unknown = BrokerConfig.from_mapping(texts | controllers)
    assert unknown == []
    assert result.follows_controllers
    assert result.controller_listeners == ()
    assert not BrokerConfig.from_mapping(STOCK)[0].follows_controllers


def test_kafka_s_own_file_is_taken_as_it_is() -> None:
    result, unknown = BrokerConfig.from_mapping(STOCK)
    assert unknown == []
    assert [str(listener) for listener in result.listeners] == ["PLAINTEXT://:9092"]
    assert [str(listener) for listener in result.controller_listeners] == ["CONTROLLER://:9093"]
    assert str(result.advertised_for("PLAINTEXT", 9092, NotingNetwork())) == "PLAINTEXT://localhost:9092"


def test_values_are_parsed_and_defaults_kept() -> None:
    result = config(log_retention_hours="2", log_cleanup_policy="compact, delete")
    assert result.values["log.retention.hours"] == 2
    assert result.values["log.cleanup.policy"] == ("compact", "delete")
    assert result.values["num.partitions"] == 1
    assert result.values["fetch.max.bytes"] == 57_671_680


def test_broker_id_and_node_id_are_one() -> None:
    assert config(broker_id="7").node_id == 7
    assert config(node_id="7").values["broker.id"] == 7
    with pytest.raises(ConfigError, match=r"broker.id: 7 is not the same as node.id, 8; set only node.id"):
        config(broker_id="7", node_id="8")


def test_a_free_port_is_advertised_as_the_one_that_was_bound() -> None:
    result = config(listeners="PLAINTEXT://127.0.0.1:0")
    assert result.advertised_for("PLAINTEXT", 31999, NotingNetwork()).port == 31999
    everywhere = config(listeners="PLAINTEXT://0.0.0.0:0").advertised_for("PLAINTEXT", 31999, NotingNetwork())
    assert str(everywhere) == f"PLAINTEXT://{MACHINE}:31999"
    proxied = config(listeners="PLAINTEXT://127.0.0.1:0", advertised_listeners="PLAINTEXT://proxy:1")
    assert proxied.advertised_for("PLAINTEXT", 31999, NotingNetwork())[:3] == ("PLAINTEXT", "proxy", 1)


def test_the_listener_of_brokers() -> None:
    names = {"listeners": "A://127.0.0.1:1,B://127.0.0.1:2", "listener_security_protocol_map": "A:PLAINTEXT,B:PLAINTEXT"}
    assert config(**names).inter_broker_listener == "A"
    assert config(**names, inter_broker_listener_name="b").inter_broker_listener == "B"
    assert config(listeners="PLAINTEXT://127.0.0.1:1").inter_broker_listener == "PLAINTEXT"


def test_a_listener_that_is_not_advertised_advertises_itself() -> None:
    result = config(
        listeners="A://127.0.0.1:1,B://127.0.0.1:2",
        listener_security_protocol_map="A:PLAINTEXT,B:PLAINTEXT",
        advertised_listeners="B://elsewhere:3",
    )
    assert [str(address) for address in result.advertised_listeners] == ["A://127.0.0.1:1", "B://elsewhere:3"]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"num.partitions": "x"}, "num.partitions: 'x' is not a whole number of 32 bits; write it in digits"),
        ({"num.partitions": "0"}, "num.partitions: '0' is too small; the least is 1"),
        ({"listeners": ""}, "listeners: an empty list is not accepted; name at least one element"),
        ({"log.dirs": "/a,/a/../a"}, "log.dirs: a directory is named twice; name each only once"),
        ({"listeners": "CONTROLLER://:9093"},
         "listeners: all of them are for controllers (controller.listener.names); add one such as PLAINTEXT://:9092"),
        ({"inter.broker.listener.name": "B"}, "inter.broker.listener.name: B is not in listeners; name one that is"),
        ({"advertised.listeners": "CONTROLLER://a:1", "listeners": "PLAINTEXT://:1,CONTROLLER://:2"},
         "advertised.listeners: none of them is for clients; advertise a listener that is not for controllers"),
        ({"process.roles": "controller"}, "process.roles: 'controller' is not possible, because the controllers of a cluster are "
         "Apache Kafka's; set process.roles=broker to join them, or process.roles=broker,controller for a single node"),
        ({"process.roles": "broker"},
         "process.roles: a broker needs to know its controllers; set controller.quorum.bootstrap.servers=host:port"),
        ({"process.roles": "broker", "controller.quorum.voters": "2@a:1,1@b:1"},
         "node.id: 1 is a controller's (controller.quorum.voters); give the broker another node.id"),
        ({"process.roles": "broker", "controller.quorum.voters": "2@a:1", "listeners": "PLAINTEXT://:1,CONTROLLER://:2"},
         "listeners: CONTROLLER is for controllers (controller.listener.names), which this node is not; remove it"),
        ({"process.roles": "broker", "controller.quorum.voters": "2@a:1", "controller.listener.names": "C",
          "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"}, "controller.listener.names: the protocol of C is not known; "
         "add C:PLAINTEXT, or whatever the controllers have, to listener.security.protocol.map"),
        ({"controller.quorum.voters": "1@a:1,2@b:1"},
         "controller.quorum.voters: 2 is another node, and ottla is a controller only of itself; leave node 1 as the only voter, "
         "or set process.roles=broker to join the quorum"),
        ({"controller.quorum.voters": "a:1"}, "controller.quorum.voters: 'a:1' has the element 'a:1', which is not id@host:port"),
        ({"authorizer.class.name": "a.B"}, "authorizer.class.name: there is no JVM to load a.B in; use "
         "org.apache.kafka.metadata.authorizer.StandardAuthorizer, or remove the setting"),
    ],
)  # fmt: skip
def test_refused_in_one_line_that_begins_with_the_key(texts: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig.from_mapping(texts)
    assert str(refused.value) == message


def test_unknown_names_are_reported_and_kept() -> None:
    result, unknown = BrokerConfig.from_mapping({"my.plugin.key": "1", "listener.name.plaintext.max.connections": "5"})
    assert unknown == ["my.plugin.key"]
    assert result.texts["my.plugin.key"] == "1"


def test_advice() -> None:
    assert advice("log.retenton.ms").endswith("did you mean log.retention.ms?")
    assert advice("ottla.metrics.prot").endswith("did you mean ottla.metrics.port?")
    assert advice("my.plugin.key") == "my.plugin.key is not a broker setting of Kafka 4.4: it has no effect; remove it"
    assert advice("zookeeper.connect") == "zookeeper.connect has no effect: Kafka 4.0 removed ZooKeeper; remove it"


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("listener.name.internal.ssl.keystore.type", "ssl.keystore.type"),
        ("listener.name.internal.plain.sasl.jaas.config", "sasl.jaas.config"),
        ("listener.name.internal.scram-sha-256.connections.max.reauth.ms", "connections.max.reauth.ms"),
        ("listener.name.internal.plain.ssl.keystore.type", "plain.ssl.keystore.type"),
        ("listener.name.internal", "listener.name.internal"),
        ("num.partitions", "num.partitions"),
    ],
)
def test_a_listener_s_own_settings(name: str, base: str) -> None:
    assert base_name(name) == base


def test_a_setting_is_still_a_setting() -> None:
    with pytest.raises(InvalidSetting):
        BROKER_SETTINGS["compression.gzip.level"].parse("0")
    with pytest.raises(InvalidSetting, match="in capitals or not"):
        BROKER_SETTINGS["group.consumer.migration.policy"].parse("sideways")
    assert BROKER_SETTINGS["group.consumer.migration.policy"].parse("Upgrade") == "Upgrade"


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("listener.name.plaintxt.ssl.client.auth", "no listener has the name PLAINTXT; use one of listeners, or remove it"),
        ("listener.name.plaintext.queued.max.requests", "queued.max.requests counts for all listeners together"),
    ],
)
def test_a_listener_s_own_setting_that_would_count_for_none(key: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(key)}: {re.escape(message)}"):
        BrokerConfig.from_mapping({key: "5"})


def test_a_listener_s_own_settings_that_count() -> None:
    names = ("plaintext.max.connections", "controller.ssl.client.auth", "plaintext.plain.sasl.jaas.config", "nobody.my.plugin")
    BrokerConfig.from_mapping({f"listener.name.{name}": "required" if "auth" in name else "5" for name in names})


DEFAULT_MAP = "PLAINTEXT:PLAINTEXT,SSL:SSL,OTHERS:SASL_PLAINTEXT,MORE:SSL"


def test_by_which_protocols_other_nodes_are_called() -> None:
    texts = {
        "process.roles": "broker",
        "controller.listener.names": "OTHERS,MORE",
        "controller.quorum.bootstrap.servers": "localhost:9093",
        "listeners": "A://127.0.0.1:9094,PLAINTEXT://127.0.0.1:9092,B://127.0.0.1:9095",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,A:SSL,B:SASL_SSL,OTHERS:SASL_PLAINTEXT,MORE:SSL",
    }

    def called(**changes: str) -> tuple[str, str, str, str]:
        config, _ = BrokerConfig.from_mapping(texts | {name.replace("_", "."): value for name, value in changes.items()})
        return (
            config.inter_broker_listener,
            config.inter_broker_protocol,
            config.controllers_listener,
            config.controllers_protocol,
        )

    assert called() == ("PLAINTEXT", "PLAINTEXT", "OTHERS", "SASL_PLAINTEXT")
    named = {"listeners": "SSL://127.0.0.1:9094,PLAINTEXT://127.0.0.1:9092"}
    assert called(security_inter_broker_protocol="SSL", listener_security_protocol_map=DEFAULT_MAP, **named)[:2] == ("SSL", "SSL")
    assert called(inter_broker_listener_name="b", controller_listener_names="more") == ("B", "SASL_SSL", "MORE", "SSL")

"""Tests of which settings count for connections to controllers and to other brokers, and a start that is refused before it
writes."""

from __future__ import annotations

import re
from random import Random

import pytest

from compat_tests.certificates import authority
from ottla.log.config_def import ConfigError
from ottla.server.broker.broker import Broker
from ottla.server.broker.node_security import follow_settings
from ottla.server.broker.start import NodeSecurity, secure_connections
from ottla.server.security.settings import ListenerSecurity
from ottla.server.settings.broker_config import BrokerConfig
from tests.fakes import ManualClock
from tests.memdisk import MemDisk
from tests.server.broker.whole_broker import disk, run

ROOT = authority()
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def config(changes: dict[str, str]) -> BrokerConfig:
    texts = {
        "process.roles": "broker",
        "node.id": "2",
        "controller.quorum.bootstrap.servers": "localhost:9093",
        "controller.listener.names": "CONTROLLER",
        "listeners": "A://127.0.0.1:0,B://127.0.0.1:0",
        "listener.security.protocol.map": "A:PLAINTEXT,B:SASL_PLAINTEXT,CONTROLLER:SASL_SSL",
        "inter.broker.listener.name": "B",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.b.plain.sasl.jaas.config": f"{PLAIN} username=among password=b;",
        "listener.name.controller.plain.sasl.jaas.config": f"{PLAIN} username=above password=c;",
        "listener.name.controller.ssl.truststore.type": "PEM",
        "listener.name.controller.ssl.truststore.location": "/trust",
        "log.dirs": "/data",
    }
    found, unknown = BrokerConfig.from_mapping(texts | changes)
    assert not unknown
    return found


def files() -> MemDisk:
    found = disk()
    found.write_bytes("/trust", ROOT.chain_pem().encode())
    return found


def secured(changes: dict[str, str] | None = None) -> NodeSecurity:
    return secure_connections(config(changes or {}), files(), ManualClock(), Random(1))


def test_each_direction_has_its_listener_and_mechanism() -> None:
    found = secured()
    assert found.controllers is not None
    assert found.brokers is not None
    assert [each.login.name if each and each.login else None for each in found] == ["above", "among"]
    assert found.controllers.context() is not None
    assert found.brokers.context() is None


def test_what_is_plain_text_needs_nothing() -> None:
    brokers = {"inter.broker.listener.name": "A"}
    controllers = {"listener.security.protocol.map": "A:PLAINTEXT,B:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"}
    assert secured(brokers).brokers is None
    assert secured(controllers).controllers is None
    assert secured(brokers | controllers) == (None, None)


def test_settings_that_change_count_for_later_connections() -> None:
    found = secured().controllers
    assert found is not None
    context = found.context()

    class Current:
        texts = config({}).texts | {"listener.name.controller.ssl.protocol": "TLSv1.3"}
        values = config({}).values

    follow_settings(found, Current())  # type: ignore[arg-type]  # only these two are read
    now = found.current()
    assert isinstance(now, ListenerSecurity)
    assert (now.name, now.protocol, now["ssl.protocol"]) == ("CONTROLLER", "SASL_SSL", "TLSv1.3")
    assert found.context() is not context


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"sasl.mechanism.controller.protocol": "GSSAPI"}, "sasl.mechanism.controller.protocol"),
        ({"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"}, "sasl.mechanism.inter.broker.protocol"),
        ({"listener.name.controller.ssl.truststore.location": "/nowhere"}, "listener.name.controller.ssl.truststore.location"),
        ({"listener.name.b.plain.sasl.jaas.config": f"{PLAIN} user_a=b;"}, "listener.name.b.plain.sasl.jaas.config"),
    ],
)
def test_a_start_that_is_refused_leaves_nothing(changes: dict[str, str], name: str) -> None:
    store = files()
    found = config(changes)

    async def scenario() -> None:
        with pytest.raises(ConfigError, match=f"^{re.escape(name)}: "):
            await Broker(found, disk=store, cluster_id="AAAAAAAAAAAAAAAAAAAAAA").start()

    run(scenario)
    assert not store.exists("/data/meta.properties")

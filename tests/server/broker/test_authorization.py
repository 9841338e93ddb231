"""Tests of what a broker says about those who come to it as nobody in particular. What the authorizer does in a broker is tested
with the guards."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.server.broker.authorization import warn_of_anonymous_brokers
from ottla.server.security.authorizer import ALLOW, LITERAL, WILDCARD, Authorizer
from ottla.server.security.rights import Operation, Resource
from ottla.server.settings.broker_config import BrokerConfig
from ottla.server.settings.listeners import ListenerAddress
from ottla.wire.messages.internal.access_control_entry_record import AccessControlEntryRecord

NOBODY = "User:ANONYMOUS"
IN_QUORUM = {
    "process.roles": "broker",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "c:1",
    "controller.listener.names": "C",
    "listener.security.protocol.map": "C:PLAINTEXT,A:PLAINTEXT",
    "inter.broker.listener.name": "A",
    "listeners": "A://127.0.0.1:1",
}


def warnings(authorizer: Authorizer | None, caplog: pytest.LogCaptureFixture) -> list[str]:
    config, _ = BrokerConfig.from_mapping(IN_QUORUM)
    context: Any = SimpleNamespace(config=config, authorizer=authorizer)
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        warn_of_anonymous_brokers(context)
    return caplog.messages


def test_brokers_that_may_not_replicate_are_warned_of_with_the_remedy(caplog: pytest.LogCaptureFixture) -> None:
    (line,) = warnings(Authorizer(), caplog)
    assert line.startswith("super.users: other brokers come to listener A as User:ANONYMOUS, which may not replicate")
    assert "add User:ANONYMOUS to super.users" in line
    assert warnings(Authorizer(["User:admin"]), caplog) == [line]


def test_who_needs_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Resource.CLUSTER, "kafka-cluster"
    allowed = AccessControlEntryRecord(bytes(16), *cluster, LITERAL, NOBODY, WILDCARD, Operation.CLUSTER_ACTION, ALLOW)
    assert warnings(None, caplog) == []
    assert warnings(Authorizer([NOBODY]), caplog) == []
    assert warnings(Authorizer(rules=[allowed]), caplog) == []
    assert warnings(Authorizer(allow_without_rules=True), caplog) == []


def test_on_a_listener_where_they_say_who_they_are_others_decide(caplog: pytest.LogCaptureFixture) -> None:
    listeners = [ListenerAddress("A", "", 1), ListenerAddress("B", "", 2, "SASL_SSL")]
    for name, warned in (("A", True), ("B", False)):
        config = SimpleNamespace(follows_controllers=True, inter_broker_listener=name, listeners=listeners)
        context: Any = SimpleNamespace(config=config, authorizer=Authorizer())
        caplog.clear()
        warn_of_anonymous_brokers(context)
        assert bool(caplog.messages) == warned


def test_a_broker_alone_has_no_others(caplog: pytest.LogCaptureFixture) -> None:
    config, _ = BrokerConfig.from_mapping({})
    context: Any = SimpleNamespace(config=config, authorizer=Authorizer())
    with caplog.at_level(logging.WARNING):
        warn_of_anonymous_brokers(context)
    assert caplog.messages == []

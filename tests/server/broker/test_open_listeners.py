"""Tests of which listeners are warned of: those that other hosts reach without a login."""

from __future__ import annotations

import logging

import pytest

from ottla.server.broker.open_listeners import warn_of_open_listeners
from ottla.server.settings.broker_config import BrokerConfig
from ottla.server.settings.current import ALL_BROKERS, CurrentSettings
from ottla.server.settings.listeners import ListenerAddress

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SIGNED = "listener.name.a.oauthbearer.sasl.server.callback.handler.class"
HANDLERS = "org.apache.kafka.common.security.oauthbearer."
VALIDATOR = f"{HANDLERS}OAuthBearerValidatorCallbackHandler"
UNSECURED = f"{HANDLERS}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
TRUSTING = {"ssl.client.auth": "required"}


@pytest.mark.parametrize(
    ("address", "settings", "remedy"),
    [
        (ListenerAddress("A", "127.0.0.1", 1), {}, None),
        (ListenerAddress("A", "", 1), {}, "use SSL with ssl.client.auth=required"),
        (ListenerAddress("A", "", 1), {"authorizer.class.name": AUTHORIZER}, None),
        (ListenerAddress("A", "", 1, "SSL"), {}, "set ssl.client.auth=required"),
        (ListenerAddress("A", "", 1, "SSL"), {"ssl.client.auth": "requested"}, "set ssl.client.auth=required"),
        (ListenerAddress("A", "", 1, "SSL"), TRUSTING, None),
        (ListenerAddress("A", "", 1, "SSL"), {"listener.name.a.ssl.client.auth": "required"}, None),
        (
            ListenerAddress("A", "", 1, "SSL"),
            TRUSTING | {"listener.name.a.ssl.client.auth": "none"},
            "set ssl.client.auth=required",
        ),
        (ListenerAddress("A", "", 1, "SASL_PLAINTEXT"), {}, None),
        (ListenerAddress("A", "", 1, "SASL_SSL"), {}, None),
    ],
)
def test_warnings(
    address: ListenerAddress, settings: dict[str, str], remedy: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    place = {"listeners": "A://:1", "listener.security.protocol.map": "A:PLAINTEXT"}
    config, _ = BrokerConfig.from_mapping(place | settings)
    current = CurrentSettings(config, {ALL_BROKERS: {}, "1": {}}.__getitem__)
    with caplog.at_level(logging.WARNING):
        warn_of_open_listeners([address], current)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == (remedy is not None)
    if remedy is not None:
        assert f"reaches {address} may" in said[0]
        assert f"; {remedy}, or listen on 127.0.0.1" in said[0]


@pytest.mark.parametrize(
    ("address", "settings", "warns"),
    [
        (ListenerAddress("A", "", 1, "SASL_SSL"), {"sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER"}, True),
        (ListenerAddress("A", "", 1, "SASL_PLAINTEXT"), {"listener.name.a.sasl.enabled.mechanisms": "PLAIN, OAUTHBEARER"}, True),
        (
            ListenerAddress("A", "", 1, "SASL_SSL"),
            {"sasl.enabled.mechanisms": "OAUTHBEARER", "listener.name.a.sasl.enabled.mechanisms": "PLAIN"},
            False,
        ),
        (ListenerAddress("A", "127.0.0.1", 1, "SASL_SSL"), {"sasl.enabled.mechanisms": "OAUTHBEARER"}, False),
        (ListenerAddress("A", "", 1, "SASL_SSL"), {"sasl.enabled.mechanisms": "OAUTHBEARER", SIGNED: VALIDATOR}, False),
        (ListenerAddress("B", "", 1, "SASL_SSL"), {"sasl.enabled.mechanisms": "OAUTHBEARER", SIGNED: VALIDATOR}, True),
        (ListenerAddress("A", "", 1, "SASL_SSL"), {"sasl.enabled.mechanisms": "OAUTHBEARER", SIGNED: UNSECURED}, True),
        (ListenerAddress("A", "", 1, "SSL"), {"sasl.enabled.mechanisms": "OAUTHBEARER"} | TRUSTING, False),
    ],
)
def test_tokens_that_anybody_can_write_are_warned_of_whatever_the_rules(
    address: ListenerAddress, settings: dict[str, str], warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    place = {"listeners": "A://:1", "listener.security.protocol.map": "A:PLAINTEXT", "authorizer.class.name": AUTHORIZER}
    config, _ = BrokerConfig.from_mapping(place | settings)
    with caplog.at_level(logging.WARNING):
        warn_of_open_listeners([address], CurrentSettings(config, {ALL_BROKERS: {}, "1": {}}.__getitem__))
    assert [f"reaches {address} may log in as anybody" in line for line in caplog.messages] == [True] * warns

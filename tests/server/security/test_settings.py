"""Tests of which of several written texts counts for a listener, and that a wrong one is called by the name under which it was
written."""

from __future__ import annotations

import pytest

from ottla.log.config_def import ConfigError, Secret
from ottla.server.security.settings import ListenerSecurity
from ottla.server.settings.broker_config import BrokerConfig
from ottla.server.settings.current import ALL_BROKERS, CurrentSettings
from ottla.server.settings.listeners import PROTOCOLS

PASSWORD = "ssl.keystore.password"
JAAS = "sasl.jaas.config"
OF_LISTENER = "listener.name.external."
LISTENERS = {
    "listeners": "EXTERNAL://127.0.0.1:9092,OTHER://127.0.0.1:9093",
    "listener.security.protocol.map": "EXTERNAL:PLAINTEXT,OTHER:PLAINTEXT",
}


def security(
    static: dict[str, str] | None = None,
    common: dict[str, str] | None = None,
    own: dict[str, str] | None = None,
    protocol: str = "SASL_SSL",
) -> ListenerSecurity:
    config, _ = BrokerConfig.from_mapping(LISTENERS | (static or {}))
    dynamic = {ALL_BROKERS: common or {}, "1": own or {}}
    current = CurrentSettings(config, dynamic.__getitem__)
    return ListenerSecurity("EXTERNAL", protocol, current.texts, current.values)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_protocol_is_two_questions(protocol: str) -> None:
    found = security(protocol=protocol)
    assert (found.uses_tls, found.uses_sasl) == ("SSL" in protocol, "SASL" in protocol)


def test_what_is_not_written_has_its_default() -> None:
    found = security()
    assert found["ssl.client.auth"] == "none"
    assert found["ssl.enabled.protocols"] == ("TLSv1.2", "TLSv1.3")
    assert found[PASSWORD] is None
    assert found.written_name(PASSWORD) == PASSWORD
    assert found.of_mechanism("PLAIN", JAAS) is None


def test_the_longest_name_counts() -> None:
    texts = {PASSWORD: "all", "listener.name.other." + PASSWORD: "another's"}
    assert security(texts)[PASSWORD] == Secret("all")
    found = security(texts | {OF_LISTENER + PASSWORD: "own"})
    assert found[PASSWORD] == Secret("own")
    assert found.written_name(PASSWORD) == OF_LISTENER + PASSWORD


@pytest.mark.parametrize("setting", [JAAS, "connections.max.reauth.ms"])
def test_a_mechanism_may_have_its_own(setting: str) -> None:
    texts = {setting: "1", OF_LISTENER + setting: "2", f"{OF_LISTENER}scram-sha-256.{setting}": "3"}
    found = security(texts)
    assert found.of_mechanism("SCRAM-SHA-256", setting) in (3, Secret("3"))
    assert found.of_mechanism("PLAIN", setting) == found[setting]
    assert found[setting] in (2, Secret("2"))
    assert found.written_name(setting, "SCRAM-SHA-256") == f"{OF_LISTENER}scram-sha-256.{setting}"
    assert found.written_name(setting, "PLAIN") == found.written_name(setting) == OF_LISTENER + setting
    assert found.names_of(setting, "PLAIN") == (f"{OF_LISTENER}plain.{setting}", OF_LISTENER + setting, setting)


def test_other_settings_are_those_of_the_listener_whatever_the_mechanism() -> None:
    found = security({f"{OF_LISTENER}plain.ssl.client.auth": "required", OF_LISTENER + "ssl.client.auth": "requested"})
    assert found.of_mechanism("PLAIN", "ssl.client.auth") == "requested"
    assert found.at("ssl.client.auth") == "none"


def test_a_longer_name_of_the_file_counts_more_than_a_shorter_one_that_is_dynamic() -> None:
    static = {OF_LISTENER + "ssl.client.auth": "required"}
    assert security(static, own={"ssl.client.auth": "requested"})["ssl.client.auth"] == "required"
    assert security({}, own={"ssl.client.auth": "requested"})["ssl.client.auth"] == "requested"


def test_of_one_name_the_own_dynamic_text_counts_most() -> None:
    name = OF_LISTENER + "ssl.client.auth"
    static, common, own = ({name: value} for value in ("none", "requested", "required"))
    assert security(static, common, own)["ssl.client.auth"] == "required"
    assert security(static, common)["ssl.client.auth"] == "requested"
    assert security(static)["ssl.client.auth"] == "none"


def test_a_wrong_text_is_called_by_the_name_that_was_written() -> None:
    found = security({OF_LISTENER + "ssl.client.auth": "maybe"})
    with pytest.raises(ConfigError, match=r"^listener\.name\.external\.ssl\.client\.auth: 'maybe' is not one of"):
        found["ssl.client.auth"]
    with pytest.raises(KeyError):
        found["ssl.no.such"]


def test_what_is_written_can_be_compared() -> None:
    found = security({PASSWORD: "all", OF_LISTENER + "ssl.keystore.type": "PEM", "sasl.enabled.mechanisms": "PLAIN"})
    assert found.texts("ssl.") == {PASSWORD: "all", "ssl.keystore.type": "PEM"}
    assert security({PASSWORD: "all", OF_LISTENER + PASSWORD: "own"}).texts("ssl.") == {PASSWORD: "own"}

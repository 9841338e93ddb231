"""What a start refuses about the console, and where the console reaches the broker."""

from __future__ import annotations

import importlib.util

import pytest

from ottla.log.config_def import ConfigError
from ottla.server.console.settings import addresses_for, read_settings
from ottla.server.metadata.image import Endpoint
from ottla.server.settings.broker_config import BrokerConfig
from ottla.server.settings.listeners import ListenerAddress


def config(**settings: str) -> BrokerConfig:
    given = {"ottla.console.port": "0", **{name.replace("_", "."): text for name, text in settings.items()}}
    return BrokerConfig.from_mapping(given, None)[0]


def test_what_is_set() -> None:
    found = read_settings(config(ottla_console_read_only="true", ottla_console_token="0123456789abcdef"))
    assert (found.port, found.host, found.token, found.read_only) == (0, "127.0.0.1", "0123456789abcdef", True)
    assert read_settings(config()).shows_inside


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"ottla_console_host": "0.0.0.0"}, r"^ottla\.console\.host: the console has no TLS, so .* use ssh -L"),
        ({"ottla_console_token": "short"}, r"^ottla\.console\.token: has to be 16 letters"),
        (
            {"ottla_console_token": "0123456789abcdef", "ottla_console_no_token": "true"},
            r"^ottla\.console\.no\.token: ",
        ),
        ({"listeners": "SSL://127.0.0.1:0"}, r"^ottla\.console\.port: .* client\.properties in ottla\.console\.command\.config"),
    ],
)
def test_what_is_not_safe_or_cannot_work_is_refused(settings: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        read_settings(config(**settings))


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "jinja2" else object())
    with pytest.raises(ConfigError, match=r"^ottla\.console\.port: the console needs jinja2; pip install"):
        read_settings(config())


def test_with_an_authorizer_only_who_has_the_token_sees_the_inside() -> None:
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    assert read_settings(config(authorizer_class_name=authorizer)).shows_inside
    assert not read_settings(config(authorizer_class_name=authorizer, ottla_console_no_token="true")).shows_inside
    assert read_settings(config(ottla_console_no_token="true")).shows_inside


def test_the_console_asks_on_loopback_where_it_can() -> None:
    def found(*listeners: tuple[str, str]) -> dict[str, str]:
        addresses = [ListenerAddress(f"L{at}", host, 0, protocol) for at, (host, protocol) in enumerate(listeners)]
        endpoints = [Endpoint(f"L{at}", "shown", 100 + at, 0) for at in range(len(listeners))]
        return addresses_for(addresses, range(10, 10 + len(listeners)), endpoints)

    assert found(("10.0.0.1", "PLAINTEXT"), ("", "PLAINTEXT"), ("localhost", "PLAINTEXT")) == {"PLAINTEXT": "localhost:12"}
    assert found(("10.0.0.1", "PLAINTEXT"), ("0.0.0.0", "PLAINTEXT")) == {"PLAINTEXT": "127.0.0.1:11"}
    assert found(("::", "PLAINTEXT"), ("", "SASL_SSL")) == {"PLAINTEXT": "[::1]:10", "SASL_SSL": "shown:101"}

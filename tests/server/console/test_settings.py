"""Tests of what a start refuses about the console, and where the console reaches the broker."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from compat_tests.password_files import line, write
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
        (
            {"ottla_console_host": "0.0.0.0"},
            r"^ottla\.console\.host: .* TLS and users of its own; set listener\.name\.console\.ssl\.keystore\.location and "
            r"ottla\.console\.users \(docs/console\.md\), or .* use ssh -L$",
        ),
        (
            {"ottla_console_host": "::", "ssl_keystore_location": "/none"},
            r"^ottla\.console\.host: .* set ottla\.console\.users \(",
        ),
        (
            {"ottla_console_host": "0.0.0.0", "ottla_console_no_token": "true"},
            r"^ottla\.console\.no\.token: .* reach 0\.0\.0\.0$",
        ),
        ({"ottla_console_host": "kafka.test"}, r"^ottla\.console\.host: 'kafka\.test' is not an address"),
        ({"ottla_console_users": "/none"}, r"^ottla\.console\.users: /none: No such file"),
        (
            {"ottla_console_users": "/x", "ottla_console_no_token": "true"},
            r"^ottla\.console\.no\.token: .*\.users is",
        ),
        ({"ottla_console_token": "short"}, r"^ottla\.console\.token: has to be 16 characters"),
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


def test_with_an_authorizer_of_the_users_only_its_super_users_see_the_inside() -> None:
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    found = read_settings(config(authorizer_class_name=authorizer, super_users="User:root;Group:x;User:CN=a,O=b"))
    assert found.seen_by == frozenset({"root", "CN=a,O=b"})
    assert read_settings(config(super_users="User:root")).seen_by is None


def test_other_machines_are_let_in_with_tls_and_users_and_no_token_is_made(tmp_path: Path) -> None:
    users = tmp_path / "users"
    write(users, line("alice"))
    given = {"ottla_console_users": str(users), "listener_name_console_ssl_keystore_location": "/keys"}
    found = read_settings(config(ottla_console_host="0.0.0.0", **given))
    assert (found.is_remote, found.has_tls, found.makes_token, found.users) == (True, True, False, str(users))
    here = read_settings(config(ottla_console_users=str(users), ssl_keystore_location="/keys"))
    assert (here.is_remote, here.has_tls, here.makes_token) == (False, False, True)  # those keys are the listeners'
    assert read_settings(config(**given)).has_tls


def test_the_console_asks_on_loopback_where_it_can() -> None:
    def found(*listeners: tuple[str, str]) -> dict[str, str]:
        addresses = [ListenerAddress(f"L{at}", host, 0, protocol) for at, (host, protocol) in enumerate(listeners)]
        endpoints = [Endpoint(f"L{at}", "shown", 100 + at, 0) for at in range(len(listeners))]
        return addresses_for(addresses, range(10, 10 + len(listeners)), endpoints)

    assert found(("10.0.0.1", "PLAINTEXT"), ("", "PLAINTEXT"), ("localhost", "PLAINTEXT")) == {"PLAINTEXT": "localhost:12"}
    assert found(("10.0.0.1", "PLAINTEXT"), ("0.0.0.0", "PLAINTEXT")) == {"PLAINTEXT": "127.0.0.1:11"}
    assert found(("::", "PLAINTEXT"), ("", "SASL_SSL")) == {"PLAINTEXT": "[::1]:10", "SASL_SSL": "shown:101"}


def test_the_console_has_a_key_as_a_listener_has_and_no_other_of_its_settings() -> None:
    assert config(listener_name_console_ssl_keystore_location="/keys").texts
    with pytest.raises(ConfigError, match=r"^listener\.name\.console\.ssl\.client\.auth: no listener has the name CONSOLE"):
        config(listener_name_console_ssl_client_auth="required")
    without = {"listener.name.console.ssl.keystore.location": "/keys"}
    with pytest.raises(ConfigError, match=r"no listener has the name CONSOLE"):
        BrokerConfig.from_mapping(without, None)

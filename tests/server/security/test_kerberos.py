"""Kerberos from the settings of a listener, with a library that does what the test says; compat_tests/security/test_kerberos.py
has a KDC and the real one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.log.config_def import ConfigError, Secret
from ottla.security.jaas import Module
from ottla.server.security.gssapi import LONGEST_TOKEN, Gssapi
from ottla.server.security.kerberos import load_gssapi
from ottla.server.security.kerberos_config import KerberosConfig
from ottla.server.security.mechanism import Challenge, Done, Failed
from tests.server.security.listener import OWN, security

JAAS = f"{OWN}gssapi.sasl.jaas.config"
OPTIONS = {"useKeyTab": "true", "storeKey": "true", "keyTab": "/kafka.keytab", "principal": "kafka/broker@HOME"}
SERVICE = {"sasl.kerberos.service.name": "kafka"}
SYSTEM, OWN_CONFIG = KerberosConfig(""), KerberosConfig("/etc/kafka/krb5.conf")


class GSSError(Exception):
    """An error as the library raises it."""


class Name:
    def __init__(self, text: str, kind: str) -> None:
        self.text = text

    def canonicalize(self, mechanism: str) -> str:
        return f"{self.text}@HOME"


class Credentials:
    made: list[dict[str, Any]] = []  # noqa: RUF012 - a test empties it

    def __init__(self, **arguments: Any) -> None:
        if arguments["store"] == {"keytab": "FILE:/none"}:
            raise GSSError("Major (1): no.\nMinor (2): No such file")
        self.made.append(arguments)


class SecurityContext:
    """Takes one token, which is the name of the client; wraps nothing, and takes only what is good."""

    def __init__(self, creds: Credentials, usage: str) -> None:
        assert usage == "accept"
        self.complete = False
        self.name = ""

    def step(self, token: bytes) -> bytes | None:
        if token == b"bad":
            raise GSSError("bad")
        self.complete, self.name = True, token.decode()
        return None

    @property
    def initiator_name(self) -> str:
        if self.name == "nobody":
            raise GSSError("nobody")
        if self.name == "latin":
            return str(b"\xe9", "utf-8")
        return self.name

    def wrap(self, message: bytes, encrypt: bool) -> Any:
        assert not encrypt
        if self.name == "mute":
            raise GSSError("mute")
        return SimpleNamespace(message=message)

    def unwrap(self, token: bytes) -> Any:
        if token == b"bad":
            raise GSSError("bad")
        return SimpleNamespace(message=token)


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    found = SimpleNamespace(
        Name=Name,
        NameType=SimpleNamespace(kerberos_principal="principal"),
        MechType=SimpleNamespace(kerberos="kerberos"),
        Credentials=Credentials,
        SecurityContext=SecurityContext,
        exceptions=SimpleNamespace(GSSError=GSSError),
    )
    monkeypatch.setitem(sys.modules, "gssapi", found)
    monkeypatch.setenv("KRB5_CONFIG", "the system's")
    Credentials.made.clear()
    yield
    for config in (SYSTEM, OWN_CONFIG):
        config.close()


def loaded(settings: dict[str, str], config: KerberosConfig = SYSTEM, /, **changed: str) -> Gssapi:
    options = {name: Secret(text) for name, text in {**OPTIONS, **changed}.items() if text}
    return load_gssapi(Module("x", options), JAAS, security(settings, "SASL_SSL"), config)


def refused(settings: dict[str, str], **changed: str) -> str:
    with pytest.raises(ConfigError) as refusal:
        loaded(settings, **changed)
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


def test_what_it_is_made_of(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    mechanism = loaded(SERVICE, OWN_CONFIG)
    assert os.environ["KRB5_CONFIG"] == "/etc/kafka/krb5.conf"
    assert mechanism.longest_blocking == LONGEST_TOKEN
    (made,) = Credentials.made
    assert (made["name"].text, made["usage"], made["mechs"]) == ("kafka/broker@HOME", "accept", ["kerberos"])
    assert made["store"] == {"keytab": "FILE:/kafka.keytab"}


def test_the_system_s_configuration_if_none_is_named() -> None:
    import os

    loaded(SERVICE)
    assert os.environ["KRB5_CONFIG"] == "the system's"


def test_logins() -> None:
    mechanism = loaded(SERVICE | {"sasl.kerberos.principal.to.local.rules": "RULE:[2:$2],DEFAULT"})
    for principal, user in (("alice@HOME", "alice"), ("alice/admin@AWAY", "admin")):
        exchange = mechanism.begin()
        assert exchange.step(principal.encode()) == Challenge(b"\x01\0\0\0")
        assert exchange.step(b"\x01\0\0\0") == Done(f"User:{user}")
    for first, second in (
        (b"bad", b""),
        (b"mute", b""),
        (b"alice@HOME", b"bad"),
        (b"nobody", b"\x01\0\0\0"),
        (b"latin", b"\x01\0\0\0"),
    ):
        exchange = mechanism.begin()
        outcomes = [exchange.step(first)]
        if second:
            outcomes.append(exchange.step(second))
        assert isinstance(outcomes[-1], Failed)
        assert outcomes[-1].text is None
    exchange = mechanism.begin()
    exchange.step(b"a" * 1001)
    assert exchange.step(b"\x01\0\0\0") == Failed(None, "its ticket does not count: its principal is longer than 1000 characters")


@pytest.mark.parametrize("changed", [{"useKeyTab": "false"}, {"useKeyTab": ""}, {"keyTab": ""}, {"principal": ""}])
def test_login_modules_without_a_keytab(changed: dict[str, str]) -> None:
    assert refused(SERVICE, **changed).startswith(f"{JAAS}: the broker needs a keytab; write useKeyTab=true")


def test_a_keytab_that_does_not_serve() -> None:
    text = refused(SERVICE, keyTab="/none")
    why = "Major (1): no. Minor (2): No such file"
    assert text.startswith(f"{JAAS}: /none does not serve as the keytab of kafka/broker@HOME ({why}); name a keytab")


def test_the_name_of_the_service() -> None:
    assert refused({}).startswith("sasl.kerberos.service.name: it is not set")
    loaded({}, serviceName="kafka")
    loaded(SERVICE, serviceName="kafka")
    text = refused({f"{OWN}sasl.kerberos.service.name": "kafka"}, serviceName="other")
    assert text == f"{OWN}sasl.kerberos.service.name: it is kafka, but {JAAS} has serviceName=other; make them the same"


def test_a_rule_that_does_not_parse() -> None:
    text = refused(SERVICE | {f"{OWN}sasl.kerberos.principal.to.local.rules": "x"})
    assert text.startswith(f"{OWN}sasl.kerberos.principal.to.local.rules: 'x' is no rule")


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    text = refused(SERVICE)
    assert text.startswith("sasl.enabled.mechanisms: GSSAPI needs the package gssapi; pip install '.[gssapi]'")

"""ClientSecurity: how this node connects to others by its settings, and what is refused."""

from __future__ import annotations

import logging
import re
import ssl
from typing import Any

import pytest

from compat_tests.certificates import NOW_MS, Holder, authority, issue
from ottla.log.config_def import ConfigError
from ottla.security.jaas import parse_file
from ottla.server.base.randomness import from_seed
from ottla.server.security.client import ClientSecurity, Surroundings, check_enabled
from tests.server.security.listener import OWN, Files, security
from tests.server.security.test_tls import MUTUAL, ROOT, STORE, TRUST, context, files, shake

MECHANISM = "sasl.mechanism.inter.broker.protocol"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"


def client(settings: dict[str, str], protocol: str = "SSL", found: Files | None = None, jaas: str = "") -> ClientSecurity:
    listener = security(settings, protocol)
    surroundings = Surroundings((found or files()).read, from_seed(1), lambda: NOW_MS, lambda: parse_file(jaas))
    return ClientSecurity(lambda: listener, MECHANISM, surroundings)


def tls(settings: dict[str, str], **options: Any) -> ssl.SSLContext:
    found = client(settings, **options).context()
    assert found is not None
    return found


def test_a_node_shows_its_certificate_and_checks_that_of_the_other() -> None:
    here, there = shake(context(MUTUAL), tls(STORE | TRUST))
    assert here.getpeercert(True) == there.getpeercert(True), "both are the same node"
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(context(STORE), tls(TRUST, found=files(trusted=authority("foreign"))))


def test_without_a_keystore_there_is_nothing_to_show() -> None:
    here, _ = shake(context(STORE), tls(TRUST))
    assert here.getpeercert(True) is None
    with pytest.raises(ssl.SSLError):
        shake(context(MUTUAL | {"ssl.enabled.protocols": "TLSv1.2"}), tls(TRUST))


def test_without_a_truststore_the_system_s_authorities_are_trusted() -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match=r"self-signed|unable to get local issuer"):
        shake(context(STORE), tls({}))


@pytest.mark.parametrize(("algorithm", "refused"), [("https", True), ("HTTPS", True), ("", False)])
def test_the_name_in_the_certificate(algorithm: str, refused: bool) -> None:
    elsewhere = issue("elsewhere", ROOT, hosts=("elsewhere.test",))
    server = context_of(elsewhere)
    mine = tls(TRUST | {"ssl.endpoint.identification.algorithm": algorithm})
    if refused:
        with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
            shake(server, mine)
    else:
        shake(server, mine)


def context_of(own: Holder) -> ssl.SSLContext:
    from ottla.security.keystores import load_identity
    from ottla.server.security.tls import make_context

    found, read = security(STORE), files(own).read
    return make_context(found, load_identity(found, read, NOW_MS), read)


def test_new_files_count_for_new_connections_and_bad_ones_do_not(caplog: pytest.LogCaptureFixture) -> None:
    found = files(trusted=authority("foreign"))
    mine = client(TRUST, found=found)
    first = mine.context()
    assert mine.context() is first
    found["/trust"] = ROOT.chain_pem().encode()
    second = mine.context()
    assert second is not None
    assert second is not first
    shake(context(STORE), second)
    found["/trust"] = b"nonsense"
    assert mine.context() is second
    assert mine.context() is second
    del found["/trust"]
    assert mine.context() is second
    assert [each.levelno for each in caplog.records] == [logging.ERROR, logging.ERROR], "once for each change"
    assert "ssl.truststore.location" in caplog.text


@pytest.mark.parametrize(
    ("mechanism", "settings", "jaas"),
    [
        ("PLAIN", {f"{OWN}plain.sasl.jaas.config": f'{PLAIN} username="me" password="p w" user_me="p w";'}, ""),
        ("SCRAM-SHA-512", {f"{OWN}scram-sha-512.sasl.jaas.config": f'{SCRAM} username="me" password="p w";'}, ""),
        ("SCRAM-SHA-256", {}, f'secure.KafkaServer {{ {SCRAM} username="me" password="p w"; }};'),
        ("PLAIN", {}, f'KafkaServer {{ {PLAIN} username="me" password="p w"; }};'),
    ],
)
def test_logins_are_found_where_kafka_looks(mechanism: str, settings: dict[str, str], jaas: str) -> None:
    found = client({MECHANISM: mechanism} | settings, "SASL_PLAINTEXT", jaas=jaas)
    login = found.login
    assert login is not None
    assert (login.mechanism, login.name, login.password.reveal()) == (mechanism, "me", "p w")
    assert "p w" not in repr(login)
    first = next(login.begin())
    assert first == b"\0me\0p w" if mechanism == "PLAIN" else first.startswith(b"n,,n=me,r=")
    assert len({login.make_nonce() for _ in range(50)}) == 50
    assert found.context() is None


def test_tls_alone_logs_nobody_in() -> None:
    assert client(TRUST).login is None


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, f"{MECHANISM}: ottla does not log in to other nodes by GSSAPI; use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"),
        ({MECHANISM: "PLAIN"}, f"{OWN}plain.sasl.jaas.config: PLAIN has no login module; set it to "),
        (
            {MECHANISM: "PLAIN", f"{OWN}plain.sasl.jaas.config": f"{PLAIN} user_a=b;"},
            f"{OWN}plain.sasl.jaas.config: it has no username and password, by which this node logs in to others ({MECHANISM})",
        ),
        (
            {MECHANISM: "PLAIN", f"{OWN}plain.sasl.jaas.config": f"{PLAIN} username=a;"},
            f"{OWN}plain.sasl.jaas.config: it has no ",
        ),
    ],
)
def test_logins_that_cannot_be(settings: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(text)}"):
        client(settings, "SASL_PLAINTEXT")


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"ssl.endpoint.identification.algorithm": "LDAPS"}, "ssl.endpoint.identification.algorithm"),
        ({f"{OWN}ssl.truststore.location": "/nowhere"}, f"{OWN}ssl.truststore.location"),
        (STORE | {"ssl.keystore.location": "/nowhere"}, "ssl.keystore.location"),
        ({"ssl.provider": "BC"}, "ssl.provider"),
        ({"ssl.enabled.protocols": "TLSv9"}, "ssl.enabled.protocols"),
    ],
)
def test_tls_that_cannot_be(settings: dict[str, str], name: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(name)}: "):
        client(settings)


def test_brokers_have_to_take_the_mechanism_by_which_they_log_in() -> None:
    settings = {MECHANISM: "PLAIN", "sasl.enabled.mechanisms": "SCRAM-SHA-256"}
    with pytest.raises(ConfigError, match=f"^{re.escape(MECHANISM)}: PLAIN is not enabled at listener SECURE"):
        check_enabled(security(settings, "SASL_SSL"), MECHANISM)
    check_enabled(security(settings | {f"{OWN}sasl.enabled.mechanisms": "X,PLAIN"}, "SASL_SSL"), MECHANISM)
    check_enabled(security(settings, "SSL"), MECHANISM)

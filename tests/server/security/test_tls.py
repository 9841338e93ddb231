"""Contexts of TLS: what their settings make of a handshake, and when a new one takes the place of the old."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path

import pytest

from compat_tests.certificates import NOW_MS, Holder, authority, client_context, issue
from ottla.log.config_def import ConfigError
from ottla.security.cipher_suites import TLS13_SUITES
from ottla.security.keystores import load_identity
from ottla.server.security.certificate_names import distinguished_name, subject_of
from ottla.server.security.tls import NameChanged, TlsContexts, make_context
from tests.server.security.listener import OWN, Files, security

ROOT = authority()
BROKER = issue("broker", ROOT)
ALICE = issue("alice", ROOT)
FOREIGN = issue("alice", authority("foreign"))
STORE = {"ssl.keystore.type": "PEM", "ssl.keystore.location": "/own"}
TRUST = {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/trust"}
MUTUAL = STORE | TRUST | {"ssl.client.auth": "required"}
RSA_GCM = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
EC_GCM = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"


def files(own: Holder = BROKER, trusted: Holder = ROOT) -> Files:
    return Files({"/own": own.pem().encode(), "/trust": trusted.chain_pem().encode()})


def context(settings: dict[str, str]) -> ssl.SSLContext:
    found = security(settings)
    return make_context(found, load_identity(found, files().read, NOW_MS), files().read)


def shake(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """A handshake in memory; returns both sides. Raises ssl.SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    here = server.wrap_bio(to_server, to_client, server_side=True)
    there = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    done = set()
    for side in 10 * (there, here):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
        done.add(side)
    assert done == {here, there}
    return here, there


def test_who_the_broker_is() -> None:
    _, there = shake(context(STORE), client_context(ROOT))
    assert distinguished_name(subject_of(there.getpeercert(True) or b"")) == "CN=broker,O=Ottla"
    assert there.version() == "TLSv1.3"
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(context(STORE), client_context(authority("foreign")))


@pytest.mark.parametrize(
    ("auth", "own", "welcome"),
    [
        ("none", None, True),
        ("none", FOREIGN, True),
        ("requested", None, True),
        ("requested", ALICE, True),
        ("requested", FOREIGN, False),
        ("required", None, False),
        ("required", ALICE, True),
        ("required", FOREIGN, False),
        ("required", issue("old", ROOT, days=-1), False),
    ],
)
def test_certificates_of_clients(auth: str, own: Holder | None, welcome: bool, tmp_path: Path) -> None:
    server, client = context(MUTUAL | {"ssl.client.auth": auth}), client_context(ROOT, own, tmp_path)
    client.maximum_version = ssl.TLSVersion.TLSv1_2  # in which the client hears of it within the handshake
    if not welcome:
        with pytest.raises(ssl.SSLError):
            shake(server, client)
        return
    here, _ = shake(server, client)
    shown = here.getpeercert(True)
    assert (shown is None) == (own is None or auth == "none")
    if shown is not None:
        assert distinguished_name(subject_of(shown)) == "CN=alice,O=Ottla"


def test_whatever_is_in_the_truststore_is_trusted(tmp_path: Path) -> None:
    found = security(MUTUAL)
    only_alice = Files({"/own": BROKER.pem().encode(), "/trust": ALICE.chain_pem().encode().split(b"-----END")[0]})
    only_alice["/trust"] += b"-----END CERTIFICATE-----\n"
    server = make_context(found, load_identity(found, only_alice.read, NOW_MS), only_alice.read)
    assert shake(server, client_context(ROOT, ALICE, tmp_path))[0].getpeercert(True)
    with pytest.raises(ssl.SSLError):
        shake(server, client_context(ROOT, issue("bob", ROOT), tmp_path))


@pytest.mark.parametrize(
    ("settings", "version", "suite"),
    [
        ({}, "TLSv1.3", None),
        ({"ssl.enabled.protocols": "TLSv1.2"}, "TLSv1.2", None),
        ({"ssl.enabled.protocols": "TLSv1.3", "ssl.protocol": "TLS"}, "TLSv1.3", None),
        ({"ssl.enabled.protocols": "TLSv1.1,TLSv1.2"}, "TLSv1.2", None),
        ({"ssl.cipher.suites": EC_GCM}, "TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        ({"ssl.cipher.suites": ",".join((EC_GCM, *TLS13_SUITES))}, "TLSv1.3", None),
        ({"ssl.cipher.suites": ",".join(TLS13_SUITES)}, "TLSv1.3", None),
        ({"ssl.cipher.suites": f"{EC_GCM},{TLS13_SUITES[0]}", "ssl.enabled.protocols": "TLSv1.2"}, "TLSv1.2", None),
    ],
)
def test_versions_and_cipher_suites(settings: dict[str, str], version: str, suite: str | None) -> None:
    here, _ = shake(context(STORE | settings), client_context(ROOT))
    assert here.version() == version
    if suite is not None:
        assert (here.cipher() or ("",))[0] == suite


@pytest.mark.parametrize(
    ("settings", "client"),
    [
        ({"ssl.enabled.protocols": "TLSv1.3"}, {"maximum_version": ssl.TLSVersion.TLSv1_2}),
        ({"ssl.enabled.protocols": "TLSv1.2"}, {"minimum_version": ssl.TLSVersion.TLSv1_3}),
        ({"ssl.cipher.suites": ",".join(TLS13_SUITES)}, {"maximum_version": ssl.TLSVersion.TLSv1_2}),
    ],
)
def test_a_client_of_another_version(settings: dict[str, str], client: Mapping[str, ssl.TLSVersion]) -> None:
    theirs = client_context(ROOT)
    for name, value in client.items():
        setattr(theirs, name, value)
    with pytest.raises(ssl.SSLError):
        shake(context(STORE | settings), theirs)


def test_nobody_renegotiates_or_compresses() -> None:
    options = context(STORE).options
    assert options & ssl.OP_NO_RENEGOTIATION
    assert options & ssl.OP_NO_COMPRESSION


@pytest.mark.parametrize(
    ("settings", "begins"),
    [
        ({"ssl.enabled.protocols": "TLSv1.1"}, "ssl.enabled.protocols: none of 'TLSv1.1' is supported"),
        ({"ssl.enabled.protocols": "SSLv3,TLSv1.2"}, "ssl.enabled.protocols: 'SSLv3' is not a version of TLS"),
        ({"ssl.protocol": "SSLv3"}, "ssl.protocol: 'SSLv3' is not supported"),
        ({OWN + "ssl.cipher.suites": "TLS_RSA_WITH_RC4_128_MD5"}, OWN + "ssl.cipher.suites: 'TLS_RSA_WITH_RC4_128_MD5' is not a"),
        ({"ssl.cipher.suites": f"{EC_GCM},TLS_RSA_WITH_AES_256_GCM_SHA256"}, "ssl.cipher.suites: 'TLS_RSA_WITH_AES_256_GCM"),
        ({"ssl.cipher.suites": TLS13_SUITES[0]}, "ssl.cipher.suites: the cipher suites of TLS 1.3 go together here, and"),
        (
            {"ssl.cipher.suites": RSA_GCM, "ssl.enabled.protocols": "TLSv1.3"},
            "ssl.cipher.suites: no enabled version of TLS has any of these; name suites of TLSv1.3",
        ),
        ({"ssl.provider": "BCJSSE"}, "ssl.provider: 'BCJSSE' needs Java"),
        ({"ssl.engine.factory.class": "my.Factory"}, "ssl.engine.factory.class: 'my.Factory' needs Java"),
        ({"ssl.trustmanager.algorithm": "X"}, "ssl.trustmanager.algorithm: 'X' needs Java"),
        ({"ssl.keymanager.algorithm": "X"}, "ssl.keymanager.algorithm: 'X' needs Java"),
        ({OWN + "principal.builder.class": "my.Builder"}, OWN + "principal.builder.class: 'my.Builder' needs Java"),
        ({"ssl.client.auth": "required"}, "ssl.truststore.location: ssl.client.auth=required needs a truststore"),
        ({"ssl.client.auth": "requested"}, "ssl.truststore.location: ssl.client.auth=requested needs a truststore"),
    ],
)  # fmt: skip
def test_what_is_not_available(settings: dict[str, str], begins: str) -> None:
    with pytest.raises(ConfigError) as error:
        context(STORE | settings)
    assert str(error.value).startswith(begins)
    assert "\n" not in str(error.value)


# Reloading


def contexts(settings: dict[str, str], found: Files) -> TlsContexts:
    return TlsContexts(security(settings), found.read, NOW_MS)


def test_nothing_new_makes_no_new_context() -> None:
    made = contexts(MUTUAL, files())
    before = made.context
    assert not made.reload(security(MUTUAL), NOW_MS)
    assert made.context is before
    assert made.subject == "CN=broker,O=Ottla"
    assert made.expires_ms == BROKER.certificate.not_valid_after_utc.timestamp() * 1000


@pytest.mark.parametrize("path", ["/own", "/trust"])
def test_a_file_that_changed_makes_a_new_one(path: str) -> None:
    found = files()
    made = contexts(MUTUAL, found)
    before = made.context
    found[path] = files(issue("broker", ROOT), authority("foreign"))[path]
    assert made.reload(security(MUTUAL), NOW_MS)
    assert made.context is not before
    assert not made.reload(security(MUTUAL), NOW_MS)


def test_a_setting_that_changed_makes_a_new_one() -> None:
    made = contexts(MUTUAL, files())
    assert made.reload(security(MUTUAL | {OWN + "ssl.client.auth": "requested"}), NOW_MS)
    assert made.context.verify_mode is ssl.CERT_OPTIONAL
    assert made.rules.user_of("CN=a") == "CN=a"
    assert made.reload(security(MUTUAL | {"ssl.principal.mapping.rules": "RULE:CN=(.*)/$1/"}), NOW_MS)
    assert made.rules.user_of("CN=a") == "a"
    assert not made.reload(security(MUTUAL | {"ssl.principal.mapping.rules": "RULE:CN=(.*)/$1/", "num.partitions": "7"}), NOW_MS)


@pytest.mark.parametrize(
    "new", [b"nonsense", None, issue("broker", ROOT, days=-1).pem().encode(), issue("other", ROOT).pem().encode()]
)
def test_what_cannot_be_used_leaves_the_old_one_and_is_reported_once(new: bytes | None) -> None:
    found = files()
    made = contexts(MUTUAL, found)
    before = made.context
    if new is None:
        del found["/own"]
    else:
        found["/own"] = new
    with pytest.raises(ConfigError, match=r"^ssl\.keystore\.location: "):
        made.check(security(MUTUAL), NOW_MS)
    with pytest.raises(ConfigError, match=r"^ssl\.keystore\.location: "):
        made.reload(security(MUTUAL), NOW_MS)
    assert made.context is before
    assert not made.reload(security(MUTUAL), NOW_MS)
    found["/own"] = issue("broker", ROOT).pem().encode()
    assert made.reload(security(MUTUAL), NOW_MS)


@pytest.mark.parametrize(
    ("new", "allowed", "message"),
    [
        (issue("other", ROOT), "ssl.allow.dn.changes", "is for CN=other,O=Ottla, not CN=broker,O=Ottla"),
        (
            issue("broker", ROOT, hosts=("localhost",)),
            "ssl.allow.san.changes",
            r"lacks alternative names of the old \w+ \(127.0.0.1\)",
        ),
    ],
)
def test_another_name_has_to_be_allowed(new: Holder, allowed: str, message: str) -> None:
    found = files()
    made = contexts(STORE, found)
    found["/own"] = new.pem().encode()
    with pytest.raises(NameChanged, match=message):
        made.reload(security(STORE), NOW_MS)
    made = contexts(STORE | {allowed: "true"}, files())
    made._read = found.read
    assert made.reload(security(STORE | {allowed: "true"}), NOW_MS)


def test_more_alternative_names_need_no_permission() -> None:
    found = files()
    made = contexts(STORE, found)
    found["/own"] = issue("broker", ROOT, hosts=("localhost", "127.0.0.1", "other.test")).pem().encode()
    assert made.reload(security(STORE), NOW_MS)


def test_a_check_changes_nothing() -> None:
    found = files()
    made = contexts(STORE, found)
    before = made.context
    found["/own"] = issue("broker", ROOT).pem().encode()
    made.check(security(STORE), NOW_MS)
    assert made.context is before
    assert made.reload(security(STORE), NOW_MS)

"""commands/clients/properties.py: what Java's names become, and what is refused in one line that begins with the property."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from confluent_kafka.admin import AdminClient
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from compat_tests.certificates import NOW_MS, PASSWORD, Holder, authority, issue, jks
from ottla.commands.clients.properties import translate
from ottla.log.config_def import ConfigError

ROOT = authority()
MIDDLE = issue("middle", ROOT, is_authority=True)
CLIENT = issue("client", MIDDLE)
FILES = {
    "client.jks": CLIENT.jks(key_password="of-the-key"),
    "client.p12": CLIENT.pkcs12(),
    "client.pem": CLIENT.pem("of-the-key").encode(),
    "trust.jks": jks(PASSWORD, trusted=[each.certificate.public_bytes(Encoding.DER) for each in (ROOT, MIDDLE)]),
    "trust.pem": ROOT.chain_pem().encode(),
}
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def read(path: str) -> bytes:
    if path not in FILES:
        raise FileNotFoundError(2, "No such file or directory", path)
    return FILES[path]


def translated(given: Mapping[str, str]) -> dict[str, str]:
    """Returns what becomes of a file; librdkafka takes all of it."""
    found = translate(given, read, NOW_MS)
    AdminClient({"bootstrap.servers": "127.0.0.1:1", "log_level": 0, **found})
    return found


def refused(given: Mapping[str, str]) -> str:
    with pytest.raises(ConfigError) as error:
        translate(given, read, NOW_MS)
    text = str(error.value)
    assert "\n" not in text
    assert "secret" not in text
    return text


def certificates(pem: str) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(pem.encode())


def test_librdkafkas_own_names_stay() -> None:
    own = {
        "bootstrap.servers": "here:1",
        "client.id": "me",
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "p",
        "ssl.endpoint.identification.algorithm": "none",
        "ssl.cipher.suites": "ECDHE-RSA-AES256-GCM-SHA384",
    }
    assert translated(own) == own


@pytest.mark.parametrize(
    "store",
    [
        {"ssl.keystore.location": "client.jks", "ssl.keystore.password": PASSWORD, "ssl.key.password": "of-the-key"},
        {"ssl.keystore.location": "client.p12", "ssl.keystore.password": PASSWORD, "ssl.keystore.type": "PKCS12"},
        {"ssl.keystore.location": "client.p12", "ssl.keystore.password": PASSWORD},
        {"ssl.keystore.location": "client.pem", "ssl.keystore.type": "PEM", "ssl.key.password": "of-the-key"},
        {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": CLIENT.key_pem(),
            "ssl.keystore.certificate.chain": CLIENT.chain_pem(),
        },
    ],
)
def test_a_keystore_becomes_pem(store: dict[str, str]) -> None:
    """With all certificates up to the authority, which the broker may need."""
    found = translated({"security.protocol": "SSL", **store})
    assert certificates(found.pop("ssl.certificate.pem")) == [CLIENT.certificate, MIDDLE.certificate, ROOT.certificate]
    assert found.pop("ssl.key.pem") == CLIENT.key_pem()
    assert found == {"security.protocol": "SSL"}


@pytest.mark.parametrize(
    ("store", "expected"),
    [
        ({"ssl.truststore.location": "trust.jks", "ssl.truststore.password": PASSWORD}, [ROOT, MIDDLE]),
        ({"ssl.truststore.location": "trust.jks"}, [ROOT, MIDDLE]),
        ({"ssl.truststore.location": "trust.pem", "ssl.truststore.type": "PEM"}, [ROOT]),
        ({"ssl.truststore.certificates": ROOT.chain_pem(), "ssl.truststore.type": "PEM"}, [ROOT]),
    ],
)
def test_a_truststore_becomes_pem(store: dict[str, str], expected: list[Holder]) -> None:
    found = translated(
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p", **store}
    )
    assert certificates(found["ssl.ca.pem"]) == [each.certificate for each in expected]
    assert not any(name.startswith("ssl.truststore") for name in found)


def test_without_tls_no_store_is_opened() -> None:
    for protocol in ({}, {"security.protocol": "PLAINTEXT"}):
        store = {"ssl.truststore.location": "nowhere", "ssl.keystore.location": "nowhere", "ssl.keystore.type": "JKS"}
        assert translated({**protocol, **store, "sasl.jaas.config": "no matter"}) == protocol


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"ssl.truststore.location": "none.jks"}, "ssl.truststore.location: none.jks: No such file"),
        (
            {"ssl.truststore.location": "trust.jks", "ssl.truststore.password": "secret"},
            "ssl.truststore.password: it does not open",
        ),
        ({"ssl.truststore.password": "secret"}, "ssl.truststore.location: no truststore is named"),
        ({"ssl.keystore.location": "client.p12"}, "ssl.keystore.password: the keystore client.p12 needs its password"),
        ({"ssl.keystore.location": "client.p12", "ssl.keystore.type": "BKS"}, "ssl.keystore.type: 'BKS' is not a kind"),
        ({"ssl.keystore.key": "x", "ssl.keystore.type": "PEM"}, "ssl.keystore.certificate.chain: it is missing"),
        ({"ssl.enabled.protocols": "TLSv1.3"}, "ssl.enabled.protocols: 'TLSv1.3' cannot be translated"),
        ({"ssl.protocol": "TLSv1.2"}, "ssl.protocol: 'TLSv1.2' cannot be translated"),
        ({"ssl.provider": "BC"}, "ssl.provider: 'BC' cannot be translated"),
        ({"ssl.engine.factory.class": "my.Factory"}, "ssl.engine.factory.class: 'my.Factory' cannot be translated"),
        ({"config.providers": "file"}, "config.providers: 'file' cannot be translated"),
        (
            {"ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"},
            "ssl.cipher.suites: librdkafka offers all suites of TLS 1.3",
        ),
        (
            {"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256,TLS_AES_128_GCM_SHA256"},
            "ssl.cipher.suites: librdkafka cannot leave out TLS 1.2",
        ),
        (
            {"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256,TLS_AES_128_GCM_SHA256,TLS_NULL"},
            "ssl.cipher.suites: 'TLS_NULL' is not a cipher suite",
        ),
    ],
)
def test_tls_that_cannot_be_translated(given: dict[str, str], words: str) -> None:
    assert refused({"security.protocol": "SSL", **given}).startswith(words)


def test_what_a_stock_file_says_of_tls() -> None:
    suites = "TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256,TLS_AES_128_GCM_SHA256"
    stock = {
        "security.protocol": "SSL",
        "ssl.enabled.protocols": "TLSv1.2,TLSv1.3",
        "ssl.protocol": "TLSv1.3",
        "ssl.provider": "",
        "ssl.trustmanager.algorithm": "PKIX",
        "ssl.endpoint.identification.algorithm": "",
        "default.api.timeout.ms": "60000",
        "send.buffer.bytes": "131072",
        "ssl.cipher.suites": f"{suites},TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    }
    assert translated(stock) == {
        "security.protocol": "SSL",
        "ssl.endpoint.identification.algorithm": "none",
        "socket.send.buffer.bytes": "131072",
        "ssl.cipher.suites": "ECDHE-RSA-AES256-GCM-SHA384",
    }


@pytest.mark.parametrize(("mechanism", "module"), [("PLAIN", PLAIN), ("SCRAM-SHA-256", SCRAM), ("SCRAM-SHA-512", SCRAM)])
def test_a_login_by_name_and_password(mechanism: str, module: str) -> None:
    given = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="al\\"ice" password="p;w=";',
    }
    assert translated(given) == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": 'al"ice',
        "sasl.password": "p;w=",
    }


def test_kerberos() -> None:
    module = 'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/k" principal="me@X";'
    given = {"security.protocol": "SASL_SSL", "sasl.jaas.config": module, "sasl.kerberos.service.name": "kafka"}
    assert translate(given, read, NOW_MS) == {
        "security.protocol": "SASL_SSL",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.principal": "me@X",
        "sasl.kerberos.keytab": "/k",
    }


@pytest.mark.parametrize(
    ("mechanism", "jaas", "words"),
    [
        ("PLAIN", f'{PLAIN} required username="u" password="secret"', "sasl.jaas.config: a semicolon is missing"),
        ("PLAIN", f'{PLAIN} required username="u";', "sasl.jaas.config: the login module has no password"),
        ("PLAIN", f'{PLAIN} required password="secret";', "sasl.jaas.config: the login module has no username"),
        ("PLAIN", f"{PLAIN} required; {PLAIN} required;", "sasl.jaas.config: there are 2 login modules"),
        ("PLAIN", f'{SCRAM} required username="u" password="secret";', f"sasl.jaas.config: {SCRAM} does not log in with PLAIN"),
        ("OTHER", f"{PLAIN} required;", "sasl.mechanism: 'OTHER' is not known"),
        (
            "SCRAM-SHA-256",
            f'{SCRAM} required username="u" password="secret" tokenauth="true";',
            "sasl.jaas.config: librdkafka cannot log in with a delegation token",
        ),
    ],
)
def test_logins_that_cannot_be_translated(mechanism: str, jaas: str, words: str) -> None:
    given = {"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, "sasl.jaas.config": jaas}
    assert refused(given).startswith(words)


def test_a_callback_handler_of_ones_own() -> None:
    given = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.login.callback.handler.class": "my.Handler"}
    assert refused(given).startswith("sasl.login.callback.handler.class: 'my.Handler' is a class of Java")

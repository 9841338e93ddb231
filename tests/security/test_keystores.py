"""Every kind of keystore and truststore is read, and what cannot be used is refused in one line that begins with the setting."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)

from compat_tests.certificates import NOW_MS, PASSWORD, Holder, authority, issue, jks
from ottla.log.config_def import ConfigError
from ottla.security.keystores import Identity, load_authorities, load_identity
from tests.security.ders import PBKDF2, SALT, element, number, scrypt, sequence
from tests.server.security.listener import OWN, Files, security

ROOT = authority()
MIDDLE = issue("middle", ROOT, is_authority=True)
BROKER = issue("broker", MIDDLE)
OTHER = issue("other", ROOT)
STORE = {"ssl.keystore.location": "/store", "ssl.keystore.password": PASSWORD}
PEM_STORE = {"ssl.keystore.location": "/store", "ssl.keystore.type": "PEM"}
TRUST = {"ssl.truststore.location": "/trust", "ssl.truststore.password": PASSWORD}
DER = [each.public_bytes(Encoding.DER) for each in (ROOT.certificate, MIDDLE.certificate)]


def identity(settings: Mapping[str, str], store: bytes | str = b"", now_ms: int = NOW_MS) -> Identity:
    files = Files({"/store": store.encode() if isinstance(store, str) else store})
    return load_identity(security(settings), files.read, now_ms)


def authorities(settings: Mapping[str, str], store: bytes | str = b"") -> list[str]:
    files = Files({"/trust": store.encode() if isinstance(store, str) else store})
    found = load_authorities(security(settings), files.read)
    assert found is not None
    return [each.subject.rfc4514_string() for each in found]


def refused(settings: Mapping[str, str], store: bytes | str = b"", now_ms: int = NOW_MS) -> str:
    with pytest.raises(ConfigError) as error:
        identity(settings, store, now_ms)
    return one_line(error.value)


def one_line(error: Exception) -> str:
    text = str(error)
    assert "\n" not in text
    assert PASSWORD not in text
    assert "another" not in text
    return text


RSA_KEY = rsa.generate_private_key(65537, 2048)
RSA = issue("rsa", ROOT, key=RSA_KEY)
OLD_PEM = RSA_KEY.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode()
KINDS: dict[str, tuple[dict[str, str], bytes | str]] = {
    "JKS": (STORE, BROKER.jks()),
    "JKS with a password of the key": (STORE | {"ssl.key.password": "own"}, BROKER.jks(key_password="own")),
    "PKCS12": (STORE | {"ssl.keystore.type": "PKCS12"}, BROKER.pkcs12()),
    "PKCS12 under the name of JKS": (STORE | {"ssl.keystore.type": "JKS"}, BROKER.pkcs12()),
    "JKS under the name of PKCS12": (STORE | {"ssl.keystore.type": "PKCS12"}, BROKER.jks()),
    "PEM": (PEM_STORE, BROKER.pem()),
    "PEM in small letters": (PEM_STORE | {"ssl.keystore.type": "pem"}, BROKER.pem()),
    "PEM with an encrypted key": (PEM_STORE | {"ssl.key.password": "own"}, BROKER.pem("own")),
    "PEM with a password that it does not need": (PEM_STORE | {"ssl.key.password": "own"}, BROKER.pem()),
    "PEM with its parts in another order": (PEM_STORE, BROKER.chain_pem() + BROKER.key_pem()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_keystores(kind: str) -> None:
    found = identity(*KINDS[kind])
    assert found.key.private_numbers() == BROKER.key.private_numbers()
    assert found.chain == (BROKER.certificate, *BROKER.above)
    assert found.subject == BROKER.certificate.subject.public_bytes()
    assert found.alternative_names == {"DNSName:localhost", "IPAddress:127.0.0.1"}
    assert found.pem().decode() == BROKER.pem()


def test_pem_in_the_settings_with_blanks_for_line_ends() -> None:
    inline = {
        "ssl.keystore.type": "PEM",
        OWN + "ssl.keystore.key": BROKER.key_pem().replace("\n", " "),
        OWN + "ssl.keystore.certificate.chain": BROKER.chain_pem(),
    }
    assert identity(inline).chain == (BROKER.certificate, *BROKER.above)


def test_keys_in_the_older_form_of_pem() -> None:
    assert identity(PEM_STORE, OLD_PEM + RSA.chain_pem()).chain[0] == RSA.certificate


def test_the_chain_is_that_of_the_key() -> None:
    mixed = OTHER.chain_pem() + MIDDLE.chain_pem() + BROKER.certificate.public_bytes(Encoding.PEM).decode()
    assert identity(PEM_STORE, BROKER.key_pem() + mixed).chain == (BROKER.certificate, *BROKER.above)
    alone = BROKER.certificate.public_bytes(Encoding.PEM).decode()
    assert identity(PEM_STORE, BROKER.key_pem() + alone).chain == (BROKER.certificate,)


def test_of_several_keys_the_first_with_a_certificate_counts() -> None:
    def entry(holder: Holder) -> tuple[bytes, str, list[bytes]]:
        der = holder.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        return der, PASSWORD, [holder.certificate.public_bytes(Encoding.DER)]

    lonely: tuple[bytes, str, list[bytes]] = (*entry(OTHER)[:2], [])
    assert identity(STORE, jks(PASSWORD, keys=[lonely, entry(RSA), entry(BROKER)])).chain == (RSA.certificate,)


def test_a_certificate_without_alternative_names() -> None:
    assert identity(PEM_STORE, issue("plain", ROOT, hosts=()).pem()).alternative_names == frozenset()


EMPTY_PKCS12 = pkcs12.serialize_key_and_certificates(
    None, None, None, [ROOT.certificate], BestAvailableEncryption(PASSWORD.encode())
)
HALF = {"ssl.keystore.type": "PEM"}


def block(label: str, der: bytes) -> str:
    return f"-----BEGIN {label}-----\n{base64.b64encode(der).decode()}\n-----END {label}-----\n"


def with_bytes_replaced(old: bytes, new: bytes) -> str:
    """The broker's key, and its certificate with other bytes in it."""
    der = BROKER.certificate.public_bytes(Encoding.DER)
    assert old in der
    return BROKER.key_pem() + block("CERTIFICATE", der.replace(old, new))


def encrypted_with(derivation: bytes) -> str:
    """A key that is encrypted with AES by a secret which this derives from the password (PKCS #8), and certificates."""
    cipher = sequence(bytes.fromhex("060960864801650304012a"), element(0x04, bytes(16)))
    scheme = sequence(bytes.fromhex("06092a864886f70d01050d"), sequence(derivation, cipher))
    return block("ENCRYPTED PRIVATE KEY", sequence(scheme, element(0x04, bytes(64)))) + BROKER.chain_pem()


OWN_KEY = {**PEM_STORE, "ssl.key.password": "own"}
WRONG: dict[str, tuple[dict[str, str], bytes | str, str]] = {
    "nothing": ({}, b"", "ssl.keystore.location: listener SECURE uses SSL and needs a key"),
    "only a password": ({"ssl.keystore.password": "x"}, b"", "ssl.keystore.location: no keystore is named"),
    "no password": ({"ssl.keystore.location": "/store"}, BROKER.jks(), "ssl.keystore.password: the keystore /store needs"),
    "no file": (STORE | {"ssl.keystore.location": "/gone"}, b"", "ssl.keystore.location: /gone: No such file"),
    "another type": (STORE | {"ssl.keystore.type": "JCEKS"}, b"", "ssl.keystore.type: 'JCEKS' is not a kind"),
    "wrong password of JKS": (STORE | {"ssl.keystore.password": "another"}, BROKER.jks(), "ssl.keystore.password: it does not"),
    "wrong password of PKCS12": (
        STORE | {OWN + "ssl.keystore.password": "another"},
        BROKER.pkcs12(),
        OWN + "ssl.keystore.password: it does not open /store",
    ),
    "wrong password of the key in JKS": (
        STORE | {"ssl.key.password": "another"},
        BROKER.jks(),
        "ssl.key.password: it does not open the key 'key0'",
    ),
    "a key with another password": (STORE, BROKER.jks(key_password="own"), "ssl.key.password: it does not open the key 'key0'"),
    "JKS without a key": (STORE, jks(PASSWORD, trusted=DER), "ssl.keystore.location: /store has no private key"),
    "PKCS12 without a key": (STORE, EMPTY_PKCS12, "ssl.keystore.location: /store has no private key"),
    "half a JKS": (STORE, BROKER.jks()[:-30], "ssl.keystore.location: /store is not a keystore that can be read"),
    "no store": (STORE, b"hello", "ssl.keystore.location: /store is not a keystore that can be read (neither"),
    "a damaged key in JKS": (
        STORE,
        jks(PASSWORD, keys=[(b"key", PASSWORD, [DER[0]])]),
        "ssl.keystore.location: /store is not a keystore that can be read",
    ),
    "PEM with a password": (
        PEM_STORE | {"ssl.keystore.password": "x"},
        BROKER.pem(),
        "ssl.keystore.password: a PEM keystore",
    ),
    "PEM, not text": (PEM_STORE, BROKER.pkcs12(), "ssl.keystore.location: the file is not PEM"),
    "PEM without a key": (PEM_STORE, BROKER.chain_pem(), "ssl.keystore.location: there is no private key in it"),
    "PEM without a certificate": (PEM_STORE, BROKER.key_pem(), "ssl.keystore.location: there is no certificate in it"),
    "PEM, encrypted without a password": (PEM_STORE, BROKER.pem("own"), "ssl.key.password: the private key is encrypted"),
    "PEM, encrypted with another": (
        PEM_STORE | {OWN + "ssl.key.password": "another"},
        BROKER.pem("own"),
        OWN + "ssl.key.password: it does not decrypt",
    ),
    "PEM that is not base64": (
        PEM_STORE,
        BROKER.key_pem() + "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----",
        "ssl.keystore.location: the block CERTIFICATE is not base64",
    ),
    "PEM that is no certificate": (
        PEM_STORE,
        BROKER.key_pem() + "-----BEGIN CERTIFICATE-----\nabcd\n-----END CERTIFICATE-----",
        "ssl.keystore.location: a certificate cannot be read",
    ),
    "PEM that is no key": (
        PEM_STORE,
        "-----BEGIN PRIVATE KEY-----\nabcd\n-----END PRIVATE KEY-----" + BROKER.chain_pem(),
        "ssl.keystore.location: the private key cannot be read",
    ),
    "PEM that is full of blanks": (
        PEM_STORE,
        BROKER.key_pem() + "-----BEGIN CERTIFICATE-----" + "\n" * 20_000,
        "ssl.keystore.location: there is no certificate in it",
    ),
    "PEM, encrypted with too many iterations": (
        OWN_KEY,
        encrypted_with(sequence(PBKDF2, sequence(SALT, number(1 << 30)))),
        "ssl.keystore.location: it asks for more than 5,000,000 iterations",
    ),
    "PEM, encrypted in a way that OpenSSL refuses": (
        OWN_KEY,
        encrypted_with(scrypt(12_345, 8, 1)),
        "ssl.key.password: it does not decrypt",
    ),
    "PKCS12 with too many iterations": (
        STORE,
        sequence(number(3), sequence(SALT, number(1 << 30))),
        "ssl.keystore.location: /store: it asks for more than 5,000,000 iterations",
    ),
    "a certificate with a name that is none": (
        PEM_STORE,
        with_bytes_replaced(b"\x82\x09localhost", b"\x87\x09localhost"),
        "ssl.keystore.location: a certificate in it cannot be used (Invalid IP",
    ),
    "a certificate with an extension twice": (
        PEM_STORE,
        with_bytes_replaced(b"\x55\x1d\x13\x01\x01\xff", b"\x55\x1d\x11\x01\x01\xff"),
        "ssl.keystore.location: a certificate in it cannot be used (Duplicate",
    ),
    "a certificate of no version": (
        PEM_STORE,
        with_bytes_replaced(bytes.fromhex("a003020102"), bytes.fromhex("a003020101")),
        "ssl.keystore.location: a certificate cannot be read (1 is not a valid X509 version)",
    ),
    "a certificate with a key of no curve": (
        PEM_STORE,
        with_bytes_replaced(bytes.fromhex("2a8648ce3d030107"), bytes.fromhex("2a8648ce3d030177")),
        "ssl.keystore.location: a certificate in it cannot be used (",
    ),
    "another's certificate": (
        PEM_STORE,
        OTHER.key_pem() + BROKER.chain_pem(),
        "ssl.keystore.location: no certificate in it belongs",
    ),
    "expired": (PEM_STORE, issue("old", ROOT, days=-1).pem(), "ssl.keystore.location: the certificate expired on"),
    "not yet valid": (
        PEM_STORE,
        issue("new", ROOT, since_days=-1).pem(),
        "ssl.keystore.location: the certificate is not valid before",
    ),
    "inline and a file": (
        PEM_STORE | {OWN + "ssl.keystore.key": BROKER.key_pem()},
        b"",
        OWN + "ssl.keystore.key: ssl.keystore.location names a keystore as well",
    ),
    "inline, without the type": ({"ssl.keystore.key": BROKER.key_pem()}, b"", "ssl.keystore.type: JKS cannot be written into"),
    "inline, without the chain": (
        HALF | {"ssl.keystore.key": BROKER.key_pem()},
        b"",
        "ssl.keystore.certificate.chain: it is missing",
    ),
    "inline, without the key": (
        HALF | {"ssl.keystore.certificate.chain": BROKER.chain_pem()},
        b"",
        "ssl.keystore.key: it is missing",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_used(what: str) -> None:
    settings, store, begins = WRONG[what]
    assert refused(settings, store).startswith(begins)


def test_the_days_of_a_certificate() -> None:
    certificate = BROKER.certificate
    begins, ends = (int(day.timestamp() * 1000) for day in (certificate.not_valid_before_utc, certificate.not_valid_after_utc))
    for now_ms in (begins, ends):
        assert identity(PEM_STORE, BROKER.pem(), now_ms).chain
    for now_ms in (begins - 1, ends + 1):
        assert refused(PEM_STORE, BROKER.pem(), now_ms)


PEM_TRUST = {"ssl.truststore.location": "/trust", "ssl.truststore.type": "PEM"}
TRUSTED = ROOT.chain_pem() + MIDDLE.certificate.public_bytes(Encoding.PEM).decode()


@pytest.mark.parametrize(
    ("settings", "store"),
    [
        (TRUST, jks(PASSWORD, trusted=DER)),
        ({"ssl.truststore.location": "/trust"}, jks(PASSWORD, trusted=DER)),  # as in Java, this one needs no password
        (PEM_TRUST, TRUSTED),
        ({"ssl.truststore.type": "PEM", "ssl.truststore.certificates": TRUSTED}, b""),
    ],
)
def test_kinds_of_truststores(settings: Mapping[str, str], store: bytes) -> None:
    assert authorities(settings, store) == ["CN=authority,O=Ottla", "CN=middle,O=Ottla"]


def test_truststores_of_other_kinds() -> None:
    assert authorities(TRUST, EMPTY_PKCS12) == ["CN=authority,O=Ottla"]
    assert authorities(TRUST, BROKER.jks()) == ["CN=broker,O=Ottla"]
    assert authorities(TRUST, BROKER.pkcs12()) == ["CN=broker,O=Ottla"]
    both = pkcs12.serialize_key_and_certificates(
        None, OTHER.key, OTHER.certificate, [ROOT.certificate, ROOT.certificate, MIDDLE.certificate], NoEncryption()
    )
    assert authorities({"ssl.truststore.location": "/trust"}, both) == [
        f"CN={name},O=Ottla" for name in ("other", "authority", "middle")
    ]
    assert load_authorities(security({}), Files().read) is None


@pytest.mark.oracle
@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_what_keytool_writes_is_trusted(kind: str, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text(ROOT.chain_pem())
    command = ["keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", str(tmp_path / "ca.pem"), "-keystore"]
    subprocess.run(
        [*command, str(tmp_path / "store"), "-storetype", kind, "-storepass", PASSWORD], check=True, capture_output=True
    )
    assert authorities(TRUST, (tmp_path / "store").read_bytes()) == ["CN=authority,O=Ottla"]


@pytest.mark.parametrize(
    ("settings", "store", "begins"),
    [
        ({"ssl.truststore.password": "x"}, b"", "ssl.truststore.location: no truststore is named"),
        (TRUST | {"ssl.truststore.password": "another"}, jks(PASSWORD, trusted=DER), "ssl.truststore.password: it does not open"),
        (TRUST | {"ssl.truststore.location": "/gone"}, b"", "ssl.truststore.location: /gone: No such file"),
        (PEM_TRUST | {"ssl.truststore.password": "x"}, TRUSTED, "ssl.truststore.password: a PEM truststore has no password"),
        (PEM_TRUST | {"ssl.truststore.certificates": TRUSTED}, b"", "ssl.truststore.certificates: ssl.truststore.location names"),
        (PEM_TRUST, "", "ssl.truststore.location: there is no certificate in it"),
        (TRUST, jks(PASSWORD), "ssl.truststore.location: there is no trusted certificate in it"),
        (TRUST, jks(PASSWORD, trusted=[b"x"]), "ssl.truststore.location: /trust is not a truststore"),
        ({"ssl.truststore.certificates": TRUSTED}, b"", "ssl.truststore.type: JKS cannot be written into the settings"),
    ],
)
def test_truststores_that_cannot_be_used(settings: Mapping[str, str], store: bytes | str, begins: str) -> None:
    with pytest.raises(ConfigError) as error:
        authorities(settings, store)
    assert one_line(error.value).startswith(begins)

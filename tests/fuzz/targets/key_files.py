"""Keys and certificates as files, settings and connections bring them: an input is a kind and its bytes.

- DER is cut into elements that lie side by side, or refused with NotDer. So is the name in a certificate, which is a stranger's.
- A JKS store is read or refused with NotJks or WrongPassword; no more comes out than is in it. A key comes out of its protection
  or is refused with one of these.
- A keystore or truststore of any kind, in a file or in the settings, gives a key and certificates that OpenSSL and whoever shows
  them can use, or is refused with a ConfigError, which is one line and shows no password.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from compat_tests.certificates import jks as build_jks
from ottla.log.config_def import ConfigError, Secret
from ottla.security import der, jks
from ottla.security.keystores import load_authorities, load_identity, pem_of
from ottla.server.security.certificate_names import distinguished_name, subject_of
from tests.fuzz.draw import Draw

_NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
_NOW_MS: Final = int(_NOW.timestamp() * 1000)
_PASSWORD: Final = "store-secret"
_JKS_PHRASE: Final = b"Mighty Aphrodite"
_SHA1_BYTES: Final = 20
_TYPES: Final = ("JKS", "PKCS12", "PEM")


class _Security(dict[str, Any]):
    """The settings of a listener that stores are read by."""

    name = "SECURE"
    protocol = "SSL"

    def __missing__(self, setting: str) -> Any:
        return "JKS" if setting.endswith(".type") else None

    def written_name(self, setting: str) -> str:
        return setting


def _der(data: bytes) -> None:
    with suppress(der.NotDer):
        assert b"".join(element.whole for element in der.elements(data)) == data
    with suppress(der.NotDer):
        assert der.only(data, der.SEQUENCE).whole == data
    with suppress(der.NotDer):
        numbers = der.dotted(data).split(".")
        assert all(number == str(int(number)) for number in numbers)
        assert 1 < len(numbers) <= len(data) + 1


def _name(data: bytes) -> None:
    with suppress(der.NotDer):
        distinguished_name(data)
    with suppress(der.NotDer):
        distinguished_name(subject_of(data)).encode("utf-8")


def _jks(data: bytes) -> None:
    draw = Draw(data)
    kind = draw.byte()
    content = draw.rest()
    if kind & 1:
        content = _with_right_digest(content)
    try:
        store = jks.read(content, None if kind & 2 else _PASSWORD)
    except (jks.NotJks, jks.WrongPassword):
        return
    assert sum(map(len, store.trusted)) + sum(len(each.protected) + sum(map(len, each.chain)) for each in store.keys) < len(
        content
    )
    for each in store.keys:
        _unprotect(each.protected)


def _with_right_digest(store: bytes) -> bytes:
    """Returns a store with the digest of what stands before it."""
    content = store[:-_SHA1_BYTES]
    return content + hashlib.sha1(_PASSWORD.encode("utf-16-be") + _JKS_PHRASE + content).digest()


def _unprotect(data: bytes) -> None:
    with suppress(jks.NotJks, jks.WrongPassword):
        assert len(jks.unprotect(data, _PASSWORD)) < len(data)


def _stores(data: bytes) -> None:
    draw = Draw(data)
    kind, flags = draw.one_of(_TYPES), draw.byte()
    content = draw.rest()
    if flags & 1 and content.startswith(jks.MAGIC):
        content = _with_right_digest(content)
    password = None if flags & 2 or (kind == "PEM" and not flags & 8) else Secret(_PASSWORD)
    settings: dict[str, Any] = {"ssl.key.password": Secret(_PASSWORD) if flags & 4 else None}
    for store in ("keystore", "truststore"):
        settings[f"ssl.{store}.type"] = kind
        settings[f"ssl.{store}.location"] = "/store"
        settings[f"ssl.{store}.password"] = password
    _load(settings, content)


def _inline(data: bytes) -> None:
    draw = Draw(data)
    flags = draw.byte()
    text = Secret(draw.rest().decode(errors="replace"))
    settings: dict[str, Any] = {"ssl.key.password": Secret(_PASSWORD) if flags & 1 else None}
    for setting in ("keystore.key", "keystore.certificate.chain", "truststore.certificates"):
        settings[f"ssl.{setting}"] = text
    for store in ("keystore", "truststore"):
        settings[f"ssl.{store}.type"] = "PEM"
    _load(settings, b"")


def _load(settings: Mapping[str, Any], content: bytes) -> None:
    security = _Security(settings)
    try:
        found = load_identity(security, lambda path: content, _NOW_MS)
    except ConfigError as error:
        _check_message(error)
    else:
        assert found.pem().startswith(b"-----BEGIN")
        assert found.chain
        distinguished_name(found.subject)
        assert len(found.host_names) <= len(found.alternative_names) <= len(content) + len(found.pem())
    try:
        authorities = load_authorities(security, lambda path: content)
    except ConfigError as error:
        _check_message(error)
        return
    if authorities is None:
        assert not security["ssl.truststore.location"]
        return
    assert authorities
    assert pem_of(authorities).count(b"-----BEGIN CERTIFICATE-----") == len(authorities)


def _check_message(error: ConfigError) -> None:
    text = str(error)
    assert text.startswith("ssl."), f"no setting is named: {text}"
    assert _PASSWORD not in text
    assert "\n" not in text


_READERS: Final[tuple[Callable[[bytes], None], ...]] = (_der, _name, _jks, _unprotect, _stores, _inline)


def check(data: bytes) -> None:
    draw = Draw(data)
    draw.one_of(_READERS)(draw.rest())


# What a fuzzer begins with: always the same keys, and signatures without a random number


@cache
def _key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


@cache
def _certificate(name: str) -> x509.Certificate:
    subject = x509.Name([
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "O, t=\u00e4"), x509.NameAttribute(NameOID.COMMON_NAME, name),
        x509.NameAttribute(NameOID.SERIAL_NUMBER, "7"),
    ])  # fmt: skip
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
    key = _key()
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    builder = x509.CertificateBuilder(issuer, subject if name != "authority" else issuer, key.public_key(), 7)
    begin, end = _NOW - timedelta(days=1), _NOW + timedelta(days=1)
    return builder.not_valid_before(begin).not_valid_after(end).add_extension(names, critical=False).sign(key, None)


def _pem(password: bool = False) -> bytes:
    key = _ENCRYPTED_KEY if password else _key().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return key + pem_of([_certificate("broker"), _certificate("authority")])


def _stored(*, version_one: bool = False) -> bytes:
    chain = [_certificate(name).public_bytes(Encoding.DER) for name in ("broker", "authority")]
    key = _key().private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    built = build_jks(_PASSWORD, keys=[(key, _PASSWORD, chain)], trusted=chain[1:])
    if version_one:  # in which certificates have no type
        built = _with_right_digest(built[:4] + b"\0\0\0\1" + built[8:].replace(b"\0\5X.509", b""))
    return built


_ENCRYPTED_KEY: Final = (
    b"-----BEGIN ENCRYPTED PRIVATE KEY-----\n"
    b"MIGaMFYGCSqGSIb3DQEFDTBJMCgGCSqGSIb3DQEFDDAbBAh458G/QjsjzwIBCjAM\n"
    b"BggqhkiG9w0CCQUAMB0GCWCGSAFlAwQBKgQQiU9YFOwWA5qzVOJsl1Je2gRAil2y\n"
    b"B7bBkKtqHKG8hK0q9id7cszKzkd1okzy+e8g5wOAqryQLvYA/d0Z1ksMGNZ4q9/u\n"
    b"HPS3G4BsHUsKeMyWdA==\n"
    b"-----END ENCRYPTED PRIVATE KEY-----\n"
)
"""With few iterations, so that it is quick to open."""
_PKCS12: Final = base64.b64decode(
    "MIIEowIBAzCCBFkGCSqGSIb3DQEHAaCCBEoEggRGMIIEQjCCAykGCSqGSIb3DQEHBqCCAxowggMWAgEAMIIDDwYJKoZIhvcNAQcBMF4GCSqGSI"
    "b3DQEFDTBRMDAGCSqGSIb3DQEFDDAjBBCv41DEYlprN8n4EGZZeYX+AgEKMAwGCCqGSIb3DQIJBQAwHQYJYIZIAWUDBAEqBBCm5YJMQlkNBgQi"
    "+x4/1D/SgIICoLlLf0h3dyQgPzJkHEtCgoBGYm9ZtkZUEmODL5usNN+HRD1FtBpAaPydEjFHHAIhCUZYFA3JrFreR/5jSX2uhrsXu1Nto7DzEB"
    "sj2BahllSCYKyY2OEpWa5shO4p5jPSgOHsSJ74fO1yzRIYOKJjoeHJ9YCeNTfQa5epQBLCuYieUg8+expphyJlKrCNjzYN+1hX5QTLxy/ZPzk1"
    "YBH8mjVwQrLmbjk8TuVW4mcrp4ArnxZ+VXH1bE3BmPSwhNXPPg/BI+d6XMxsGU0n9dKZElRDVW85PTq6SJlYWBZgWbkDyqJx+9WND/cLtxB9WS"
    "/BRAW1bD13E3O1agM3NcLJZQg96n7C7GxlwCxYFQd9LMV775iyhXJidR1MeXm8oPsi9Oh/mcXsHTIE2CWhd65Io+dfYFOPenuXDMpM8Kyg7g0k"
    "r8e6P6pyWR7POXDdKPkt+weaI3Cassxo4gjsXPp71Jz9WJUDVluMdMaxGaLvpzar5mFyCe4jVZRjP4HJbeLaB6xOXvu0ECYo9NJYxb6xe19sh1"
    "xzuZVob2nmZM1OT+kVR4BZat4Uy/cvNa7jnZMUfz/sfOm3T218GO1RIWl82BmxTsxRZh5j6YaGH3ym62ScRmZJXqpth25n2uuUluzwTrlrnuEs"
    "YsV034XZ6wK77vWM9s7ZhMx2alY/ahLeX8hD0L9Me9J0xsAlsS1XQrEs/J4GTxQ672xbWpmjICe9nYmS1SZJcyqsTMf79sz1bZg3DgmKVweER4"
    "ZMhIhQyUgn12fyFr2hH4xxwFL+Ni0UA62lOfmtST1jk8+U79vE26CVWPd9tvmE1rncTms/lqz/l2fqjp/xqpfMjCabOB2Lt3wxM2coAvnWVJi6"
    "mXn03kQo2lVUoyXS9+orBI/T+drorTCCAREGCSqGSIb3DQEHAaCCAQIEgf8wgfwwgfkGCyqGSIb3DQEMCgECoIGlMIGiMF4GCSqGSIb3DQEFDT"
    "BRMDAGCSqGSIb3DQEFDDAjBBDCifnSPBWJwHJLuyOCbjd4AgEKMAwGCCqGSIb3DQIJBQAwHQYJYIZIAWUDBAEqBBB6kEidd1hAjyUzra42i9CD"
    "BEBj8M+QYptSTsdmngaUvPkIH3ktNAdxvoO0Qo3wqrFB++zPc7b4l8s5JGrOo5jpyjSBhZSnX6np/a+IHJOOkYxGMUIwGwYJKoZIhvcNAQkUMQ"
    "4eDABiAHIAbwBrAGUAcjAjBgkqhkiG9w0BCRUxFgQU4gaqlUMxHnAQhz5RSc6YiGfpQ0wwQTAxMA0GCWCGSAFlAwQCAQUABCAGCnfUlJH15QN2"
    "s/lB5ZD7nGTlmiJtUr2rlHxZgWLyPgQIP6NYzXLSHxMCAggA"
)
"""A store with a key and two certificates, written down because salt and keys are drawn anew each time that one is made."""


def seeds() -> Iterator[bytes]:
    certificate = _certificate("broker").public_bytes(Encoding.DER)
    subject = _certificate("broker").subject.public_bytes()
    protected = jks.read(_stored(), _PASSWORD).keys[0].protected
    samples: dict[Callable[[bytes], None], list[bytes]] = {
        _der: [certificate, bytes.fromhex("0a99"), bytes.fromhex("550403")],
        _name: [certificate, subject],
        _jks: [b"\0" + _stored(), b"\1" + _stored(), b"\3" + _stored(version_one=True)],
        _unprotect: [protected],
        _stores: [
            b"\0\0" + _stored(),
            b"\1\1" + _stored(),
            b"\1\0" + _PKCS12,
            b"\1\2" + _PKCS12,
            b"\2\0" + _pem(),
            b"\2\4" + _pem(password=True),
            b"\2\0" + _pem(password=True),
        ],
        _inline: [b"\0" + _pem().replace(b"\n", b" "), b"\1" + _pem(password=True)],
    }
    for read, contents in samples.items():
        for content in contents:
            yield bytes([_READERS.index(read)]) + content

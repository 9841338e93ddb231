"""Certificates for tests, made in memory: authorities, brokers and clients, and the files in which a broker may find them.

Keys are of a curve, because RSA keys take a tenth of a second each to make.
"""

from __future__ import annotations

import hashlib
import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

NOW = datetime.now(UTC).replace(microsecond=0)
NOW_MS = int(NOW.timestamp() * 1000)
PASSWORD = "store-secret"
HOSTS = ("localhost", "127.0.0.1")


class Holder(NamedTuple):
    """A private key with its certificate, and those of whoever signed that, the nearest first."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    above: tuple[x509.Certificate, ...] = ()

    def key_pem(self, password: str | None = None) -> str:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, _encryption(password)).decode()

    def chain_pem(self) -> str:
        return "".join(each.public_bytes(Encoding.PEM).decode() for each in (self.certificate, *self.above))

    def pem(self, password: str | None = None) -> str:
        return self.key_pem(password) + self.chain_pem()

    def pkcs12(self, password: str = PASSWORD) -> bytes:
        return pkcs12.serialize_key_and_certificates(
            b"broker", self.key, self.certificate, list(self.above) or None, _encryption(password)
        )

    def jks(self, password: str = PASSWORD, key_password: str | None = None) -> bytes:
        der = self.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        chain = [each.public_bytes(Encoding.DER) for each in (self.certificate, *self.above)]
        return jks(password, keys=[(der, key_password or password, chain)])


def _encryption(password: str | None) -> KeySerializationEncryption:
    return BestAvailableEncryption(password.encode()) if password else NoEncryption()


@cache
def authority(name: str = "authority") -> Holder:
    """An authority, the same for each name."""
    return issue(name, None, is_authority=True)


def issue(
    name: str,
    by: Holder | None,
    *,
    is_authority: bool = False,
    days: float = 30,
    since_days: float = 30,
    hosts: tuple[str, ...] = HOSTS,
    subject: x509.Name | None = None,
    key: Any = None,
) -> Holder:
    """A certificate for `CN=name,O=Ottla`, signed `by` an authority, or by itself; it is valid since some days and for some."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    parts = ((NameOID.ORGANIZATION_NAME, "Ottla"), (NameOID.COMMON_NAME, name))
    subject = subject or x509.Name([x509.NameAttribute(*part) for part in parts])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by.certificate.subject if by else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - timedelta(days=since_days))
        .not_valid_after(NOW + timedelta(days=days))
        .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
    )
    if hosts and not is_authority:
        names = [x509.IPAddress(ipaddress.ip_address(each)) if each[0].isdigit() else x509.DNSName(each) for each in hosts]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    certificate = builder.sign(by.key if by else key, hashes.SHA256())
    return Holder(key, certificate, () if by is None else (by.certificate, *by.above))


def client_context(trusted: Holder, own: Holder | None = None, directory: Any = None) -> ssl.SSLContext:
    """A client's context that trusts an authority; `own` is its certificate, which goes through a file in `directory`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=trusted.chain_pem())
    if own is not None:
        path = directory / f"{own.certificate.serial_number}.pem"
        path.write_text(own.pem())
        context.load_cert_chain(path)
    return context


def jks(password: str, *, keys: Any = (), trusted: Any = ()) -> bytes:
    """A JKS keystore. `keys` are (PKCS#8, its password, chain), `trusted` certificates, all of it DER."""

    def text(value: str) -> bytes:
        return len(value).to_bytes(2, "big") + value.encode()

    def block(value: bytes) -> bytes:
        return len(value).to_bytes(4, "big") + value

    def certificate(der: bytes) -> bytes:
        return text("X.509") + block(der)

    out = b"\xfe\xed\xfe\xed" + (2).to_bytes(4, "big") + (len(keys) + len(trusted)).to_bytes(4, "big")
    for at, (der, key_password, chain) in enumerate(keys):
        head = (1).to_bytes(4, "big") + text(f"key{at}") + bytes(8)
        out += head + block(_protected(der, key_password)) + len(chain).to_bytes(4, "big") + b"".join(map(certificate, chain))
    for at, der in enumerate(trusted):
        out += (2).to_bytes(4, "big") + text(f"trusted{at}") + bytes(8) + certificate(der)
    return out + hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + out).digest()


def _protected(key: bytes, password: str) -> bytes:
    secret, salt = password.encode("utf-16-be"), bytes(range(20))
    stream, digest = b"", salt
    while len(stream) < len(key):
        digest = hashlib.sha1(secret + digest).digest()
        stream += digest
    hidden = bytes(a ^ b for a, b in zip(key, stream, strict=False))
    value = salt + hidden + hashlib.sha1(secret + key).digest()
    algorithm = bytes.fromhex("300e060a2b060104012a021101010500")
    return _der(0x30, algorithm + _der(0x04, value))


def _der(tag: int, content: bytes) -> bytes:
    size = len(content)
    return bytes([tag]) + (bytes([size]) if size < 128 else bytes([0x82]) + size.to_bytes(2, "big")) + content

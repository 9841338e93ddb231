"""Keystores and truststores: the key and certificates that `ssl.keystore.*` and `ssl.truststore.*` name, for brokers and clients.

They may be PEM, in a file or in the settings themselves, or a PKCS12 or JKS file. As in Java the type JKS, which is the default,
also stands for PKCS12: the bytes say which it is. What Kafka refuses is refused (a PEM store with a store password, half of a
store), and so is what could only fail later: a key without its certificate, a certificate that has expired, an empty truststore.
Two things are accepted that Kafka with Java 17 does not take: keys in the older PEM forms (`RSA PRIVATE KEY`), and PKCS#8 that is
encrypted by PBES2.

A store with several keys gives the first one whose certificate is there.

A refusal is a ConfigError, one line that begins with the setting as it is written, and never holds a password.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from cryptography import x509
from cryptography.exceptions import InternalError, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
    pkcs12,
)

from ottla.log.config_def import ConfigError, Secret
from ottla.security import jks, key_derivation

_SETTINGS: Final = {
    "keystore": {
        "type": "ssl.keystore.type",
        "location": "ssl.keystore.location",
        "password": "ssl.keystore.password",
        "key": "ssl.keystore.key",
        "certificate.chain": "ssl.keystore.certificate.chain",
    },
    "truststore": {
        "type": "ssl.truststore.type",
        "location": "ssl.truststore.location",
        "password": "ssl.truststore.password",
        "certificates": "ssl.truststore.certificates",
    },
}


class StoreSettings(Protocol):
    """The settings of the owner of stores: a listener of a broker, or a client. `name` and `protocol` are for messages."""

    @property
    def name(self) -> str: ...

    @property
    def protocol(self) -> str: ...

    def __getitem__(self, setting: str) -> Any:
        """Returns the parsed value of a setting, None if it is not set and has no default; a PASSWORD is a Secret. Raises
        ConfigError."""

    def written_name(self, setting: str, /) -> str:
        """Returns the name under which a setting is written, for messages."""


ReadFile = Callable[[str], bytes]
"""Returns the bytes of a file. Raises OSError."""

TYPES: Final = ("JKS", "PKCS12", "PEM")
_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----([A-Za-z0-9+/=\s]*)-----END \1-----")
_CERTIFICATES: Final = ("CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE")
_UNREADABLE: Final = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    InternalError,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
"""The errors that `cryptography` raises for keys and certificates that are not sound, some of it only when a part of one is asked
for."""


class Identity(NamedTuple):
    """The identity of a listener: its private key, and the chain of its certificate, the certificate itself first."""

    key: Any
    chain: tuple[x509.Certificate, ...]

    def key_pem(self) -> bytes:
        """Returns the key as OpenSSL reads it, not encrypted."""
        found: bytes = self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return found

    def chain_pem(self) -> bytes:
        """Returns the certificates as OpenSSL reads them."""
        return pem_of(self.chain)

    def pem(self) -> bytes:
        """Returns key and chain as OpenSSL reads them. The key is not encrypted."""
        return self.key_pem() + self.chain_pem()

    @property
    def subject(self) -> bytes:
        """The distinguished name of the certificate, as DER."""
        return self.chain[0].subject.public_bytes()

    @property
    def alternative_names(self) -> frozenset[str]:
        """The names and addresses for which the certificate is valid, besides its subject."""
        return frozenset(f"{type(each).__name__}:{each.value}" for each in self._names or ())

    @property
    def host_names(self) -> tuple[str, ...]:
        """The names and addresses of hosts among those, which a browser takes for the server's, the names first; one may begin
        with `*.`, which stands for one word."""
        names = self._names
        if names is None:
            return ()
        addresses = map(str, names.get_values_for_type(x509.IPAddress))
        return (*names.get_values_for_type(x509.DNSName), *addresses)

    @property
    def _names(self) -> x509.SubjectAlternativeName | None:
        try:
            return self.chain[0].extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return None


def pem_of(certificates: Iterable[x509.Certificate]) -> bytes:
    """Returns certificates as OpenSSL reads them."""
    return b"".join(each.public_bytes(Encoding.PEM) for each in certificates)


def load_identity(security: StoreSettings, read: ReadFile, now_ms: int) -> Identity:
    """Returns the key and the certificate of a listener. Raises ConfigError."""
    store = _Store(security, "keystore", read)
    if security["ssl.keystore.key"] or security["ssl.keystore.certificate.chain"]:
        place, key, certificates = _inline_identity(security, store)
    elif store.path is None:
        if store.password:
            raise store.error("location", "no keystore is named, although its password is set; name the file")
        raise store.error(
            "location",
            f"listener {security.name} uses {security.protocol} and needs a key with its certificate; name a keystore, or give "
            "ssl.keystore.key and ssl.keystore.certificate.chain",
        )
    else:
        place = store.setting("location")
        key, certificates = _identity_of_file(security, store, store.path)
    try:
        identity = Identity(key, _chain_of(key, certificates, place))
        _ = identity.alternative_names, identity.host_names  # which nobody may find out later to be unreadable
    except ConfigError:
        raise
    except _UNREADABLE as error:
        raise ConfigError(f"{place}: a certificate in it cannot be used ({_line(error)}); have it issued again") from error
    _check_dates(identity.chain[0], place, now_ms)
    return identity


def load_authorities(security: StoreSettings, read: ReadFile) -> tuple[x509.Certificate, ...] | None:
    """Returns the certificates that are trusted to sign those of clients; None if no truststore is set. Raises ConfigError."""
    store = _Store(security, "truststore", read)
    inline = security["ssl.truststore.certificates"]
    if inline:
        store.refuse_file_beside("certificates")
        if store.type != "PEM":
            raise store.error(
                "type", f"{store.type} cannot be written into the settings; use PEM with ssl.truststore.certificates"
            )
        found = _pem_certificates(inline.reveal(), store.setting("certificates"))
    elif store.path is None:
        if store.password:
            raise store.error("location", "no truststore is named, although its password is set; name the file")
        return None
    else:
        found = _authorities_of_file(store, store.path)
    if not found:
        name = store.setting("certificates" if inline else "location")
        raise ConfigError(f"{name}: there is no trusted certificate in it; import the certificate of an authority")
    return tuple(found)


class _Store:
    """The settings of a keystore or truststore, whichever `kind` says, and what is the same for both."""

    def __init__(self, security: StoreSettings, kind: str, read: ReadFile) -> None:
        self._security = security
        self._kind = kind
        self._read = read
        names = self._names = _SETTINGS[kind]
        self.type: str = security[names["type"]].upper()
        self.path: str | None = security[names["location"]] or None
        secret: Secret | None = security[names["password"]]
        self.password: str | None = secret.reveal() if secret is not None else None
        if self.type not in TYPES:
            raise self.error("type", f"'{self.type}' is not a kind of keystore that ottla reads; use one of {', '.join(TYPES)}")

    def setting(self, what: str) -> str:
        """Returns the name of a setting of this store, as it is written."""
        return self._security.written_name(self._names[what])

    def error(self, what: str, text: str) -> ConfigError:
        return ConfigError(f"{self.setting(what)}: {text}")

    def bytes_of(self, path: str) -> bytes:
        """Returns the bytes of the store. Raises ConfigError."""
        try:
            return self._read(path)
        except OSError as error:
            raise self.error("location", f"{path}: {error.strerror or error}; name a file that can be read") from error

    def refuse_password_with_pem(self) -> None:
        if self.password:
            remedy = "remove it" if self._kind == "truststore" else "a key is decrypted by ssl.key.password"
            raise self.error("password", f"a PEM {self._kind} has no password of its own; {remedy}")

    def refuse_file_beside(self, what: str) -> None:
        if self.path is not None:
            raise self.error(what, f"{self.setting('location')} names a {self._kind} as well; remove one of the two")

    def wrong_password(self, path: str) -> ConfigError:
        return self.error("password", f"it does not open {path}; give the password of this store")

    def damaged(self, path: str, why: object) -> ConfigError:
        return self.error("location", f"{path} is not a {self._kind} that can be read ({_line(why)}); make it again with keytool")


# The two kinds of files, and PEM


def _inline_identity(security: StoreSettings, store: _Store) -> tuple[str, Any, list[x509.Certificate]]:
    key, chain = security["ssl.keystore.key"], security["ssl.keystore.certificate.chain"]
    store.refuse_file_beside("key" if key else "certificate.chain")
    if store.type != "PEM":
        raise store.error("type", f"{store.type} cannot be written into the settings; use PEM with ssl.keystore.key")
    if not key:
        raise store.error("key", "it is missing, although ssl.keystore.certificate.chain is set; give the key as PEM")
    if not chain:
        raise store.error("certificate.chain", "it is missing, although ssl.keystore.key is set; give the certificates as PEM")
    certificates = _pem_certificates(chain.reveal(), store.setting("certificate.chain"))
    return store.setting("certificate.chain"), _pem_key(key.reveal(), security, store.setting("key")), certificates


def _identity_of_file(security: StoreSettings, store: _Store, path: str) -> tuple[Any, list[x509.Certificate]]:
    data = store.bytes_of(path)
    if store.type == "PEM":
        store.refuse_password_with_pem()
        place = store.setting("location")
        text = _pem_text(data, place)
        return _pem_key(text, security, place), _pem_certificates(text, place)
    if not store.password:
        raise store.error("password", f"the keystore {path} needs its password; set it")
    if data.startswith(jks.MAGIC):
        return _jks_identity(security, store, path, data)
    found = _open_pkcs12(store, path, data)
    if found.key is None:
        raise store.error("location", f"{path} has no private key; import the key together with its certificate")
    certificates = [each.certificate for each in (found.cert, *found.additional_certs) if each is not None]
    return found.key, certificates


def _jks_identity(security: StoreSettings, store: _Store, path: str, data: bytes) -> tuple[Any, list[x509.Certificate]]:
    found = _open_jks(store, path, data)
    entry = next((each for each in found.keys if each.chain), None)
    if entry is None:
        raise store.error("location", f"{path} has no private key; import the key together with its certificate")
    own: Secret | None = security["ssl.key.password"]
    password = own.reveal() if own else store.password or ""
    try:
        key = load_der_private_key(jks.unprotect(entry.protected, password), None)
        return key, [x509.load_der_x509_certificate(each) for each in entry.chain]
    except jks.WrongPassword as error:
        name = security.written_name("ssl.key.password") if own else "ssl.key.password"
        raise ConfigError(f"{name}: it does not open the key '{entry.alias}' in {path}; give the password of this key") from error
    except _UNREADABLE as error:
        raise store.damaged(path, error) from error


def _authorities_of_file(store: _Store, path: str) -> list[x509.Certificate]:
    data = store.bytes_of(path)
    if store.type == "PEM":
        store.refuse_password_with_pem()
        place = store.setting("location")
        return _pem_certificates(_pem_text(data, place), place)
    if not data.startswith(jks.MAGIC):
        found = _open_pkcs12(store, path, data)
        try:
            return _trusted_of(found)
        except _UNREADABLE as error:
            raise store.damaged(path, error) from error
    entries = _open_jks(store, path, data)
    trusted = [*entries.trusted, *(each.chain[0] for each in entries.keys if each.chain)]
    try:
        return [x509.load_der_x509_certificate(each) for each in trusted]
    except _UNREADABLE as error:
        raise store.damaged(path, error) from error


def _trusted_of(found: pkcs12.PKCS12KeyAndCertificates) -> list[x509.Certificate]:
    """Returns what Java trusts in a PKCS12 store. Of a key that is the certificate, but not those above it, which may be of an
    authority that signs for anybody. What stands there once more, by itself, is trusted."""
    certificates = [each.certificate for each in found.additional_certs]
    if found.key is None or found.cert is None:
        return certificates if found.cert is None else [found.cert.certificate, *certificates]
    last = found.cert.certificate
    while last.issuer != last.subject:
        issuer = next((each for each in certificates if each.subject == last.issuer), None)
        if issuer is None:
            break
        certificates.remove(issuer)
        last = issuer
    return [found.cert.certificate, *dict.fromkeys(certificates)]


def _open_jks(store: _Store, path: str, data: bytes) -> jks.Jks:
    try:
        return jks.read(data, store.password)
    except jks.WrongPassword as error:
        raise store.wrong_password(path) from error
    except jks.NotJks as error:
        raise store.damaged(path, error) from error


def _open_pkcs12(store: _Store, path: str, data: bytes) -> pkcs12.PKCS12KeyAndCertificates:
    try:
        key_derivation.check(data)
        return pkcs12.load_pkcs12(data, store.password.encode() if store.password else None)
    except key_derivation.TooCostly as error:
        raise store.error("location", f"{path}: {error}") from error
    except ValueError as error:
        if "password" in str(error).lower() and data.startswith(b"\x30"):
            raise store.wrong_password(path) from error
        raise store.damaged(path, "neither PKCS12 nor JKS" if not data.startswith(b"\x30") else error) from error
    except _UNREADABLE as error:
        raise store.damaged(path, error) from error


def _pem_text(data: bytes, place: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{place}: the file is not PEM; if it is a JKS or PKCS12 store, say so by its type") from error


def _blocks(text: str, place: str) -> Iterable[tuple[str, bytes]]:
    """Yields the label and the bytes of each block. White space within a block does not matter. Raises ConfigError."""
    for label, body in _BLOCK.findall(text):
        try:
            yield label, base64.b64decode("".join(body.split()), validate=True)
        except binascii.Error as error:
            raise ConfigError(f"{place}: the block {label} is not base64; write it as PEM") from error


def _pem_certificates(text: str, place: str) -> list[x509.Certificate]:
    try:
        found = [x509.load_der_x509_certificate(data) for label, data in _blocks(text, place) if label in _CERTIFICATES]
    except ConfigError:
        raise
    except _UNREADABLE as error:
        raise ConfigError(f"{place}: a certificate cannot be read ({_line(error)}); write it as PEM") from error
    if not found:
        raise ConfigError(f"{place}: there is no certificate in it; write it as PEM (-----BEGIN CERTIFICATE-----)")
    return found


def _pem_key(text: str, security: StoreSettings, place: str) -> Any:
    label, data = next((each for each in _blocks(text, place) if each[0].endswith("PRIVATE KEY")), ("", b""))
    if not data:
        raise ConfigError(f"{place}: there is no private key in it; write it as PEM (-----BEGIN PRIVATE KEY-----)")
    password: Secret | None = security["ssl.key.password"]
    encrypted = label.startswith("ENCRYPTED")
    if encrypted and not password:
        raise ConfigError("ssl.key.password: the private key is encrypted; give its password")
    try:
        if encrypted:
            key_derivation.check(data)
        return load_der_private_key(data, password.reveal().encode() if password and encrypted else None)
    except key_derivation.TooCostly as error:
        raise ConfigError(f"{place}: {error}") from error
    except _UNREADABLE as error:
        if encrypted:
            name = security.written_name("ssl.key.password")
            raise ConfigError(f"{name}: it does not decrypt the private key; give the password of the key") from error
        raise ConfigError(f"{place}: the private key cannot be read; write it as PKCS#8 in PEM") from error


# What is checked of all


def _line(why: object) -> str:
    """Returns what `cryptography` says, which may be several lines, as one."""
    return " ".join(str(why).split())


def _public(key: Any) -> bytes:
    found: bytes = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return found


def _chain_of(key: Any, certificates: Sequence[x509.Certificate], place: str) -> tuple[x509.Certificate, ...]:
    """Returns the certificate of this key, and after it those that sign it, as far as they are there. Raises ConfigError."""
    public = _public(key.public_key())
    leaf = next((each for each in certificates if _public(each.public_key()) == public), None)
    if leaf is None:
        raise ConfigError(f"{place}: no certificate in it belongs to the private key; put key and certificate together again")
    chain = [leaf]
    rest = [each for each in certificates if each is not leaf]
    while chain[-1].issuer != chain[-1].subject:
        issuer = next((each for each in rest if each.subject == chain[-1].issuer), None)
        if issuer is None:
            break
        rest.remove(issuer)
        chain.append(issuer)
    return tuple(chain)


def _check_dates(certificate: x509.Certificate, place: str, now_ms: int) -> None:
    """Raises ConfigError if a certificate is not valid now."""
    now_s = now_ms / 1000
    if now_s > certificate.not_valid_after_utc.timestamp():
        day = certificate.not_valid_after_utc.date()
        raise ConfigError(f"{place}: the certificate expired on {day}; have a new one issued")
    if now_s < certificate.not_valid_before_utc.timestamp():
        day = certificate.not_valid_before_utc.date()
        raise ConfigError(f"{place}: the certificate is not valid before {day}; check the clock, or have a new one issued")

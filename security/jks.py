"""Reads JKS, the keystore format of Java before PKCS12, which many a Kafka still has.

    FEEDFEED  version 1 or 2  count
      1  alias  time  a protected key, and its chain of certificates      a key
      2  alias  time  a certificate                                       what is trusted
    SHA-1 of the store's password, a phrase and all of the above

A key is protected by a stream of SHA-1 digests of its password, and one more digest shows whether it came out right. Neither is
strong, so who still uses the format should keep the file itself from others. The libraries that read it are not maintained any
more, and this is all of it. JCEKS, its relative with DES, is not read.
"""

from __future__ import annotations

import hashlib
import hmac
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from ottla.security.der import OCTET_STRING, SEQUENCE, NotDer, dotted, elements, only

MAGIC: Final = b"\xfe\xed\xfe\xed"
_HEAD: Final = Struct(">4sII")
_TAG: Final = Struct(">I")
_LONG: Final = Struct(">Q")
_SHORT: Final = Struct(">H")
_KEY, _TRUSTED = 1, 2
_PHRASE: Final = b"Mighty Aphrodite"
"""The phrase that the format mixes into its digest."""
_PROTECTED_BY_JKS: Final = "1.3.6.1.4.1.42.2.17.1.1"
_SHA1_BYTES: Final = 20


class NotJks(ValueError):
    """The bytes are not a JKS keystore, or not a whole one."""


class WrongPassword(ValueError):
    """The password does not open the store, or does not open its key."""


class KeyEntry(NamedTuple):
    """A key, still protected, and its chain of certificates as DER, the key's own first."""

    alias: str
    protected: bytes
    chain: list[bytes]


class Jks(NamedTuple):
    """The entries of a store, in the order of the file."""

    keys: list[KeyEntry]
    trusted: list[bytes]


def read(data: bytes, password: str | None) -> Jks:
    """Returns what is in a store. Without a password its digest is not compared, as in Java. Raises NotJks and WrongPassword."""
    try:
        store, end = _entries(data)
    except (StructError, UnicodeDecodeError) as error:
        raise NotJks("it ends within an entry") from error
    if len(data) != end + _SHA1_BYTES:
        raise NotJks("its end is missing, or more follows")
    if password is not None:
        digest = hashlib.sha1(password.encode("utf-16-be") + _PHRASE + data[:end]).digest()
        if not hmac.compare_digest(digest, data[end:]):
            raise WrongPassword
    return store


def _entries(data: bytes) -> tuple[Jks, int]:
    """Returns the entries, and where they end. Raises NotJks, StructError and UnicodeDecodeError."""
    magic, version, count = _HEAD.unpack_from(data)
    if magic != MAGIC or version not in (1, 2):
        raise NotJks("it does not begin like one")
    reader = _Reader(data, _HEAD.size, typed=version == 2)
    store = Jks([], [])
    for _ in range(count):
        tag = reader.number(_TAG)
        alias = reader.text()
        reader.number(_LONG)  # when it was put in
        if tag == _KEY:
            protected = reader.block()
            store.keys.append(KeyEntry(alias, protected, [reader.certificate() for _ in range(reader.number(_TAG))]))
        elif tag == _TRUSTED:
            store.trusted.append(reader.certificate())
        else:
            raise NotJks(f"an entry is of the unknown kind {tag}")
    return store, reader.at


class _Reader:
    """Reads the fields of a store one after the other; every method raises StructError at the end of the bytes."""

    def __init__(self, data: bytes, at: int, *, typed: bool) -> None:
        self.at = at
        self._data = data
        self._typed = typed

    def number(self, form: Struct) -> int:
        (value,) = form.unpack_from(self._data, self.at)
        self.at += form.size
        return int(value)

    def _bytes(self, size: int) -> bytes:
        found = self._data[self.at : self.at + size]
        if len(found) < size:
            raise StructError("too short")
        self.at += size
        return found

    def text(self) -> str:
        return self._bytes(self.number(_SHORT)).decode()

    def block(self) -> bytes:
        return self._bytes(self.number(_TAG))

    def certificate(self) -> bytes:
        if self._typed and self.text() != "X.509":
            raise NotJks("a certificate is not of the kind X.509")
        return self.block()


def unprotect(protected: bytes, password: str) -> bytes:
    """Returns a key as PKCS#8. Raises NotJks and WrongPassword."""
    try:
        algorithm, value = elements(only(protected, SEQUENCE).content)
        number = dotted(elements(algorithm.content)[0].content)
    except (NotDer, ValueError, IndexError) as error:
        raise NotJks("a key is not protected as in JKS") from error
    if number != _PROTECTED_BY_JKS or value.tag != OCTET_STRING or len(value.content) < 2 * _SHA1_BYTES:
        raise NotJks("a key is not protected as in JKS")
    secret = password.encode("utf-16-be")
    digest, hidden, check = value.content[:_SHA1_BYTES], value.content[_SHA1_BYTES:-_SHA1_BYTES], value.content[-_SHA1_BYTES:]
    stream = bytearray()
    while len(stream) < len(hidden):
        digest = hashlib.sha1(secret + digest).digest()
        stream += digest
    size = len(hidden)
    key = (int.from_bytes(hidden, "big") ^ int.from_bytes(stream[:size], "big")).to_bytes(size, "big")
    if not hmac.compare_digest(hashlib.sha1(secret + key).digest(), check):
        raise WrongPassword
    return key

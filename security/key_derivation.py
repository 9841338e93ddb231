"""The work that opening an encrypted key or store takes, as its own bytes say, known before the work is done.

Keys (PKCS #8) and stores (PKCS #12) name how often a hash is to be iterated, up to billions of times, or how much memory scrypt
is to fill. What does the work cannot be interrupted. So the numbers are looked for first, in DER or BER, wherever they stand
unencrypted: behind a salt, which is an octet string.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ottla.security.der import OBJECT_IDENTIFIER, OCTET_STRING, SEQUENCE

MOST_ITERATIONS: Final = 5_000_000
"""A few seconds of a core. Java makes 10,000, OpenSSL 2,048, and OWASP asks for 600,000."""
MOST_SCRYPT_BYTES: Final = 256 << 20
_INTEGER: Final = 0x02
_CONSTRUCTED: Final = 0x20
_END: Final = 0
"""The tag that ends what has no length in BER."""
_SCRYPT: Final = bytes.fromhex("2b06010401da47040b")
_SCRYPT_BLOCK: Final = 128


class TooCostly(ValueError):
    """It would take too long, or too much memory, to open these bytes. The text is one line."""


def check(data: bytes) -> None:
    """Raises TooCostly if the bytes ask for more than MOST_ITERATIONS or MOST_SCRYPT_BYTES."""
    algorithm = b""
    numbers: list[int] | None = None  # those behind a salt; None where there is none
    for tag, content in _flattened(data):
        if tag == _INTEGER and numbers is not None:
            numbers.append(int.from_bytes(content, "big", signed=True))
            _bound(algorithm, numbers)
            continue
        numbers = [] if tag == OCTET_STRING else None
        if tag == OBJECT_IDENTIFIER:
            algorithm = content


def _bound(algorithm: bytes, behind_salt: list[int]) -> None:
    """Raises TooCostly for the integers that stand behind a salt so far: iterations, or scrypt's N, r and p."""
    if algorithm != _SCRYPT:
        if behind_salt[0] > MOST_ITERATIONS:
            raise TooCostly(f"it asks for more than {MOST_ITERATIONS:,} iterations; encrypt it again with fewer")
        return
    size = _SCRYPT_BLOCK
    for number in behind_salt[:3]:
        size *= max(number, 1)
        if size > MOST_SCRYPT_BYTES:
            raise TooCostly(f"its scrypt asks for more than {MOST_SCRYPT_BYTES >> 20} MiB; encrypt it again with less")


def _flattened(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields tag and content of every element, in order; one that has others in it is followed by these, and its own content is
    left out. An octet string that is a sequence counts as one that has others in it. Stops where the bytes are neither DER nor
    BER."""
    at = 0
    while at + 2 <= len(data):
        tag, size, at = _head(data, at)
        if tag & _CONSTRUCTED:
            yield tag, b""
            continue
        if tag == OCTET_STRING and _is_sequence(data, at, at + size):
            yield SEQUENCE, b""
            continue
        if tag != _END:
            yield tag, data[at : at + size]
        at += size


def _is_sequence(data: bytes, start: int, end: int) -> bool:
    """Returns whether a sequence fills this part of the bytes."""
    if end - start < 2 or end > len(data) or data[start] != SEQUENCE:
        return False
    _, size, at = _head(data, start)
    return data[start + 1] == 0x80 or at + size == end


def _head(data: bytes, at: int) -> tuple[int, int, int]:
    """Returns tag and size of the element that begins here, and where its content begins. The size is 0 if it is not told."""
    tag, size = data[at], data[at + 1]
    at += 2
    if size & 0x80:
        digits = size & 0x7F
        size = int.from_bytes(data[at : at + digits], "big")
        at += digits
    return tag, size, at

"""The bytes of an encrypted key or store, in DER or BER, are enough to know what it costs to open it."""

from __future__ import annotations

import pytest

from compat_tests.certificates import authority
from ottla.security.key_derivation import MOST_ITERATIONS, TooCostly, check
from tests.security.ders import PBKDF2, SALT, element, number, scrypt, sequence


def endless(tag: int, *parts: bytes) -> bytes:
    """An element of BER whose length is not told."""
    return bytes([tag, 0x80]) + b"".join(parts) + b"\0\0"


FORMS = {
    "a key": lambda n: sequence(sequence(PBKDF2, sequence(SALT, number(n), number(32))), element(0x04, b"0" * 40)),
    "a key of PKCS #12": lambda n: sequence(sequence(element(0x06, b"*"), sequence(SALT, number(n))), SALT),
    "the digest of a store": lambda n: sequence(sequence(sequence(element(0x05)), SALT), SALT, number(n)),
    "within a store": lambda n: sequence(number(3), element(0xA0, element(0x04, sequence(PBKDF2, sequence(SALT, number(n)))))),
    "BER": lambda n: endless(0x30, endless(0x24, element(0x04, endless(0x30, PBKDF2, endless(0x30, SALT, number(n)))))),
    "a salt in pieces": lambda n: sequence(PBKDF2, sequence(endless(0x24, SALT, SALT), number(n))),
    "the longest number": lambda n: sequence(PBKDF2, sequence(SALT, number(n << 800 if n > MOST_ITERATIONS else n))),
}


@pytest.mark.parametrize("form", FORMS)
def test_iterations(form: str) -> None:
    check(FORMS[form](MOST_ITERATIONS))
    with pytest.raises(TooCostly, match="5,000,000 iterations; encrypt"):
        check(FORMS[form](MOST_ITERATIONS + 1))


def test_scrypt() -> None:
    check(scrypt(1 << 14, 8, 1))
    check(scrypt(1 << 18, 8, 1))
    for numbers in ((1 << 19, 8, 1), (1 << 14, 255, 1), (1 << 14, 8, 17), (1 << 80, 1, 1)):
        with pytest.raises(TooCostly, match="256 MiB"):
            check(scrypt(*numbers))


def test_what_is_a_number_elsewhere_counts_nothing() -> None:
    holder = authority()
    for data in (
        holder.pkcs12("p"),
        holder.jks(),
        sequence(number(1 << 80), SALT),
        sequence(SALT, element(0x05), number(1 << 80)),
    ):
        check(data)


@pytest.mark.parametrize("data", [b"", b"\x30", b"\x02\x84", b"\x04\x09\x30", b"\x04\x02\x30\x81", b"\x04\x02\x30\x05\x02\x09"])
def test_bytes_of_any_kind_are_looked_through(data: bytes) -> None:
    check(data)


def test_octet_strings_within_each_other_are_looked_through_once() -> None:
    data = b""
    while len(data) < 60_000:
        data = element(0x04, sequence(data))
    check(data)
    check(b"\x04\x02" * 500_000)

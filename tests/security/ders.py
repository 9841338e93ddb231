"""Puts DER together, and what stands in it of encrypted keys."""

from __future__ import annotations


def element(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    size = len(content)
    digits = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, size] if size < 128 else [tag, 0x80 | len(digits), *digits]) + content


def number(value: int) -> bytes:
    return element(0x02, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def sequence(*parts: bytes) -> bytes:
    return element(0x30, *parts)


PBKDF2 = bytes.fromhex("06092a864886f70d01050c")
SALT = element(0x04, b"0123456\x02")
_SCRYPT = bytes.fromhex("06092b06010401da47040b")


def scrypt(n: int, r: int, p: int) -> bytes:
    return sequence(_SCRYPT, sequence(SALT, number(n), number(r), number(p)))

"""Elements of DER: what they are, and that every other byte is refused."""

from __future__ import annotations

import pytest
from cryptography import x509

from ottla.security.der import NotDer, dotted, elements, only


def test_elements_one_after_the_other() -> None:
    first, second = elements(b"\x04\x01a\x30\x82\x00\x02bc")
    assert first == (0x04, b"a", b"\x04\x01a")
    assert second == (0x30, b"bc", b"\x30\x82\x00\x02bc")
    assert elements(b"") == []
    assert elements(b"\x04\x81\x80" + bytes(128))[0].content == bytes(128)


@pytest.mark.parametrize("data", [b"\x04", b"\x04\x02a", b"\x04\x80", b"\x04\x85\0\0\0\0\1a", b"\x04\x82\x01", b"\x04\x01ab"])
def test_what_does_not_end_where_it_should(data: bytes) -> None:
    with pytest.raises(NotDer):
        elements(data)


def test_only_one() -> None:
    assert only(b"\x04\x01a", 0x04).content == b"a"
    for other in (b"", b"\x04\x01a\x04\x01b", b"\x05\x00"):
        with pytest.raises(NotDer, match="0x04"):
            only(other, 0x04)


@pytest.mark.parametrize("text", ["0.9.2342.19200300.100.1.25", "1.2.840.113549.1.9.1", "2.5.4.3", "2.999.1"])
def test_object_identifiers(text: str) -> None:
    name = x509.Name([x509.NameAttribute(x509.ObjectIdentifier(text), "x")]).public_bytes()
    whole = elements(elements(elements(only(name, 0x30).content)[0].content)[0].content)[0]
    assert dotted(whole.content) == text


def test_a_number_without_an_end() -> None:
    for content in (b"", b"\x2a\x86"):
        with pytest.raises(NotDer):
            dotted(content)


def test_a_number_that_is_too_long_to_write_down() -> None:
    with pytest.raises(NotDer, match="more than 1000 bytes"):
        dotted(b"\x2a" + b"\xff" * 3000 + b"\x01")
    assert len(dotted(b"\x2a" + b"\xff" * 999 + b"\x01\x03")) > 2000

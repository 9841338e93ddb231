"""Walks DER (X.690), the encoding of certificates and keys: no more than what names in certificates and JKS keystores need.

`cryptography` decodes everything else. It has no public way to the string types in a name, on which Java's text of it depends,
nor to the protection of keys that is peculiar to JKS.
"""

from __future__ import annotations

from typing import Final, NamedTuple

OBJECT_IDENTIFIER: Final = 0x06
OCTET_STRING: Final = 0x04
SEQUENCE: Final = 0x30
SET: Final = 0x31
_LONGEST_NUMBER: Final = 1000
"""So many bytes a number of an object identifier may have: what is longer costs the square of its length to write down."""


class NotDer(ValueError):
    """The bytes are not the DER that was expected."""


class Element(NamedTuple):
    """One element: its tag, its content, and `whole`, the bytes of both with the length between them."""

    tag: int
    content: bytes
    whole: bytes


def elements(data: bytes) -> list[Element]:
    """Returns the elements that stand one after the other in `data`, to its end. Raises NotDer."""
    found, at = [], 0
    while at < len(data):
        start = at
        if len(data) - at < 2:
            raise NotDer("it ends within an element")
        tag, size = data[at], data[at + 1]
        at += 2
        if size & 0x80:
            digits = size & 0x7F
            if not 1 <= digits <= 4 or len(data) - at < digits:
                raise NotDer("an element has no proper length")
            size = int.from_bytes(data[at : at + digits], "big")
            at += digits
        if len(data) - at < size:
            raise NotDer("it ends within an element")
        at += size
        found.append(Element(tag, data[at - size : at], data[start:at]))
    return found


def only(data: bytes, tag: int) -> Element:
    """Returns the element that `data` is, which must have this tag. Raises NotDer."""
    found = elements(data)
    if len(found) != 1 or found[0].tag != tag:
        raise NotDer(f"it is not one element of tag {tag:#04x}")
    return found[0]


def dotted(content: bytes) -> str:
    """Returns the text of an object identifier, such as `2.5.4.3`. Raises NotDer."""
    if not content or content[-1] & 0x80:
        raise NotDer("an object identifier ends within a number")
    numbers, number, size = [], 0, 0
    for byte in content:
        number, size = number << 7 | byte & 0x7F, size + 1
        if size > _LONGEST_NUMBER:
            raise NotDer(f"an object identifier has a number of more than {_LONGEST_NUMBER} bytes")
        if not byte & 0x80:
            numbers.append(number)
            number = size = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))

"""Counts the elements of all lists in a request before it is decoded, so that nobody decodes millions of them.

Every element costs at least a Python object or two when it is decoded, and more when it is answered, whereas on the wire an empty
string takes one byte. So the number of elements says how much work and memory a request is, and its size does not: a batch of
records of 100 MB is one element.

A shape (wire/shapes.py) says what a request consists of, in signs with blanks between them: a number stands for so many bytes,
`s` for a string, `b` for bytes or records, `[ ... ]` for a list of what is inside, `( ... )` for a struct that may be null, and
`t` for the tagged fields, with which every struct of a flexible version ends, and so does the shape of a flexible request. Tagged
fields count as elements, too.

A list is counted before it is walked, so a count that fails has walked no more elements than are allowed. Strings longer than
32,767 bytes, which Kafka does not read either, are refused on the way: decoded and answered, one of 100 MB takes many times that.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from struct import Struct
from typing import NamedTuple, TypeAlias

from ottla.wire.primitives import LONGEST_STRING, Buffer, uvarint
from ottla.wire.shapes import SHAPES

_int16 = Struct(">h")
_int32 = Struct(">i")


class TooManyItems(Exception):
    """A request has more elements in its lists than are allowed. Not a ValueError, since nothing is malformed."""


class List(NamedTuple):
    """A list in a shape. `size` is that of an element if all elements have the same size, else -1."""

    element: Shape
    size: int


class Nullable(NamedTuple):
    """A struct that may be null, in a shape."""

    struct: Shape


Sign: TypeAlias = "int | str | List | Nullable"
Shape: TypeAlias = "tuple[Sign, ...]"


class Layout(NamedTuple):
    """The shape of one version of a request. An element of its lists, if it has any, has at least `least_bytes`, not counting the
    elements inside it."""

    shape: Shape
    flexible: bool
    least_bytes: int


class _EnoughItems(Exception):
    """There are more elements than somebody wanted to know of."""


def has_more_items(api_key: int, version: int, buf: Buffer, pos: int, most: int, few: int) -> bool:
    """Returns whether the request whose body is at `pos` has more than `few` elements. It is walked no further than until that is
    known, and not at all if it is too short for so many.

    Raises TooManyItems if more than `most` were found on the way; or one of frame.MALFORMED, for bytes that do not decode
    either, or a string that is too long.
    """
    layout = layout_of(api_key, version)
    if layout is None or len(buf) - pos <= few * layout.least_bytes:
        return False
    try:
        _Count(buf, most, layout.flexible, few).walk(layout.shape, pos)
    except _EnoughItems:
        return True
    return False


def count_items(layout: Layout, buf: Buffer, pos: int, most: int) -> tuple[int, int]:
    """Returns the number of elements of the request at `pos`, and where it ends. Raises TooManyItems if there are more than
    `most`, or one of frame.MALFORMED."""
    count = _Count(buf, most, layout.flexible, most)
    end = count.walk(layout.shape, pos)
    return most - count.left, end


class _Count:
    """Walks through one request; `left` is the number of elements that may still come. It ends with _EnoughItems when there were
    more than `few`."""

    __slots__ = ("buf", "enough", "flexible", "left")

    def __init__(self, buf: Buffer, most: int, flexible: bool, few: int) -> None:
        self.buf = buf
        self.left = most
        self.enough = most - few
        self.flexible = flexible

    def walk(self, shape: Shape, pos: int, times: int = 1) -> int:
        """Returns the position behind what is at `pos`, so many structs of a shape."""
        buf, flexible = self.buf, self.flexible
        for _ in range(times):
            for sign in shape:
                if sign == "s":
                    if flexible:
                        length = buf[pos]
                        if length < 128:
                            pos += length or 1
                            continue
                        length, pos = self._compact(pos)
                    else:
                        (length,) = _int16.unpack_from(buf, pos)
                        pos += 2
                    if length > LONGEST_STRING:
                        raise ValueError(f"a string of {length} bytes")
                    if length > 0:
                        pos += length
                elif sign == "t":
                    pos = self._tags(pos) if buf[pos] else pos + 1
                elif type(sign) is int:
                    pos += sign
                elif sign == "b":
                    length, pos = self._length(pos)
                    pos += max(length, 0)
                elif isinstance(sign, List):
                    pos = self._list(sign, pos)
                elif isinstance(sign, Nullable):
                    present = buf[pos] < 128
                    pos += 1
                    if present:
                        pos = self.walk(sign.struct, pos)
        return pos

    def _compact(self, pos: int) -> tuple[int, int]:
        """Returns a compact length, -1 for null, and the position behind it."""
        value, pos = uvarint(self.buf, pos)
        return value - 1, pos

    def _length(self, pos: int) -> tuple[int, int]:
        """Returns the length of a list or of bytes, -1 for null, and the position behind it."""
        if self.flexible:
            return self._compact(pos)
        return _int32.unpack_from(self.buf, pos)[0], pos + 4

    def _take(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise TooManyItems
        if self.left < self.enough:
            raise _EnoughItems

    def _list(self, sign: List, pos: int) -> int:
        count, pos = self._length(pos)
        if count <= 0:
            return pos
        self._take(count)
        if sign.size >= 0:
            return pos + count * sign.size
        return self.walk(sign.element, pos, count)

    def _tags(self, pos: int) -> int:
        count, pos = uvarint(self.buf, pos)
        self._take(count)
        for _ in range(count):
            _, pos = uvarint(self.buf, pos)
            size, pos = uvarint(self.buf, pos)
            pos += size
        return pos


@cache
def layout_of(api_key: int, version: int) -> Layout | None:
    """Returns the layout of a request; None if its shape is not known."""
    if api_key not in SHAPES:
        return None
    text = [text for first, text in SHAPES[api_key] if first <= version][-1]
    shape, flexible = _read(iter(text.split())), text.endswith("t")
    return Layout(shape, flexible, max(1, min(_sizes(shape, flexible), default=1)))


def _read(signs: Iterator[str]) -> Shape:
    """Returns the shape that ends with the next closing bracket, or with the signs."""
    shape: list[Sign] = []
    for sign in signs:
        if sign == "[":
            element = _read(signs)
            fixed = all(type(each) is int for each in element)
            shape.append(List(element, sum(each for each in element if isinstance(each, int)) if fixed else -1))
        elif sign == "(":
            shape.append(Nullable(_read(signs)))
        elif sign in "])":
            break
        else:
            shape.append(int(sign) if sign.isdigit() else sign)
    return tuple(shape)


def _sizes(shape: Shape, flexible: bool) -> Iterator[int]:
    """Yields, for each list, the least bytes of its elements."""
    for sign in shape:
        if isinstance(sign, List):
            yield _size(sign.element, flexible)
            yield from _sizes(sign.element, flexible)
        elif isinstance(sign, Nullable):
            yield from _sizes(sign.struct, flexible)


def _size(shape: Shape, flexible: bool) -> int:
    """Returns the least bytes of a struct."""
    least = {"s": 1 if flexible else 2, "b": 1 if flexible else 4, "t": 1}
    total = 0
    for sign in shape:
        if isinstance(sign, int):
            total += sign
        elif isinstance(sign, str):
            total += least[sign]
        else:
            total += 1 if flexible or isinstance(sign, Nullable) else 4
    return total

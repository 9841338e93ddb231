"""Bounds answers that may be much longer than their requests, and encodes once what stands in them many times.

Nothing keeps a client from naming one thing thousands of times in a few bytes, and as in Kafka most APIs answer each time. So the
handlers of such APIs work out each thing once (`answer_once` in server/base/turns.py), and make the lists of their answers here.
A list made by `shared` may stand in many places of an answer: its elements are encoded at the first, and the bytes are used
again. While any list made here is encoded, the small parts that come out of the codec are joined as they come, because they take
many times the memory of their bytes; and an answer that gets longer than `ottla.response.max.bytes` is given up, which closes
the connection. An answer may be encoded in any thread (server/dispatch/in_thread.py).

The codecs know nothing of this. They only go over a list, and going over one of these lists is where it happens.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias, TypeVar

from ottla.server.base.errors import CloseConnection
from ottla.wire.primitives import Parts

T = TypeVar("T")
Encode: TypeAlias = Callable[[Any, Parts], None]
"""Appends the bytes of an answer to the parts; the same as in link.py, which imports more."""

JOINED_PARTS: Final = 1024
"""So many parts are joined into one."""


class AnswerTooLong(CloseConnection):
    """An answer got longer than `ottla.response.max.bytes`. There is no answer that could say so in its place."""


class AnswerList(list[T]):
    """A list in an answer, which is any other list unless the answer is being encoded."""

    __slots__ = ("_answers", "is_shared")

    def __init__(self, items: Iterable[T], answers: LongAnswers, is_shared: bool) -> None:
        super().__init__(items)
        self._answers = answers
        self.is_shared = is_shared

    def __iter__(self) -> Iterator[T]:
        items = super().__iter__()
        under_way = self._answers.under_way
        return items if under_way.parts is None else under_way.encode(self, items)


class LongAnswers:
    """Makes the lists of one broker's long answers, and knows those that are being encoded. `limit` is in bytes."""

    __slots__ = ("_limit", "refused", "under_way")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.under_way = _UnderWay(limit)
        self.refused = 0
        """The number of answers that were given up because they were too long."""

    def bounded(self, items: Iterable[T]) -> list[T]:
        """Returns a list for one place in an answer."""
        return AnswerList(items, self, False)

    def shared(self, items: Iterable[T]) -> list[T]:
        """Returns a list that may stand in many places of an answer."""
        return AnswerList(items, self, True)

    def around(self, encode: Encode, name: str) -> Encode:
        """Returns the step that encodes the answers of the API of this name. It raises AnswerTooLong."""

        def encode_long(answer: Any, parts: Parts) -> None:
            under_way = self.under_way
            under_way.parts = parts
            try:
                encode(answer, parts)
                under_way.count(parts)
            except AnswerTooLong:
                self.refused += 1
                text = f"the answer to its {name} is longer than {self._limit} bytes (ottla.response.max.bytes)"
                raise AnswerTooLong(text) from None
            finally:
                under_way.forget()

        return encode_long


class _UnderWay(threading.local):
    """Holds how far the encoding of an answer has come, for each thread its own."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.parts: Parts | None = None
        """The encoded parts of the answer under way; None between answers."""
        self._bytes = 0  # of the first `_counted` parts
        self._counted = 0
        self._encoded: dict[int, bytes] = {}  # of shared lists, by the identity of the list, which the answer keeps alive

    def forget(self) -> None:
        self.parts = None
        self._bytes = self._counted = 0
        self._encoded.clear()

    def encode(self, items: AnswerList[T], each: Iterator[T]) -> Iterator[T]:
        """Yields the items that have to be encoded now: all, or none if these items were encoded before. `each` is an iterator
        of them, for `AnswerList`."""
        parts = self.parts
        assert parts is not None
        known = self._encoded.get(id(items))
        if known is not None:
            parts.append(known)
            self.count(parts)
            return
        first = start = len(parts)
        for item in each:
            yield item
            if len(parts) - start >= JOINED_PARTS:
                self._join(parts, start)
                start += 1
        if items.is_shared:
            self._join(parts, first)
            self._encoded[id(items)] = parts[first] if first < len(parts) else b""

    def _join(self, parts: Parts, start: int) -> None:
        """Makes one part of those from `start` on. Raises AnswerTooLong."""
        self.count(parts)
        if len(parts) - start > 1:
            parts[start:] = [b"".join(parts[start:])]
            self._counted = len(parts)

    def count(self, parts: Parts) -> None:
        """Raises AnswerTooLong if the parts are too long in all."""
        self._bytes += sum(map(len, parts[self._counted :]))
        self._counted = len(parts)
        if self._bytes > self._limit:
            raise AnswerTooLong

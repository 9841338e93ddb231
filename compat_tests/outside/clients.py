"""The common interface of clients of all kinds, whichever library they are made of. A key is a partition as text,
`topic-partition`.

Errors of the libraries become one of two. `Abortable`: the transaction can only be aborted, and then certainly has not happened.
Any other `ClientError`: nobody knows what came of it, and the client may be of no more use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeVar

from compat_tests import waiting
from compat_tests.anomalies.history import Key

PATIENCE_S: Final = 20
"""The time for which clients wait for an answer: longer than any pause, see faults.py."""
DELIVERY_S: Final = 600
"""The time for which an idempotent producer repeats a record: for the whole run."""
TRANSACTION_S: Final = 20
"""A transaction is aborted by its coordinator after so long."""
MOST_POLLED: Final = 500
LONGEST_S: Final = 2 * PATIENCE_S
"""The time that a call may take that has no time limit of its own, or does not keep to it."""

Sent = Callable[[int | None], None]
"""Called with a record's offset when it is written; with None if it is given up."""
Committed = Mapping[Key, int]
"""Offsets of a group."""
Answer = TypeVar("Answer")


class ClientError(Exception):
    """Something did not work, and nobody knows whether it happened."""


class GivenUp(ClientError):
    """A call did not end in time. It may go on asking, and its client must not be used again."""


class Abortable(ClientError):
    """The transaction has not been committed, and must be aborted."""


class Sender(Protocol):
    """An idempotent producer. It keeps the order of what it sends, and repeats what was not answered."""

    def send(self, key: Key, value: int, sent: Sent) -> None:
        """Sends a record; `sent` is called later, from any thread. Raises ClientError."""
        ...

    def turn(self, seconds: float) -> None:
        """Waits, and lets `sent` be called meanwhile. Raises ClientError."""
        ...

    def init(self) -> None:
        """Takes over the transactional id. Raises ClientError."""
        ...

    def begin(self) -> None: ...

    def send_offsets(self, group: str, offsets: Committed) -> None: ...

    def commit(self) -> None:
        """Commits the transaction; every `sent` of it has been called when it returns. Raises Abortable or ClientError."""
        ...

    def abort(self) -> None: ...

    def close(self) -> None:
        """Gives up, without waiting for anything."""
        ...


class Poller(Protocol):
    """A consumer that no group assigns anything to. It may commit a group's offsets all the same."""

    def assign(self, positions: Mapping[Key, int]) -> None:
        """Goes on reading there, and nowhere else. Raises ClientError."""
        ...

    def poll(self, seconds: float) -> list[tuple[Key, int, int]]:
        """Returns (key, offset, value) of the records that come within this time. Raises ClientError."""
        ...

    def commit(self, offsets: Committed) -> None:
        """Commits offsets. Raises ClientError."""
        ...

    def committed(self, keys: list[Key]) -> Committed:
        """Returns the group's offsets, -1 where there is none. Raises ClientError."""
        ...

    def close(self) -> None: ...


class Library(Protocol):
    """One library. A sender without a transactional id is merely idempotent; a poller without a group commits nothing."""

    name: str

    def sender(self, bootstrap: str, transactional_id: str | None = None) -> Sender: ...

    def poller(self, bootstrap: str, group: str, *, committed: bool) -> Poller:
        """`committed`: it reads committed records only."""
        ...


def in_time(ask: Callable[[], Answer], longest_s: float = LONGEST_S) -> Answer:
    """Returns what it answers, and raises what it raises. Raises GivenUp if it is not back in time, and leaves it alone then.

    Two libraries were seen not to end when a coordinator had gone: librdkafka 2.16 in `send_offsets` (its issues 5511 and 5456)
    and in a consumer's `commit`, and kafka-python 3.0, which waits without any limit there, in `commit` and in `abort`. A
    transactional id is taken over by another producer.
    """
    try:
        return waiting.in_time(ask, longest_s)
    except waiting.NoEndError as error:
        raise GivenUp(str(error)) from error


def place_of(key: Key) -> tuple[str, int]:
    """Returns topic and partition."""
    topic, _, partition = key.rpartition("-")
    return topic, int(partition)


def encode(value: int) -> bytes:
    """Returns a record's bytes, between 8 and about 600 of them, so that segments fill."""
    return b"%d " % value + b"." * (value * 7919 % 600)


def decode(data: Any) -> int:
    return int(bytes(data).split(b" ", 1)[0])

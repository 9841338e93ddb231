"""What the controller's operations share: they look at the image, change nothing, and return records and an answer.

The caller makes the records durable, applies them, and then gives the answer. So an operation is a function that a test calls
with an image, and it can never happen by halves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from ottla.server.metadata.names import invalid_reason
from ottla.wire.errors import ErrorCode
from ottla.wire.primitives import WireStruct

MAX_RECORDS: Final = 10_000
"""The most records that one request may cause, as in Kafka: they are one batch, which every broker must accept as a whole."""

LONGEST_MESSAGE: Final = 8_000
"""The most characters, of up to four bytes, in a message. Old versions cannot carry more than 32,767 bytes, and a message may
quote the client."""

_Answer = TypeVar("_Answer")


class Refused(Exception):
    """An operation, or its part for one topic, is not carried out. It has Kafka's error code and a sentence for the client."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message if message is None else message[:LONGEST_MESSAGE]


class Caller(NamedTuple):
    """The client whose request asks for an operation.

    An operation may depend on it: a delegation token belongs to whoever asks for it, an authorizer decides by principal and
    address, and a broker of a quorum sends the request on in an Envelope, with the same facts.
    """

    principal: str
    """For instance `User:alice`."""
    client_host: str
    client_id: str | None
    api_version: int


class Permits:
    """Says how much a client may change now: everything, unless a quota limits it (server/quotas)."""

    throttle_time_ms = 0
    """How long the client is to pause because of what was taken or refused."""

    def take(self, partitions: int) -> None:
        """Asks to make or remove so many partitions. Raises Refused with 89 THROTTLING_QUOTA_EXCEEDED."""


NO_LIMIT: Final = Permits()


class Outcome(NamedTuple, Generic[_Answer]):
    """The records that are appended as one batch, and the answer that is given once they are durable."""

    records: Sequence[WireStruct]
    answer: _Answer


def check_name(name: str) -> None:
    """Raises Refused with 17 INVALID_TOPIC_EXCEPTION if `name` cannot be a topic's."""
    reason = invalid_reason(name)
    if reason is not None:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)


def check_size(records: int) -> None:
    """Raises Refused with 44 POLICY_VIOLATION if a request would cause so many records."""
    if records > MAX_RECORDS:
        raise Refused(ErrorCode.POLICY_VIOLATION, f"One request may change at most {MAX_RECORDS} partitions and settings.")


def check_time(timeout_ms: int) -> None:
    """Raises Refused with 7 REQUEST_TIMED_OUT if the client's timeout is over already. As in Kafka, nothing is begun then."""
    if timeout_ms <= 0:
        raise Refused(ErrorCode.REQUEST_TIMED_OUT)

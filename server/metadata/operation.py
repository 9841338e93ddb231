"""The common part of the controller's operations: they look at the image, change nothing, and return records and an answer.

The caller makes the records durable, applies them, and then gives the answer. So an operation is a function that a test calls
with an image, and it can never happen by halves. The exception are operations on many topics, each of which succeeds or fails on
its own: they are done some topics at a time (`InParts`), with a turn of the event loop in between.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from ottla.server.metadata.names import invalid_reason
from ottla.wire.errors import ErrorCode
from ottla.wire.primitives import WireStruct

MAX_RECORDS: Final = 10_000
"""The most records that one request may cause, as in Kafka: they are one batch, which every broker must accept as a whole."""

LONGEST_MESSAGE: Final = 8_000
"""The most characters, of up to four bytes, in a message. Old versions cannot carry more than 32,767 bytes, and a message may
quote the client."""

PART_SIZE: Final = 256
"""The number of topics and records that a part of an operation has at most, or with the topic that fills it: about 10 ms."""

_Answer = TypeVar("_Answer")
_Topic = TypeVar("_Topic")
_Result = TypeVar("_Result")


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
    by_delegation_token: bool = False
    """True if the client logged in by a delegation token, which may not be used to get another one."""


class Permits:
    """Says how much a client may change now: everything, unless a quota limits it (server/quotas)."""

    throttle_time_ms = 0
    """The time for which the client is to pause because of what was taken or refused."""

    def take(self, partitions: int) -> None:
        """Asks to make or remove so many partitions. Raises Refused with 89 THROTTLING_QUOTA_EXCEEDED."""

    def give_back(self, partitions: int) -> None:
        """Takes back that so many partitions were made or removed, because they were not."""


NO_LIMIT: Final = Permits()


def _always() -> bool:
    return True


class Outcome(NamedTuple, Generic[_Answer]):
    """The records that are appended as one batch, and the answer that is given once they are durable. `holds` returns whether
    what they were made from is still so, where others may have changed it since."""

    records: Sequence[WireStruct]
    answer: _Answer
    holds: Callable[[], bool] = _always


Planning: TypeAlias = Generator[None, None, Outcome[_Answer]]
"""Makes an operation's records and its answer, in steps: the operation takes effect as a whole, and others come in between while
it is planned. A planning raises Refused if the operation as a whole is not carried out."""


class InParts(ABC, Generic[_Topic, _Result]):
    """An operation on many topics, each of which succeeds or fails on its own.

    Each call of `plan` returns the records of some topics, as the image is then; the caller commits them before the next call.
    When the operation `is_over`, `results` has one result for each topic, in the order in which they were given.
    """

    def __init__(self, topics: Iterable[_Topic], permits: Permits) -> None:
        self.results: list[_Result] = []
        self.size = 0
        """The number of topics and records in the present part."""
        self._topics = deque(topics)
        self._planned: list[_Topic] = []
        """The topics of the present part."""
        self._permits = permits
        self._taken = 0
        """The number of permits that the present part has taken."""

    @abstractmethod
    def plan_topic(self, topic: _Topic) -> tuple[Sequence[WireStruct], _Result]:
        """Returns the records of one topic and its result. Raises Refused."""

    @abstractmethod
    def refuse(self, topic: _Topic, code: ErrorCode, message: str | None) -> _Result:
        """Returns the result of a topic that is refused."""

    def take(self, partitions: int) -> None:
        """Asks, in `plan_topic`, to make or remove so many partitions. Raises Refused with 89 THROTTLING_QUOTA_EXCEEDED."""
        self._permits.take(partitions)
        self._taken += partitions

    @property
    def is_over(self) -> bool:
        """Returns whether every topic has been planned."""
        return not self._topics

    @property
    def is_first_part(self) -> bool:
        """Returns whether no part has been committed before the present one."""
        return len(self.results) == len(self._planned)

    def plan(self) -> list[WireStruct]:
        """Returns the records of the next part."""
        records: list[WireStruct] = []
        self._planned, self.size, self._taken = [], 0, 0
        while self._topics and self.size < PART_SIZE:
            topic = self._topics.popleft()
            try:
                made, result = self.plan_topic(topic)
            except Refused as refused:
                made, result = (), self.refuse(topic, refused.code, refused.message)
            records += made
            self.results.append(result)
            self._planned.append(topic)
            self.size += 1 + len(made)
        return records

    def undo(self) -> None:
        """Takes the present part back, which was not committed, so that `plan` plans its topics again."""
        self._permits.give_back(self._taken)
        del self.results[len(self.results) - len(self._planned) :]
        self._topics.extendleft(reversed(self._planned))
        self._planned = []

    def give_up(self, reason: str) -> None:
        """Ends the operation, because the present part could not be committed: its topics, and those that are left, are refused
        with 56 KAFKA_STORAGE_ERROR."""
        del self.results[len(self.results) - len(self._planned) :]
        self.results += [self.refuse(each, ErrorCode.KAFKA_STORAGE_ERROR, reason) for each in (*self._planned, *self._topics)]
        self._planned = []
        self._topics.clear()


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

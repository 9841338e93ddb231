"""A `Result` is what an operation on a group returns: the records to write, and the answer to give once they are written.

The shard appends the records, replays them, calls `on_append` with the outcome, and goes on with the step that it returns (it is
Kafka's CoordinatorResult and its append future in one value). An operation without `on_append` fails as a whole if the append
fails: the shard raises GroupError, and the caller answers with its code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from ottla.server.group.records import GroupRecord, InTransaction
from ottla.wire.errors import ErrorCode

T = TypeVar("T")


class Result(NamedTuple, Generic[T]):
    """The outcome of an operation. `records` are appended in one batch, as part of `transaction` if there is one; `response` is
    then the answer. If there are no records, nothing is appended.
    """

    records: Sequence[GroupRecord]
    response: T
    on_append: Callable[[ErrorCode], Result[None] | None] | None = None
    transaction: InTransaction | None = None


NOTHING: Result[None] = Result((), None)
"""The result of a step that had nothing to do: nothing is written, and nothing is answered."""

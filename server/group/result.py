"""What an operation on a group hands back: the records that make it true, and the answer to give once they are written.

The shard appends the records, replays them, calls `on_append` with the outcome, and goes on with the step which that returns
(Kafka's CoordinatorResult and its append future, in one value). An operation without `on_append` fails as a whole when the
append fails: the shard raises GroupError and the caller answers with its code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from ottla.server.group.records import GroupRecord, InTransaction
from ottla.wire.errors import ErrorCode

T = TypeVar("T")


class Result(NamedTuple, Generic[T]):
    """`records` to append in one batch (none: nothing is written), as part of `transaction` if there is one, then `response`."""

    records: Sequence[GroupRecord]
    response: T
    on_append: Callable[[ErrorCode], Result[None] | None] | None = None
    transaction: InTransaction | None = None


NOTHING: Result[None] = Result((), None)
"""Nothing to write, nothing to say: a step that had no work left."""

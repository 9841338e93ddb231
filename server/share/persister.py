"""The `Persister` keeps the state of share partitions beyond the life of this broker; this module also says which error a member
gets when it refuses.

It is the share coordinator (server/share_state/coordinator.py), what asks those of other brokers
(server/interbroker/share_persister.py), or a fake of it in tests. The coordinator of share groups uses the same object as a
`StateKeeper`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from ottla.server.base.answers import recover_answer
from ottla.server.base.promise import Promise
from ottla.server.share_state.batches import StateBatch
from ottla.server.share_state.errors import ShareStateError
from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.server.share_state.coordinator import ReadState

T = TypeVar("T")


class Persister(Protocol):
    """Reads and writes the state of share partitions.

    Both methods raise ShareStateError, or return a promise that may fail with it, if the state is not replicated yet.
    """

    def read(self, group_id: str, topic_id: bytes, partition: int, leader_epoch: int) -> ReadState | Promise[ReadState]:
        """Returns the state to the leader of that epoch; from then on no leader of an older epoch may write."""
        ...

    def write(
        self,
        group_id: str,
        topic_id: bytes,
        partition: int,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        state_batches: Iterable[StateBatch],
    ) -> Promise[None] | None:
        """Writes new states of offsets, and how many offsets from the start on will not be delivered again."""
        ...


class StateKeeper(Protocol):
    """Begins and deletes the state of share groups in partitions. `initialize` and `delete` refuse as a Persister does."""

    def has_topic(self) -> bool:
        """Returns whether `__share_group_state` exists. If it does not, begins to create it."""
        ...

    def initialize(
        self, group_id: str, topic_id: bytes, partition: int, state_epoch: int, start_offset: int
    ) -> Promise[None] | None:
        """Lets the share group begin at `start_offset` with a new state epoch."""
        ...

    def delete(self, group_id: str, topic_id: bytes, partition: int) -> Promise[None] | None:
        """Deletes the share partition, if it is known."""
        ...


class ShareError(Exception):
    """A share operation failed; the client is answered `code` and `message`."""

    def __init__(self, code: ErrorCode, message: str | None) -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message


_MEMBER_CODES: Final = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.INVALID_REQUEST: ErrorCode.OFFSET_NOT_AVAILABLE,
}
"""With INVALID_REQUEST the coordinator says that the share partition is not initialized: either the member was faster than the
group's first heartbeat, or the state was deleted. A consumer that gets OFFSET_NOT_AVAILABLE fetches again; Kafka answers
UNKNOWN_SERVER_ERROR."""


def to_share_error(error: ShareStateError) -> ShareError:
    """Returns the error that a member of the group gets for a refusal of the coordinator."""
    return ShareError(_MEMBER_CODES.get(error.code, ErrorCode.KAFKA_STORAGE_ERROR), error.text)


def with_share_errors(answer: T | Promise[T]) -> T | Promise[T]:
    """Returns the answer, or a promise of it that fails with what `to_share_error` makes of the coordinator's refusal."""

    def refuse(error: ShareStateError) -> T:
        raise to_share_error(error) from error

    return recover_answer(answer, ShareStateError, refuse)


FENCING: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_STATE_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""After one of these errors this broker's share partition is no longer valid: it is dropped, and loaded anew for the next
request."""

"""What share partitions ask of whoever keeps their state beyond this broker, and what members hear when it refuses.

That is the share coordinator (server/share_state/coordinator.py), or a fake of it in tests. Both calls are done when they return.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from ottla.server.share_state.batches import StateBatch
from ottla.server.share_state.errors import ShareStateError
from ottla.wire.errors import ErrorCode


class KeptState(Protocol):
    """`start_offset` is -1 where the group has not begun: its settings say where."""

    @property
    def state_epoch(self) -> int: ...

    @property
    def start_offset(self) -> int: ...

    @property
    def batches(self) -> Sequence[StateBatch]: ...


class Persister(Protocol):
    """Both raise ShareStateError."""

    def read(self, group_id: str, topic_id: bytes, partition: int, leader_epoch: int) -> KeptState:
        """The state, for the leader of that epoch; from now on no older one may write."""
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
    ) -> None:
        """New states of offsets, and how many offsets from the start on will not be delivered again."""
        ...


class ShareError(Exception):
    """What a client is told instead: `code` and `message`."""

    def __init__(self, code: ErrorCode, message: str | None) -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message


_TOLD: Final = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}


def told(error: ShareStateError) -> ShareError:
    """The coordinator's refusal, as a member of the group hears it."""
    code = _TOLD.get(error.code)
    return ShareError(ErrorCode.UNKNOWN_SERVER_ERROR, None) if code is None else ShareError(code, error.text)


FENCING: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_STATE_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Told so, a share partition is no longer what it was: it is forgotten, and loaded anew for whoever comes next."""

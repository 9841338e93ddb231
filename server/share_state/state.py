"""What is kept of one share partition: how far a share group is in a partition of a topic.

Two kinds of records change it. A snapshot says everything. An update says what a write brought, and is laid over what was there.
Both have the epoch of the snapshot that they belong to.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from ottla.server.share_state.batches import NO_OFFSET, StateBatch, combine
from ottla.wire.primitives import uuid_from_text, uuid_to_text

NO_EPOCH: Final = -1
NO_COUNT: Final = -1
_INT: Final = re.compile(r"[+-]?[0-9]{1,10}")


class SharePartition(NamedTuple):
    """The name of a share partition."""

    group_id: str
    topic_id: bytes
    partition: int


def key_of(name: SharePartition) -> str:
    """As FindCoordinator is asked with it: `group:topic id:partition`."""
    return f"{name.group_id}:{uuid_to_text(name.topic_id)}:{name.partition}"


def parse_key(key: str) -> SharePartition | None:
    """The opposite of `key_of`; None if that cannot have been its answer. As Kafka reads it: colons at the end do not count."""
    parts = key.rstrip(":").rsplit(":", 2)
    if len(parts) != 3 or not parts[0].strip() or _INT.fullmatch(parts[2]) is None:
        return None
    try:
        return SharePartition(parts[0], uuid_from_text(parts[1]), int(parts[2]))
    except ValueError:
        return None


class ShareState(NamedTuple):
    """`delivery_complete_count`: of the records from `start_offset` on, how many are done with (KIP-1226); -1 unknown. Times in
    ms since the epoch: `created_ms` of the snapshot, `written_ms` as well, except where it is a copy of one that grew cold.
    """

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int = NO_COUNT
    batches: tuple[StateBatch, ...] = ()
    created_ms: int = 0
    written_ms: int = 0


class ShareUpdate(NamedTuple):
    """What one write brought; -1 stands for what it leaves as it is."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int = NO_COUNT
    batches: tuple[StateBatch, ...] = ()


def updated(state: ShareState, update: ShareUpdate) -> ShareState:
    """`state` with `update` laid over it."""
    start_offset = state.start_offset if update.start_offset == NO_OFFSET else update.start_offset
    return state._replace(
        leader_epoch=state.leader_epoch if update.leader_epoch == NO_EPOCH else update.leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=update.delivery_complete_count,
        batches=combine(state.batches, update.batches, start_offset),
    )

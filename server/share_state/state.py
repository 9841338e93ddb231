"""The state of one share partition: how far a share group has got in a partition of a topic.

Two kinds of records change it. A snapshot replaces the whole state. An update holds what one write changed, and is merged into
the state before it. Both carry the epoch of the snapshot that they belong to.
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
    """The name of a share partition: a share group and a partition of a topic."""

    group_id: str
    topic_id: bytes
    partition: int


def key_of(name: SharePartition) -> str:
    """Returns the key of a share partition in FindCoordinator: `group:topic id:partition`."""
    return f"{name.group_id}:{uuid_to_text(name.topic_id)}:{name.partition}"


def parse_key(key: str) -> SharePartition | None:
    """Returns the share partition of a key, or None if `key_of` cannot have returned that key. As in Kafka, colons at the end are
    ignored.
    """
    parts = key.rstrip(":").rsplit(":", 2)
    if len(parts) != 3 or not parts[0].strip() or _INT.fullmatch(parts[2]) is None:
        return None
    try:
        return SharePartition(parts[0], uuid_from_text(parts[1]), int(parts[2]))
    except ValueError:
        return None


class ShareState(NamedTuple):
    """The state of a share partition. `delivery_complete_count` is how many of the records from `start_offset` on need no further
    delivery (KIP-1226), or -1 if that is unknown. Times are in ms since the epoch: `created_ms` is when the snapshot was created,
    and `written_ms` is the same unless the snapshot is a copy of a cold one.
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
    """The changes of one write; -1 stands for a value that it leaves as it is."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int = NO_COUNT
    batches: tuple[StateBatch, ...] = ()


def apply_update(state: ShareState, update: ShareUpdate) -> ShareState:
    """Returns `state` with `update` merged into it."""
    start_offset = state.start_offset if update.start_offset == NO_OFFSET else update.start_offset
    return state._replace(
        leader_epoch=state.leader_epoch if update.leader_epoch == NO_EPOCH else update.leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=update.delivery_complete_count,
        batches=combine(state.batches, update.batches, start_offset),
    )

"""Encodes and decodes the records of `__share_group_state`: snapshots, updates of them, and tombstones of deleted share
partitions.

The keys are ShareSnapshotKey (type 0) and ShareUpdateKey (type 1), of group id, topic id and partition. The values are
ShareSnapshotValue and ShareUpdateValue, version 0. Keys begin with their type, values with their version, as int16. A snapshot
without a value is a tombstone. As in Kafka, the batch of a write has one record.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from ottla.server.share_state.batches import StateBatch
from ottla.server.share_state.state import SharePartition, ShareState, ShareUpdate
from ottla.wire.messages.internal import share_snapshot_key as snapshot_key
from ottla.wire.messages.internal import share_snapshot_value as snapshot_value
from ottla.wire.messages.internal import share_update_key as update_key
from ottla.wire.messages.internal import share_update_value as update_value
from ottla.wire.primitives import Buffer
from ottla.wire.records import Record, build_batch

SNAPSHOT: Final = 0
UPDATE: Final = 1
VALUE_VERSION: Final = 0

_INT16: Final = struct.Struct(">h")

Change = tuple[SharePartition, ShareState | ShareUpdate | None]
"""The content of one record: the share partition, and its snapshot, its update, or None for a tombstone."""


def encode(changes: Sequence[Change], timestamp_ms: int, codec: int = 0) -> bytes:
    """Encodes the changes as one batch, compressed by `codec`."""
    records = [Record(0, timestamp_ms, _key(name, change), _value(change), []) for name, change in changes]
    return build_batch(records, codec=codec, base_sequence=0)


def _key(name: SharePartition, change: ShareState | ShareUpdate | None) -> bytes:
    out: list[Buffer] = []
    if isinstance(change, ShareUpdate):
        out.append(_INT16.pack(UPDATE))
        update_key.ENCODE[0](update_key.ShareUpdateKey(*name), out)
    else:
        out.append(_INT16.pack(SNAPSHOT))
        snapshot_key.ENCODE[0](snapshot_key.ShareSnapshotKey(*name), out)
    return b"".join(out)


def _value(change: ShareState | ShareUpdate | None) -> bytes | None:
    if change is None:
        return None
    out: list[Buffer] = [_INT16.pack(VALUE_VERSION)]
    if isinstance(change, ShareUpdate):
        update = update_value.ShareUpdateValue(
            change.snapshot_epoch,
            change.leader_epoch,
            change.start_offset,
            change.delivery_complete_count,
            [update_value.StateBatch(*batch[:2], batch.delivery_state, batch.delivery_count) for batch in change.batches],
        )
        update_value.ENCODE[VALUE_VERSION](update, out)
    else:
        snapshot = snapshot_value.ShareSnapshotValue(
            change.snapshot_epoch,
            change.state_epoch,
            change.leader_epoch,
            change.start_offset,
            change.delivery_complete_count,
            change.created_ms,
            change.written_ms,
            [snapshot_value.StateBatch(*batch[:2], batch.delivery_state, batch.delivery_count) for batch in change.batches],
        )
        snapshot_value.ENCODE[VALUE_VERSION](snapshot, out)
    return b"".join(out)


def decode(key: Buffer, value: Buffer | None) -> Change | None:
    """Decodes a record. Returns None for a record of another type. Raises ValueError, IndexError or struct.error
    (wire.frame.MALFORMED) for bytes that do not follow their schema.
    """
    kind = _INT16.unpack_from(key)[0]
    if kind == SNAPSHOT:
        found = snapshot_key.DECODE[0](key, _INT16.size)[0]
        return SharePartition(found.group_id, found.topic_id, found.partition), None if value is None else _snapshot(value)
    if kind == UPDATE and value is not None:
        name = update_key.DECODE[0](key, _INT16.size)[0]
        return SharePartition(name.group_id, name.topic_id, name.partition), _update(value)
    return None


def _version(value: Buffer) -> int:
    version: int = _INT16.unpack_from(value)[0]
    if version != VALUE_VERSION:
        raise ValueError(f"a value has the unknown version {version}")
    return version


def _snapshot(value: Buffer) -> ShareState:
    found = snapshot_value.DECODE[_version(value)](value, _INT16.size)[0]
    return ShareState(
        found.snapshot_epoch,
        found.state_epoch,
        found.leader_epoch,
        found.start_offset,
        found.delivery_complete_count,
        _batches(found.state_batches),
        found.create_timestamp,
        found.write_timestamp,
    )


def _update(value: Buffer) -> ShareUpdate:
    found = update_value.DECODE[_version(value)](value, _INT16.size)[0]
    return ShareUpdate(
        found.snapshot_epoch,
        found.leader_epoch,
        found.start_offset,
        found.delivery_complete_count,
        _batches(found.state_batches),
    )


def _batches(found: Sequence[snapshot_value.StateBatch | update_value.StateBatch]) -> tuple[StateBatch, ...]:
    for batch in found:
        if batch.last_offset < batch.first_offset:  # requests with it are refused, and `combine` would never end
            raise ValueError(f"a state batch has the offsets {batch.first_offset} to {batch.last_offset}")
    return tuple(StateBatch(batch.first_offset, batch.last_offset, batch.delivery_count, batch.delivery_state) for batch in found)

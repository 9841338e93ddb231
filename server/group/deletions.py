"""The deletion of a group with many offsets, encoded in a thread.

It takes effect at once or not at all, so it is one batch of tombstones, which may be some ten thousand; to encode these takes too
long for a turn of the event loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ottla.server.group.records import GroupRecord, encode_batch, offset_tombstone


class Deletion(NamedTuple):
    """The data of a group: the topics and partitions of its offsets, and the tombstones for the rest."""

    group_id: str
    offsets: Sequence[tuple[str, int]]
    others: Sequence[GroupRecord]


class PreparedDeletion(NamedTuple):
    """A deletion, its records, and the batch that they make."""

    deletion: Deletion
    encoded: tuple[Sequence[GroupRecord], bytes]


def prepare(deletion: Deletion, now_ms: int, codec: int) -> PreparedDeletion:
    """Encodes a deletion. Any thread may call this."""
    tombstones = [offset_tombstone(deletion.group_id, topic, partition) for topic, partition in deletion.offsets]
    records: list[GroupRecord] = [*tombstones, *deletion.others]
    return PreparedDeletion(deletion, (records, encode_batch(records, now_ms, codec)))

"""Encodes commits of many offsets in a thread, before the group is asked, so that nobody else waits for that.

A commit takes effect at once or not at all, so it is one batch, which may have some ten thousand records, and to encode these
takes many times as long as to append and replay them. Nothing of it depends on the group. A commit that does not fit into a batch
is refused when it is appended, as a short one is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.server.group.offsets import Offsets
from ottla.server.group.records import InTransaction, OffsetRecord, encode_batch
from ottla.server.group.requests import Commit

AT_ONCE: Final = 500
"""So many offsets, or tombstones of offsets, are encoded on the event loop, in about 2 ms."""
PARTITIONS_A_STEP: Final = 100
"""So many partitions of a request are looked at before others may come first."""


class PreparedCommit(NamedTuple):
    """The records of a commit, and the batch that they make."""

    records: Sequence[OffsetRecord]
    batch: bytes


def prepare(
    group_id: str, commits: Sequence[Commit], now_ms: int, retention_ms: int, codec: int, transaction: InTransaction | None
) -> PreparedCommit:
    """Encodes a commit. `retention_ms` is -1 for the broker's setting. Any thread may call this."""
    records = Offsets.commit(group_id, commits, now_ms, retention_ms)
    return PreparedCommit(records, encode_batch(records, now_ms, codec, transaction))

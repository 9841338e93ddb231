"""Fetches a snapshot of the metadata from the leader, in pieces, into the directory of the metadata log (FetchSnapshot, KIP-630).

The pieces go into `<name>-<random>.checkpoint.part`, in order; a start removes such a file. When all of it is there, it is synced
and gets its name. Whoever fetches begins anew if the leader changes or has deleted the snapshot meanwhile, since it may offer
another one then.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from ottla.server.metadata.names import CLUSTER_METADATA
from ottla.server.metadata.snapshot import PARTIAL_SUFFIX, SnapshotId
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RequestPartitionSnapshot,
    RequestSnapshotId,
    RequestTopicSnapshot,
    ResponsePartitionSnapshot,
)

if TYPE_CHECKING:
    from random import Random

    from ottla.log.disk.directory import LogDirectory

Ask = Callable[[FetchSnapshotRequest], Awaitable[FetchSnapshotResponse]]


class SnapshotGone(Exception):
    """The node that was asked does not go on with this snapshot. The text says why; what it said of the leader is in `answer`."""

    def __init__(self, reason: str, answer: FetchSnapshotResponse) -> None:
        super().__init__(reason)
        self.answer = answer


async def fetch_snapshot(
    ask: Ask,
    directory: LogDirectory,
    path: str,
    snapshot_id: SnapshotId,
    *,
    cluster_id: str,
    node_id: int,
    leader_epoch: int,
    max_bytes: int,
    random: Random,
) -> None:
    """Fetches a snapshot into `path`, which lies in `directory`; it is durable and has its name when this returns.

    Raises SnapshotGone, the PeerError of `ask`, and StorageError.
    """
    part = f"{path}/{snapshot_id}-{random.getrandbits(63)}{PARTIAL_SUFFIX}"
    disk = directory.disk
    with directory.guard(f"fetching snapshot {snapshot_id}"):
        file = disk.open(part, create=True)
        try:
            while True:
                partition = RequestPartitionSnapshot(
                    0, leader_epoch, RequestSnapshotId(snapshot_id.end_offset, snapshot_id.epoch), file.size
                )
                topic = RequestTopicSnapshot(CLUSTER_METADATA, [partition])
                piece = _read(await ask(FetchSnapshotRequest(cluster_id, node_id, max_bytes, [topic])), snapshot_id, file.size)
                records = bytes(piece.unaligned_records)  # type: ignore[arg-type]  # never a region: it was received
                if records and file.append([records]) != len(records):
                    raise OSError(errno.ENOSPC, "short write", part)
                if file.size >= piece.size:
                    break
            await asyncio.get_running_loop().run_in_executor(None, file.sync)
            disk.rename(part, f"{path}/{snapshot_id.file_name}")
            disk.sync_dir(path)
        except BaseException:
            with contextlib.suppress(OSError):
                disk.remove(part)
            raise
        finally:
            file.close()


def _read(answer: FetchSnapshotResponse, snapshot_id: SnapshotId, position: int) -> ResponsePartitionSnapshot:
    """Returns the one piece in an answer. Raises SnapshotGone if there is none, or not the one that was asked for."""
    pieces = [partition for topic in answer.topics for partition in topic.partitions]
    code = answer.error_code or (pieces[0].error_code if len(pieces) == 1 else 0)
    if code != ErrorCode.NONE:
        known: Any = ErrorCode._value2member_map_.get(code)
        raise SnapshotGone(f"the answer is {known.name if known is not None else code}", answer)
    if len(pieces) != 1:
        raise SnapshotGone(f"the answer has {len(pieces)} partitions", answer)
    piece = pieces[0]
    found = SnapshotId(piece.snapshot_id.end_offset, piece.snapshot_id.epoch)
    size = len(piece.unaligned_records)
    if found != snapshot_id or piece.position != position or (size == 0 and piece.size > position):
        raise SnapshotGone(f"the answer has {size} of {piece.size} bytes of {found} at {piece.position}", answer)
    return piece

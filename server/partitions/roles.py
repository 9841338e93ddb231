"""A replica is either the leader of its partition, which clients produce to and fetch from, or a follower of another broker.

The metadata decides which (`Replica.take_role`):

| the partition's leader | role |
|---|---|
| this broker | `Leader`, without a `HighWatermark` where the partition has one replica |
| another broker | `Follower` |
| nobody, or the replica is gone | None |

A `Leader` lasts as long as the leadership, through changes of its epoch and of the in-sync replicas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from ottla.server.partitions.high_watermark import HighWatermark


class Leader:
    """The role of a replica whose broker leads the partition. With one replica `high_watermark` is None: the log moves its own,
    and no request waits for it.
    """

    __slots__ = ("epoch_start", "high_watermark")

    def __init__(self, high_watermark: HighWatermark | None = None) -> None:
        self.high_watermark = high_watermark
        self.epoch_start = 0
        """The log's end when the leader epoch began. A follower is in sync only if it has all that earlier leaders wrote
        (KIP-101), and a consumer that asks for the latest offset is not answered before they have it (KIP-207)."""


class Follower:
    """The role of a replica while another broker, with the id `leader`, leads the partition."""

    __slots__ = ("leader",)

    def __init__(self, leader: int) -> None:
        self.leader = leader


Role: TypeAlias = Leader | Follower | None
"""The role of a replica; None if nobody leads its partition or it is gone."""


def leave_to_leader(end_offset: int) -> bool:
    """Is given to `PartitionLog.replicate_by` where this broker does not lead the partition. It leaves the high watermark alone,
    since only the leader may move it.
    """
    return True

"""What a replica is to its partition: the leader, which is produced to and fetched from, or a follower of another broker's.

The metadata say which (`Replica.take_role`):

| the partition's leader | role |
|---|---|
| this broker | `Leader`, without a `HighWatermark` where the partition has one replica |
| another broker | `Follower` |
| nobody, or the replica is gone | None |

A `Leader` lasts as long as the leadership, through changes of its epoch and of the in-sync replicas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.server.partitions.high_watermark import HighWatermark


class Leader:
    """This broker leads. `high_watermark` is None where one replica counts: the log moves its own, and nobody waits for it."""

    __slots__ = ("high_watermark",)

    def __init__(self, high_watermark: HighWatermark | None = None) -> None:
        self.high_watermark = high_watermark


class Follower:
    """The broker with the id `leader` leads."""

    __slots__ = ("leader",)

    def __init__(self, leader: int) -> None:
        self.leader = leader


def leave_to_leader(end_offset: int) -> bool:
    """Stands for `PartitionLog.on_append` where this broker does not lead: only the leader says how far the high watermark is."""
    return True

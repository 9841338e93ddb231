"""`IsrChanges`, the interface by which a leader asks the controllers to change the in-sync replicas of a partition.

Only controllers write them down (AlterPartition, KIP-497): they know whether the leader still leads, and whether a broker that it
wants to add is alive (KIP-841) and the one that fetched (KIP-903). server/quorum/isr_changes.py implements it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol


class IsrChange(NamedTuple):
    """A proposal: the in-sync replicas that a partition is to have, as (broker id, broker epoch), instead of those of
    `partition_epoch`. An epoch is -1 where the leader does not know it."""

    topic_id: bytes
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]


class IsrOutcome(NamedTuple):
    """The answer of the controllers: an error code, or, if that is 0, what the partition has now."""

    error_code: int
    leader_epoch: int = -1
    partition_epoch: int = -1
    isr: tuple[int, ...] = ()


Answered = Callable[[IsrOutcome], None]
"""A function that is called with the outcome of a proposal."""


class IsrChanges(Protocol):
    """Takes proposals to the controllers."""

    def propose(self, change: IsrChange, answered: Answered) -> None:
        """Calls `answered` with what the controllers say, however long it takes to reach them. A later proposal for the same
        partition takes the place of one that has not been answered, which then never is."""
        ...

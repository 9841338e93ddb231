"""`Opening`: what must be known before a partition's directory is opened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.log.config import LogConfig
    from ottla.log.producers import ProducerTotal
    from ottla.wire.kernel import BatchScan


def _nobody_asks(checked_bytes: int) -> None:
    """Ignores the progress."""


def _no() -> bool:
    return False


@dataclass(slots=True)
class Scans:
    """Keeps the scans of a live log's segments, by base offset, from one opening to the next, for readers that open it
    repeatedly.

    `before` are earlier scans of segments whose bytes up to `sound` are known to be unchanged; recovery takes out those that it
    continues. `now` are all scans that this opening made.
    """

    before: dict[int, BatchScan] = field(default_factory=dict)
    now: dict[int, BatchScan] = field(default_factory=dict)

    def clear(self) -> None:
        self.before.clear()
        self.now.clear()


@dataclass(slots=True)
class Opening:
    """Holds a partition's identity, its settings, and its lines in the checkpoints.

    `topic_id` is None if the caller does not know it yet. `clean` says that the last stop was clean. `every_append_synced` says
    that a crash can have torn only the last batch, so that a sound batch behind a bad one means damage. `same_boot` says that the
    system has been running ever since the log was written to, so that only the end of a process can have torn it;
    `is_flushed` then returns whether the topic's records are promised to be on disk (`flush.messages`). It is only called where
    something is wrong. `max_damaged_bytes` bounds what is kept of a log that is cut (log/opening/damaged.py); with None, for
    those that only read, nothing is kept. `progress` is called with the size in bytes of every piece of the log that recovery has
    checked, and may raise to end the recovery. `scans` is for readers that open a live log repeatedly.
    """

    topic: str
    partition: int
    topic_id: bytes | None
    config: LogConfig
    now_ms: Callable[[], int]
    random: Random
    clean: bool = False
    recovery_point: int = 0
    log_start_offset: int = 0
    cleaned_upto: int = 0
    high_watermark: int = 0
    producer_expiration_ms: int = 86_400_000
    max_producers: int = 1 << 62
    """How many producers the partition may remember; by default there is no limit."""
    producer_total: ProducerTotal | None = None
    """The limit of all partitions together; None if there is none, or it is to count later."""
    every_append_synced: bool = False
    same_boot: bool = False
    is_flushed: Callable[[], bool] = _no
    max_damaged_bytes: int | None = None
    progress: Callable[[int], None] = _nobody_asks
    scans: Scans | None = None
    directory: str = ""
    """The name of the partition's directory if it is not the plain one, as for a copy on its way (log/management/moving.py)."""

    @property
    def directory_name(self) -> str:
        """Returns the name of the partition's directory in its log directory."""
        return self.directory or f"{self.topic}-{self.partition}"

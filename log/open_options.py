"""`Opening`: what must be known before a partition's directory is opened."""

from __future__ import annotations

from collections.abc import Callable
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


class Scans:
    """Keeps the scans of a live log's segments, by base offset, from one opening to the next, for readers that open it
    repeatedly.

    `before` are earlier scans of segments whose bytes up to `sound` are known to be unchanged; recovery takes out those that it
    continues. `now` are all scans that this opening made.
    """

    __slots__ = ("before", "now")

    def __init__(self, before: dict[int, BatchScan] | None = None) -> None:
        self.before = {} if before is None else before
        self.now: dict[int, BatchScan] = {}

    def clear(self) -> None:
        self.before.clear()
        self.now.clear()


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

    __slots__ = (
        "clean", "cleaned_upto", "config", "directory", "every_append_synced", "high_watermark", "is_flushed",
        "is_start_doubtful", "log_start_offset", "max_damaged_bytes", "max_producers", "now_ms", "partition",
        "producer_expiration_ms", "producer_total", "progress", "random", "recovery_point", "same_boot", "scans", "topic",
        "topic_id",
    )  # fmt: skip

    def __init__(
        self,
        topic: str,
        partition: int,
        topic_id: bytes | None,
        config: LogConfig,
        now_ms: Callable[[], int],
        random: Random,
        *,
        clean: bool = False,
        producer_expiration_ms: int = 86_400_000,
        max_producers: int = 1 << 62,
        producer_total: ProducerTotal | None = None,
        max_damaged_bytes: int | None = None,
        scans: Scans | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.config = config
        self.now_ms = now_ms
        self.random = random
        self.clean = clean
        self.recovery_point = 0
        self.log_start_offset = 0
        self.is_start_doubtful = False
        """True if nothing shows that the log's start is what was written into its checkpoint."""
        self.cleaned_upto = 0
        self.high_watermark = 0
        self.producer_expiration_ms = producer_expiration_ms
        self.max_producers = max_producers
        """The most producers that the partition may remember; by default there is no limit."""
        self.producer_total = producer_total
        """The limit of all partitions together; None if there is none, or it is to count later."""
        self.every_append_synced = False
        self.same_boot = False
        self.is_flushed: Callable[[], bool] = _no
        self.max_damaged_bytes = max_damaged_bytes
        self.progress: Callable[[int], None] = _nobody_asks
        self.scans = scans
        self.directory = ""
        """The name of the partition's directory if it is not the plain one, as for a copy on its way
        (log/management/moving.py)."""

    @property
    def directory_name(self) -> str:
        """Returns the name of the partition's directory in its log directory."""
        return self.directory or f"{self.topic}-{self.partition}"

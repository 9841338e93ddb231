"""What must be known before a partition's directory is opened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.log.config import LogConfig
    from ottla.wire.kernel import BatchScan


def _nobody_asks(checked_bytes: int) -> None:
    """Takes no notice of progress."""


@dataclass(slots=True)
class Scans:
    """What openings of one live log after the other learn of its segments, by base offset.

    `before`: earlier, of segments whose bytes up to `sound` the caller knows to be the same still; recovery takes out what it
    goes on with. `now`: all that it scanned.
    """

    before: dict[int, BatchScan] = field(default_factory=dict)
    now: dict[int, BatchScan] = field(default_factory=dict)

    def clear(self) -> None:
        self.before.clear()
        self.now.clear()


@dataclass(slots=True)
class Opening:
    """Identity, settings, and the partition's lines in the checkpoints.

    `topic_id`: None where the caller does not know it yet. `clean`: the last stop was. `every_append_synced`: so a crash can
    have torn the last batch only; a sound one behind a bad one means damage. `progress` hears of every piece of the log that
    recovery has checked, in bytes, and may raise to end it. `scans`: see there.
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
    every_append_synced: bool = False
    progress: Callable[[int], None] = _nobody_asks
    scans: Scans | None = None
    directory: str = ""
    """The name of the partition's directory, where it is not the plain one: that of a copy on its way (log/moving.py)."""

    @property
    def directory_name(self) -> str:
        """The name of the partition's directory in its log directory."""
        return self.directory or f"{self.topic}-{self.partition}"

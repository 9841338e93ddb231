"""The next segments that retention takes from a log on disk, and when: by the rules of log/retention.py, over files instead of
open segments.

The settings are the topic's. With the cluster beside the directory they are the ones that count; else they come from the metadata
log, and where a topic sets nothing, Kafka's defaults stand in for the broker's settings, which are not in the directory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from ottla.commands.log.files import TIME_ENTRY
from ottla.console.disk.batches import read_entries
from ottla.console.disk.directory import FileEntry, LogFiles
from ottla.log.config import LogConfig, parseable
from ottla.log.config_def import LONG_MAX
from ottla.log.retention import RULES, Limits

if TYPE_CHECKING:
    from ottla.log.segments import Segments

NAMES: Final = ("cleanup.policy", "retention.ms", "retention.bytes", "segment.bytes", "segment.ms", "file.delete.delay.ms")


class Closed(NamedTuple):
    """A segment as the rules see it."""

    path: Path
    file: FileEntry
    base_offset: int

    @property
    def size(self) -> int:
        return self.file.size

    def largest_timestamp(self) -> int:
        """Returns the greatest timestamp by the time index, in ms, or else when the file was last written."""
        entries = read_entries(self.path.with_suffix(".timeindex"), TIME_ENTRY)
        return entries[len(entries) - 1][0] if entries else self.file.modified_ms


class _Segments:
    """The segments of a log, with what the rules ask of them."""

    def __init__(self, segments: Sequence[Closed]) -> None:
        self._segments = segments

    @property
    def active(self) -> Closed:
        return self._segments[-1]

    def size_bytes(self) -> int:
        return sum(one.size for one in self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Closed]:
        return iter(self._segments)

    def __getitem__(self, at: int) -> Closed:
        return self._segments[at]


class Retained(NamedTuple):
    """`due` is how many of the oldest segments the next pass takes, and `why` by which rule. If none is due: `at_ms` is when
    `retention.ms` lets the first go, `after_bytes` how much has to be written until `retention.bytes` does; None if that rule
    does not apply. `settings` are those that count here."""

    due: int
    why: str
    at_ms: int | None
    after_bytes: int | None
    settings: Mapping[str, str]
    compacted: bool


def config_of(overrides: Mapping[str, str], topic: str) -> LogConfig:
    """Returns the settings of a topic; texts that do not parse are left out."""
    return LogConfig.from_overrides(parseable(topic, overrides))


def what_goes(
    files: LogFiles, config: LogConfig, *, log_start_offset: int | None, high_watermark: int | None, now_ms: int
) -> Retained:
    """Returns what retention takes next. The active segment is never counted: before it may go, another one begins."""
    closed = [Closed(files.path / one.name, one, one.base_offset or 0) for one in files.segments]
    settings = {name: _text(getattr(config, name.replace(".", "_"))) for name in NAMES}
    compacted = "compact" in config.cleanup_policy
    if len(closed) < 2:
        return Retained(0, "", None, None, settings, compacted)
    segments = _Segments(closed)
    start = closed[0].base_offset if log_start_offset is None else log_start_offset
    below = closed[-1].base_offset if high_watermark is None else high_watermark
    limits = Limits(start, below, LONG_MAX, config, now_ms)
    counted = [(rule(cast("Segments", segments), limits), why) for why, rule in RULES]
    due, why = max(counted, key=lambda one: one[0])
    is_deleting = "delete" in config.cleanup_policy
    at_ms = after_bytes = None
    if not due and is_deleting and config.retention_ms >= 0:
        at_ms = closed[0].largest_timestamp() + config.retention_ms + 1
    if not due and is_deleting and config.retention_bytes >= 0:
        after_bytes = max(0, config.retention_bytes + closed[0].size - segments.size_bytes())
    return Retained(due, why if due else "", at_ms, after_bytes, settings, compacted)


def _text(value: object) -> str:
    return ",".join(sorted(map(str, value))) if isinstance(value, frozenset) else str(value)

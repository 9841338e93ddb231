"""Makes the rows of the log cleaner's metrics for server/metrics/table.py. They are 0 until there is a log to compact."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from ottla.server.metrics.rows import Row, Rows
from ottla.server.metrics.sources import Sources

if TYPE_CHECKING:
    from ottla.log.compaction.cleaner_manager import LogCleanerManager


def _cleaner_row(value: Callable[[LogCleanerManager, Sources], float]) -> Rows:
    def rows(sources: Sources) -> Iterator[tuple[tuple[str, ...], float]]:
        yield (), value(sources.cleaner, sources) if sources.cleaner is not None else 0

    return rows


def _directory_rows(value: Callable[[LogCleanerManager, str], int]) -> Rows:
    def rows(sources: Sources) -> Iterator[tuple[tuple[str, ...], float]]:
        for directory in sources.logs.directories:
            yield (directory.path,), value(sources.cleaner, directory.path) if sources.cleaner is not None else 0

    return rows


def _recopy_percent(cleaner: LogCleanerManager, _: Sources) -> int:
    return 100 * cleaner.last.bytes_written // max(cleaner.last.bytes_read, 1)


_CLEANER: Final = "kafka_log_logcleaner_"
_MANAGER: Final = "kafka_log_logcleanermanager_"
_DIRECTORY: Final = ("logDirectory",)

CLEANER_ROWS: Final[tuple[Row, ...]] = (
    (
        f"{_CLEANER}cleaner_recopy_percent",
        "gauge",
        (),
        "How much was left of the log that was compacted last, in percent of its bytes.",
        _cleaner_row(_recopy_percent),
    ),
    (
        f"{_CLEANER}max_buffer_utilization_percent",
        "gauge",
        (),
        "How full the table of keys was in the last compaction.",
        _cleaner_row(lambda cleaner, _: int(100 * cleaner.last.map_utilization)),
    ),
    (
        f"{_CLEANER}max_clean_time_secs",
        "gauge",
        (),
        "How long the last compaction took.",
        _cleaner_row(lambda cleaner, _: cleaner.last_took_ms // 1000),
    ),
    (
        f"{_CLEANER}max_compaction_delay_secs",
        "gauge",
        (),
        "By how much compaction is behind max.compaction.lag.ms.",
        _cleaner_row(lambda cleaner, _: cleaner.max_delay_ms // 1000),
    ),
    (
        f"{_MANAGER}max_dirty_percent",
        "gauge",
        (),
        "The share of bytes to compact in the dirtiest log, when the cleaner last looked.",
        _cleaner_row(lambda cleaner, _: int(100 * cleaner.max_dirty_ratio)),
    ),
    (
        f"{_MANAGER}time_since_last_run_ms",
        "gauge",
        (),
        "Time since the cleaner last looked for logs to compact, in ms.",
        _cleaner_row(lambda cleaner, sources: max(0, sources.context.clock.now_ms() - cleaner.last_run_ms)),
    ),
    (
        f"{_MANAGER}uncleanable_partitions_count",
        "gauge",
        _DIRECTORY,
        "Partitions that could not be compacted and are left alone.",
        _directory_rows(lambda cleaner, path: len(cleaner.uncleanable_in(path))),
    ),
    (
        f"{_MANAGER}uncleanable_bytes",
        "gauge",
        _DIRECTORY,
        "Bytes that wait to be compacted in partitions that could not be compacted and are left alone.",
        _directory_rows(lambda cleaner, path: cleaner.uncleanable_bytes(path)),
    ),
    (
        "ottla_log_cleaner_compactions_total",
        "counter",
        (),
        "Compactions of a log that were completed.",
        _cleaner_row(lambda cleaner, _: cleaner.cleanings),
    ),
    (
        "ottla_log_cleaner_read_bytes_total",
        "counter",
        (),
        "Bytes that compactions read; each byte to compact is read twice.",
        _cleaner_row(lambda cleaner, _: cleaner.bytes_read),
    ),
    (
        "ottla_log_cleaner_written_bytes_total",
        "counter",
        (),
        "Bytes that compactions wrote.",
        _cleaner_row(lambda cleaner, _: cleaner.bytes_written),
    ),
)

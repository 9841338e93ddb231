"""Tests of what retention takes next from files: by start, size and time, and when, and never the active segment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla.commands.log.files import TIME_ENTRY
from ottla.console.disk.directory import Directory, LogFiles
from ottla.console.disk.retained import Retained, config_of, what_goes


@pytest.fixture
def files(tmp_path: Path) -> LogFiles:
    """Segments of 100 bytes at 0, 10 and 20, whose greatest timestamps are 1000, 2000 and 3000."""
    path = tmp_path / "t-0"
    path.mkdir()
    for base in (0, 10, 20):
        (path / f"{base:020d}.log").write_bytes(bytes(100))
        (path / f"{base:020d}.timeindex").write_bytes(TIME_ENTRY.pack(1000 + 100 * base, 5) + bytes(24))
    return Directory(tmp_path).log("t-0")


def goes(files: LogFiles, now_ms: int = 1500, **settings: str) -> Retained:
    config = config_of({name.replace("_", "."): value for name, value in settings.items()}, "t")
    where: dict[str, Any] = {"log_start_offset": 0, "high_watermark": 25}
    return what_goes(files, config, **where, now_ms=now_ms)


def test_by_time(files: LogFiles) -> None:
    found = goes(files, retention_ms="1000")
    assert (found.due, found.at_ms, found.after_bytes) == (0, 2001, None)
    assert goes(files, 2000, retention_ms="1000").due == 0
    found = goes(files, 2001, retention_ms="1000")
    assert (found.due, found.why, found.at_ms) == (1, "retention.ms", None)
    assert goes(files, 10**12, retention_ms="1000").due == 2


def test_by_size(files: LogFiles) -> None:
    found = goes(files, retention_ms="-1", retention_bytes="250")
    assert (found.due, found.at_ms, found.after_bytes) == (0, None, 50)
    found = goes(files, retention_ms="-1", retention_bytes="200")
    assert (found.due, found.why) == (1, "retention.bytes")
    assert goes(files, retention_ms="-1", retention_bytes="0").due == 2


def test_by_start_and_only_below_the_high_watermark(files: LogFiles) -> None:
    config = config_of({}, "t")
    assert what_goes(files, config, log_start_offset=10, high_watermark=25, now_ms=0).due == 1
    old = config_of({"retention.ms": "1"}, "t")
    assert what_goes(files, old, log_start_offset=None, high_watermark=15, now_ms=10**12).due == 1


def test_a_compacted_log_keeps_its_segments(files: LogFiles) -> None:
    found = goes(files, 10**12, cleanup_policy="compact", retention_ms="1")
    assert (found.due, found.at_ms, found.compacted) == (0, None, True)


def test_without_a_time_index_the_files_time_counts(files: LogFiles) -> None:
    for one in files.path.glob("*.timeindex"):
        one.unlink()
    found = goes(files, 0, retention_ms="1000")
    assert found.at_ms == files.segments[0].modified_ms + 1001

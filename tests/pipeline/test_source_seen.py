"""Partitions are opened again when a file of theirs has changed, and else not."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.log import checkpoint
from ottla.log.partition import PartitionLog
from ottla.pipeline import source_seen
from ottla.pipeline.segments import SourceError
from ottla.pipeline.source_seen import SeenPartitions
from tests.pipeline.logs import fill, place, rig


def end(log: PartitionLog) -> int:
    return log.log_end_offset


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that were opened, in order."""
    found: list[str] = []
    real = source_seen.with_log

    def counting(where: source_seen.Place, work: object) -> object:
        found.append(where.path)
        return real(where, work)  # type: ignore[arg-type]

    monkeypatch.setattr(source_seen, "with_log", counting)
    return found


def test_what_did_not_change_is_opened_once(tmp_path: Path, opened: list[str]) -> None:
    log = rig(tmp_path)
    fill(log, 3)
    log.manager.close(True)
    seen = SeenPartitions()
    assert [seen.with_log(place(tmp_path), end) for _ in range(3)] == [30] * 3
    assert len(opened) == 1


def test_records_that_come_and_a_start_that_moves_are_seen(tmp_path: Path, opened: list[str]) -> None:
    log = rig(tmp_path)
    fill(log, 3)
    seen = SeenPartitions()
    assert seen.with_log(place(tmp_path), end) == 30
    fill(log, 1)
    assert seen.with_log(place(tmp_path), end) == 40
    log.manager.close(True)
    starts = tmp_path / checkpoint.LOG_START_OFFSETS
    starts.write_text("0\n1\nt 0 12\n")
    assert seen.with_log(place(tmp_path), lambda log: log.log_start_offset) == 12
    assert len(opened) == 3


def test_of_the_partitions_that_were_opened_the_last_are_kept(tmp_path: Path, opened: list[str]) -> None:
    for name in ("a", "b"):
        log = rig(tmp_path / name)
        fill(log, 1)
        log.manager.close(True)
    first, second = place(tmp_path / "a"), place(tmp_path / "b")
    seen = SeenPartitions(1)
    for where in (first, second, second, first):
        assert seen.with_log(where, end) == 10
    assert opened == [first.path, second.path, first.path]


def test_a_partition_that_went_is_not_remembered(tmp_path: Path) -> None:
    log = rig(tmp_path)
    fill(log, 1)
    log.manager.close(True)
    seen, where = SeenPartitions(), place(tmp_path)
    assert seen.with_log(where, end) == 10
    (tmp_path / "t-0").rename(tmp_path / "u-0")
    with pytest.raises(SourceError, match=r"t-0 is being changed or removed"):
        seen.with_log(where, end)

"""Partitions are opened again when a file of theirs has changed, and else not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from ottla.log.disk import checkpoint
from ottla.log.open_options import Scans
from ottla.log.partition import PartitionLog
from ottla.log.scan import FIND_BYTES
from ottla.pipeline.data_source import seen as source_seen
from ottla.pipeline.data_source.disk import ReadOnlyFile
from ottla.pipeline.data_source.seen import SeenPartitions
from ottla.pipeline.data_source.segments import Place, SourceError, Wanted, slices, with_log
from ottla.wire.batch import HEADER_SIZE
from ottla.wire.kernel import BatchScan
from tests.log.support import Rig, batch
from tests.pipeline.logs import end_transaction, fill, offsets, place, rig

T = TypeVar("T")


def end(log: PartitionLog) -> int:
    return log.log_end_offset


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that were opened, in order."""
    found: list[str] = []

    def counting(where: Place, work: Callable[[PartitionLog], T], scans: Scans | None = None) -> T:
        found.append(where.path)
        return with_log(where, work, scans)

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


def test_checkpoints_that_are_written_anew_and_say_the_same_of_it_are_no_change(tmp_path: Path, opened: list[str]) -> None:
    """As a live broker does every minute, whatever became of its other partitions."""
    log = rig(tmp_path)
    fill(log, 3)
    log.manager.close(True)
    seen = SeenPartitions()
    points = tmp_path / checkpoint.RECOVERY_POINTS
    for others in ("", "u 0 1\n", "u 0 1\n"):
        lines = ["t 0 30", *others.split("\n")[:-1]]
        points.with_suffix(".tmp").write_text(f"0\n{len(lines)}\n" + "".join(f"{line}\n" for line in lines))
        points.with_suffix(".tmp").replace(points)
        assert seen.with_log(place(tmp_path), end) == 30
    assert len(opened) == 1
    points.write_text("0\n1\nt 0 20\n")
    assert seen.with_log(place(tmp_path), end) == 30
    points.write_text("spoilt")
    assert seen.with_log(place(tmp_path), end) == 30
    assert len(opened) == 3


def test_a_broker_that_started_is_seen(tmp_path: Path, opened: list[str]) -> None:
    """Without the file of a clean stop, segments are checked."""
    log = rig(tmp_path)
    fill(log, 3)
    log.manager.close(True)
    clean = tmp_path / checkpoint.CLEAN_SHUTDOWN
    clean.touch()
    seen = SeenPartitions()
    for _ in range(2):
        assert seen.with_log(place(tmp_path), end) == 30
    clean.unlink()
    assert seen.with_log(place(tmp_path), end) == 30
    assert len(opened) == 2


@pytest.fixture
def read_bytes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of what was read of files, but for headers alone."""
    found: list[int] = []
    real = ReadOnlyFile.pread

    def counting(file: ReadOnlyFile, length: int, position: int) -> bytes:
        data = real(file, length, position)
        if len(data) > HEADER_SIZE and file.path.endswith(".log"):
            found.append(len(data))
        return data

    monkeypatch.setattr(ReadOnlyFile, "pread", counting)
    return found


def test_of_a_live_segment_only_what_has_come_is_checked(tmp_path: Path, read_bytes: list[int]) -> None:
    log = rig(tmp_path)
    fill(log, 300)
    seen, segment = SeenPartitions(), tmp_path / "t-0" / f"{0:020d}.log"
    assert seen.with_log(place(tmp_path), end) == 3000
    assert sum(read_bytes) >= segment.stat().st_size
    for more in range(1, 4):
        size = segment.stat().st_size
        fill(log, 5)
        read_bytes.clear()
        assert seen.with_log(place(tmp_path), end) == 3000 + 50 * more
        assert sum(read_bytes) < segment.stat().st_size - size + 4 * FIND_BYTES
    assert offsets(tmp_path) == list(range(3150))
    whole, resumed = SeenPartitions().with_log(place(tmp_path), indexes), seen.with_log(place(tmp_path), indexes)
    assert whole == resumed
    assert whole[0]


def indexes(log: PartitionLog) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    return log.segments[-1].offset_index.entries(), log.segments[-1].time_index.entries()


def test_a_segment_that_was_cut_and_went_on_is_checked_from_its_start(tmp_path: Path) -> None:
    """As a follower's is, whose leader knows better: the same file, with other batches behind the first ones."""
    log, other = rig(tmp_path / "log"), rig(tmp_path / "other")
    for which in (log, other):
        fill(which, 10)
    fill(log, 10)
    seen, where = SeenPartitions(), place(tmp_path / "log")
    assert seen.with_log(where, end) == 200
    fill(other, 30, 3)
    segment = f"t-0/{0:020d}.log"
    with (tmp_path / "log" / segment).open("r+b") as file:
        file.truncate(0)
        file.write((tmp_path / "other" / segment).read_bytes())
    assert seen.with_log(where, end) == 190
    assert offsets(tmp_path / "log") == list(range(190))


def test_a_batch_that_is_half_there_is_taken_when_it_is_whole(tmp_path: Path) -> None:
    """A reader may come between two writes of a live broker."""
    log = rig(tmp_path)
    fill(log, 20)
    segment = tmp_path / "t-0" / f"{0:020d}.log"
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-10])
    seen = SeenPartitions()
    assert seen.with_log(place(tmp_path), end) == 190
    with segment.open("ab") as file:
        file.write(whole[-10:])
    assert seen.with_log(place(tmp_path), end) == 200


def test_a_segment_whose_last_batch_was_cut_is_checked_from_its_start(tmp_path: Path) -> None:
    log = rig(tmp_path)
    fill(log, 20)
    seen, segment = SeenPartitions(), tmp_path / "t-0" / f"{0:020d}.log"
    assert seen.with_log(place(tmp_path), end) == 200
    with segment.open("r+b") as file:
        file.truncate(segment.stat().st_size - 10)
    assert seen.with_log(place(tmp_path), end) == 190
    assert offsets(tmp_path) == list(range(190))


def test_what_is_spoilt_behind_the_scan_is_cut_as_ever(tmp_path: Path) -> None:
    log = rig(tmp_path)
    fill(log, 20)
    seen = SeenPartitions()
    assert seen.with_log(place(tmp_path), end) == 200
    fill(log, 2)
    segment = tmp_path / "t-0" / f"{0:020d}.log"
    data = bytearray(segment.read_bytes())
    data[-1] ^= 1
    segment.write_bytes(data)
    for _ in range(2):
        assert seen.with_log(place(tmp_path), end) == 210


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


def transactional(log: Rig) -> None:
    for at in range(5):
        log.append(batch(3, producer=(1, 0, 3 * at), transactional=True))


def committed(log: PartitionLog) -> tuple[int, list[tuple[tuple[int, int, int], ...]]]:
    """Up to where records are stable, and the aborted transactions that a reader of them has to leave out."""
    where = Place(log.path, log.topic, log.partition)
    return log.last_stable_offset, [one.aborted for one in slices(log, where, Wanted(committed=True), 1 << 30)]


@pytest.mark.parametrize("when", ["while it is asked", "before it is scanned"])
def test_another_log_in_the_file_is_not_taken_for_the_one_that_was_scanned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Batches of the same sizes, at the same offsets: a transaction instead of plain records, whose end comes later."""
    log, other = rig(tmp_path / "log"), rig(tmp_path / "other")
    for which in (log, other):
        fill(which, 10)
    for _ in range(5):
        log.append(batch(3))
    transactional(other)
    mine, theirs = (tmp_path / name / "t-0" / f"{0:020d}.log" for name in ("log", "other"))
    assert mine.stat().st_size == theirs.stat().st_size

    def put(*_: object) -> None:
        with mine.open("r+b") as file:
            file.truncate(0)
            file.write(theirs.read_bytes())

    seen, where = SeenPartitions(), place(tmp_path / "log")
    if when == "while it is asked":
        seen.with_log(where, put)
    else:
        seen.with_log(where, end)
        end_transaction(other, 1, commit=False)
        fill(other, 2)

        def late(where: Place, work: Callable[[PartitionLog], T], scans: Scans | None = None) -> T:
            monkeypatch.undo()
            put()
            return with_log(where, work, scans)

        monkeypatch.setattr(source_seen, "with_log", late)
        mine.touch()
        assert seen.with_log(where, committed) == SeenPartitions().with_log(where, committed)
    end_transaction(other, 1, commit=False)
    fill(other, 2)
    put()
    for _ in range(2):
        assert seen.with_log(where, committed) == SeenPartitions().with_log(where, committed)


def test_transactions_that_reach_over_what_was_scanned(tmp_path: Path) -> None:
    log = rig(tmp_path)
    fill(log, 10)
    transactional(log)
    seen, where = SeenPartitions(), place(tmp_path)
    assert seen.with_log(where, committed)[0] == 100
    end_transaction(log, 1, commit=False)
    fill(log, 2)
    assert seen.with_log(where, committed) == SeenPartitions().with_log(where, committed)
    assert seen.with_log(where, committed)[1] == [((1, 100, 115),)]


def test_a_plan_that_fails_while_it_scans_spoils_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = rig(tmp_path)
    fill(log, 100)
    seen, where = SeenPartitions(), place(tmp_path)
    assert seen.with_log(where, end) == 1000

    def fails(log: PartitionLog) -> int:
        raise SourceError("half way")

    monkeypatch.setattr(source_seen, "with_log", lambda where, work, scans: with_log(where, fails, scans))
    fill(log, 100)
    with pytest.raises(SourceError, match="half way"):
        seen.with_log(where, end)
    monkeypatch.undo()
    fill(log, 1)
    assert seen.with_log(where, indexes) == SeenPartitions().with_log(where, indexes)
    assert len(seen.with_log(where, indexes)[0]) > 2


def test_of_segments_that_are_no_longer_live_nothing_is_kept(tmp_path: Path) -> None:
    log = rig(tmp_path, segment_bytes=20_000)
    seen = SeenPartitions()
    for _ in range(8):
        fill(log, 30)
        (tmp_path / checkpoint.RECOVERY_POINTS).write_text(f"0\n1\nt 0 {log.bases[-1]}\n")
        seen.with_log(place(tmp_path), end)
    assert len(log.bases) > 3
    assert len(seen._known[place(tmp_path).path]) == 1


def test_where_a_file_vanished_no_scan_is_believed(tmp_path: Path) -> None:
    """The next file of the same name may be another."""
    log = rig(tmp_path)
    fill(log, 2)
    scans = Scans()
    found: list[BatchScan] = []

    def work(log: PartitionLog) -> int:
        found.append(scans.now[0])
        scans.before[0] = scans.now[0]
        if len(found) == 1:
            raise FileNotFoundError
        return log.log_end_offset

    assert with_log(place(tmp_path), work, scans) == 20
    assert found[0] is not found[1]

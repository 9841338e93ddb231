"""Finding partitions, opening them as recovery would without touching them, and cutting them into slices."""

from __future__ import annotations

import shutil
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.pipeline.data_source.segments import Place, SourceError, _borders, find, offset_at_time, with_log
from ottla.wire.batch import read_header
from tests.log.support import NOW_MS
from tests.pipeline.logs import contents, fill, numbered, offsets, place, plan, rig


def make_directories(path: Path, *names: str) -> None:
    for name in names:
        (path / name).mkdir(parents=True)


def test_partitions_of_a_log_directory(tmp_path: Path) -> None:
    gone = "t-0.0123456789abcdef0123456789abcdef"
    make_directories(tmp_path, "t-0", "t-1", "a-b-10", "t-01", f"{gone}-delete", f"{gone}-future", f"{gone}-stray", "nothing")
    (tmp_path / "file-3").write_text("")
    found = [(place.topic, place.partition) for place in find(str(tmp_path))]
    assert found == [("a-b", 10), ("t", 0), ("t", 1)]
    assert [place.topic for place in find(str(tmp_path), lambda topic: topic == "a-b")] == ["a-b"]
    assert find(f"{tmp_path}/t") == [Place(f"{tmp_path}/t-{at}", "t", at) for at in (0, 1)]
    assert find(f"file://{tmp_path}/") == find(str(tmp_path))


def test_one_partition_and_several_log_directories(tmp_path: Path) -> None:
    make_directories(tmp_path, "a/t-0", "b/t-1", "c/t-0")
    (tmp_path / "a/t-0/00000000000000000000.log").write_bytes(b"")
    assert find(f"{tmp_path}/a/t-0") == [Place(f"{tmp_path}/a/t-0", "t", 0)]
    assert [place.partition for place in find(f"{tmp_path}/a, {tmp_path}/b")] == [0, 1]
    assert find(f"{tmp_path}/a,{tmp_path}/c") == [Place(f"{tmp_path}/{at}/t-0", "t", 0) for at in "ac"]
    assert find(f"{tmp_path}/a,{tmp_path}/a/t-0") == find(f"{tmp_path}/a")


def test_patterns(tmp_path: Path) -> None:
    make_directories(tmp_path, "n-1/t-0", "n-1/u-0", "n-2/t-1", "n-3")
    (tmp_path / "n-3/meta.properties").write_text("version=1\n")
    (tmp_path / "n-4").write_text("")
    assert find(f"{tmp_path}/n-*") == find(f"{tmp_path}/n-1,{tmp_path}/n-2")
    assert find(f"file://{tmp_path}/n-[12]/") == find(f"{tmp_path}/n-*")
    assert find(f"{tmp_path}/n-*/t") == [Place(f"{tmp_path}/n-{at + 1}/t-{at}", "t", at) for at in (0, 1)]
    assert [place.path for place in find(f"{tmp_path}/n-*/u")] == [f"{tmp_path}/n-1/u-0"]
    for nothing in (f"{tmp_path}/m-*", f"{tmp_path}/n-*/v"):
        with pytest.raises(SourceError, match=r"\* ?.*matches neither a directory nor a topic in one$"):
            find(nothing)


def test_a_log_directory_may_look_like_a_partition(tmp_path: Path) -> None:
    make_directories(tmp_path, "kafka-1/t-0")
    assert [place.topic for place in find(f"{tmp_path}/kafka-1")] == ["t"]


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("", "is not a log directory"),
        ("/nowhere", "is neither a directory nor a topic in one"),
        ("/a/b", "is neither a directory"),
    ],
)
def test_a_wrong_directory_is_one_clear_line(tmp_path: Path, path: str, problem: str) -> None:
    with pytest.raises(SourceError, match=problem):
        find(f"{tmp_path}{path}")


def test_an_empty_log_directory_has_no_rows(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\n")
    assert find(str(tmp_path)) == []


def test_slices_cover_everything_once_however_small(tmp_path: Path) -> None:
    log = rig(tmp_path, segment_bytes=5000, index_interval_bytes=300)
    fill(log, 60)
    log.manager.close(True)
    before = contents(tmp_path)
    random = Random(1)
    for split in (1, 400, 2000, 1 << 30):
        assert offsets(tmp_path, split) == list(range(600))
        parts = plan(tmp_path, split)
        for one, other in pairwise(parts):
            assert one.wanted.high == other.wanted.low
            assert one.path != other.path or one.end == other.start
        low, high = sorted(random.sample(range(600), 2))
        assert offsets(tmp_path, split, low=low, high=high) == list(range(low, high))
    assert len(plan(tmp_path, 1)) > len(plan(tmp_path, 2000)) > len(plan(tmp_path)) > 3
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("start", "end", "split_bytes", "borders"),
    [
        (0, 1000, 200, [200, 400, 600, 800]),
        (0, 900, 200, [200, 400, 600]),
        (0, 901, 200, [200, 400, 600, 800]),
        (50, 1000, 250, [300, 600, 900]),
        (50, 975, 250, [300, 600]),
        (0, 300, 200, []),
        (0, 301, 201, []),
        (0, 302, 201, [300]),
        (950, 1400, 1, []),
        (850, 1400, 1, [900]),
    ],
)
def test_a_cut_is_at_an_entry_of_the_index_and_leaves_no_small_rest(
    start: int, end: int, split_bytes: int, borders: list[int]
) -> None:
    """The index has an entry every 100 bytes, the last of them at 900."""
    entries = [(at, 100 * at) for at in range(1, 10)]
    segment: Any = SimpleNamespace(offset_index=SimpleNamespace(entries=lambda: entries))
    assert _borders(segment, start, end, split_bytes) == borders


def test_a_rest_without_an_entry_before_its_end_is_not_cut() -> None:
    segment: Any = SimpleNamespace(offset_index=SimpleNamespace(entries=lambda: [(1, 100), (2, 900)]))
    assert [_borders(segment, 0, end, 200) for end in (900, 901)] == [[], [900]]


def test_what_is_not_wanted_is_not_even_planned(tmp_path: Path) -> None:
    log = rig(tmp_path, segment_bytes=5000, index_interval_bytes=300)
    fill(log, 60, codec=1)
    log.manager.close(True)
    size = sum(part.end - part.start for part in plan(tmp_path))
    (part,) = plan(tmp_path, low=300, high=310)
    assert part.end - part.start <= 3 * size / 60
    late = plan(tmp_path, earliest=NOW_MS + 550_000)
    assert sum(part.end - part.start for part in late) < size / 6
    assert plan(tmp_path, earliest=NOW_MS + 600_000) == []
    assert plan(tmp_path, low=600) == []


def test_offset_at_a_time(tmp_path: Path) -> None:
    log = rig(tmp_path, segment_bytes=3000)
    fill(log, 30)
    log.manager.close(True)
    where = place(tmp_path)
    for at in (0, 1, 150, 299):
        assert with_log(where, partial(offset_at_time, timestamp_ms=NOW_MS + at * 1000)) == at
    assert with_log(where, lambda log: offset_at_time(log, NOW_MS + 299_001)) is None


@pytest.mark.parametrize("cut", [1, 30, 61, 100])
def test_a_torn_tail_ends_the_log_and_stays_on_the_disk(tmp_path: Path, cut: int) -> None:
    log = rig(tmp_path)
    fill(log, 6, codec=4)
    log.manager.close(False)
    file = tmp_path / "t-0" / "00000000000000000000.log"
    file.write_bytes(file.read_bytes()[:-cut])
    before = contents(tmp_path)
    assert offsets(tmp_path) == list(range(50))
    assert contents(tmp_path) == before


def test_zeros_and_noise_behind_the_last_batch(tmp_path: Path) -> None:
    log = rig(tmp_path)
    fill(log, 6)
    log.manager.close(False)
    file = tmp_path / "t-0" / "00000000000000000000.log"
    whole = file.read_bytes()
    for rest in (bytes(5000), Random(1).randbytes(5000)):
        file.write_bytes(whole + rest)
        assert offsets(tmp_path) == list(range(60))


def test_damage_below_the_recovery_point_is_an_error(tmp_path: Path) -> None:
    log = rig(tmp_path)
    fill(log, 6)
    log.manager.close(True)
    (tmp_path / ".kafka_cleanshutdown").unlink()
    file = tmp_path / "t-0" / "00000000000000000000.log"
    data = bytearray(file.read_bytes())
    data[read_header(data).size + 70] ^= 1
    file.write_bytes(data)
    with pytest.raises(SourceError, match=r"t-0 cannot be read: .* is damaged at position .*, below the recovery point"):
        offsets(tmp_path)


def test_segments_without_checkpoints_and_indexes(tmp_path: Path) -> None:
    """Somebody copied the files of a partition, and nothing else."""
    log = rig(tmp_path / "data", segment_bytes=3000)
    fill(log, 30)
    log.manager.close(True)
    (tmp_path / "copy" / "t-0").mkdir(parents=True)
    for file in (tmp_path / "data" / "t-0").glob("*.log"):
        shutil.copy(file, tmp_path / "copy" / "t-0")
    assert len(plan(tmp_path / "copy")) > 2
    assert offsets(tmp_path / "copy") == list(range(300))
    assert offsets(tmp_path / "copy", earliest=NOW_MS + 200_000) == list(range(200, 300))


@pytest.mark.parametrize("clean", [True, False])
def test_indexes_of_noise_are_built_anew_in_memory(tmp_path: Path, clean: bool) -> None:
    log = rig(tmp_path, segment_bytes=3000, index_interval_bytes=300)
    fill(log, 30)
    log.manager.close(clean)
    for file in [*(tmp_path / "t-0").glob("*.index"), *(tmp_path / "t-0").glob("*.timeindex")]:
        file.write_bytes(Random(2).randbytes(120))
    before = contents(tmp_path)
    assert offsets(tmp_path, 500, low=123, high=205) == list(range(123, 205))
    assert contents(tmp_path) == before


def test_leftovers_of_a_compaction_are_seen_as_a_start_would(tmp_path: Path) -> None:
    log = rig(tmp_path, segment_bytes=1500)
    fill(log, 20)
    log.manager.close(True)
    directory = tmp_path / "t-0"
    first, second = sorted(directory.glob("*.log"))[:2]
    (directory / f"{second.name}.cleaned").write_bytes(b"half")
    (directory / "00000000000000000099.log.deleted").write_bytes(b"gone")
    before = contents(tmp_path)
    assert offsets(tmp_path) == list(range(200))
    assert contents(tmp_path) == before
    (directory / f"{second.name}.cleaned").unlink()
    first.rename(f"{first}.swap")  # complete, and about to get its name
    before = contents(tmp_path)
    assert offsets(tmp_path) == list(range(200))
    assert contents(tmp_path) == before


def test_empty_segments_and_an_empty_partition(tmp_path: Path) -> None:
    log = rig(tmp_path)
    log.manager.close(True)
    assert offsets(tmp_path) == []
    (tmp_path / "t-1").mkdir()
    assert [one.partition for one in find(str(tmp_path))] == [0, 1]
    assert with_log(find(f"{tmp_path}/t")[1], lambda log: log.log_end_offset) == 0


def test_the_log_start_offset_hides_what_lies_before(tmp_path: Path) -> None:
    log = rig(tmp_path)
    fill(log, 5)
    log.log.raise_log_start_offset(23)
    log.manager.close(True)
    assert offsets(tmp_path) == list(range(23, 50))
    assert offsets(tmp_path, low=0, high=30) == list(range(23, 30))


def test_a_partition_that_is_removed_meanwhile(tmp_path: Path) -> None:
    log = rig(tmp_path)
    log.append(numbered(0, 1))
    log.manager.close(True)
    where = place(tmp_path)
    shutil.rmtree(where.path)
    with pytest.raises(SourceError, match="t-0 is being changed or removed, and cannot be read"):
        with_log(where, lambda log: log.log_end_offset)

"""Tests of what the soak reads of a process and of a directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scripts.soak.samples import cpu_seconds, kib, percentile, processes, tree, usage

STAT = "7 (a ) b) S 1 7 7 0 -1 4194304 100 0 0 0 {} {} {} {} 20 0 1 0"


def process(proc: Path, pid: int, *children: int, rss_kib: int = 1024, ticks: tuple[int, ...] = (1, 2, 3, 4)) -> Path:
    """Makes a process in a /proc of our own, with two descriptors, of which one is a deleted file."""
    own = proc / str(pid)
    (own / "task" / str(pid)).mkdir(parents=True)
    (own / "task" / str(pid) / "children").write_text(" ".join(map(str, children)))
    (own / "status").write_text(f"Name:\tx\nVmRSS:\t {rss_kib} kB\nThreads:\t3\n")
    (own / "smaps_rollup").write_text(f"head\nRss: {rss_kib} kB\nPss: {rss_kib // 2} kB\n")
    (own / "stat").write_text(STAT.format(*ticks))
    (own / "fd").mkdir()
    (own / "fd" / "0").symlink_to("/data/t-0/0.log")
    (own / "fd" / "1").symlink_to("/data/t-0/1.log (deleted)")
    return own


def test_what_a_process_takes(tmp_path: Path) -> None:
    second = os.sysconf("SC_CLK_TCK")
    process(tmp_path, 7, 8, rss_kib=2048, ticks=(second, second, second, second))
    process(tmp_path, 8, 9, ticks=(second, 0, 0, 0))
    process(tmp_path, 9, ticks=(0, 0, 0, 0))
    assert processes(7, tmp_path) == [7, 8, 9]
    assert usage(7, tmp_path) == {
        "rss_mib": 2.0,
        "pss_mib": 1.0,
        "descriptors": 2.0,
        "deleted": 1.0,
        "threads": 3.0,
        "child_pss_mib": 1.0,
        "cpu_s": 5.0,
    }


def test_a_child_that_has_just_ended_counts_nothing(tmp_path: Path) -> None:
    process(tmp_path, 7, 8)
    process(tmp_path, 8)
    (tmp_path / "8" / "smaps_rollup").unlink()
    assert usage(7, tmp_path)["child_pss_mib"] == 0


def test_a_process_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        usage(7, tmp_path)


def test_a_live_process_can_be_read() -> None:
    taken = usage(os.getpid())
    assert taken["rss_mib"] >= taken["pss_mib"] > 1
    assert taken["descriptors"] >= 3
    assert taken["threads"] >= 1


def test_a_name_with_parentheses_does_not_shift_the_fields() -> None:
    assert cpu_seconds(STAT.format(1, 2, 3, 4)) == 10 / os.sysconf("SC_CLK_TCK")


def test_a_line_that_is_not_there_is_nothing() -> None:
    assert kib("VmRSS:\t 5 kB\n", "VmHWM") == 0
    assert kib("VmRSSx:\t 5 kB\nVmRSS:\t 6 kB\n", "VmRSS") == 6


def test_a_directory_s_size_is_what_its_files_take_on_disk(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / "0.log").write_bytes(b"x" * 8192)
    with open(tmp_path / "t-0" / "0.index", "wb") as index:
        index.truncate(10 << 20)  # a file that is all hole
    size, files = tree(tmp_path)
    (tmp_path / "t-1.0123-stray").mkdir()
    (tmp_path / "t-1.0123-stray" / "0.log").write_bytes(b"x")
    assert tree(tmp_path) == (size, files), "what was set aside stays for good"
    assert files == 2
    assert 8192 / (1 << 20) <= size < 1


@pytest.mark.parametrize(("share", "expected"), [(0.5, 51), (0.99, 100), (1.0, 100), (0.0, 1)])
def test_percentiles(share: float, expected: int) -> None:
    assert percentile(list(range(100, 0, -1)), share) == expected

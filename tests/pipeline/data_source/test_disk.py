"""The disk that only pretends: every change is seen by who made it, and by nobody else."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.pipeline.data_source.disk import ReadOnlyDisk


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "a").write_bytes(b"0123456789")
    (tmp_path / "b").write_bytes(b"b")
    return str(tmp_path)


def test_renames_removals_and_cuts_stay_in_memory(path: str) -> None:
    disk = ReadOnlyDisk()
    disk.rename(f"{path}/a", f"{path}/c")
    disk.remove(f"{path}/b")
    disk.open(f"{path}/c").truncate(4)
    assert disk.list(path) == ["c"]
    assert not disk.exists(f"{path}/a")
    assert disk.exists(f"{path}/c")
    assert disk.size(f"{path}/c") == 4
    file = disk.open(f"{path}/c")
    assert (file.size, file.pread(100, 1)) == (4, b"123")
    assert disk.real_path(f"{path}/c") == f"{path}/a"
    for gone in ("a", "b"):
        with pytest.raises(FileNotFoundError):
            disk.open(f"{path}/{gone}")
    assert sorted(one.name for one in Path(path).iterdir()) == ["a", "b"]
    assert Path(path, "a").read_bytes() == b"0123456789"


def test_files_that_are_made_are_only_here(path: str) -> None:
    disk = ReadOnlyDisk()
    disk.write_bytes(f"{path}/new", b"text")
    assert disk.open(f"{path}/empty", create=True).size == 0
    assert disk.list(path) == ["a", "b", "empty", "new"]
    assert disk.read_bytes(f"{path}/new") == b"text"
    assert (disk.modified_ms(f"{path}/new"), disk.modified_ms(f"{path}/a")) == (0, int(Path(path, "a").stat().st_mtime * 1000))
    disk.rename(f"{path}/new", f"{path}/b")
    assert disk.read_bytes(f"{path}/b") == b"text"
    assert disk.open(f"{path}/b").pread(2, 1) == b"ex"
    assert sorted(one.name for one in Path(path).iterdir()) == ["a", "b"]
    assert Path(path, "b").read_bytes() == b"b"


def test_nothing_can_be_written_to_a_real_file(path: str) -> None:
    file = ReadOnlyDisk().open(f"{path}/a")
    with pytest.raises(OSError, match="a broker must start on this directory first"):
        file.append((b"x",))
    Path(path, "a").chmod(0o400)
    assert ReadOnlyDisk().open(f"{path}/a").pread(2, 0) == b"01"


def test_directories_are_no_files(path: str) -> None:
    with pytest.raises(OSError, match="not a regular file"):
        ReadOnlyDisk().open(path)

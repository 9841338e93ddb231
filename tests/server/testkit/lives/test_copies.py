"""Copies of log directories: every byte, closed segments by a second name, and nothing that would cost the lock."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ottla.log.disk.files import OsDisk
from ottla.server.testkit.lives import copies
from ottla.server.testkit.lives.copies import LINKED_BYTES, copy_tree


def write(directory: Path, **files: bytes) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (directory / name.replace("_", ".")).write_bytes(data)


def content(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_all_files_are_copied_but_lock_and_mark(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "deep" / "target"
    write(source, meta_properties=b"version=1", _lock=b"boot", empty=b"")
    (source / ".ottla-test").touch()
    write(source / "orders-0", **{"00_log": b"a" * 10_000, "00_index": b"b"})
    os.utime(source / "orders-0" / "00.log", (1, 1))
    assert copy_tree(OsDisk(), str(source), str(target)) == 4
    expected = content(source)
    del expected[".lock"], expected[".ottla-test"]
    assert content(target) == expected
    assert (target / "orders-0" / "00.log").stat().st_mtime == 1


def test_a_file_of_several_pieces_is_copied_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "source", **{"00_log": bytes(range(256)) * 10})
    monkeypatch.setattr(copies, "PIECE_BYTES", 1000)
    copy_tree(OsDisk(), str(tmp_path / "source"), str(tmp_path / "target"))
    assert content(tmp_path / "target") == content(tmp_path / "source")


def test_large_segments_are_linked_but_the_last(tmp_path: Path) -> None:
    source, target = tmp_path / "orders-0", tmp_path / "copy"
    large = bytes(LINKED_BYTES)
    write(source, **{"00_log": large, "01_log": b"small", "02_index": large, "03_log": large})
    copy_tree(OsDisk(), str(source), str(target), os.link)
    linked = {path.name for path in target.iterdir() if path.stat().st_nlink == 2}
    assert linked == {"00.log"}
    assert content(target) == content(source)

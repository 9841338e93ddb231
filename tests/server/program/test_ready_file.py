"""The file that says that a broker serves, and which of them may remove it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla.log.disk.files import OsDisk
from ottla.server.program.ready_file import remove_ready_file, write_ready_file

DISK = OsDisk()


def test_a_start_removes_what_is_there_and_a_stop_only_its_own(tmp_path: Path) -> None:
    path = tmp_path / "ready.json"
    write_ready_file(DISK, str(path), "h:1", None, 7)
    assert json.loads(path.read_text()) == {"bootstrap": "h:1", "test": None, "pid": 7}
    remove_ready_file(DISK, str(path), 8)
    assert path.exists()
    remove_ready_file(DISK, str(path), 7)
    assert not path.exists()
    write_ready_file(DISK, str(path), "h:1", None, 7)
    remove_ready_file(DISK, str(path))
    assert list(tmp_path.iterdir()) == []
    remove_ready_file(DISK, str(path))
    remove_ready_file(DISK, str(path), 7)


@pytest.mark.parametrize("text", ["", "{", "[7]", "7", "{}"])
def test_a_stop_leaves_what_somebody_else_wrote(tmp_path: Path, text: str) -> None:
    path = tmp_path / "ready.json"
    path.write_text(text)
    remove_ready_file(DISK, str(path), 7)
    assert path.read_text() == text

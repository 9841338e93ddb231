"""A data directory from outside: names, states, what may be asked for, and that nothing in it changes."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.commands.log.known_topics import METADATA_DIRECTORY
from ottla.console.disk.directory import Directory, LogName, find, log_name, open_file, why_not
from ottla.console.errors import Missing
from tests.console.disk.written import FIRST, fingerprint, write_orders


def test_logs_files_and_what_is_out_of_use(tmp_path: Path) -> None:
    write_orders(tmp_path)
    digits = "0123456789abcdef" * 2
    for name in (f"old-3.{digits}-delete", f"old-2.{digits}-stray", f"orders-1.{digits}-future", "lost+found", "orders-12"):
        (tmp_path / name).mkdir()
    contents = Directory(tmp_path).contents()
    assert [(one.topic, one.partition, one.state) for one in contents.logs] == [
        ("old", 2, "stray"),
        ("old", 3, "deleted"),
        ("orders", 0, ""),
        ("orders", 1, "being moved here"),
        ("orders", 12, ""),
    ]
    assert contents.strange == ["lost+found"]
    assert "meta.properties" in [one.name for one in contents.files]
    for name in (f"{5:020d}.log.deleted", f"{5:020d}.log.cleaned", f"{0:020d}.log.70.damaged", "notes.txt"):
        (tmp_path / "orders-0" / name).write_bytes(b"x")
    files = Directory(tmp_path).log("orders-0")
    assert [one.name for one in files.segments] == [FIRST]
    assert {one.name: (one.kind, one.state) for one in files.others if one.state or not one.kind} == {
        f"{5:020d}.log.deleted": ("log", "deleted"),
        f"{5:020d}.log.cleaned": ("log", "cleaned"),
        f"{0:020d}.log.70.damaged": ("log", "damaged"),
        "notes.txt": (None, ""),
    }


@pytest.mark.parametrize("name", ["..", ".", "", "/etc", "orders-0/..", "meta.properties", "orders-9", "orders-0\0"])
def test_only_what_a_listing_has_can_be_asked_for(tmp_path: Path, name: str) -> None:
    write_orders(tmp_path)
    source = Directory(tmp_path)
    with pytest.raises(Missing, match="no log"):
        source.log(name)
    with pytest.raises(Missing, match="no file"):
        find(source.log("orders-0"), name)


def test_links_lead_nowhere(tmp_path: Path) -> None:
    write_orders(tmp_path)
    (tmp_path / "secret").write_text("x")
    (tmp_path / "orders-0" / f"{9:020d}.log").symlink_to(tmp_path / "secret")
    with pytest.raises(Missing):
        find(Directory(tmp_path).log("orders-0"), f"{9:020d}.log")


@pytest.mark.parametrize("name", [f"orders-0/{0:020d}.index", f"orders-0/{7:020d}.txnindex", "orders-0/leader-epoch-checkpoint"])
def test_a_log_with_a_link_in_it_is_not_looked_into(tmp_path: Path, name: str) -> None:
    write_orders(tmp_path)
    (tmp_path / "secret").write_text("x")
    (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / name).symlink_to(tmp_path / "secret")
    with pytest.raises(Missing, match=f"{name} is a symbolic link"):
        Directory(tmp_path).log("orders-0")


def test_a_link_to_a_log_is_none_and_a_link_to_a_small_file_is_not_read(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for path in (inside, outside):
        path.mkdir()
        write_orders(path)
    (inside / "linked-1").symlink_to(outside / "orders-0")
    (outside / METADATA_DIRECTORY).mkdir()
    (inside / METADATA_DIRECTORY).symlink_to(outside / METADATA_DIRECTORY)
    source = Directory(inside)
    contents = source.contents()
    assert [one.name for one in contents.logs] == ["orders-0"]
    assert contents.strange == [METADATA_DIRECTORY, "linked-1"]
    assert source.topics() is None
    assert source.about().meta is not None
    with pytest.raises(Missing, match="linked-1 is a symbolic link"):
        source.files_of(LogName("linked-1", "linked", 1, ""))
    (inside / "meta.properties").unlink()
    (inside / "meta.properties").symlink_to(outside / "meta.properties")
    with pytest.raises(Missing, match=r"meta\.properties is a symbolic link"):
        source.about()
    with pytest.raises(Missing, match=r"meta\.properties is a symbolic link"):
        open_file(inside / "meta.properties")


def test_a_directory_that_is_itself_a_link_is_looked_into(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    write_orders(tmp_path / "there")
    (tmp_path / "data").symlink_to(tmp_path / "there")
    assert [one.name for one in Directory(tmp_path / "data").log("orders-0").segments] == [FIRST]


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(Missing, match="is not there; a broker may have removed it"):
        Directory(tmp_path / "gone").contents()
    with pytest.raises(Missing, match="not a regular file"):
        open_file(tmp_path)


def test_what_is_no_data_directory(tmp_path: Path) -> None:
    write_orders(tmp_path)
    assert why_not(tmp_path) is None
    assert "name the data directory around it" in (why_not(tmp_path / "orders-0") or "")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x").touch()
    assert "neither meta.properties nor a partition" in (why_not(tmp_path / "other") or "")
    assert "No such file" in (why_not(tmp_path / "gone") or "")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")
def test_who_holds_it_is_asked_without_taking_the_lock(tmp_path: Path) -> None:
    source = Directory(tmp_path)
    assert source.is_held() is False
    (tmp_path / ".lock").touch()
    assert source.is_held() is False
    script = "import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX); print('held', flush=True); input()"
    command = [sys.executable, "-c", script, str(tmp_path / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert source.is_held() is True
        holder.communicate("")
    with open(tmp_path / ".lock", "r+") as file:
        source.is_held()
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_topics_of_the_metadata_log_are_kept_for_a_while(tmp_path: Path) -> None:
    now = [0.0]
    source = Directory(tmp_path, clock=lambda: now[0])
    write_orders(tmp_path)
    before = fingerprint(tmp_path)
    assert source.topics() is None
    (tmp_path / "__cluster_metadata-0").mkdir()
    assert source.topics() is None
    now[0] = 31.0
    assert source.topics() is not None
    os.rmdir(tmp_path / "__cluster_metadata-0")
    assert {name: text for name, text in fingerprint(tmp_path).items() if "." in name} == {
        name: text for name, text in before.items() if "." in name
    }


def test_names() -> None:
    assert log_name("a-b-3") == ("a-b-3", "a-b", 3, "")
    assert log_name("a") is log_name("a-") is log_name("a-x") is None

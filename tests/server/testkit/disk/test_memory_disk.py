"""The disk in memory: what is durable in it, also if several threads use it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from ottla.log.disk.files import File
from ottla.server.testkit.disk.memory_disk import MemoryDisk
from ottla.server.testkit.disk.power_loss import Inode, Names, keep_all, lose_all


def test_a_synced_tree_outlasts_the_power() -> None:
    disk = MemoryDisk()
    disk.makedirs("/kit/copy/orders-0")
    disk.open("/kit/copy/orders-0/log", create=True).append([b"abc"])
    disk.write_bytes("/kit/copy/meta", b"x", sync=False)
    disk.makedirs("/kit/other")
    disk.sync_tree("/kit/copy")
    disk.crash()
    assert disk.list("/kit/copy") == ["meta", "orders-0"]
    assert disk.read_bytes("/kit/copy/orders-0/log") == b"abc"


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("synced", [True, False])
def test_what_is_forgotten_is_gone_for_good_and_the_rest_as_safe_as_before(ordered: bool, synced: bool) -> None:
    disk = MemoryDisk(ordered_names=ordered)
    disk.makedirs("/kit/data/orders-0/inner")
    disk.open("/kit/data/orders-0/log", create=True).append([b"abc"])
    disk.open("/kit/data/moved", create=True).append([b"abc"])
    disk.makedirs("/kit/other/deep")
    if synced:
        disk.sync_tree("/kit")
    disk.remove("/kit/data/orders-0/log")
    disk.remove_dir("/kit/data/orders-0/inner")
    disk.remove_dir("/kit/data/orders-0")
    disk.rename("/kit/data/moved", "/kit/other/deep/moved")
    disk.forget_tree("/kit/data")
    disk.forget_tree("/kit/data")
    assert disk.list("/kit") == ["other"]
    assert all("orders-0" not in {name for _, name, _ in step.entries} for step in disk._names._pending)
    kept = disk.crashed(keep_all)
    assert kept.list("/kit") == ["other"]
    assert kept.list("/kit/other/deep") == ["moved"]
    lost = disk.crashed(lose_all)
    assert not lost.exists("/kit/data")


def test_a_lock_knows_whether_the_power_was_cut() -> None:
    disk = MemoryDisk()
    disk.makedirs("/d")
    lock = disk.lock("/d/.lock")
    lock.note_boot()
    lock.release()
    again = disk.lock("/d/.lock")
    assert again.same_boot
    disk.crash(Random(1))
    disk.makedirs("/d")
    assert not disk.lock("/d/.lock").same_boot


@pytest.mark.parametrize(
    ("changed", "do"),
    [
        (Inode.write, lambda file, disk: file.append([b"a"])),
        (Inode.cut, lambda file, disk: file.truncate(0)),
        (Inode.sync, lambda file, disk: file.sync()),
        (Names.change, lambda file, disk: disk.rename("/d/log", "/d/other")),
        (Names.sync, lambda file, disk: disk.sync_dir("/d")),
    ],
)
def test_threads_change_one_thing_at_a_time(
    changed: Callable[..., None], do: Callable[[File, MemoryDisk], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = MemoryDisk()
    disk.makedirs("/d")
    file = disk.open("/d/log", create=True)
    held = []

    def look(*arguments: object) -> None:
        held.append(disk.one_at_a_time.locked())
        changed(*arguments)

    kind = Inode if changed.__qualname__.startswith("Inode") else Names
    monkeypatch.setattr(kind, changed.__name__, look)
    do(file, disk)
    assert held == [True]

"""server/testkit/disk/power_loss.py: what a power cut may leave of a simulated disk, and what not."""

from __future__ import annotations

import pytest

from ottla.server.testkit.disk.power_loss import Choose, Inode, keep_all, lose_all
from tests.memdisk import MemDisk
from tests.sim.losses import content, survivors

SECTOR = 4
EVERY = 10_000


def every_content(inode: Inode) -> set[bytes]:
    """The bytes in every outcome."""
    disk = MemDisk(sector_bytes=SECTOR)
    disk.open("/f", create=True)
    disk.sync_dir("/")
    disk._names.root.durable["f"] = disk._names.root.entries["f"] = inode
    disks, all_of_them = survivors(disk, EVERY, seed=1)
    assert all_of_them
    return {found.read_bytes("/f") for found in disks}


def every_tree(disk: MemDisk) -> set[tuple[str, ...]]:
    """The names in every outcome."""
    disks, all_of_them = survivors(disk, EVERY, seed=1)
    assert all_of_them
    return {tuple(path for path, _ in content(found)) for found in disks}


def synced(data: bytes) -> Inode:
    return Inode(0, data)


def test_an_append_may_be_lost_torn_at_a_sector_zeros_or_foreign_bytes() -> None:
    inode = synced(b"ab")
    inode.write(2, b"cdefgh")
    found = every_content(inode)
    assert {b"ab", b"abcd", b"abcdefgh", b"abcd\0\0\0\0", b"abcdZZZZ", b"ab\0\0efgh"} <= found
    assert all(data.startswith(b"ab") and len(data) in (2, 4, 8) for data in found)


def test_a_sector_is_old_or_new_and_never_between() -> None:
    inode = synced(b"aaaabbbb")
    inode.cut(0)
    inode.write(0, b"AAAABBBB")
    sectors = {data[:4] for data in every_content(inode) if len(data) == 8}
    assert {b"aaaa", b"AAAA"} <= sectors
    assert all(len({*sector}) == 1 for sector in sectors)


def test_a_cut_may_come_back_with_what_was_written_behind_it() -> None:
    inode = synced(b"aaaabbbb")
    inode.cut(4)
    inode.write(4, b"CCCC")
    assert {b"aaaabbbb", b"aaaa", b"aaaaCCCC"} <= every_content(inode)


def test_what_was_synced_stays() -> None:
    inode = synced(b"aaaa")
    inode.write(4, b"bbbb")
    inode.sync()
    assert every_content(inode) == {b"aaaabbbb"}


def tree(ordered: bool = False) -> MemDisk:
    disk = MemDisk(ordered_names=ordered)
    disk.open("/a", create=True)
    disk.open("/b", create=True)
    disk.sync_dir("/")
    return disk


def test_names_are_lost_on_their_own_or_in_order() -> None:
    for ordered, both in ((False, True), (True, False)):
        disk = tree(ordered)
        disk.remove("/a")
        disk.remove("/b")
        assert every_tree(disk) == {("/a", "/b"), ("/b",), ()} | ({("/a",)} if both else set())


def test_a_file_is_never_under_two_names() -> None:
    disk = tree()
    disk.rename("/a", "/c")
    disk.rename("/c", "/d")
    assert every_tree(disk) == {("/a", "/b"), ("/b", "/c"), ("/b", "/d")}


def test_a_renamed_file_may_be_empty() -> None:
    disk = tree()
    disk.write_bytes("/b", b"new", sync=False)
    disks, _ = survivors(disk, EVERY, seed=1)
    assert any(found.exists("/b") and not found.exists("/b.tmp") and found.read_bytes("/b") == b"" for found in disks)
    assert any(found.read_bytes("/b") == b"new" for found in disks)


def test_a_directory_must_be_durable_itself() -> None:
    disk = MemDisk()
    disk.makedirs("/d")
    disk.open("/d/f", create=True).sync()
    disk.sync_dir("/d")
    assert every_tree(disk) == {(), ("/d", "/d/f")}
    disk.sync_dir("/")
    assert every_tree(disk) == {("/d", "/d/f")}


@pytest.mark.parametrize(("choose", "names"), [(lose_all, ["a", "b"]), (keep_all, ["b", "c"])])
def test_the_two_ends(choose: Choose, names: list[str]) -> None:
    disk = tree()
    disk.rename("/a", "/c")
    other = disk.crashed(choose)
    assert other.list("/") == names
    assert disk.list("/") == ["b", "c"]


def test_a_kill_keeps_everything_and_makes_nothing_safe() -> None:
    disk = MemDisk()
    disk.open("/f", create=True).append([b"abc"])
    left = disk.killed()
    disk.open("/f").append([b"of a process that is gone"])
    assert left.read_bytes("/f") == b"abc"
    assert not left.crashed(lose_all).exists("/f")
    left.open("/f").sync()
    left.sync_dir("/")
    assert left.crashed(lose_all).read_bytes("/f") == b"abc"

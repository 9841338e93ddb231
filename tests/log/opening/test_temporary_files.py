"""log/opening/temporary_files.py: what interrupted work left is finished or undone."""

from __future__ import annotations

import pytest

from ottla.log.errors import StorageError
from ottla.wire.records import Record, build_batch
from tests.log.opening.damaged import SIZE, check, log_path, rig_of
from tests.log.support import NOW_MS, Rig, batch, settings


def test_orphans_and_leftovers_go() -> None:
    rig = rig_of(6)
    rig.manager.close()
    for name in (
        f"{50:020d}.index",
        f"{50:020d}.timeindex",
        f"{0:020d}.log.deleted",
        f"{0:020d}.log.cleaned",
        "partition.metadata.tmp",
    ):
        rig.disk.write_bytes(f"{rig.path}/{name}", b"x")
    before = {f"{at:020d}{suffix}" for at in (0, 4) for suffix in (".log", ".index", ".timeindex")}
    rig.start()
    assert before <= set(rig.names()) <= before | {"leader-epoch-checkpoint", "partition.metadata"} | set(rig.names(".snapshot"))
    check(rig, 6)


def compacted(rig: Rig) -> bytes:
    """Returns what a compaction of offsets 0 to 7 may leave: batches at 1 and 7."""
    return b"".join(build_batch([Record(0, NOW_MS, b"k", b"new", [])], base_offset=at, partition_leader_epoch=0) for at in (1, 7))


@pytest.mark.parametrize("half_done", [False, True], ids=["before removing", "after removing one"])
def test_a_finished_compaction_takes_its_place(half_done: bool) -> None:
    rig = rig_of(11)
    rig.manager.close(clean=False)
    rig.disk.write_bytes(f"{log_path(rig)}.swap", compacted(rig))
    if half_done:
        rig.disk.remove(log_path(rig))
    rig.start()
    assert rig.names(".log") == [f"{0:020d}.log", f"{8:020d}.log"]
    assert rig.names(".swap") == []
    assert rig.read() == [1, 7, 8, 9, 10]
    assert rig.append().base_offset == 11


def test_with_a_finished_compaction_all_its_files_take_their_places_and_what_else_was_left_goes() -> None:
    rig = rig_of(11)
    rig.manager.close(clean=False)
    rig.disk.write_bytes(f"{log_path(rig)}.swap", compacted(rig))
    for name in (f"{0:020d}.index.swap", f"{0:020d}.timeindex.swap", f"{50:020d}.log.deleted", "partition.metadata.tmp"):
        rig.disk.write_bytes(f"{rig.path}/{name}", b"")
    rig.start()
    assert rig.names(".log") == [f"{0:020d}.log", f"{8:020d}.log"]
    assert [rig.names(ending) for ending in (".swap", ".deleted", ".tmp")] == [[], [], []]
    assert rig.read() == [1, 7, 8, 9, 10]


@pytest.mark.parametrize("at", ["length", "crc", "value", "offset", "sign", "cut off"])
def test_nothing_is_removed_for_a_damaged_compaction(at: str) -> None:
    rig = rig_of(11)
    rig.manager.close(clean=False)
    whole = compacted(rig)
    half = len(whole) // 2
    if at == "cut off":
        damaged = whole[:-1]
    else:
        position, bit = {
            "length": (11, 1),
            "crc": (17, 1),
            "value": (half - 2, 1),
            "offset": (half + 7, 8),
            "sign": (half, 128),
        }[at]
        damaged = whole[:position] + bytes([whole[position] ^ bit]) + whole[position + 1 :]
    rig.disk.write_bytes(f"{log_path(rig)}.swap", damaged)
    rig.disk.rename(log_path(rig, 4), f"{log_path(rig, 4)}.deleted")
    before = rig.names()
    with pytest.raises(StorageError, match=r"log\.swap.* is damaged: .*those that end in \.deleted"):
        rig.start()
    assert rig.names() == before
    rig.manager.close(clean=False)
    rig.disk.remove(f"{log_path(rig)}.swap")  # as the message says
    rig.disk.rename(f"{log_path(rig, 4)}.deleted", log_path(rig, 4))
    rig.start()
    check(rig, 11)


def test_an_unfinished_compaction_is_forgotten() -> None:
    rig = rig_of(11)
    rig.manager.close(clean=False)
    rig.disk.write_bytes(f"{log_path(rig)}.swap", compacted(rig))
    rig.disk.write_bytes(f"{log_path(rig)}.cleaned", b"")
    rig.start()
    check(rig, 11)


def test_a_stale_segment_that_came_back_goes() -> None:
    """A power cut may undo the removal of a segment whose offsets were written again in the one before."""
    rig = rig_of(6, per_segment=4)
    rig.manager.close(clean=False)
    stale = rig.disk.read_bytes(log_path(rig, 4))
    rig.disk.remove(log_path(rig, 4))
    rig.config = settings(segment_bytes=100 * SIZE)
    rig.start()
    for at in range(4, 9):
        rig.append(batch(producer=(9, 0, at)), leader_epoch=at // 3)
    rig.manager.close(clean=False)
    rig.disk.write_bytes(log_path(rig, 4), stale)
    rig.start()
    check(rig, 9)

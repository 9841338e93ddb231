"""log/opening/torn_tail.py: what an unclean stop leaves at a log's end, and segments with offsets that do not fit them.

The latter are the scenarios of Kafka's LogLoaderTest that its table in test_loader_scenarios.py leaves to this module.
"""

from __future__ import annotations

from random import Random

import pytest

from ottla.log.errors import StorageError
from ottla.wire.compression import GZIP
from tests.log.on_disk import at, path, put, sound
from tests.log.opening.damaged import SIZE, check, log_path, rig_of
from tests.log.support import TOPIC_ID, Rig, batch, settings
from tests.memdisk import PowerCut

MAX_INT = 2**31 - 1
LAST_OFFSET_DELTA = slice(23, 27)
"""Its place in a batch."""


@pytest.mark.parametrize("codec", [0, GZIP])
def test_a_compaction_may_leave_wide_gaps(codec: int) -> None:
    """testOverCompactedLogRecovery, testOverCompactedLogRecoveryMultiRecord"""
    rig = Rig(settings())
    rig.manager.close(clean=False)
    far = MAX_INT + 2
    put(rig, 0, at(0))
    put(rig, far, *(at(far + 2 * number, 2, codec=codec) for number in range(3)))
    rig.disk.write_bytes("/data/cleaner-offset-checkpoint", f"0\n1\nt 0 {far + 6}\n".encode())
    rig.start()
    assert rig.bases == [0, far]
    sound(rig, [0, *range(far, far + 6)], far + 6)


FAR = MAX_INT + 10
OVERFLOWED = [0, 1, FAR, FAR + 1, 2 * FAR]


def rig_with_overflow(*, clean: bool = False) -> Rig:
    """One segment whose later offsets are too far from its first, and a good one behind it."""
    rig = Rig(settings(index_interval_bytes=1))
    rig.manager.close(clean=clean)
    put(rig, 0, *map(at, OVERFLOWED))
    put(rig, 2 * FAR + 1, at(2 * FAR + 1))
    for suffix in (".index", ".timeindex"):
        rig.disk.remove(path(rig, 0, suffix))
    return rig


def check_split(rig: Rig) -> None:
    rig.start()
    assert rig.bases == [0, FAR, 2 * FAR, 2 * FAR + 1]
    assert not any(name.endswith((".cleaned", ".swap", ".deleted")) for name in rig.names())
    sound(rig, [*OVERFLOWED, 2 * FAR + 1], 2 * FAR + 2)
    rig.restart(clean=False)
    assert len(rig.log.segments) == 4


@pytest.mark.parametrize("clean", [True, False])
def test_a_segment_with_too_many_offsets_is_split(clean: bool) -> None:
    """testRecoveryOfSegmentWithOffsetOverflow"""
    check_split(rig_with_overflow(clean=clean))


def test_offsets_that_go_back_are_damage_and_nothing_is_split_there() -> None:
    """The new segment had the name of the old one, and the start never ended."""
    damaged = bytearray(at(0))
    damaged[LAST_OFFSET_DELTA] = (-2).to_bytes(4, "big", signed=True)
    rig = Rig(settings())
    rig.manager.close(clean=True)
    put(rig, 0, bytes(damaged))
    put(rig, FAR, at(FAR))
    with pytest.raises(StorageError, match="the offsets 0 to -2 where 0 is next"):
        rig.start()
    assert rig.disk.read_bytes(path(rig, 0)) == damaged


def test_a_split_may_be_cut_off_anywhere() -> None:
    """testRecoveryAfterCrashDuringSplitPhase1 to 5, for our own way to split"""
    changes, at_change = 1, 0
    while at_change < changes:
        rig = rig_with_overflow()
        rig.memory.stop_after(at_change)
        before = rig.memory.changes
        try:
            rig.start()
        except PowerCut:
            changes = at_change + 2
        else:
            changes = rig.memory.changes - before
        rig.memory.crash(Random(at_change))
        rig.memory.makedirs("/data")
        if rig.disk.exists(path(rig, 0)):  # else the crash took the whole directory, which nobody had synced
            rig.start()
            assert rig.read() == [offset for offset in (*OVERFLOWED, 2 * FAR + 1) if offset < rig.log.log_end_offset]
        at_change += 1
    assert at_change > 5


@pytest.mark.parametrize("phase", [1, 2, 3, 4, 5])
def test_a_split_that_kafka_began_is_finished_or_undone(phase: int) -> None:
    """testRecoveryAfterCrashDuringSplitPhase1, Phase2, Phase3, Phase4, Phase5: its files as they lie there after each step"""
    rig = rig_with_overflow()
    parts = {0: [at(0), at(1)], FAR: [at(FAR), at(FAR + 1)], 2 * FAR: [at(2 * FAR)]}
    for base, batches in parts.items():
        match phase:
            case 1:  # all is still being written
                put(rig, base, *batches[:-1], suffix=".log.cleaned")
            case 2:  # the highest has its next name
                put(rig, base, *batches, suffix=".log.swap" if base == 2 * FAR else ".log.cleaned")
            case 3 | 4:  # all have; the old one is there, or gone
                put(rig, base, *batches, suffix=".log.swap")
                put(rig, base, b"", suffix=".index.swap")
            case 5:  # the lower ones have their last name
                put(rig, base, *batches, suffix=".log.swap" if base == 2 * FAR else ".log")
    if phase == 4:
        rig.disk.remove(path(rig, 0))
    check_split(rig)


@pytest.mark.parametrize("cut", range(1, SIZE, 7))
def test_a_torn_tail_is_cut_at_the_last_whole_batch(cut: int) -> None:
    rig = rig_of(6)
    path = log_path(rig, 4)
    rig.manager.close(clean=False)
    rig.disk.write_bytes(path, rig.disk.read_bytes(path)[:-cut])
    rig.memory.trace.clear()
    rig.start()
    cut_at = rig.memory.trace.index(("truncate", path))
    assert rig.memory.trace[cut_at + 1] == ("sync", path)
    assert rig.disk.size(path) == SIZE
    check(rig, 5)


@pytest.mark.parametrize("garbage", [b"\0", bytes(61), bytes(500), b"\xff" * 100, batch()[:-1], batch(5)])
def test_garbage_behind_the_tail_is_cut(garbage: bytes) -> None:
    rig = rig_of(6)
    path = log_path(rig, 4)
    rig.manager.close(clean=False)
    rig.disk.write_bytes(path, rig.disk.read_bytes(path) + garbage)  # batch(5) begins at offset 0 again: it cannot follow
    rig.start()
    assert rig.disk.size(path) == 2 * SIZE
    check(rig, 6)


def test_any_flipped_byte_beyond_the_recovery_point_cuts_there() -> None:
    for seed in range(60):
        rng = Random(seed)
        rig = rig_of(11, flushed=2)
        rig.manager.close(clean=False)
        at = rng.randrange(2, 11)
        base = at - at % 4
        data = bytearray(rig.disk.read_bytes(log_path(rig, base)))
        # The leader epoch (bytes 12 to 15) lies outside the CRC: no log can tell.
        inside = rng.choice([*range(8, 12), *range(16, SIZE)])
        data[(at - base) * SIZE + inside] ^= 1 << rng.randrange(8)
        rig.disk.write_bytes(log_path(rig, base), bytes(data))
        rig.start()
        check(rig, at)
        assert rig.names(".log")[-1] == log_path(rig, min(base, 8)).rpartition("/")[2]


def test_damage_below_the_recovery_point_is_corruption_and_nothing_is_cut() -> None:
    rig = rig_of(11, flushed=6)
    rig.manager.close(clean=False)
    path = log_path(rig, 4)
    data = bytearray(rig.disk.read_bytes(path))
    data[100] ^= 1
    rig.disk.write_bytes(path, bytes(data))
    with pytest.raises(StorageError, match="below the recovery point 6"):
        rig.start()
    assert rig.manager.unavailable.keys() == {("t", 0)}
    assert rig.disk.read_bytes(path) == bytes(data)
    assert rig.names(".log") == [f"{base:020d}.log" for base in (0, 4, 8)]


@pytest.mark.parametrize("clean", [True, False])
def test_damage_stays_what_it_is_at_every_start(*, clean: bool) -> None:
    """The very last of what was fsynced. The recovery point says that it is no torn tail, so that stays in the checkpoint."""
    rig = rig_of(11, flushed=6)
    rig.manager.close(clean=False)
    path = log_path(rig, 4)
    data = bytearray(rig.disk.read_bytes(path))
    data[SIZE + 70] ^= 1
    rig.disk.write_bytes(path, bytes(data))
    for _ in range(3):
        with pytest.raises(StorageError, match="below the recovery point 6"):
            rig.start()
        rig.manager.create("other", 0, TOPIC_ID, rig.config).append_as_leader(batch(), leader_epoch=0)
        rig.manager.checkpoint_pass()
        rig.manager.close(clean=clean)
        assert not rig.disk.exists(f"{rig.directory}/.kafka_cleanshutdown"), "nobody may believe in a clean stop"
    assert rig.disk.read_bytes(path) == bytes(data)


@pytest.mark.parametrize(("flushed", "below"), [(6, 0), (8, 4)], ids=["within a segment", "where a segment begins"])
def test_segments_below_the_recovery_point_are_not_read(flushed: int, below: int) -> None:
    rig = rig_of(11, flushed=flushed)
    rig.manager.close(clean=False)
    path = log_path(rig, below)
    data = bytearray(rig.disk.read_bytes(path))
    data[100] ^= 1
    rig.disk.write_bytes(path, bytes(data))
    rig.start()
    assert rig.log.log_end_offset == 11


def rig_with_gap(*, compacted_inside: bool) -> Rig:
    """Two segments, and between them offset 4 is missing: a compaction took it, or a crash."""
    rig = rig_of(11)
    rig.manager.close(clean=False)
    whole = rig.disk.read_bytes(log_path(rig))
    if compacted_inside:
        whole = whole[:SIZE] + whole[2 * SIZE :]
    rig.disk.write_bytes(log_path(rig), whole[:-SIZE])
    return rig


@pytest.mark.parametrize(
    ("inside", "file", "kept"),
    [
        (False, None, False),
        (True, None, True),
        (False, ("cleaner-offset-checkpoint", b"0\n1\nt 0 4\n"), True),
        (False, ("cleaner-offset-checkpoint", b"0\n1\nt 0 3\n"), False),
        (False, ("cleaner-offset-checkpoint", b"nonsense"), True),
        (False, ("recovery-point-offset-checkpoint", b"nonsense"), True),
    ],
)
def test_a_gap_is_a_compactions_or_the_end(inside: bool, file: tuple[str, bytes] | None, kept: bool) -> None:
    """Beyond the recovery point records are missing where a segment begins: only a compaction makes that good."""
    rig = rig_with_gap(compacted_inside=inside)
    if file is not None:
        rig.disk.write_bytes(f"/data/{file[0]}", file[1])
    rig.start()
    before = [0, 2] if inside else [0, 1, 2]
    assert rig.read() == before + ([4, 5, 6, 7, 8, 9, 10] if kept else [])


@pytest.mark.parametrize("base", [0, 4])
def test_zeros_where_a_segment_s_last_batch_was_end_the_log_though_the_segment_was_compacted(base: int) -> None:
    """They are no preallocated bytes, since the next segment does not go on where the batches before them end; nor did a
    compaction take that batch, which leaves no zeros."""
    rig = rig_of(11)
    rig.manager.close(clean=False)
    whole = rig.disk.read_bytes(log_path(rig, base))
    rig.disk.write_bytes(log_path(rig, base), whole[:SIZE] + whole[2 * SIZE : 3 * SIZE] + bytes(SIZE))
    rig.start()
    assert rig.read() == [*range(base), base, base + 2]

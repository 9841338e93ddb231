"""log/opening/torn_tail.py: segments with offsets that do not fit them, and splits that were cut off.

They are the scenarios of Kafka's LogLoaderTest that its table in test_loader_scenarios.py leaves to this module.
"""

from __future__ import annotations

from random import Random

import pytest

from ottla.wire.compression import GZIP
from tests.log.on_disk import at, path, put, sound
from tests.log.support import Rig, settings
from tests.memdisk import PowerCut

MAX_INT = 2**31 - 1


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

"""The setting preallocate: a segment's file is as long as it may get, and ends where its records do."""

from __future__ import annotations

import pytest

from ottla.log.errors import StorageError
from tests.log.on_disk import SIZE, path, put, recovery_point, rig_of, sound
from tests.log.support import Rig, settings


def test_a_preallocated_segment_ends_where_its_records_do() -> None:
    rig = Rig(settings(segment_bytes=10 * SIZE, preallocate=True))
    assert rig.disk.size(path(rig, 0)) == 10 * SIZE
    rig.fill(13)
    assert (rig.bases, rig.disk.size(path(rig, 0)), rig.disk.size(path(rig, 10))) == ([0, 10], 10 * SIZE, 10 * SIZE)
    assert rig.log.size_bytes == 13 * SIZE
    rig.restart(clean=False)  # the zeros behind the last record are no torn batch
    assert rig.disk.size(path(rig, 10)) == 3 * SIZE
    sound(rig, list(range(13)), 13)
    rig.log.roll()
    assert rig.disk.size(path(rig, 14)) == 10 * SIZE
    rig.append()
    rig.restart(clean=True)
    assert rig.disk.size(path(rig, 14)) == SIZE
    sound(rig, list(range(15)), 15)


def test_a_clean_stop_trims_a_segment_that_nothing_was_written_to() -> None:
    rig = Rig(settings(segment_bytes=10 * SIZE, preallocate=True))
    rig.restart(clean=True)
    assert rig.disk.size(path(rig, 0)) == 0
    rig.fill(1)
    sound(rig, [0], 1)


def test_zeros_behind_a_preallocated_segment_do_not_end_the_log() -> None:
    """The file was to be trimmed when the next segment began, and the power was cut before that was durable."""
    rig = rig_of(10)
    rig.manager.close(clean=False)
    put(rig, 0, rig.disk.read_bytes(path(rig, 0)), bytes(1000))
    rig.start()
    assert rig.disk.size(path(rig, 0)) == 5 * SIZE
    sound(rig, list(range(10)), 10)


def test_zeros_where_fsynced_records_were_are_damage() -> None:
    rig = rig_of(10)
    rig.manager.close(clean=False)
    put(rig, 5, rig.disk.read_bytes(path(rig, 5))[: 3 * SIZE], bytes(2 * SIZE))
    recovery_point(rig, 10)
    with pytest.raises(StorageError, match="below the recovery point"):
        rig.start()

"""log/producer_snapshots.py: when a log's producers are saved, and what a cut makes of them."""

from __future__ import annotations

import errno

import pytest

from ottla.log.producer_snapshots import ProducerSnapshots
from ottla.log.producers import ProducerStates
from tests.log.support import NOW_MS, Rig, batch


def rig_with_producer(batches: int) -> Rig:
    rig = Rig()
    for sequence in range(batches):
        rig.append(batch(producer=(7, 0, sequence)))
    return rig


def names(*offsets: int) -> list[str]:
    return [f"{offset:020d}.snapshot" for offset in offsets]


def test_a_snapshot_is_taken_once_an_offset() -> None:
    rig = rig_with_producer(2)
    snapshots = ProducerSnapshots(rig.log.local, 0)
    snapshots.take(rig.log.producers)
    assert rig.names(".snapshot") == names(2)
    changes = rig.memory.changes
    snapshots.take(rig.log.producers)
    assert rig.memory.changes == changes
    rig.append(batch(producer=(7, 0, 2)))
    snapshots.take(rig.log.producers)
    assert (rig.names(".snapshot"), snapshots.newest) == (names(2, 3), 3)


def test_what_is_not_newer_than_the_log_itself_is_not_saved() -> None:
    rig = rig_with_producer(1)
    ProducerSnapshots(rig.log.local, 1).take(rig.log.producers)
    assert rig.names(".snapshot") == []


def test_a_snapshot_is_durable_with_the_next_flush() -> None:
    rig = rig_with_producer(1)
    rig.log.flush()
    ProducerSnapshots(rig.log.local, 0).take(rig.log.producers)
    assert rig.log.local.unsynced.paths == [f"{rig.path}/{name}" for name in names(1)]
    rig.log.flush()
    rig.memory.crash()
    assert rig.names(".snapshot") == names(1)


def test_a_snapshot_that_cannot_be_written_is_tried_again() -> None:
    rig = rig_with_producer(1)
    snapshots = ProducerSnapshots(rig.log.local, 0)
    rig.memory.fail("write_bytes", errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        snapshots.take(rig.log.producers)
    snapshots.take(rig.log.producers)
    assert rig.names(".snapshot") == names(1)


def test_after_a_cut_the_producers_are_loaded_again_and_saved() -> None:
    rig = rig_with_producer(6)
    snapshots, producers = ProducerSnapshots(rig.log.local, 0), ProducerStates()
    snapshots.take(rig.log.producers)
    snapshots.reload(producers, 0, 4, expiration_ms=10**9)
    state = producers.get(7)
    assert state is not None
    assert (state.last_sequence, producers.end_offset) == (3, 4)
    assert (rig.names(".snapshot"), snapshots.newest) == (names(4), 4)


def test_who_expired_is_not_loaded_from_a_snapshot() -> None:
    rig = rig_with_producer(3)
    snapshots, producers = ProducerSnapshots(rig.log.local, 0), ProducerStates()
    snapshots.take(rig.log.producers)
    rig.now_ms = NOW_MS + 1000
    snapshots.reload(producers, 0, 3, expiration_ms=1000)
    assert producers.get(7) is None

"""log/rebuild.py: producer state and snapshots after a restart, clean or not."""

from __future__ import annotations

from random import Random

import pytest

from ottla.log.errors import CorruptRecord
from ottla.log.management.manager import LogManager
from ottla.log.transactions import collect_aborted
from ottla.log.validate import Origin
from ottla.wire.batch import HEADER_SIZE
from tests.log.opening.damaged import log_path, rewrite, rig_of
from tests.log.support import DIRECTORY, Rig, batch, marker


def test_a_foreign_snapshot_beyond_the_end_is_not_believed() -> None:
    rig = rig_of(6)
    rig.append(batch(producer=(9, 0, 6)))
    rig.manager.close()
    rig.disk.rename(f"{rig.path}/{7:020d}.snapshot", f"{rig.path}/{70:020d}.snapshot")
    rig.start()
    assert f"{70:020d}.snapshot" not in rig.names()
    state = rig.log.producers.get(9)
    assert state is not None
    assert state.last_sequence == 6


def test_snapshots_kept_are_those_of_segments_and_the_newest() -> None:
    rig = rig_of(11)
    rig.restart(clean=True)
    rig.append(batch(producer=(9, 0, 11)))
    rig.append(batch(producer=(9, 0, 12)))
    rig.manager.close()
    assert rig.names(".snapshot") == [f"{at:020d}.snapshot" for at in (4, 8, 11, 12, 13)]
    rig.start()
    assert rig.names(".snapshot") == [f"{at:020d}.snapshot" for at in (4, 8, 12, 13)]


def test_snapshots_below_the_start_of_the_log_go() -> None:
    """They know of nobody who is still in the log; Kafka removes them at a start, too."""
    rig = rig_of(11)
    rig.log.delete_records_before(6)
    rig.restart(clean=True)
    assert rig.names(".snapshot") == [f"{at:020d}.snapshot" for at in (8, 11)]


def test_producers_survive_a_restart_with_what_the_snapshot_keeps() -> None:
    rig = rig_of(6)
    rig.restart(clean=True)
    again = rig.append(batch(producer=(9, 0, 5)))  # R1: the last batch is remembered
    assert (again.base_offset, again.duplicate) == (5, True)
    assert rig.append(batch(producer=(9, 0, 6))).base_offset == 6  # R2


def test_open_transactions_survive_a_restart() -> None:
    rig = Rig()
    for producer_id in (9, 10):
        rig.append(batch(producer=(producer_id, 0, 0), transactional=True))
    rig.log.append_as_leader(marker(9, 0, commit=False), leader_epoch=0, origin=Origin.COORDINATOR)
    for clean in (False, True, False):
        rig.restart(clean=clean)
        assert (rig.log.last_stable_offset, rig.log.log_end_offset) == (1, 3)
    rig.log.append_as_leader(marker(10, 0, commit=True), leader_epoch=0, origin=Origin.COORDINATOR)
    rig.restart(clean=False)
    assert rig.log.last_stable_offset == 4


def with_a_damaged_marker() -> tuple[Rig, int]:
    """The record of a marker has another length. Returns where the marker's batch begins as well."""
    rig = Rig()
    rig.append(batch(producer=(9, 0, 0), transactional=True))
    position = rig.log.segments.active.size
    rig.log.append_as_leader(marker(9, 0, commit=False), leader_epoch=0, origin=Origin.COORDINATOR)
    data = bytearray(rig.disk.read_bytes(log_path(rig)))
    data[position + HEADER_SIZE] ^= 0x7E
    rewrite(rig, log_path(rig), bytes(data))
    return rig, position


def test_a_marker_that_does_not_decode_takes_its_partition_offline_and_no_other() -> None:
    """After a clean stop no CRC is checked, and without a snapshot the log is replayed."""
    rig, position = with_a_damaged_marker()
    rig.manager.create("u", 0, None, rig.config)
    rig.manager.close()
    rig.disk.remove(f"{rig.path}/{2:020d}.snapshot")
    manager = LogManager(rig.disk, [DIRECTORY], lambda: rig.now_ms, rig.config, random=Random(1))
    manager.open_all()
    assert list(manager.logs) == [("u", 0)]
    assert f"position {position}" in manager.unavailable["t", 0]


def test_a_transaction_index_is_not_rebuilt_over_a_marker_that_does_not_decode() -> None:
    rig, position = with_a_damaged_marker()
    rig.log.segments.active.write_indexes(final=False)
    rig.disk.write_bytes(f"{rig.path}/{0:020d}.txnindex", b"?")
    rig.log.segments.active.release_file()
    with pytest.raises(CorruptRecord, match=f"position {position}"):
        collect_aborted(rig.log, 0, 2)


def test_expired_producers_are_not_loaded() -> None:
    rig = rig_of(6)
    rig.manager.close()
    rig.now_ms += 86_400_000
    rig.start()
    assert rig.log.producers.get(9) is None

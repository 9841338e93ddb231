"""Bugs that the crash points found in the log, each with a short scenario of its own as its regression test."""

from __future__ import annotations

from ottla.log.timestamps import max_timestamp_offset
from ottla.log.transactions import collect_aborted
from ottla.log.validate import Origin
from tests.log.support import Rig, batch, marker, settings
from tests.sim.losses import survivors
from tests.sim.trace import open_manager

SIZE = len(batch())
BOUND = 2000


def after_every_loss(rig: Rig) -> list[Rig]:
    """The log, opened after every power cut that is possible now."""
    disks, all_of_them = survivors(rig.memory, BOUND, seed=1)
    assert all_of_them
    return [Rig(rig.config, disk, topic_id=rig.topic_id) for disk in disks]


def test_a_made_log_directory_has_a_durable_name() -> None:
    rig = Rig()
    rig.append()
    rig.log.flush()
    assert [each.log.log_end_offset for each in after_every_loss(rig)] == [1]


def test_segments_deleted_together_leave_no_gap() -> None:
    rig = Rig(settings(segment_bytes=2 * SIZE, retention_bytes=2 * SIZE))
    rig.fill(8)
    rig.log.flush()
    cuts: list[int] = []

    def look(operation: str, path: str) -> None:
        for each in after_every_loss(rig):
            assert each.log.log_end_offset == 8
            assert each.read(each.log.log_start_offset) == list(range(each.log.log_start_offset, 8))
            cuts.append(each.log.log_start_offset)

    rig.memory.before_change = look
    assert rig.log.apply_retention(rig.now_ms) == 3
    assert set(cuts) == {0, 2, 4, 6}


def test_a_snapshot_beyond_a_truncation_does_not_come_back() -> None:
    rig = Rig()
    rig.fill(2)
    rig.append(batch(producer=(5, 0, 0)))
    rig.restart(clean=True)  # leaves 3.snapshot
    rig.log.truncate_to(1)
    for _ in range(3):
        rig.append(batch(producer=(6, 0, rig.log.log_end_offset - 1)))
    for each in after_every_loss(rig):
        assert each.log.producers.get(5) is None


def test_a_partition_begun_anew_owes_nothing_to_the_old_checkpoints() -> None:
    rig = Rig()
    rig.fill(5)
    rig.log.delete_records_before(3)
    rig.log.flush()
    rig.manager.checkpoint_pass()
    rig.manager.delete("t", 0)
    rig.topic_id = bytes(15) + b"\x07"
    log = rig.manager.create("t", 0, rig.topic_id, rig.config)
    log.append_as_leader(batch(2), leader_epoch=0)
    log.flush()
    for each in after_every_loss(rig):
        assert each.read() == [0, 1]
    log.append_as_leader(batch(), leader_epoch=0)  # not flushed: a torn one is a torn tail, and no damage
    for each in after_every_loss(rig):
        assert not each.manager.unavailable
        assert each.log.log_end_offset in (2, 3)


def test_a_deleted_segment_comes_back_with_its_aborted_transactions() -> None:
    rig = Rig(settings(segment_bytes=1 << 20, retention_bytes=SIZE))
    rig.append(batch(producer=(7, 0, 0), transactional=True))
    rig.log.append_as_leader(marker(7, 0, commit=False), leader_epoch=0, origin=Origin.COORDINATOR)
    rig.log.roll()
    rig.fill(2)
    rig.log.flush()
    rig.manager.checkpoint_pass()

    def look(operation: str, path: str) -> None:
        for each in after_every_loss(rig):
            aborted = collect_aborted(each.log, each.log.log_start_offset, each.log.log_end_offset)
            assert len(aborted) == (each.log.log_start_offset == 0)

    rig.memory.before_change = look
    assert rig.log.apply_retention(rig.now_ms) == 1


def test_a_roll_at_the_recovery_point_leaves_no_index_to_be_believed() -> None:
    """Nothing was due to be flushed, and recovery begins behind the rolled segment."""
    rig = Rig()
    rig.fill(3)
    rig.log.flush()
    rig.manager.checkpoint_pass()
    found = max_timestamp_offset(rig.log)

    def look(operation: str, path: str) -> None:
        for each in after_every_loss(rig):
            assert max_timestamp_offset(each.log) == found

    rig.memory.before_change = look
    rig.log.roll()
    rig.memory.before_change = None
    look("", "")


def test_a_damaged_partition_stays_offline_at_every_start() -> None:
    rig = Rig()
    rig.fill(3)
    rig.log.flush()
    rig.manager.checkpoint_pass()
    rig.manager.close(clean=False)
    file = rig.disk.open(f"{rig.path}/{0:020d}.log")
    whole = file.pread(file.size, 0)
    file.truncate(SIZE + 70)
    file.append([b"?", whole[SIZE + 71 :]])
    file.sync()
    for clean in (False, True, True):
        logs = open_manager(rig.disk, rig.directory, lambda: rig.now_ms)
        assert ("t", 0) in logs.unavailable
        logs.checkpoint_pass()
        logs.close(clean)
    assert rig.disk.size(f"{rig.path}/{0:020d}.log") == 3 * SIZE

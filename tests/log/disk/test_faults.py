"""Faults of the disk, ordered one at a time: what takes the directory offline, what only refuses; nothing half-done stays.

Each test that lets the directory go on ends with the proof: more is appended, the broker starts again, after a clean stop and
after none, and the records are those that were acknowledged.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from random import Random

import pytest

from ottla.log.disk.checkpoint import HIGH_WATERMARKS
from ottla.log.disk.files import StateUnknown
from ottla.log.errors import CorruptRecord, StorageError
from ottla.log.management.passes import delete_steps, retention_steps, run_pass
from ottla.log.names import LOG_SUFFIX, offset_name
from ottla.log.timestamps import offset_for_timestamp
from tests.log.support import Rig, batch, settings

SIZE = len(batch())
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
FINAL = (errno.EIO, errno.EROFS, errno.EACCES)
LOG = f"{offset_name(0)}{LOG_SUFFIX}"


@pytest.fixture
def rig() -> Rig:
    return Rig()


def refused(action: Callable[[], object], match: str | None = None) -> None:
    with pytest.raises(StorageError, match=match):
        action()


def goes_on(rig: Rig, records: int) -> None:
    """`records` are there, more can be appended, and a start finds all of them, however the stop was."""
    assert rig.read() == list(range(records))
    for clean in (False, True):
        assert rig.append().base_offset == records
        records += 1
        rig.restart(clean=clean)
        assert rig.read() == list(range(records))
        assert (rig.manager.previous_broker_epoch is not None) is clean


# No room


@pytest.mark.parametrize("code", NO_ROOM)
@pytest.mark.parametrize("written", [0, 1, 17, SIZE - 1])
def test_an_append_without_room_is_taken_back_and_refused(rig: Rig, code: int, written: int) -> None:
    rig.fill(3)
    rig.memory.fail("append", code, path=".log", written=written)
    refused(rig.append, "no room")
    assert rig.disk.size(f"{rig.path}/{LOG}") == 3 * SIZE, "to the last whole batch, before it is answered"
    assert (rig.log.log_end_offset, rig.log.high_watermark) == (3, 3)
    goes_on(rig, 3)


@pytest.mark.parametrize("seed", range(20))
def test_a_power_cut_does_not_bring_back_half_a_write_behind_durable_records(seed: int) -> None:
    rig = Rig(settings(segment_bytes=4 * SIZE))
    rig.fill(3)
    rig.log.flush()
    rig.memory.fail("append", errno.ENOSPC, path=".log", written=50)
    refused(rig.append, "no room")
    rig.log.roll()
    rig.append()
    rig.log.flush()
    rig.memory.crash(Random(seed))
    rig.start()
    goes_on(rig, 4)


def test_the_producer_of_a_refused_batch_sends_it_again(rig: Rig) -> None:
    rig.append(batch(producer=(7, 0, 0)))
    rig.memory.fail("append", errno.ENOSPC, path=".log", written=9)
    refused(lambda: rig.append(batch(producer=(7, 0, 1))))
    again = rig.append(batch(producer=(7, 0, 1)))
    assert (again.base_offset, again.duplicate) == (1, False)


def test_a_full_directory_in_which_nothing_moves_finds_out_that_it_has_room_again(rig: Rig) -> None:
    rig.fill(3)
    rig.manager.checkpoint_pass()
    rig.memory.fail("append", errno.ENOSPC, path=".log")
    refused(rig.append, "no room")
    assert rig.log.directory.full
    rig.memory.fail("write_bytes", errno.ENOSPC, path="checkpoint")
    rig.manager.checkpoint_pass([HIGH_WATERMARKS])
    assert rig.log.directory.full
    rig.manager.checkpoint_pass([HIGH_WATERMARKS])
    assert not rig.log.directory.full


def test_a_full_disk_and_its_end_are_logged_once_each(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ottla.log.directory")
    rig.fill(1)
    for _ in range(3):
        rig.memory.fail("append", errno.ENOSPC, path=".log")
        refused(rig.append)
    rig.fill(1)
    rig.manager.checkpoint_pass()
    rig.manager.checkpoint_pass()
    assert [record.levelname for record in caplog.records if "room" in record.message] == ["ERROR", "INFO"]


@pytest.mark.parametrize("code", NO_ROOM)
def test_a_checkpoint_without_room_is_written_later(rig: Rig, code: int) -> None:
    rig.fill(2)
    rig.log.flush()
    rig.memory.fail("write_bytes", code, path="recovery-point")
    rig.manager.checkpoint_pass()
    rig.log.directory.check()
    rig.manager.checkpoint_pass()
    assert b"t 0 2" in rig.disk.read_bytes("/data/recovery-point-offset-checkpoint")
    goes_on(rig, 2)


# A roll


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE])
@pytest.mark.parametrize(
    ("operation", "path"),
    [
        ("write_bytes", f"{offset_name(0)}.index"),
        ("write_bytes", f"{offset_name(0)}.timeindex"),
        ("write_bytes", ".snapshot"),
        ("open", f"{offset_name(3)}.log"),
        ("open", f"{offset_name(3)}.index"),
        ("open", f"{offset_name(3)}.timeindex"),
    ],
)
def test_a_roll_that_fails_leaves_no_segment_behind(operation: str, path: str, code: int) -> None:
    rig = Rig(settings(segment_bytes=4 * SIZE - 1))
    rig.fill(3)
    rig.memory.fail(operation, code, path=path)
    refused(rig.append)
    assert rig.names(".log") == [LOG], "an empty segment in the middle of another's offsets"
    rig.log.config = settings(segment_bytes=100 * SIZE)
    rig.fill(2)  # the segment goes on
    assert rig.bases == [0]
    goes_on(rig, 5)


def test_half_a_segment_that_cannot_be_removed_is_final() -> None:
    rig = Rig(settings(segment_bytes=4 * SIZE - 1))
    rig.fill(3)
    rig.memory.fail("open", errno.ENOSPC, path=f"{offset_name(3)}.index")
    rig.memory.fail("remove", errno.EIO)
    refused(rig.append, "offline")
    rig.restart(clean=True)
    assert rig.manager.previous_broker_epoch is None
    assert rig.append().base_offset == 3


# Descriptors


@pytest.mark.parametrize("code", NO_DESCRIPTORS)
def test_without_descriptors_reads_appends_and_flushes_are_refused_until_there_are_some(rig: Rig, code: int) -> None:
    rig.fill(2)
    actions = (rig.append, lambda: rig.log.read(0, 1, upto=2), lambda: offset_for_timestamp(rig.log, 0), rig.log.flush)
    for action in actions:
        for segment in rig.log.segments:
            segment.release_file()
        rig.memory.fail("open", code)
        refused(action)
    goes_on(rig, 2)


def test_an_index_that_cannot_be_loaded_refuses_the_append_before_it_is_written() -> None:
    """The first append after a start loads the indexes. After the write it is too late to fail: the batch would stand in the file
    and not in the log, and its offset would be given twice."""
    rig = Rig(settings(index_interval_bytes=0))
    rig.fill(3)
    rig.restart(clean=True)
    rig.memory.fail("read_bytes", errno.EMFILE, path=".index")
    refused(rig.append)
    assert rig.disk.size(f"{rig.path}/{LOG}") == 3 * SIZE
    goes_on(rig, 3)


@pytest.mark.parametrize("operation", ["open", "write_bytes"])
def test_a_close_without_descriptors_is_no_clean_stop(rig: Rig, operation: str) -> None:
    rig.append(batch(producer=(7, 0, 0)))
    rig.log.segments.active.release_file()
    rig.memory.fail(operation, errno.EMFILE, path="t-0")
    rig.restart(clean=True)
    assert rig.manager.previous_broker_epoch is None
    assert rig.append(batch(producer=(7, 0, 0))).duplicate
    goes_on(rig, 1)


def test_files_that_could_not_be_removed_are_removed_later(rig: Rig) -> None:
    rig.manager.delete("t", 0)
    rig.memory.fail("list", errno.EMFILE, path="-delete")
    assert run_pass(delete_steps(rig.manager, rig.now_ms + 60_000)) == 0
    assert run_pass(delete_steps(rig.manager, rig.now_ms + 60_000)) == 1
    assert [name for name in rig.disk.list("/data") if name.startswith("t-0")] == []


# Short writes


@pytest.mark.parametrize("written", [1, 16, 17, SIZE - 1])
def test_a_short_write_goes_on_where_it_stopped(rig: Rig, written: int) -> None:
    rig.fill(1)
    rig.memory.fail("append", 0, path=".log", written=written)
    assert rig.append().base_offset == 1
    assert rig.disk.size(f"{rig.path}/{LOG}") == 2 * SIZE
    goes_on(rig, 2)


# What is final


@pytest.mark.parametrize("code", FINAL)
@pytest.mark.parametrize("operation", ["append", "open", "pread"])
def test_any_other_failure_takes_the_directory_offline_for_good(rig: Rig, operation: str, code: int) -> None:
    rig.fill(2)
    rig.restart(clean=True)
    rig.memory.fail(operation, code, path=".log")
    refused(rig.append if operation == "append" else lambda: rig.log.read(1, 1, upto=2), "offline")
    changes = rig.memory.changes
    for action in (rig.append, lambda: rig.log.read(0, 1, upto=2), rig.log.flush, rig.log.roll):
        refused(action, "offline")
    rig.manager.checkpoint_pass()
    run_pass(retention_steps(rig.manager, rig.now_ms))
    rig.manager.flush_pass(rig.now_ms)
    rig.manager.close(clean=True)
    assert rig.memory.changes == changes, "nobody touches it again"
    rig.start()
    assert rig.manager.previous_broker_epoch is None
    goes_on(rig, 2)


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS])
@pytest.mark.parametrize("operation", ["sync", "sync_dir"])
def test_a_failed_fsync_is_final_whatever_it_says_and_is_never_tried_again(rig: Rig, operation: str, code: int) -> None:
    rig.fill(2)
    rig.memory.fail(operation, code)
    rig.memory.trace.clear()
    refused(rig.log.flush, "offline")
    done = len(rig.memory.trace)
    refused(rig.log.flush, "offline")
    rig.manager.flush_pass(rig.now_ms)
    assert len(rig.memory.trace) == done
    assert rig.log.recovery_point == 0


def test_half_a_write_that_cannot_be_cut_off_is_final_even_without_room(rig: Rig) -> None:
    rig.fill(3)
    rig.memory.fail("append", errno.ENOSPC, path=".log", written=50)
    rig.memory.fail("truncate", errno.ENOSPC)
    refused(rig.append, "offline")
    rig.restart(clean=True)
    assert rig.disk.size(f"{rig.path}/{LOG}") == 3 * SIZE
    goes_on(rig, 3)


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOSPC, errno.EIO])
def test_a_truncation_is_not_left_half_done(code: int) -> None:
    rig = Rig(settings(segment_bytes=2 * SIZE))
    rig.fill(6)
    rig.memory.fail("truncate", code, path=offset_name(2))
    refused(lambda: rig.log.truncate_to(3), "offline")
    rig.restart(clean=False)
    assert rig.read() == list(range(4))[: rig.log.log_end_offset]


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOSPC])
def test_a_truncation_that_cannot_look_where_to_cut_changes_nothing(code: int) -> None:
    rig = Rig(settings(segment_bytes=2 * SIZE))
    rig.fill(6)
    for segment in rig.log.segments:
        segment.release_file()
    rig.memory.fail("open", code, path=offset_name(2))
    refused(lambda: rig.log.truncate_to(3), "truncating")
    assert rig.read() == list(range(6))
    rig.log.truncate_to(3)
    assert rig.read() == [0, 1, 2]


def test_others_go_on(rig: Rig) -> None:
    other = Rig(directory="/other", disk=rig.disk)
    rig.memory.fail("sync", path="/data")
    rig.fill(1)
    refused(rig.log.flush)
    other.fill(1)
    other.log.flush()
    assert other.read() == [0]


# A damaged batch


def corrupt(rig: Rig, position: int, data: bytes) -> None:
    """Other bytes in the log file, behind the log's back."""
    path = f"{rig.path}/{LOG}"
    found = rig.disk.read_bytes(path)
    rig.disk.open(path).truncate(0)
    rig.disk.open(path).append([found[:position] + data + found[position + len(data) :]])


def test_a_batch_whose_framing_is_damaged_is_refused_and_the_rest_is_readable() -> None:
    rig = Rig(settings(index_interval_bytes=0))
    rig.fill(6)
    corrupt(rig, 2 * SIZE + 8, b"\xff\xff\xff\xff")  # the length of the third batch
    rig.log.segments.forget_hints()
    with pytest.raises(CorruptRecord):
        rig.log.read(2, 1 << 20, upto=3)
    rig.log.directory.check()
    assert [offset for offset in rig.read(4) if offset >= 4] == [4, 5], "the index leads past it"
    assert rig.append().base_offset == 6


def test_a_batch_whose_crc_is_damaged_is_the_readers_to_find(rig: Rig) -> None:
    """As in Kafka: a fetch gives regions of the file, and the client checks."""
    rig.fill(3)
    corrupt(rig, SIZE + 70, b"\x00\x01\x02")
    found = rig.log.read(0, 1 << 20, upto=3)
    assert found is not None
    assert len(found.read()) == 3 * SIZE


def test_state_unknown_is_an_os_error_with_its_reason() -> None:
    error = StateUnknown(errno.EIO, "fsync failed", "/p")
    assert isinstance(error, OSError)
    assert (error.errno, error.filename) == (errno.EIO, "/p")


def test_who_asks_for_what_is_damaged_again_does_not_cost_a_walk_again() -> None:
    rig = Rig(settings(index_interval_bytes=0))
    rig.fill(6)
    corrupt(rig, 2 * SIZE + 8, b"\xff\xff\xff\xff")
    rig.log.segments.forget_hints()
    for _ in range(2):
        with pytest.raises(CorruptRecord):
            rig.log.read(2, 1 << 20, upto=3)
    rig.memory.fail("pread", skip=1)
    with pytest.raises(CorruptRecord):
        rig.log.read(2, 1 << 20, upto=3)

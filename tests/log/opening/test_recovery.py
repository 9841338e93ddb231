"""log/opening/recovery.py: whatever a crash, or a stranger, left in a partition's directory."""

from __future__ import annotations

import pytest

from ottla.log.errors import StorageError
from ottla.log.timestamps import offset_for_timestamp
from tests.log.opening.damaged import SIZE, check, log_path, rewrite, rig_of
from tests.log.support import NOW_MS, TOPIC_ID, Rig, batch

STARTS = "/data/log-start-offset-checkpoint"


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("batches", [0, 1, 4, 11])
def test_nothing_is_lost_by_a_restart(batches: int, clean: bool) -> None:
    rig = rig_of(batches)
    rig.restart(clean=clean)
    check(rig, batches)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("cleaned_upto", [0, 4, 5, 9])
def test_an_emptied_segment_is_reported(caplog: pytest.LogCaptureFixture, cleaned_upto: int, *, clean: bool) -> None:
    rig = rig_of(11, flushed=11)
    rewrite(rig, log_path(rig, 4), b"")
    if cleaned_upto:
        rig.log.directory.set_cleaned(("t", 0), cleaned_upto)
    rig.restart(clean=clean)
    assert ("its records are lost" in caplog.text) == (cleaned_upto <= 4)


def test_a_clean_stop_reads_no_batches() -> None:
    rig = rig_of(11)
    rig.manager.close()
    data = bytearray(rig.disk.read_bytes(log_path(rig, 8)))
    data[100] ^= 1
    rig.disk.write_bytes(log_path(rig, 8), bytes(data))
    rig.start()
    assert rig.log.log_end_offset == 11


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex", ".snapshot", "leader-epoch-checkpoint"])
@pytest.mark.parametrize("content", [None, b"", b"\xff" * 24, bytes(80), b"0\n1\n"])
@pytest.mark.parametrize("clean", [True, False])
def test_derived_files_may_hold_anything(suffix: str, content: bytes | None, clean: bool) -> None:
    rig = rig_of(11)
    rig.manager.close(clean)
    for name in rig.names(suffix):
        if content is None:
            rig.disk.remove(f"{rig.path}/{name}")
        else:
            rig.disk.write_bytes(f"{rig.path}/{name}", content)
    rig.start()
    assert offset_for_timestamp(rig.log, NOW_MS) is not None
    check(rig, 11)


STRANGERS = [
    f"{0:020d}.copy.log",
    f"{4:020d}.copy.index",
    f"{0:020d}.copy.log.swap",
    f"{8:020d}.old.snapshot",
    "5.snapshot",
    "\N{SUPERSCRIPT TWO}.snapshot",
    "\N{ARABIC-INDIC DIGIT THREE}" * 20 + ".snapshot",
    "9" * 20 + ".log",
]


@pytest.mark.parametrize("name", STRANGERS)
@pytest.mark.parametrize("clean", [True, False])
def test_files_of_other_names_are_let_be(name: str, clean: bool) -> None:
    rig = rig_of(11)
    rig.manager.close(clean)
    rig.disk.write_bytes(f"{rig.path}/{name}", b"somebody's")
    rig.start()
    check(rig, 11)
    assert rig.disk.read_bytes(f"{rig.path}/{name}") == b"somebody's"


@pytest.mark.parametrize("position", [1, SIZE + 7, 3 * SIZE])  # between batches, or at a later one
def test_producers_are_not_looked_for_where_only_an_index_says(position: int) -> None:
    """The log starts inside a segment and no snapshot is there: the replay begins in the middle, and the index is nonsense."""
    rig = rig_of(5)
    rig.log.delete_records_before(1)
    rig.manager.close()
    for name in rig.names(".snapshot"):
        rig.disk.remove(f"{rig.path}/{name}")
    entry = (1).to_bytes(4, "big") + position.to_bytes(4, "big")
    rig.disk.write_bytes(f"{rig.path}/{0:020d}.index", entry)
    rig.start()
    state = rig.log.producers.get(9)
    assert state is not None
    assert [batch.last_sequence for batch in state.batches] == [1, 2, 3, 4]


CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
)


@pytest.mark.parametrize("name", CHECKPOINTS)
@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"0\n",
        b"\xff\x00" * 50,
        b"7\n1\nt 0 3\n",
        b"0\n2\nt 0 3\n",
        b"0\n1\nt 0\n",
        b"0\n1\nt 0 -5\n",
        b"0\n1\nt 0 %d\n" % 2**64,
        b"0\n1\nt 0 3 4\n",
    ],
)
@pytest.mark.parametrize("clean", [True, False])
def test_checkpoints_may_hold_anything(name: str, content: bytes | None, clean: bool) -> None:
    rig = rig_of(11)
    rig.manager.close(clean)
    if content is not None:
        rig.disk.write_bytes(f"/data/{name}", content)
    elif rig.disk.exists(f"/data/{name}"):
        rig.disk.remove(f"/data/{name}")
    rig.start()
    check(rig, 11)


def test_leader_epochs_are_not_taken_from_a_batch_of_an_impossible_offset() -> None:
    """The base offset is outside the CRC, and after a clean stop nobody compares that either. Only this partition is offline."""
    rig = rig_of(6)
    rig.manager.close()
    rig.disk.write_bytes(log_path(rig), b"\x80" + rig.disk.read_bytes(log_path(rig))[1:])
    rig.disk.remove(f"{rig.path}/leader-epoch-checkpoint")
    with pytest.raises(StorageError, match="damaged at position 0: it has the base offset -9223372036854775808"):
        rig.start()


@pytest.mark.parametrize("name", ["replication", "recovery-point"])
def test_start_beyond_the_end_begins_anew_where_the_log_had_come_so_far(name: str) -> None:
    rig = rig_of(6)
    rig.manager.close()
    for each in ("log-start", name):
        rig.disk.write_bytes(f"/data/{each}-offset-checkpoint", b"0\n1\nt 0 100\n")
    rig.start()
    assert (rig.log.log_start_offset, rig.log.log_end_offset, rig.names(".log")) == (100, 100, [f"{100:020d}.log"])
    assert rig.append().base_offset == 100


def test_the_logs_start_survives() -> None:
    rig = rig_of(11)
    rig.log.delete_records_before(6)
    rig.manager.checkpoint_pass()
    rig.restart(clean=False)
    assert (rig.log.log_start_offset, rig.log.log_end_offset) == (6, 11)
    assert rig.disk.read_bytes(STARTS) == b"0\n1\nt 0 6\n"
    assert rig.log.end_offset_for_epoch(2) == (2, 9)


def _flip_start(rig: Rig, written: int, found: int) -> None:
    path = STARTS
    data = rig.disk.read_bytes(path)
    assert data == (b"0\n1\nt 0 %d\n" % written if written else b"0\n0\n")
    rig.disk.write_bytes(path, b"0\n1\nt 0 %d\n" % found)


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize(("deleted", "found"), [(0, 9), (2, 6), (2, 100)])
def test_a_start_that_nothing_vouches_for_deletes_nothing(
    deleted: int, found: int, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    rig = rig_of(11)
    rig.log.delete_records_before(deleted)
    rig.append(leader_epoch=4)
    rig.log.flush()
    rig.manager.checkpoint_pass()
    rig.manager.close(clean)
    _flip_start(rig, deleted, found)
    rig.start()
    rig.log.apply_retention(rig.now_ms)
    assert (rig.log.log_start_offset, rig.log.log_end_offset, rig.names(".damaged")) == (deleted, 12, [])
    assert rig.read(deleted) == list(range(deleted, 12))
    assert f"t-0 starts at offset {deleted} and not at {found}" in caplog.text
    rig.restart(clean=clean)
    assert rig.log.log_start_offset == deleted


def test_a_start_in_the_first_batch_is_one() -> None:
    """A follower begins with the batch in which its leader starts."""
    rig = Rig()
    rig.append(batch(5))
    rig.manager.close()
    rig.disk.write_bytes(STARTS, b"0\n1\nt 0 3\n")
    rig.start()
    assert rig.log.log_start_offset == 3


@pytest.mark.parametrize("clean", [False, True])
def test_a_start_counts_before_the_epochs_are_written(clean: bool) -> None:
    rig = rig_of(11)
    rig.log.flush()
    rig.log.delete_records_before(6)
    rig.manager.checkpoint_pass()
    assert rig.disk.read_bytes(f"{rig.path}/leader-epoch-checkpoint").startswith(b"0\n4\n0 0\n")
    rig.restart(clean=clean)
    assert rig.log.log_start_offset == 6


def test_a_start_counts_when_a_crash_came_between_its_checksum_and_its_checkpoint() -> None:
    rig = rig_of(11)
    rig.log.flush()
    rig.log.delete_records_before(3)
    rig.manager.checkpoint_pass()
    before = rig.disk.read_bytes(STARTS)
    rig.log.delete_records_before(6)
    rig.manager.checkpoint_pass()
    rig.manager.close(clean=False)
    rig.disk.write_bytes(STARTS, before)
    rig.start()
    assert rig.log.log_start_offset == 3


def test_a_start_counts_when_the_first_checkpoint_of_a_broker_was_interrupted() -> None:
    rig = rig_of(11)
    rig.log.flush()
    rig.log.delete_records_before(3)
    rig.manager.checkpoint_pass()
    rig.restart(clean=False)
    before = rig.disk.read_bytes(STARTS)
    rig.log.delete_records_before(6)
    rig.manager.checkpoint_pass()
    rig.manager.close(clean=False)
    rig.disk.write_bytes(STARTS, before)
    rig.start()
    assert rig.log.log_start_offset == 3


def test_a_start_that_nothing_vouches_for_is_not_vouched_for_while_its_log_cannot_be_opened() -> None:
    rig = rig_of(11, flushed=9)
    rig.manager.close(clean=False)
    rig.disk.write_bytes(STARTS, b"0\n1\nt 0 9\n")
    whole = rig.disk.read_bytes(log_path(rig, 8))
    rig.disk.write_bytes(log_path(rig, 8), whole[:30] + bytes([whole[30] ^ 1]) + whole[31:])
    with pytest.raises(StorageError, match="CRC"):
        rig.start()
    rig.manager.checkpoint_pass()
    rig.manager.close(clean=False)
    rig.disk.write_bytes(log_path(rig, 8), whole)
    rig.start()
    assert rig.log.log_start_offset == 0


def as_kafka_left_it(rig: Rig, start: int | None, epochs: bytes, *, clean: bool) -> None:
    """Stops, and gives the directory the small files of a Kafka that has used it meanwhile, beside ottla's stale checksum."""
    rig.manager.checkpoint_pass()
    rig.manager.close(clean)
    line = b"0\n0\n" if start is None else b"0\n1\nt 0 %d\n" % start
    rig.disk.write_bytes(STARTS, line)
    rig.disk.write_bytes(f"{rig.path}/leader-epoch-checkpoint", epochs)
    rig.disk.write_bytes(f"{STARTS}.crc", b"01234567\n")


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    ("start", "epochs"),
    [
        (None, b"0\n4\n0 0\n1 3\n2 6\n3 9\n"),
        (2, b"0\n4\n0 2\n1 3\n2 6\n3 9\n"),
        (6, b"0\n2\n2 6\n3 9\n"),
        (7, b"0\n2\n2 7\n3 9\n"),
        (11, b"0\n1\n3 11\n"),  # all were deleted
        (11, b"0\n0\n"),  # and Kafka has started since, which drops an epoch that begins at the end
        (11, b""),
    ],
)
def test_a_log_starts_where_kafka_had_it_start(
    start: int | None, epochs: bytes, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    rig = rig_of(11)
    as_kafka_left_it(rig, start, epochs, clean=clean)
    rig.start()
    assert (rig.log.log_start_offset, rig.log.log_end_offset) == (start or 0, 11)
    assert caplog.messages == []
    rig.restart(clean=clean)
    assert rig.log.log_start_offset == (start or 0)


@pytest.mark.parametrize("epochs", [b"", b"0\n0\n", b"0\n1\n3 11\n"])
def test_an_empty_log_starts_where_kafka_had_it_start(epochs: bytes, caplog: pytest.LogCaptureFixture) -> None:
    rig = rig_of(11)
    rig.log.truncate_fully_and_start_at(11)
    as_kafka_left_it(rig, None, epochs, clean=True)
    rig.start()
    assert (rig.log.log_start_offset, rig.log.log_end_offset, caplog.messages) == (11, 11, [])


def test_a_log_whose_tail_kafka_lost_begins_again_where_kafka_has_it_begin(caplog: pytest.LogCaptureFixture) -> None:
    rig = rig_of(11)
    as_kafka_left_it(rig, 11, b"0\n1\n3 11\n", clean=False)
    rig.disk.write_bytes(log_path(rig, 8), rig.disk.read_bytes(log_path(rig, 8))[:SIZE])
    rig.start()
    assert (rig.log.log_start_offset, rig.log.log_end_offset) == (11, 11)
    assert "taken for damage" not in caplog.text


def test_a_start_below_which_compaction_left_nothing_is_one(caplog: pytest.LogCaptureFixture) -> None:
    rig = rig_of(11)
    as_kafka_left_it(rig, 1, b"0\n4\n0 0\n1 3\n2 6\n3 9\n", clean=True)
    rig.disk.write_bytes(log_path(rig), rig.disk.read_bytes(log_path(rig))[SIZE:])
    rig.start()
    assert (rig.log.log_start_offset, caplog.messages) == (1, [])


def test_an_older_start_than_that_of_the_epochs_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """Kafka writes its log starts once a minute, and begins there as well after a crash."""
    rig = rig_of(11)
    as_kafka_left_it(rig, 2, b"0\n2\n2 6\n3 9\n", clean=False)
    rig.start()
    assert rig.log.log_start_offset == 2
    assert "t-0 starts at offset 2, although leader-epoch-checkpoint has it start at 6" in caplog.text
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_the_topic_id_is_kept_and_checked() -> None:
    rig = rig_of(1)
    rig.manager.close()
    rig.start()
    assert rig.log.topic_id == TOPIC_ID
    rig.manager.close()
    rig.disk.write_bytes(f"{rig.path}/partition.metadata", b"")  # a power cut took it: adopted anew
    rig.start()
    rig.restart(clean=True)
    assert rig.log.topic_id == TOPIC_ID


@pytest.mark.parametrize("flushed", [0, 1])
def test_a_topic_id_that_cannot_be_read_is_written_again_only_if_nothing_was_ever_flushed(flushed: int) -> None:
    rig = rig_of(2, flushed=flushed)
    rig.manager.close(clean=False)
    rig.disk.write_bytes(f"{rig.path}/partition.metadata", b"nonsense")
    if flushed:
        with pytest.raises(StorageError, match=r"partition\.metadata"):
            rig.start()
        return
    rig.start()
    assert rig.log.topic_id == TOPIC_ID

"""log/opening/recovery.py and log/rebuild.py: whatever a crash, or a stranger, left in a partition's directory."""

from __future__ import annotations

from random import Random

import pytest

from ottla.log.errors import StorageError
from ottla.log.validate import Origin
from ottla.wire.records import Record, build_batch
from tests.log.support import NOW_MS, TOPIC_ID, Rig, batch, marker, settings

SIZE = len(batch())


def rig_of(batches: int, *, per_segment: int = 4, flushed: int = 0) -> Rig:
    """One-record batches of producer 9; the first `flushed` are below a recovery point that is on disk."""
    rig = Rig(settings(segment_bytes=per_segment * SIZE, index_interval_bytes=SIZE))
    for at in range(batches):
        rig.append(batch(producer=(9, 0, at)), leader_epoch=at // 3)
        if at + 1 == flushed:
            rig.log.flush()
            rig.manager.checkpoint_pass()
    return rig


def log_path(rig: Rig, base: int = 0) -> str:
    return f"{rig.path}/{base:020d}.log"


def rewrite(rig: Rig, path: str, data: bytes) -> None:
    rig.disk.write_bytes(path, data)
    for segment in rig.log.segments:
        segment.release_file()


def check(rig: Rig, end: int) -> None:
    """The log holds offsets 0..end, and everything derived says the same."""
    log = rig.log
    assert log.log_end_offset == log.high_watermark == end
    assert rig.read() == list(range(end))
    state = log.producers.get(9)
    assert (state.last_sequence if state else -1) == end - 1
    assert [tuple(entry) for entry in log.epochs.entries] == [(at // 3, at) for at in range(0, end, 3)]
    assert rig.append(batch(producer=(9, 0, end)), leader_epoch=99).base_offset == end


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("batches", [0, 1, 4, 11])
def test_nothing_is_lost_by_a_restart(batches: int, clean: bool) -> None:
    rig = rig_of(batches)
    rig.restart(clean=clean)
    check(rig, batches)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("cleaned_upto", [0, 9])
def test_an_emptied_segment_is_told_of(caplog: pytest.LogCaptureFixture, cleaned_upto: int, *, clean: bool) -> None:
    rig = rig_of(11, flushed=11)
    rewrite(rig, log_path(rig, 4), b"")
    if cleaned_upto:
        rig.log.directory.set_cleaned(("t", 0), cleaned_upto)
    rig.restart(clean=clean)
    assert ("what was in it is lost" in caplog.text) == (cleaned_upto == 0)


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


def test_segments_below_the_recovery_point_are_not_read() -> None:
    rig = rig_of(11, flushed=6)
    rig.manager.close(clean=False)
    data = bytearray(rig.disk.read_bytes(log_path(rig)))
    data[100] ^= 1
    rig.disk.write_bytes(log_path(rig), bytes(data))
    rig.start()
    assert rig.log.log_end_offset == 11


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
    assert rig.log.offset_for_timestamp(NOW_MS) is not None
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


def test_expired_producers_are_not_loaded() -> None:
    rig = rig_of(6)
    rig.manager.close()
    rig.now_ms += 86_400_000
    rig.start()
    assert rig.log.producers.get(9) is None


def test_start_beyond_the_end_begins_anew() -> None:
    rig = rig_of(6)
    rig.manager.close()
    rig.disk.write_bytes("/data/log-start-offset-checkpoint", b"0\n1\nt 0 100\n")
    rig.start()
    assert (rig.log.log_start_offset, rig.log.log_end_offset, rig.names(".log")) == (100, 100, [f"{100:020d}.log"])
    assert rig.append().base_offset == 100


def test_the_logs_start_survives() -> None:
    rig = rig_of(11)
    rig.log.delete_records_before(6)
    rig.manager.checkpoint_pass()
    rig.restart(clean=False)
    assert (rig.log.log_start_offset, rig.log.log_end_offset) == (6, 11)
    assert rig.disk.read_bytes("/data/log-start-offset-checkpoint") == b"0\n1\nt 0 6\n"
    assert rig.log.end_offset_for_epoch(2) == (2, 9)


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
    """What a compaction of offsets 0 to 7 may leave: batches at 1 and 7."""
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

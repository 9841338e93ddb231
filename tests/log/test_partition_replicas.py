"""log/partition.py: what other modules change of a log by its methods: how it is replicated, batches that have their offsets
already, and what a log takes over from another.
"""

from __future__ import annotations

import ast
import errno
from collections.abc import Iterable
from pathlib import Path

import pytest

from ottla.log.disk.checkpoint import HIGH_WATERMARKS
from ottla.log.disk.directory import CHECKPOINTS
from ottla.log.errors import StorageError
from ottla.wire.batch import read_header, stamp
from tests.log.support import Rig, batch, marker


@pytest.fixture
def rig() -> Rig:
    return Rig()


# Replication


def test_the_high_watermark_follows_the_end_unless_other_replicas_count(rig: Rig) -> None:
    ends: list[int] = []

    def on_append(end_offset: int) -> bool:
        ends.append(end_offset)
        return True

    log = rig.log
    assert not rig.append().waits
    log.replicate_by(on_append)
    assert rig.append().waits
    assert (log.high_watermark, log.log_end_offset, ends) == (1, 2, [2])
    log.replicate_by(None)
    assert log.high_watermark == 1, "until the next append"
    assert not rig.append().waits
    assert (log.high_watermark, ends) == (3, [2])


def test_the_high_watermark_is_raised_and_never_lowered(rig: Rig) -> None:
    log = rig.log
    log.replicate_by(lambda end_offset: True)
    rig.fill(3)
    assert [(log.raise_high_watermark(offset), log.high_watermark) for offset in (0, 2, 1, 2, 3)] == [
        (False, 0), (True, 2), (False, 2), (False, 2), (True, 3),
    ]  # fmt: skip
    with pytest.raises(AssertionError):
        log.raise_high_watermark(4)
    assert log.high_watermark == 3


def test_a_start_among_replicas_goes_back_to_the_high_watermark_that_was_saved(rig: Rig) -> None:
    rig.log.replicate_by(lambda end_offset: True)
    rig.fill(3)
    rig.log.raise_high_watermark(2)
    rig.restart(clean=True)
    assert rig.log.high_watermark == 3, "as long as nobody says that there are other replicas"
    rig.log.settle_high_watermark(alone=False)
    assert rig.log.high_watermark == 2


@pytest.mark.parametrize("saves", [CHECKPOINTS, [HIGH_WATERMARKS]])
def test_a_crash_before_the_other_replicas_are_known_keeps_the_high_watermark_that_was_saved(
    rig: Rig, saves: Iterable[str]
) -> None:
    rig.log.replicate_by(lambda end_offset: True)
    rig.fill(3)
    rig.log.raise_high_watermark(2)
    rig.restart(clean=True)
    rig.manager.checkpoint_pass(saves)
    rig.restart(clean=False)
    rig.log.settle_high_watermark(alone=False)
    assert rig.log.high_watermark == 2


def test_without_other_replicas_the_high_watermark_is_the_end_and_is_saved_again(rig: Rig) -> None:
    rig.fill(3)
    rig.restart(clean=True)
    rig.log.settle_high_watermark(alone=True)
    rig.fill(1)
    rig.restart(clean=True)
    assert (rig.log.high_watermark, rig.log.saved_high_watermark) == (4, None)


def test_a_cut_before_the_other_replicas_are_known_counts(rig: Rig) -> None:
    rig.fill(3)
    rig.log.settle_high_watermark(alone=True)
    rig.restart(clean=True)
    rig.log.truncate_to(1)
    rig.log.settle_high_watermark(alone=False)
    assert rig.log.high_watermark == 1


# Cuts


@pytest.mark.parametrize("offset", [4, 5, 6, 7])
def test_a_write_that_is_torn_behind_a_cut_within_a_batch_is_no_damage(offset: int) -> None:
    rig = Rig()
    rig.append(batch(4))
    rig.append(batch(4))
    rig.log.flush()
    rig.log.truncate_to(offset)
    assert (rig.log.log_end_offset, rig.log.recovery_point) == (offset, 4)
    size = rig.disk.size(f"{rig.path}/{0:020d}.log")
    rig.append(batch(4))
    rig.restart(clean=False)
    assert rig.log.log_end_offset == offset + 4
    rig.memory.open(f"{rig.path}/{0:020d}.log").truncate(size + 9)
    rig.restart(clean=False)
    assert rig.log.log_end_offset == 4


# Batches as they are


def as_written(data: bytes, base_offset: int, leader_epoch: int = 0) -> bytes:
    """The batch as another log has it."""
    return stamp(read_header(data), base_offset, leader_epoch) + data[16:]


def append_run(rig: Rig, *batches: bytes) -> None:
    rig.log.append_run(memoryview(b"".join(batches)), [read_header(data) for data in batches])


def test_a_run_is_one_write_and_the_log_knows_what_its_headers_say(rig: Rig) -> None:
    rig.append(leader_epoch=2)
    run = [
        as_written(batch(2, producer=(9, 0, 0), transactional=True), 1, 2),
        as_written(batch(3, producer=(8, 4, 7)), 3, 3),
        as_written(marker(9, 0, commit=False), 6, 3),
        as_written(batch(1), 10, 5),
    ]
    rig.memory.trace.clear()
    append_run(rig, *run)
    assert [what for what, path in rig.memory.trace if path.endswith(".log")] == ["append"]
    log = rig.log
    assert list(log.iterate_batches(1)) == run
    assert (log.log_end_offset, log.producers.end_offset, log.leader_epoch) == (11, 11, 5)
    assert [tuple(entry) for entry in log.epochs.entries] == [(2, 0), (3, 3), (5, 10)]
    aborted, idempotent = log.producers.get(9), log.producers.get(8)
    assert aborted is not None
    assert idempotent is not None
    assert not aborted.has_open_transaction
    assert (idempotent.producer_epoch, idempotent.last_sequence) == (4, 9)
    assert [each.first_offset for each in log.txn_index_of(log.segments.active)] == [1]
    assert log.high_watermark == 1, "only the caller knows how far it may move"


def test_a_run_of_batches_without_a_leader_epoch_leaves_the_epochs_alone(rig: Rig) -> None:
    append_run(rig, as_written(batch(), 0, 4), as_written(batch(), 1, -1))
    assert (rig.log.log_end_offset, rig.log.leader_epoch) == (2, 4)
    assert [tuple(entry) for entry in rig.log.epochs.entries] == [(4, 0)]


def test_a_run_that_cannot_be_written_changes_nothing(rig: Rig) -> None:
    rig.append()
    rig.memory.fail("append", errno.ENOSPC, written=30)
    with pytest.raises(StorageError):
        append_run(rig, as_written(batch(producer=(9, 0, 0)), 1, 3))
    assert (rig.log.log_end_offset, rig.log.producers.end_offset, rig.log.leader_epoch) == (1, 1, 0)
    assert rig.log.producers.get(9) is None
    assert rig.read() == [0]


def test_a_gap_is_skipped_to_a_segment_of_its_own(rig: Rig) -> None:
    rig.append()
    assert rig.log.skip_to(5).base_offset == 5
    assert (rig.log.log_end_offset, rig.log.producers.end_offset, rig.bases) == (5, 5, [0, 5])
    assert rig.append().base_offset == 5
    assert rig.read() == [0, 5]
    with pytest.raises(AssertionError):
        rig.log.skip_to(3)


def test_a_log_takes_over_what_is_not_in_the_batches() -> None:
    source, copy = Rig(), Rig()
    source.log.replicate_by(lambda end_offset: True)
    source.append(batch(2, producer=(9, 0, 0)), leader_epoch=1)
    source.append(leader_epoch=1)
    source.log.raise_high_watermark(1)
    source.log.saved_high_watermark = 1
    source.log.begin_epoch(4)
    append_run(copy, *source.log.iterate_batches(0))
    copy.log.flush()
    copy.log.producers.clear(3)
    copy.log.take_over(source.log)
    assert (copy.log.high_watermark, copy.log.saved_high_watermark, copy.log.leader_epoch) == (1, 1, 4)
    assert copy.log.producers.get(9) is not None
    assert copy.append(batch(2, producer=(9, 0, 0)), leader_epoch=4).duplicate
    copy.log.take_snapshot()
    copy.log.flush()
    assert copy.disk.read_bytes(f"{copy.path}/leader-epoch-checkpoint") == b"0\n2\n1 0\n4 3\n"
    assert copy.append(leader_epoch=4).waits


def test_only_logs_of_one_end_can_take_over_from_each_other() -> None:
    source, copy = Rig(), Rig()
    source.append()
    with pytest.raises(AssertionError):
        copy.log.take_over(source.log)


# Whose state it is

STATE = {
    "closed", "cuts", "epochs", "high_watermark", "last_flush_ms", "log_end_offset", "log_start_offset", "on_append", "producers",
    "recovery_point", "saved_high_watermark", "segments", "unsynced",
}  # fmt: skip


def test_nobody_else_changes_what_a_log_knows() -> None:
    root = Path(__file__).parents[2]
    found = []
    for path in sorted([*(root / "log").rglob("*.py"), *(root / "server").rglob("*.py")]):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr in STATE:
                owner = ast.unparse(node.value).rpartition(".")[2].lstrip("_")
                if owner in ("log", "source"):
                    found.append(f"{path.relative_to(root)}:{node.lineno}: {ast.unparse(node)}")
    assert not found, f"these are methods of PartitionLog: {found}"

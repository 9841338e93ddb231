"""truncation.py: where a follower's log is cut, over the histories of KIP-101 and KIP-279, and drawn ones."""

from __future__ import annotations

import logging
from random import Random

import pytest

from ottla.log.partition import PartitionLog
from ottla.server.replication.truncation import cut, cut_damage, cut_diverging, cut_to_high_watermark, fit_into
from tests.log.support import Rig, batch


def log_of(*epochs: int) -> PartitionLog:
    """A log with one record of each epoch; nothing of it is known to be replicated."""
    log = Rig().log
    for epoch in epochs:
        log.append_as_leader(batch(), leader_epoch=epoch)
    log.high_watermark = 0
    return log


def epochs(log: PartitionLog) -> list[int]:
    return [log.epochs.epoch_for(offset) for offset in range(log.log_end_offset)]


def until_none(leader: PartitionLog, follower: PartitionLog) -> int:
    """Fetches and cuts until the leader says no more that the logs part; returns how many cuts that took."""
    for cuts in range(20):
        epoch, end_offset = leader.end_offset_for_epoch(follower.leader_epoch)
        if follower.leader_epoch < 0 or (epoch == follower.leader_epoch and end_offset >= follower.log_end_offset):
            return cuts
        assert cut_diverging(follower, epoch, end_offset)
    raise AssertionError("it never ends")


@pytest.mark.parametrize(
    ("leader", "follower", "left", "cuts"),
    [
        ((0, 0, 0), (0, 0, 0), 3, 0),
        ((0, 0, 0), (0, 0), 2, 0),
        ((0, 0), (0, 0, 0), 2, 1),
        ((0, 0, 1), (0, 0, 0), 2, 1),
        ((0, 0, 2, 2), (0, 0, 1, 1, 1), 2, 1),  # an epoch that the leader does not know
        ((0, 0, 1, 1, 4), (0, 0, 2, 3), 2, 1),  # two of them
        ((0, 1, 1, 3), (0, 2, 2), 1, 1),  # KIP-279: what both know is further back
        ((0, 3, 3), (0, 1, 2, 2), 1, 1),
    ],
)
def test_where_histories_part(leader: tuple[int, ...], follower: tuple[int, ...], left: int, cuts: int) -> None:
    ours = log_of(*follower)
    assert until_none(log_of(*leader), ours) == cuts
    assert epochs(ours) == list(follower[:left])


@pytest.mark.parametrize("seed", range(40))
def test_drawn_histories_end_in_a_beginning_of_the_leaders(seed: int) -> None:
    """Both begin alike, and then each goes on alone with epochs that the other does not have."""
    draw = Random(seed)
    common = sorted(draw.choices(range(4), k=draw.randrange(6)))
    tails: list[list[int]] = [[], []]
    for epoch in range(4, 12):
        tails[draw.randrange(2)] += [epoch] * draw.randrange(3)
    leader, follower = log_of(*common, *tails[0]), log_of(*common, *tails[1])
    leader.begin_epoch(20)
    until_none(leader, follower)
    assert epochs(leader)[: follower.log_end_offset] == epochs(follower)
    assert follower.log_end_offset >= len(common)


def test_an_epoch_without_a_record_is_cut_as_well() -> None:
    leader, follower = log_of(0, 0), log_of(0, 0)
    follower.begin_epoch(1)
    leader.begin_epoch(2)
    assert until_none(leader, follower) == 1
    assert (follower.leader_epoch, follower.log_end_offset) == (0, 2)


def test_an_answer_that_says_nothing_new_changes_nothing() -> None:
    log = log_of(0, 0)
    assert not cut_diverging(log, 0, 5)
    assert not cut(log, 2, "")


def test_a_cut_below_the_high_watermark_is_said_and_one_at_it_is_not(caplog: pytest.LogCaptureFixture) -> None:
    log = log_of(0, 0, 0)
    log.high_watermark = 2
    assert cut(log, 2, "so")
    assert [record.levelno for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert cut(log, 1, "why")
    assert "t-0 is cut at offset 1, below its high watermark 2, and loses records that were replicated: why" in caplog.text


def test_without_epochs_the_high_watermark_stays() -> None:
    log = log_of(0, 0, 0)
    log.high_watermark = 1
    cut_to_high_watermark(log)
    assert (log.log_end_offset, log.high_watermark) == (1, 1)


@pytest.mark.parametrize(
    ("start", "end", "offsets", "changed"),
    [
        (0, 3, (0, 3), False),
        (3, 3, (0, 3), False),
        (3, 9, (0, 3), False),
        (0, 2, (0, 2), True),
        (4, 9, (4, 4), True),
        (4, 4, (4, 4), True),
    ],
)
def test_a_log_is_fit_into_its_leaders_range(start: int, end: int, offsets: tuple[int, int], changed: bool) -> None:
    log = log_of(0, 0, 0)
    assert fit_into(log, start, end) is changed
    assert (log.log_start_offset, log.log_end_offset) == offsets


BATCH, BASE_OFFSET, LENGTH, CRC, LAST_DELTA = len(batch(1)), slice(0, 8), slice(8, 12), slice(17, 21), slice(23, 27)


@pytest.mark.parametrize(
    ("field", "value", "left"),
    [
        (CRC, b"\1\2\3\4", 2),
        (slice(BATCH - 1, BATCH), b"?", 2),
        (BASE_OFFSET, (1).to_bytes(8, "big"), 0),  # which says that it comes earlier, so that a search passes it by
        (BASE_OFFSET, (2**40).to_bytes(8, "big"), 2),
        (LAST_DELTA, b"\xff\xff\xff\x00", 0),
        (LENGTH, b"\0\0\0\1", 0),
        (LENGTH, b"\x7f\0\0\0", 0),
    ],
)
def test_damage_is_cut_with_all_that_follows_and_nothing_of_it_stays(field: slice, value: bytes, left: int) -> None:
    rig = Rig()
    for _ in range(5):
        rig.append(batch(1))
    path = f"{rig.log.path}/00000000000000000000.log"
    data = bytearray(rig.disk.read_bytes(path))
    data[2 * BATCH + field.start : 2 * BATCH + field.stop] = value
    rig.disk.write_bytes(path, bytes(data))
    for segment in rig.log.segments:
        segment.release_file()
    cut_damage(rig.log, 2)
    assert rig.log.log_end_offset == left
    assert rig.disk.read_bytes(path) == bytes(data[: left * BATCH])
    rig.append(batch(1), leader_epoch=1)
    assert len(list(rig.log.iterate_batches(0))) == left + 1
    rig.restart(clean=True)
    assert len(list(rig.log.iterate_batches(0))) == left + 1

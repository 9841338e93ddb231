"""log/following.py: a follower's log is its leader's, byte for byte, and takes nothing that is wrong."""

from __future__ import annotations

import errno
from random import Random
from typing import Any

import pytest

from ottla.log.errors import CorruptRecord, OffsetsOutOfOrder, StorageError
from ottla.log.following import append_as_follower, diverging_offset
from ottla.log.partition import PartitionLog
from ottla.log.transactions import append_marker, collect_aborted
from ottla.wire.batch import iter_batches, read_header, stamp
from tests.log.support import Rig, batch, marker, settings
from tests.wire.changed_batches import changed, with_section

EVERYTHING = 1 << 30


def fetched(leader: PartitionLog, offset: int, max_bytes: int = EVERYTHING) -> bytes:
    """Returns what a follower that ends at `offset` gets from its leader."""
    found = leader.read(offset, max_bytes, upto=leader.log_end_offset)
    return b"" if found is None else bytes(found.read())


def follow(leader: PartitionLog, follower: PartitionLog, max_bytes: int = EVERYTHING) -> None:
    while follower.log_end_offset < leader.log_end_offset:
        end = follower.log_end_offset
        assert append_as_follower(follower, fetched(leader, end, max_bytes)) == follower.log_end_offset > end


def stamped(data: bytes, base_offset: int, leader_epoch: int = 0) -> bytes:
    """The batch as its leader has it in its log."""
    return stamp(read_header(data), base_offset, leader_epoch) + data[16:]


def files(rig: Rig) -> dict[str, bytes]:
    return {name: rig.disk.read_bytes(f"{rig.path}/{name}") for name in rig.names()}


def derived(log: PartitionLog) -> dict[str, Any]:
    """Returns what a log knows of its records beside the files."""
    return {
        "offsets": (log.log_start_offset, log.log_end_offset, log.leader_epoch),
        "epochs": log.epochs.entries,
        "producers": log.producers.snapshot_bytes(),
        "aborted": collect_aborted(log, 0, log.log_end_offset),
        "segments": [(each.base_offset, each.size, each.offset_index.entries()) for each in log.segments],
    }


class DrawnLeader:
    """A log that is written as leaders write: plain, idempotent and transactional batches, markers, epochs."""

    def __init__(self, rig: Rig, random: Random) -> None:
        self.rig = rig
        self.random = random
        self.sequences: dict[int, int] = {}
        self.epoch = 0

    def step(self) -> None:
        draw, rig = self.random, self.rig
        rig.now_ms += draw.randrange(50)
        fields: dict[str, Any] = {
            "count": draw.randint(1, 4),
            "timestamp_ms": rig.now_ms - draw.randrange(30),
            "step_ms": draw.randrange(3),
            "value": b"v" * draw.randrange(1, 200),
            "codec": draw.choice((0, 0, 1)),
        }
        kind = draw.randrange(10)
        if kind == 0:
            self.epoch += draw.randint(1, 2)
            rig.log.begin_epoch(self.epoch)
        elif kind < 3 and (open_ones := [each for each in (7, 8) if self.is_open(each)]):
            append_marker(
                rig.log,
                producer_id=draw.choice(open_ones),
                producer_epoch=0,
                commit=draw.random() < 0.5,
                coordinator_epoch=1,
                leader_epoch=self.epoch,
            )
        elif kind < 5:
            rig.append(batch(**fields), leader_epoch=self.epoch)
        else:
            producer_id = draw.choice((5, 7, 8))
            sequence = self.sequences.get(producer_id, 0)
            data = batch(producer=(producer_id, 0, sequence), transactional=producer_id > 5, **fields)
            rig.append(data, leader_epoch=self.epoch)
            self.sequences[producer_id] = sequence + fields["count"]

    def is_open(self, producer_id: int) -> bool:
        state = self.rig.log.producers.get(producer_id)
        return state is not None and state.has_open_transaction


SMALL: dict[str, Any] = {"index_interval_bytes": 300}
SHAPES = {
    "by size": settings(segment_bytes=1500, **SMALL),
    "by time": settings(segment_ms=200, segment_bytes=100_000, **SMALL),
    "by index": settings(segment_index_bytes=60, segment_bytes=100_000, **SMALL),
    "one segment": settings(**SMALL),
    "index of every batch": settings(segment_bytes=3000, index_interval_bytes=0, segment_index_bytes=96),
}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("shape", SHAPES)
def test_a_follower_is_its_leader_byte_for_byte(shape: str, seed: int) -> None:
    draw = Random(f"{shape} {seed}")
    leader, follower = Rig(SHAPES[shape]), Rig(SHAPES[shape])
    drawn = DrawnLeader(leader, draw)
    for _ in range(150):
        drawn.step()
        if draw.random() < 0.1:
            follow(leader.log, follower.log, draw.choice((200, 1000, EVERYTHING)))
    drawn.rig.append(batch(), leader_epoch=drawn.epoch)  # an epoch without a record is the leader's alone
    follow(leader.log, follower.log)
    assert shape == "one segment" or len(leader.bases) > 2
    assert derived(follower.log) == derived(leader.log)
    for rig in (leader, follower):
        rig.manager.close()
    assert files(follower) == files(leader)


@pytest.mark.parametrize("seed", range(10))
def test_a_follower_that_crashed_goes_on_and_is_its_leader_again(seed: int) -> None:
    draw = Random(seed)
    config = settings(segment_bytes=1500, **SMALL)
    leader, follower = Rig(config), Rig(config)
    follower.log.flush()  # the name of the first segment is durable: without it nobody could tell that it is missing
    drawn = DrawnLeader(leader, draw)
    for _ in range(6):
        for _ in range(30):
            drawn.step()
        drawn.rig.append(batch(), leader_epoch=drawn.epoch)
        follow(leader.log, follower.log, draw.choice((500, EVERYTHING)))
        if draw.random() < 0.5:
            follower.log.flush(draw.randrange(follower.log.log_end_offset))
        if draw.random() < 0.5:
            follower.restart(clean=False)
        else:
            follower.memory.crash(draw)
            follower.start()
        assert follower.log.log_end_offset <= leader.log.log_end_offset
    follow(leader.log, follower.log)
    assert b"".join(follower.log.iterate_batches(0)) == b"".join(leader.log.iterate_batches(0))
    assert follower.bases == leader.bases
    assert follower.log.epochs.entries == leader.log.epochs.entries
    assert collect_aborted(follower.log, 0, EVERYTHING) == collect_aborted(leader.log, 0, EVERYTHING)
    open_ones = [each.producer_id for each in leader.log.producers if each.has_open_transaction]
    assert [each.producer_id for each in follower.log.producers if each.has_open_transaction] == open_ones


def test_one_fetch_is_one_write_a_segment() -> None:
    config = settings(segment_bytes=4 * len(batch()))
    leader, follower = Rig(config), Rig(config)
    leader.fill(10)
    data = b"".join(leader.log.iterate_batches(0))
    follower.memory.trace.clear()
    append_as_follower(follower.log, data)
    writes = [path.rpartition("/")[2] for what, path in follower.memory.trace if what == "append"]
    assert writes == [f"{base:020d}.log" for base in (0, 4, 8)]


def test_the_high_watermark_stays() -> None:
    rig = Rig()
    append_as_follower(rig.log, stamped(batch(3), 0) + stamped(batch(2), 3))
    assert (rig.log.log_end_offset, rig.log.high_watermark) == (5, 0)


def test_gaps_are_taken_and_survive_a_crash() -> None:
    rig = Rig(settings(segment_bytes=3 * len(batch())))
    bases = [0, 1, 7, 8, 100, 4000, 4001]
    assert append_as_follower(rig.log, b"".join(stamped(batch(), base) for base in bases)) == 4002
    assert rig.read() == bases
    rig.restart(clean=False)
    assert rig.log.log_end_offset == 4002
    assert rig.read() == bases


@pytest.mark.parametrize("before", [0, 1])
def test_a_gap_that_is_larger_than_a_segment_can_be(before: int) -> None:
    rig = Rig()
    far = 3 << 31
    data = b"".join(stamped(batch(), base) for base in [*range(before), far, far + 1])
    assert append_as_follower(rig.log, data) == far + 2
    assert rig.read(far) == [far, far + 1]
    rig.restart(clean=True)
    assert rig.read(far) == [far, far + 1]


def test_epochs_begin_where_their_first_batch_does() -> None:
    rig = Rig()
    append_as_follower(rig.log, stamped(batch(), 0, 3) + stamped(batch(), 5, 3) + stamped(batch(), 9, 4))
    assert [tuple(entry) for entry in rig.log.epochs.entries] == [(3, 0), (4, 9)]
    assert rig.log.leader_epoch == 4


@pytest.mark.parametrize("cut", [1, 30, 61, 100])
def test_a_torn_last_batch_is_left_out(cut: int) -> None:
    rig = Rig()
    whole, torn = stamped(batch(2), 0), stamped(batch(2), 2)
    assert append_as_follower(rig.log, whole + torn[:cut]) == 2
    assert rig.log.size_bytes == len(whole)
    assert append_as_follower(rig.log, torn) == 4


def test_nothing_is_nothing() -> None:
    rig = Rig()
    assert append_as_follower(rig.log, b"") == 0
    assert append_as_follower(rig.log, stamped(batch(), 0)[:40]) == 0


def negative_span(data: bytes) -> bytes:
    return changed(data, last_offset_delta=-1)


def damaged(at: int) -> Any:
    def damage(data: bytes) -> bytes:
        return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]

    return damage


WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "a record": (damaged(80), CorruptRecord, "CRC"),
    "the header": (damaged(30), CorruptRecord, "CRC"),
    "the magic": (damaged(16), CorruptRecord, "magic"),
    "the length": (lambda data: data[:8] + b"\0\0\0\x30" + data[12:], CorruptRecord, "magic"),
    "a negative length": (lambda data: data[:8] + b"\xff" * 4 + data[12:], CorruptRecord, "magic"),
    "offsets that are there": (lambda data: stamped(data, 1), OffsetsOutOfOrder, "ends at 2"),
    "offsets that go down": (negative_span, OffsetsOutOfOrder, "ends at 2"),
    "no epoch": (lambda data: stamped(data, 2, -1), CorruptRecord, "no leader epoch"),
    "a control batch that does not decode": (lambda _: undecodable_marker(), CorruptRecord, "does not decode"),
}


def undecodable_marker() -> bytes:
    data = stamped(marker(7, 0, commit=True), 2)
    return with_section(data, b"\xff" * (len(data) - 61))


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_batch_ends_it_and_what_came_before_is_kept(what: str) -> None:
    change, error, text = WRONG[what]
    rig = Rig()
    good = stamped(batch(2), 0, 1)
    with pytest.raises(error, match=text):
        append_as_follower(rig.log, good + change(stamped(batch(), 2, 1)) + stamped(batch(), 3, 1))
    assert b"".join(rig.log.iterate_batches(0)) == good
    assert rig.log.log_end_offset == rig.log.producers.end_offset == 2
    assert append_as_follower(rig.log, stamped(batch(), 2, 1)) == 3


def test_a_write_that_fails_leaves_the_log_as_it_was() -> None:
    rig = Rig()
    append_as_follower(rig.log, stamped(batch(producer=(5, 0, 0)), 0))
    before = derived(rig.log)
    rig.memory.fail("append", errno.ENOSPC, written=70)
    with pytest.raises(StorageError):
        append_as_follower(rig.log, stamped(batch(producer=(5, 0, 1)), 1, 9) + stamped(batch(producer=(6, 0, 0)), 2, 9))
    assert derived(rig.log) == before
    assert append_as_follower(rig.log, stamped(batch(), 1)) == 2
    assert [header.base_offset for data in rig.log.iterate_batches(0) for header, _ in iter_batches(data)] == [0, 1]


@pytest.mark.parametrize(("operation", "suffix"), [("open", "log"), ("pread", "log"), ("read_bytes", "index")])
def test_a_segment_whose_age_or_index_cannot_be_read_now_is_a_fault_of_the_disk(operation: str, suffix: str) -> None:
    rig = Rig()
    append_as_follower(rig.log, stamped(batch(), 0))
    rig.restart(clean=True)
    rig.memory.fail(operation, errno.EMFILE, path=f"{rig.path}/00000000000000000000.{suffix}")
    with pytest.raises(StorageError):
        append_as_follower(rig.log, stamped(batch(), 1))
    assert append_as_follower(rig.log, stamped(batch(), 1)) == 2


def test_a_closed_log_takes_nothing() -> None:
    rig = Rig()
    rig.manager.close()
    with pytest.raises(StorageError):
        append_as_follower(rig.log, stamped(batch(), 0))


def test_a_batch_of_a_newer_epoch_than_the_callers_waits() -> None:
    rig = Rig()
    data = stamped(batch(), 0, 3) + stamped(batch(), 1, 4) + stamped(batch(), 2, 4)
    assert append_as_follower(rig.log, data, 3) == 1
    assert append_as_follower(rig.log, data[len(stamped(batch(), 0, 3)) :], 3) == 1
    assert append_as_follower(rig.log, data[len(stamped(batch(), 0, 3)) :], 4) == 3


@pytest.mark.parametrize(
    ("own", "epoch", "end_offset", "cut_at"),
    [
        ([(0, 3)], 0, 2, 2),
        ([(0, 3)], 0, 5, 3),
        ([(0, 3), (2, 2)], 0, 2, 2),
        ([(0, 3), (2, 2)], 0, 4, 3),
        ([(0, 3), (2, 2)], 1, 4, 3),
        ([(2, 3)], 1, 2, 0),
        ([(2, 3)], 5, 2, 2),
        ([(2, 3)], 5, 9, 3),
        ([], 1, 7, 0),
    ],
)
def test_where_a_log_and_its_leaders_part(own: list[tuple[int, int]], epoch: int, end_offset: int, cut_at: int) -> None:
    """`own` has the follower's epochs, with how many records each has."""
    rig = Rig()
    for each, count in own:
        for _ in range(count):
            rig.append(leader_epoch=each)
    assert diverging_offset(rig.log, epoch, end_offset) == cut_at


def test_a_log_that_begins_in_the_middle_of_a_batch_gets_all_of_it() -> None:
    rig = Rig()
    rig.log.truncate_fully_and_start_at(4)
    data = stamped(batch(3), 3) + stamped(batch(2), 6)
    assert append_as_follower(rig.log, data) == 8
    assert (rig.log.log_start_offset, rig.bases) == (4, [3])
    assert fetched(rig.log, 4) == data
    rig.log.raise_high_watermark(8)
    rig.restart(clean=False)
    assert rig.log.log_end_offset == 8


@pytest.mark.parametrize("what", ["torn", "damaged", "of a newer epoch", "all below", "behind"])
def test_a_log_stays_where_it_begins_unless_the_batch_there_is_sound(what: str) -> None:
    rig = Rig()
    rig.log.truncate_fully_and_start_at(4)
    data = bytearray(stamped(batch(3), {"all below": 1, "behind": 4}.get(what, 3), leader_epoch=2))
    if what == "torn":
        del data[-1]
    elif what == "damaged":
        data[-1] ^= 1
    if what in ("damaged", "all below", "of a newer epoch"):
        with pytest.raises(CorruptRecord):
            append_as_follower(rig.log, data, 1)
    else:
        append_as_follower(rig.log, data)
    assert (rig.log.log_start_offset, rig.bases) == (4, [4])
    assert rig.log.log_end_offset == (7 if what == "behind" else 4)


def test_a_log_with_records_does_not_go_back() -> None:
    rig = Rig()
    rig.append(batch(2))
    with pytest.raises(OffsetsOutOfOrder):
        append_as_follower(rig.log, stamped(batch(3), 1))
    assert (rig.log.log_start_offset, rig.log.log_end_offset) == (0, 2)

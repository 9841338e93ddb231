"""Appends that are held and written by one call: the same log as one by one, and none of them if the call fails."""

from __future__ import annotations

import errno
import random
from typing import Any

import pytest

from ottla.log.errors import CorruptRecord, LogError, StorageError
from ottla.log.producers import ProducerTotal
from tests.log.support import NOW_MS, Rig, batch, settings


@pytest.fixture
def rig() -> Rig:
    """A log with one batch, since what begins a segment is not held."""
    rig = Rig()
    rig.append()
    return rig


def hold(rig: Rig, data: bytes, leader_epoch: int = 0) -> Any:
    return rig.log.append_as_leader(data, leader_epoch=leader_epoch, hold=True)


def state(rig: Rig) -> Any:
    log = rig.log
    producers = [(each.producer_id, each.producer_epoch, list(each.batches), each.txn_first_offset) for each in log.producers]
    offsets = log.log_start_offset, log.last_stable_offset, log.high_watermark, log.log_end_offset
    return offsets, producers, log.producers.end_offset, log.size_bytes, log.segments.active.max_timestamp


def content(rig: Rig) -> Any:
    segments = [rig.disk.read_bytes(segment.path(".log")) for segment in rig.log.segments]
    indexes = [(each.offset_index.encode(), each.time_index.encode()) for each in rig.log.segments]
    return rig.bases, segments, indexes, state(rig)


def test_held_appends_have_offsets_at_once_and_bytes_when_they_are_written(rig: Rig) -> None:
    size = rig.log.size_bytes
    first, second = hold(rig, batch(2)), hold(rig, batch(3))
    assert [(each.base_offset, each.last_offset, each.waits) for each in (first, second)] == [(1, 2, False), (3, 5, False)]
    assert first.joined is second.joined is rig.log.joined is not None
    assert (rig.log.log_end_offset, rig.log.size_bytes) == (6, size)
    woken: list[int] = []
    assert first.joined is not None
    first.joined.count(20, 2, lambda joined: woken.append(rig.log.size_bytes))
    first.joined.count(30, 3, lambda joined: woken.append(rig.log.size_bytes))
    assert (first.joined.appends, first.joined.bytes_in, first.joined.messages_in) == (2, 50, 5)
    assert first.joined.write() is None
    assert rig.log.joined is None
    assert (rig.read(), woken) == ([0, 1, 2, 3, 4, 5], [rig.log.size_bytes])
    assert second.joined.write() is None
    assert len(woken) == 1


def test_they_are_one_write(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    file = rig.log.segments.active.open_file()
    append = type(file).append

    def noted(file: Any, parts: Any) -> int:
        written.append(sum(map(len, parts)))
        return append(file, parts)

    monkeypatch.setattr(type(file), "append", noted)
    infos = [hold(rig, batch()) for _ in range(5)]
    assert written == []
    infos[0].joined.write()
    assert written == [5 * len(batch())]


def test_random_appends_held_or_not_leave_the_same_log() -> None:
    """Of idempotent and transactional producers, with errors and duplicates among them, over rolled segments and full indexes;
    also batches that the log changes."""
    changes: Any = ({}, {"message_timestamp_type": "LogAppendTime"}, {"compression_type": "gzip"})
    for seed in range(12):
        seeded = random.Random(seed)
        config = settings(segment_bytes=4000, index_interval_bytes=200, segment_index_bytes=80, **changes[seed % 3])
        rigs = Rig(config), Rig(config)
        sequences: dict[int, int] = {}
        last = None
        for number in range(150):
            producer_id, count = seeded.choice((-1, 3, 4)), seeded.choice((1, 2))
            sequence = sequences.get(producer_id, 0)
            data = batch(
                count,
                timestamp_ms=NOW_MS + seeded.randrange(-50, 50),
                value=b"v" * seeded.choice((5, 300)),
                producer=None if producer_id < 0 else (producer_id, 0, sequence),
                transactional=producer_id == 4,
                codec=seeded.choice((0, 0, 1)),
            )
            sequences[producer_id] = sequence + seeded.choice((count,) * 6 + (0, count + 3))
            epoch = number // 60
            answers: list[Any] = []
            for rig, held in zip(rigs, (seeded.random() < 0.9, False), strict=True):
                try:
                    info = rig.log.append_as_leader(data, leader_epoch=epoch, hold=held)
                    answers.append((info.base_offset, info.last_offset, info.duplicate, info.log_start_offset, info.waits))
                    last = info.joined or last
                except LogError as error:
                    answers.append((type(error), str(error)))
            assert answers[0] == answers[1]
            if seeded.random() < 0.15:
                rigs[0].log.write_joined()
                assert content(rigs[0]) == content(rigs[1])
        assert last is not None
        rigs[0].log.write_joined()
        assert content(rigs[0]) == content(rigs[1])


@pytest.mark.parametrize("written", [0, 30, 400])
def test_if_they_cannot_be_written_the_log_is_what_it_was(rig: Rig, written: int) -> None:
    rig.append(batch(producer=(7, 0, 0)))
    before = content(rig)
    held = [
        hold(rig, data)
        for data in (batch(producer=(7, 0, 1)), batch(producer=(7, 0, 2)), batch(producer=(8, 0, 0), transactional=True), batch())
    ]
    rig.memory.fail("append", errno.ENOSPC, written=written)
    error = held[0].joined.write()
    assert isinstance(error, StorageError)
    assert held[3].joined.write() is error
    assert content(rig) == before
    assert rig.append(batch(producer=(7, 0, 1))).base_offset == 2
    assert rig.append(batch(producer=(8, 0, 0))).base_offset == 3
    assert rig.read() == [0, 1, 2, 3]


@pytest.mark.parametrize("seed", range(5))
def test_producers_that_are_forgotten_meanwhile_come_back(rig: Rig, seed: int) -> None:
    """Those of which something was held; and however many are forgotten, what is counted of them is right."""
    seeded = random.Random(seed)
    producers = rig.log.producers
    producers.limit = 4
    total = producers.total = ProducerTotal(1000, lambda: [producers])
    for producer_id in range(4):
        rig.append(batch(producer=(producer_id, 0, 0)))
    held: dict[int, Any] = {}
    for _ in range(20):
        producer_id = seeded.randrange(9)
        known = producers.get(producer_id)
        held.setdefault(producer_id, None if known is None else list(known.batches))
        last = hold(rig, batch(producer=(producer_id, 0, 0 if known is None else known.last_sequence + 1)))
    rig.memory.fail("append", errno.ENOSPC)
    last.joined.write()
    now = {producer_id: producers.get(producer_id) for producer_id in held}
    assert {at: state and list(state.batches) for at, state in now.items()} == held
    assert total.room == 1000 - len(producers)
    assert len(producers) <= 4


def test_a_duplicate_of_what_is_held_waits_for_it_too(rig: Rig) -> None:
    written, held = batch(producer=(7, 0, 0)), batch(producer=(7, 0, 1))
    rig.append(written)
    first = hold(rig, held)
    again, before = hold(rig, held), hold(rig, written)
    assert (again.duplicate, again.base_offset, again.joined) == (True, first.base_offset, first.joined)
    assert (before.duplicate, before.base_offset, before.joined) == (True, 1, None)


def test_what_begins_a_segment_or_makes_a_flush_due_or_has_followers_is_written_at_once() -> None:
    empty = Rig()
    assert hold(empty, batch()).joined is None
    assert empty.read() == [0]
    flushing = Rig(settings(flush_messages=3))
    flushing.append()
    assert hold(flushing, batch()).joined is not None
    due = hold(flushing, batch())
    assert (due.joined, due.waits, flushing.log.joined, flushing.read()) == (None, True, None, [0, 1, 2])
    followed = Rig()
    followed.append()
    followed.log.replicate_by(lambda end: True)
    assert hold(followed, batch()).joined is None


def test_an_append_that_is_not_held_writes_the_others_first(rig: Rig) -> None:
    held = hold(rig, batch())
    assert rig.append().base_offset == 2
    assert held.joined.write() is None
    assert rig.read() == [0, 1, 2]


@pytest.mark.parametrize(("index_bytes", "then"), [(1000, {}), (24, {"hold": True}), (1000, {"hold": True, "leader_epoch": 1})])
def test_an_append_for_which_others_have_to_be_written_first_fails_with_them(index_bytes: int, then: dict[str, Any]) -> None:
    """It must not take their place, since they are going to be tried again: for one that is not held, one for whose index entry
    there is no room beside that of the first (24 bytes are two, of which one is the segment's last), and one of a new epoch."""
    rig = Rig(settings(segment_index_bytes=index_bytes))
    rig.append()
    before = content(rig)
    held = hold(rig, batch())
    rig.memory.fail("append", errno.ENOSPC)
    with pytest.raises(StorageError):
        rig.log.append_as_leader(batch(), **{"leader_epoch": 0, **then})
    assert isinstance(held.joined.write(), StorageError)
    assert content(rig) == before
    assert (rig.log.log_end_offset, rig.read(), rig.log.epochs.entries) == (1, [0], ((0, 0),))


def test_an_epoch_begins_behind_what_is_held(rig: Rig) -> None:
    held = hold(rig, batch())
    rig.memory.fail("append", errno.ENOSPC)
    rig.log.begin_epoch(1)
    assert isinstance(held.joined.write(), StorageError)
    assert rig.log.epochs.entries == ((0, 0), (1, 1))


def test_if_the_indexes_cannot_be_read_again_the_log_is_what_it_was(rig: Rig) -> None:
    """Appends to other logs may push the file out of the open ones between a held append and the write."""
    rig.fill(100)
    rig.restart(clean=True)
    held = hold(rig, batch())
    segment = rig.log.segments.active
    segment.release_file()
    rig.disk.remove(segment.path(".index"))
    rig.disk.open(segment.path(".log")).truncate(1000)
    error = held.joined.write()
    assert isinstance(error, CorruptRecord)
    assert (rig.log.joined, rig.log.log_end_offset, rig.log.high_watermark) == (None, 101, 101)


def test_what_could_not_be_written_is_not_tried_with_what_is_held_later(rig: Rig) -> None:
    held = hold(rig, batch())
    directory = rig.log.directory
    directory.fail("something else", OSError(errno.EIO, "broken"))
    rig.log.write_joined()
    directory.failed = None
    later = hold(rig, batch())
    assert isinstance(held.joined.write(), StorageError)
    assert rig.log.joined is later.joined


def test_nothing_is_written_to_a_directory_that_went_offline_meanwhile(rig: Rig) -> None:
    held = hold(rig, batch())
    before = rig.log.size_bytes
    rig.log.directory.fail("something else", OSError(errno.EIO, "broken"))
    assert isinstance(held.joined.write(), StorageError)
    assert (rig.log.log_end_offset, rig.log.size_bytes) == (1, before)


@pytest.mark.parametrize("then", ["roll", "start_flush", "start_close", "truncate_to"])
def test_whoever_needs_the_file_writes_them_first(rig: Rig, then: str) -> None:
    hold(rig, batch())
    getattr(rig.log, then)(*((1,) if then == "truncate_to" else ()))
    assert rig.log.joined is None
    assert rig.log.size_bytes >= rig.log.segments.first.size > 0
    assert rig.read() == ([0] if then == "truncate_to" else [0, 1])

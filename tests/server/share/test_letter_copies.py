"""Tests of reading single records from the log in steps."""

from __future__ import annotations

import pytest

from ottla.log.errors import CorruptRecord, LogError
from ottla.log.partition import PartitionLog
from ottla.server.base.turns import at_once
from ottla.server.share import letter_copies
from ottla.server.share.letter_copies import NO_COPY, WINDOW_BYTES, Copy, LetterCopies
from ottla.wire.compression import GZIP, NONE, ZSTD, CompressionError
from ottla.wire.record_pieces import record_pieces
from ottla.wire.records import Record, build_batch
from tests.fakes import MemoryBroker


def broker_with(*batches: bytes) -> tuple[MemoryBroker, PartitionLog]:
    broker = MemoryBroker({"t": 1})
    replica = broker.replicas.get("t", 0)
    assert replica is not None
    for each in batches:
        replica.append(each)
    return broker, replica.log


def numbered(count: int, codec: int = NONE, size: int = 1) -> bytes:
    return build_batch([Record(0, 0, b"%d" % number, b"v" * size) for number in range(count)], codec=codec)


@pytest.mark.parametrize("codec", [NONE, GZIP, ZSTD])
def test_keys_and_values_of_any_batch(codec: int) -> None:
    empty = build_batch([Record(0, 0, None, None), Record(0, 0, b"", b"")], codec=codec)
    broker, log = broker_with(numbered(3, codec), empty, numbered(3, codec))
    copies = LetterCopies(log, broker.context.workers)
    expected = [(1, Copy(b"1", b"v")), (2, Copy(b"2", b"v")), (3, NO_COPY), (4, Copy(b"", b"")), (7, Copy(b"2", b"v"))]
    assert [(offset, at_once(copies.read(offset))) for offset, _ in expected] == expected


def test_what_the_log_does_not_have() -> None:
    broker, log = broker_with(numbered(3))
    log.delete_records_before(2)
    copies = LetterCopies(log, broker.context.workers)
    assert [at_once(copies.read(offset)) for offset in (0, 2, 3, 10)] == [NO_COPY, Copy(b"2", b"v"), NO_COPY, NO_COPY]


def test_an_offset_that_compaction_has_removed() -> None:
    broker, log = broker_with(numbered(5))
    copies = LetterCopies(log, broker.context.workers)
    assert at_once(copies.read(1)) == Copy(b"1", b"v")
    del copies._found[2:4]
    assert [at_once(copies.read(offset)) for offset in (2, 3, 4)] == [NO_COPY, NO_COPY, Copy(b"4", b"v")]


@pytest.mark.parametrize("codec", [NONE, ZSTD])
def test_a_step_looks_at_the_records_of_a_window(codec: int) -> None:
    count = 30_000
    broker, log = broker_with(numbered(count, codec))
    copies = LetterCopies(log, broker.context.workers)
    windows = [len(copies._found) for _ in copies.read(count - 1)]
    assert sum(windows) == count
    assert max(windows) <= WINDOW_BYTES // 7


def test_a_record_larger_than_a_window_is_looked_at_as_a_whole() -> None:
    broker, log = broker_with(numbered(3, size=5 * WINDOW_BYTES))
    copies = LetterCopies(log, broker.context.workers)
    assert [at_once(copies.read(offset)).key for offset in (0, 1, 2)] == [b"0", b"1", b"2"]


def test_a_large_batch_is_read_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, log = broker_with(numbered(3))
    threads = broker.hold_threads()
    monkeypatch.setattr(letter_copies, "READ_AT_ONCE", 10)
    steps = LetterCopies(log, broker.context.workers).read(1)
    awaited = next(steps)
    assert awaited is not None
    assert not awaited.done()
    threads.end_first()
    assert at_once(steps) == Copy(b"1", b"v")


def test_damage_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, log = broker_with(numbered(3))
    monkeypatch.setattr(letter_copies, "check_crc", lambda data, header: False)
    with pytest.raises(CorruptRecord):
        at_once(LetterCopies(log, broker.context.workers).read(1))


def test_a_batch_that_unfolds_to_more_than_the_topic_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, log = broker_with(numbered(3, ZSTD, 1000))
    monkeypatch.setattr(letter_copies, "record_pieces", lambda codec, data, *bounds: record_pieces(codec, data, 100, 100))
    with pytest.raises(CompressionError):
        at_once(LetterCopies(log, broker.context.workers).read(1))


def test_a_log_that_is_closed() -> None:
    broker, log = broker_with(numbered(3))
    copies = LetterCopies(log, broker.context.workers)
    log.close()
    with pytest.raises(LogError):
        at_once(copies.read(1))

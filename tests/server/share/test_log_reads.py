"""These tests look into what was read of a log: incomplete batches at the end, cuts at offsets, and batches of aborted
transactions.
"""

from __future__ import annotations

import pytest

from ottla.log.disk.files import FileSlice
from ottla.log.errors import CorruptRecord
from ottla.log.transactions import append_marker
from ottla.server.share.log_reads import aborted_batches, batches_in, cut
from tests.fakes import MemoryBroker
from tests.log.support import batch


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker({"t": 1})


def append(broker: MemoryBroker, records: bytes) -> None:
    replica = broker.replicas.get("t", 0)
    assert replica is not None
    replica.append(records)


def read(broker: MemoryBroker, offset: int = 0, max_bytes: int = 1 << 20) -> FileSlice:
    replica = broker.replicas.get("t", 0)
    assert replica is not None
    found = replica.log.read(offset, max_bytes, upto=replica.log.high_watermark)
    assert found is not None
    return found


def test_batches_are_located(broker: MemoryBroker) -> None:
    for records in (1, 3, 2):
        append(broker, batch(records))
    found = batches_in(read(broker))
    assert [(each.base_offset, each.last_offset) for each in found] == [(0, 0), (1, 3), (4, 5)]
    assert [each.position for each in found] == [0, found[0].size, found[0].size + found[1].size]


def test_more_batches_than_one_look_at_the_file_shows(broker: MemoryBroker) -> None:
    for _ in range(60):
        append(broker, batch(1, value=b"x" * 5000))
    assert [each.base_offset for each in batches_in(read(broker))] == list(range(60))


@pytest.mark.parametrize(("end", "max_records", "count"), [(-1, 1000, 60), (-1, 10, 12), (30, 10, 42), (0, 0, 2), (100, 0, 60)])
def test_only_what_may_be_handed_out_is_looked_at(broker: MemoryBroker, end: int, max_records: int, count: int) -> None:
    for _ in range(60):
        append(broker, batch(1))
    assert len(batches_in(read(broker), end, max_records)) == count


def test_the_beginning_of_a_batch_does_not_count(broker: MemoryBroker) -> None:
    for _ in range(3):
        append(broker, batch(1))
    size = batches_in(read(broker))[0].size
    for more in (0, 1, 61, size - 1):
        assert len(batches_in(read(broker, max_bytes=size + more))) == 1
    assert len(batches_in(read(broker, max_bytes=2 * size))) == 2


def test_what_is_no_batch_is_corrupt(broker: MemoryBroker) -> None:
    for _ in range(2):
        append(broker, batch(1))
    found = read(broker)
    with pytest.raises(CorruptRecord):
        batches_in(FileSlice(found.file, found.position + 7, len(found) - 7))


@pytest.mark.parametrize(
    ("first", "last", "expected"), [(0, 5, [0, 1, 4]), (0, 0, [0]), (1, 1, [1]), (2, 4, [1, 4]), (3, 3, [1]), (4, 9, [4])]
)
def test_a_read_is_cut_to_the_batches_of_offsets(broker: MemoryBroker, first: int, last: int, expected: list[int]) -> None:
    for records in (1, 3, 2):
        append(broker, batch(records))
    found = read(broker)
    kept = cut(found, batches_in(found), first, last)
    assert [each.base_offset for each in batches_in(kept)] == expected


def test_a_single_batch_is_left_with_what_follows_it(broker: MemoryBroker) -> None:
    for _ in range(2):
        append(broker, batch(1))
    found = read(broker, max_bytes=batches_in(read(broker))[0].size + 5)
    assert cut(found, batches_in(found), 0, 0) is found


def test_batches_of_aborted_transactions(broker: MemoryBroker) -> None:
    replica = broker.replicas.get("t", 0)
    assert replica is not None

    def transactional(producer_id: int, sequence: int = 0) -> None:
        records = batch(2, producer=(producer_id, 0, sequence), transactional=True)
        replica.append(records)

    def end(producer_id: int, *, commit: bool) -> None:
        append_marker(
            replica.log,
            producer_id=producer_id,
            producer_epoch=0,
            commit=commit,
            coordinator_epoch=0,
            leader_epoch=0,
            transaction_version=1,
        )

    transactional(1)  # 0, 1: aborted
    transactional(2)  # 2, 3: committed
    end(1, commit=False)  # 4
    replica.append(batch(1))  # 5
    end(2, commit=True)  # 6
    transactional(1, 2)  # 7, 8: committed
    end(1, commit=True)  # 9
    found = read(broker)
    aborted = aborted_batches(replica.log, 0, found, batches_in(found))
    assert [(each.base_offset, each.last_offset) for each in aborted] == [(0, 1)]

"""wire/kernel.py's BatchScan, compiled and uncompiled: what recovery learns of a segment, and where it stops."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from types import ModuleType
from typing import Any

import pytest

from ottla.wire import kernel as imported
from ottla.wire.batch import read_header, stamp
from ottla.wire.records import Record, build_batch
from tests.uncompiled import uncompiled
from tests.wire.changed_batches import changed

NOW_MS = 1_700_000_000_000


@pytest.fixture(params=[imported, uncompiled(imported)], ids=["imported", "uncompiled"])
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


def batch(offset: int, count: int = 1, *, epoch: int = 0, timestamp: int = NOW_MS, size: int = 10, **fields: Any) -> bytes:
    data = build_batch([Record(0, timestamp, b"k", bytes(size), []) for _ in range(count)], **fields)
    return stamp(read_header(data), offset, epoch) + data[16:]


def scan(kernel: ModuleType, data: bytes, window: int = 1 << 20, *, base: int = 0, interval: int = 0, epoch: int = -1) -> Any:
    """(the scan, the code it ended with), fed `window` bytes at a time, or a whole batch where that is larger."""
    found = kernel.BatchScan(base, interval, epoch)
    want = window
    while found.sound < len(data):
        before = found.sound
        code = found.feed(data[before : before + want], len(data))
        if code != kernel.NEED_MORE:
            return found, code
        want = window if found.sound > before else want * 2
    return found, kernel.NEED_MORE


BATCHES = [
    batch(0, 3, epoch=1),
    batch(3, epoch=1, timestamp=NOW_MS + 50, producer_id=7, producer_epoch=0, base_sequence=0),
    batch(4, 2, epoch=4, size=5000),
    batch(6, epoch=4, producer_id=7, producer_epoch=0, base_sequence=1, transactional=True),
    batch(7, epoch=3, timestamp=NOW_MS + 60, producer_id=7, producer_epoch=0, transactional=True, control=True),
]
DATA = b"".join(BATCHES)
STARTS = [sum(map(len, BATCHES[:number])) for number in range(len(BATCHES))]


@pytest.mark.parametrize("window", [61, 100, 4096, 1 << 20])
def test_what_is_learned(kernel: ModuleType, window: int) -> None:
    found, code = scan(kernel, DATA, window)
    assert (code, found.sound, found.expected, found.gaps) == (kernel.NEED_MORE, len(DATA), 8, False)
    assert found.entries == [(3, STARTS[1]), (5, STARTS[2]), (6, STARTS[3]), (7, STARTS[4])]
    assert found.times == [(NOW_MS + 50, 3), (NOW_MS + 60, 7)]
    assert (found.max_timestamp, found.offset_of_max) == (NOW_MS + 60, 7)
    assert (found.epochs, found.latest_epoch) == ([(1, 0), (4, 4)], 4)
    assert found.producers == [
        (STARTS[1], len(BATCHES[1]), 7, kernel.PLAIN),
        (STARTS[3], len(BATCHES[3]), 7, kernel.TRANSACTIONAL),
        (STARTS[4], len(BATCHES[4]), 7, kernel.CONTROL),
    ]


def test_entries_are_an_interval_apart(kernel: ModuleType) -> None:
    data = b"".join(batch(offset) for offset in range(100))
    size = len(batch(0))
    found, _ = scan(kernel, data, interval=3 * size)
    assert found.entries == [(offset, offset * size) for offset in range(4, 100, 4)]


@pytest.mark.parametrize("bad", range(len(BATCHES)))
def test_it_stops_at_the_first_bad_byte(kernel: ModuleType, bad: int) -> None:
    rng = Random(bad)
    for inside in {*range(8, 12), *range(16, 61), *(rng.randrange(61, len(BATCHES[bad])) for _ in range(20))}:
        data = bytearray(DATA)
        data[STARTS[bad] + inside] ^= 1 << rng.randrange(8)
        found, code = scan(kernel, bytes(data))
        assert code in (kernel.BAD_FRAME, kernel.BAD_CRC)
        assert found.sound == STARTS[bad]
        assert found.expected == read_header(BATCHES[bad]).base_offset


@pytest.mark.parametrize("cut", [1, 30, 60, 61, 70])
def test_a_torn_end_is_no_batch(kernel: ModuleType, cut: int) -> None:
    found, code = scan(kernel, DATA + BATCHES[0][:cut])
    assert (code, found.sound) == (kernel.BAD_FRAME, len(DATA))


@pytest.mark.parametrize(
    ("second", "code"),
    [
        (batch(2), "BAD_OFFSETS"),  # that was written already
        (batch(-5), "BAD_OFFSETS"),
        (changed(batch(3), last_offset_delta=-1), "BAD_OFFSETS"),
        (batch(2**63 - 1), "BAD_OFFSETS"),
        (batch(2**31), "OFFSET_OVERFLOW"),
        (changed(batch(3), last_offset_delta=2**31 - 1), "OFFSET_OVERFLOW"),
    ],
)
def test_offsets_ascend_and_fit(kernel: ModuleType, second: bytes, code: str) -> None:
    found, answer = scan(kernel, BATCHES[0] + second)
    assert answer == getattr(kernel, code)
    assert (found.sound, found.expected) == (len(BATCHES[0]), 3)


@pytest.mark.parametrize("second", [batch(4), changed(batch(3), last_offset_delta=2), changed(batch(3), records_count=0)])
def test_gaps_are_seen(kernel: ModuleType, second: bytes) -> None:
    found, code = scan(kernel, BATCHES[0] + second)
    assert (code, found.gaps) == (kernel.NEED_MORE, True)


def producer_batches(rng: Random) -> Iterator[tuple[int, int]]:
    for _ in range(500):
        yield rng.randrange(6), rng.choice([0, 0, 0, 1, 1, 2])


def test_thinning_keeps_what_counts(kernel: ModuleType) -> None:
    """Of each producer the first and the last five, all markers, and where each transaction begins; also if done twice."""
    for seed in range(20):
        entries = [(at, 1, producer, kind) for at, (producer, kind) in enumerate(producer_batches(Random(seed)))]
        found = kernel.BatchScan(0, 0, -1)
        found.producers = entries[:250]
        found.thin()
        found.producers += entries[250:]
        found.thin()
        kept = set(found.producers)
        assert found.producers == sorted(kept)
        for producer in range(6):
            own = [entry for entry in entries if entry[2] == producer]
            plain = [entry for entry in own if entry[3] != kernel.CONTROL]
            assert {own[0], *plain[-5:], *(entry for entry in own if entry[3] == kernel.CONTROL)} <= kept
            opened = False
            for entry in own:
                if entry[3] == kernel.CONTROL:
                    opened = False
                elif entry[3] == kernel.TRANSACTIONAL and not opened:
                    assert entry in kept
                    opened = True


@pytest.mark.parametrize("seed", range(30))
def test_any_bytes_end_it_without_an_exception(kernel: ModuleType, seed: int) -> None:
    rng = Random(seed)
    data = bytearray(DATA)
    for _ in range(rng.randint(1, 30)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    found, code = scan(kernel, bytes(data) + rng.randbytes(200), rng.choice([61, 500, 100_000]))
    assert code in kernel.SCAN_REASONS
    assert 0 <= found.sound <= len(data)

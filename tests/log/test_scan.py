"""log/scan.py: every walk finds the same batches, whatever the window, and stops at the same bad byte."""

from __future__ import annotations

from random import Random

import pytest

from ottla.log.disk.files import File
from ottla.log.errors import CorruptRecord
from ottla.log.scan import HEADER_SIZE, batch_in, block_at, find, walk, walk_batches, walk_headers
from ottla.wire.batch import read_header, stamp
from tests.log.support import batch
from tests.memdisk import MemDisk

RANDOM = Random(5)
BATCHES: list[bytes] = []
_offset = 0
for _size in (1, 5000, 1, 1, 40_000, 3, 90_000, 2):
    _data = batch(RANDOM.randint(1, 4), value=RANDOM.randbytes(_size))
    BATCHES.append(stamp(read_header(_data), _offset, 0) + _data[16:])
    _offset += read_header(_data).last_offset_delta + 1
POSITIONS = [sum(map(len, BATCHES[:at])) for at in range(len(BATCHES))]
END = sum(map(len, BATCHES))


def log_file(data: bytes) -> File:
    file = MemDisk().open("/f", create=True)
    file.append([data])
    return file


@pytest.mark.parametrize("window", [HEADER_SIZE, 100, 8192, 1 << 20])
def test_walks_agree(window: int) -> None:
    file = log_file(b"".join(BATCHES))
    headers = [(position, size, read_header(buffer, at)) for position, size, buffer, at in walk_headers(file, 0, END, window)]
    assert [(position, size) for position, size, _ in headers] == list(zip(POSITIONS, map(len, BATCHES), strict=True))
    located = list(walk(file, 0, END, window))
    assert [(b.position, b.base_offset, b.last_offset, b.max_timestamp) for b in located] == [
        (position, header.base_offset, header.last_offset, header.max_timestamp) for position, _, header in headers
    ]
    assert [(position, bytes(view)) for position, view in walk_batches(file, 0, END, window)] == list(
        zip(POSITIONS, BATCHES, strict=True)
    )
    for batch_ in located:
        for offset in (batch_.base_offset, batch_.last_offset):
            assert find(file, 0, END, offset) == batch_
    assert find(file, 0, END, located[-1].last_offset + 1) is None
    assert list(walk(file, POSITIONS[3], END, window)) == located[3:]


def outcome(data: bytes) -> list[tuple[int, str]]:
    """(batches found, error) of the four walks; `find` looks for what is not there."""
    file = log_file(data)
    found = []
    for walker in (walk_headers, walk, walk_batches):
        count, error = 0, ""
        try:
            for _ in walker(file, 0, len(data)):
                count += 1
        except CorruptRecord as problem:
            error = str(problem)
        found.append((count, error))
    return found


@pytest.mark.parametrize("cut", [1, 11, 16, 17, 60, 61, 100])
def test_a_torn_batch_is_no_batch(cut: int) -> None:
    data = b"".join(BATCHES[:3])
    torn = data + BATCHES[1][:cut]
    assert [(count, "complete batch" in error) for count, error in outcome(torn)] == [(3, True)] * 3
    with pytest.raises(CorruptRecord, match=f"position {len(data)}"):
        find(log_file(torn), 0, len(torn), 1 << 40)


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (8, b"\0\0\0\0"),
        (8, b"\xff\xff\xff\xff"),
        (8, b"\x7f\xff\xff\xff"),
        (8, b"\0\0\0\x30"),
        (16, b"\x01"),
        (16, b"\0"),
        (16, b"\x03"),
    ],
)
def test_a_bad_header_is_no_batch(at: int, value: bytes) -> None:
    bad = BATCHES[2][:at] + value + BATCHES[2][at + len(value) :]
    data = b"".join([*BATCHES[:2], bad, *BATCHES[3:]])
    assert [(count, "complete batch" in error) for count, error in outcome(data)] == [(2, True)] * 3
    with pytest.raises(CorruptRecord, match=f"position {POSITIONS[2]}"):
        find(log_file(data), 0, len(data), 1 << 40)


@pytest.mark.parametrize("read_bytes", [HEADER_SIZE, 200, 8192, 1 << 20])
def test_a_block_begins_with_a_whole_batch(read_bytes: int) -> None:
    file = log_file(b"".join(BATCHES))
    for position, whole in zip(POSITIONS, BATCHES, strict=True):
        block = block_at(file, position, END, read_bytes)
        assert len(block) == max(len(whole), min(read_bytes, END - position))
        assert batch_in(block, 0) == memoryview(whole)


def test_what_is_not_a_whole_batch_is_none_in_a_block() -> None:
    block = b"-" + BATCHES[0] + BATCHES[2]
    behind = 1 + len(BATCHES[0])
    assert (batch_in(block, 1), batch_in(block, behind)) == (memoryview(BATCHES[0]), memoryview(BATCHES[2]))
    assert batch_in(block, len(block)) is None
    assert batch_in(block[:-1], behind) is None
    assert batch_in(block[: behind + 60], behind) is None
    assert batch_in(block[: behind + 16] + b"\1" + block[behind + 17 :], behind) is None
    assert batch_in(block[: behind + 8] + b"\0\0\0\x30" + block[behind + 12 :], behind) is None


def test_any_bytes_end_the_walk() -> None:
    for seed in range(200):
        rng = Random(seed)
        data = bytearray(b"".join(BATCHES))
        for _ in range(rng.randint(1, 20)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        outcome(bytes(data[: rng.randint(0, len(data))]))

"""Buffers for large frames grow with what arrived, a few are kept."""

from __future__ import annotations

import errno
from mmap import mmap

import pytest

from ottla.server.network.receive_buffers import FIRST_BUFFER, GROWTH, KEPT_BUFFERS, KEPT_BYTES, LARGE_BUFFER, ReceiveBuffers


@pytest.mark.parametrize(
    ("size", "received", "expected"),
    [
        (100_000_000, 2, FIRST_BUFFER),
        (100_000_000, 10_000, GROWTH * 10_000),
        (100_000, 30_000, 100_000),
        (KEPT_BYTES, 1000, FIRST_BUFFER),
        (1_000_000, 250_000, KEPT_BYTES),
        (1_000_000, 249_999, GROWTH * 249_999),
        (KEPT_BYTES // 2, KEPT_BYTES // 2, KEPT_BYTES // 2),
        (KEPT_BYTES // 2 + 1, KEPT_BYTES // 2, KEPT_BYTES),
        (KEPT_BYTES + 1, KEPT_BYTES, KEPT_BYTES + 1),
    ],
)
def test_a_buffer_is_as_large_as_what_arrived_allows(size: int, received: int, expected: int) -> None:
    assert len(ReceiveBuffers().take(size, received)) == expected


def test_a_kept_buffer_serves_any_frame_that_fits() -> None:
    buffers = ReceiveBuffers()
    buffer = buffers.take(1_000_000, 250_000)
    buffers.give_back(buffer)
    assert buffers.take(KEPT_BYTES + 1, 250_000) is not buffer
    assert buffers.take(70_000, 1) is buffer
    assert buffers.take(70_000, 1) is not buffer
    buffers.give_back(buffer)
    assert buffers.take(KEPT_BYTES, 1) is buffer


def test_a_few_buffers_of_the_right_size_are_kept() -> None:
    buffers = ReceiveBuffers()
    for size in (KEPT_BYTES - 1, *[KEPT_BYTES] * (KEPT_BUFFERS + 1), KEPT_BYTES + 1):
        buffers.give_back(bytearray(size))
    assert [len(buffers.take(100, 2)) for _ in range(KEPT_BUFFERS + 1)] == [*[KEPT_BYTES] * KEPT_BUFFERS, 100]


def test_the_kernel_fills_a_large_buffer_with_zeros_when_it_is_used() -> None:
    buffers = ReceiveBuffers()
    assert isinstance(buffers.take(LARGE_BUFFER - 1, LARGE_BUFFER), bytearray)
    large = buffers.take(LARGE_BUFFER, LARGE_BUFFER)
    assert isinstance(large, memoryview)
    assert (len(large), isinstance(large.obj, mmap), any(large)) == (LARGE_BUFFER, True, False)
    buffers.give_back(large)
    another = buffers.take(LARGE_BUFFER, LARGE_BUFFER)
    assert isinstance(another, memoryview)
    assert another.obj is not large.obj


def test_a_large_buffer_grows_in_its_place() -> None:
    buffers = ReceiveBuffers()
    size, received = 100_000_000, LARGE_BUFFER // GROWTH
    large = buffers.take(size, received)
    assert isinstance(large, memoryview)
    large[-2:] = b"ab"
    larger = buffers.grow(large, size, len(large))
    assert isinstance(larger, memoryview)
    assert (len(larger), bytes(larger[len(large) - 2 :][:3])) == (GROWTH * len(large), b"ab\0")
    larger[:2] = b"cd"
    assert (larger.obj, bytes(large[:2])) == (large.obj, b"cd")  # the same memory
    assert len(buffers.grow(larger, size, len(larger))) == size


@pytest.mark.parametrize(("size", "received"), [(100_000, 1), (LARGE_BUFFER, LARGE_BUFFER // 2 // GROWTH)])
def test_a_small_buffer_grows_into_another(size: int, received: int) -> None:
    buffers = ReceiveBuffers()
    small = buffers.take(size, received)
    assert isinstance(small, bytearray)
    small[-2:] = b"ab"
    larger = buffers.grow(small, size, len(small))
    assert isinstance(larger, memoryview) == (size == LARGE_BUFFER)
    assert len(larger) == min(size, GROWTH * len(small))
    assert bytes(memoryview(larger)[: len(small)]) == bytes(small)


def test_without_addresses_for_the_whole_frame_memory_is_taken_for_what_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> mmap:
        raise OSError(errno.ENOMEM, "no addresses")

    monkeypatch.setattr("ottla.server.network.receive_buffers.mmap", refuse)
    buffers = ReceiveBuffers()
    buffer = buffers.take(100_000_000, LARGE_BUFFER)
    assert isinstance(buffer, bytearray)
    monkeypatch.undo()
    buffer[:2] = b"ab"
    larger = buffers.grow(buffer, 100_000_000, len(buffer))
    assert isinstance(larger, memoryview)
    assert bytes(larger[:3]) == b"ab\0"

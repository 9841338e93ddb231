"""Buffers for large frames grow with what arrived, a few are kept; connections are counted over all listeners."""

from __future__ import annotations

import pytest

from ottla.server.network.shared_buffers import FIRST_BUFFER, GROWTH, KEPT_BYTES, Shared


@pytest.mark.parametrize(
    ("size", "received", "expected"),
    [
        (100_000_000, 2, FIRST_BUFFER),
        (100_000_000, 10_000, GROWTH * 10_000),
        (100_000, 30_000, 100_000),
        (KEPT_BYTES, 1000, FIRST_BUFFER),
        (1_000_000, 250_000, KEPT_BYTES),
        (KEPT_BYTES + 1, KEPT_BYTES, KEPT_BYTES + 1),
    ],
)
def test_a_buffer_is_as_large_as_what_arrived_allows(size: int, received: int, expected: int) -> None:
    assert len(Shared().take(size, received)) == expected


def test_a_kept_buffer_serves_any_frame_that_fits() -> None:
    shared = Shared()
    buffer = shared.take(1_000_000, 250_000)
    shared.give_back(buffer)
    assert shared.take(KEPT_BYTES + 1, 250_000) is not buffer
    assert shared.take(70_000, 1) is buffer
    assert shared.take(70_000, 1) is not buffer


def test_connections_are_counted_by_host() -> None:
    shared = Shared()
    for host in ("a", "b", "a"):
        shared.connected(host)
    assert (shared.connections, shared.from_host) == (3, {"a": 2, "b": 1})
    shared.disconnected("a")
    shared.disconnected("b")
    assert (shared.connections, shared.from_host) == (1, {"a": 1})

"""A connection sends regions of files between the bytes around them: few of them or many, to quick and to slow peers."""

from __future__ import annotations

import asyncio
import itertools
import logging
import random

import pytest

from ottla.log.disk.files import FileSlice
from ottla.log.errors import StorageError
from ottla.server.network.file_regions import PIECE_BYTES
from ottla.server.network.sending import JOINED_BYTES, REGIONS_A_TURN
from tests.fakes import MemoryBroker
from tests.server.network.peer import Peer, framed


def region(size: int) -> tuple[FileSlice, bytes]:
    """A region of a file in memory, which has no descriptor."""
    broker = MemoryBroker({})
    data = random.Random(size).randbytes(size + 20)
    file = broker.disk.open("/data/file", create=True)
    file.append([data])
    return FileSlice(file, 10, size), data[10:-10]


def test_regions_of_files_are_sent_between_bytes() -> None:
    peer = Peer()
    part, data = region(5000)
    peer.dispatch.slices[b"fetch"] = part
    peer.send(framed(b"a") + framed(b"fetch") + framed(b"b"))
    assert peer.received() == [b"a", data, b"b"]
    assert peer.transport.writes == 1, "a small region goes out with the bytes around it"


@pytest.mark.parametrize(("second", "writes"), [(JOINED_BYTES - 5000, 1), (JOINED_BYTES - 4999, 3)])
def test_small_regions_go_out_with_the_bytes_around_them_up_to_a_size(second: int, writes: int) -> None:
    peer = Peer()
    regions = {b"one": region(5000), b"two": region(second)}
    peer.dispatch.slices.update({name: part for name, (part, _) in regions.items()})
    peer.send(framed(b"one") + framed(b"two") + framed(b"b"))
    assert peer.received() == [regions[b"one"][1], regions[b"two"][1], b"b"]
    assert peer.transport.writes == writes


def test_an_answer_of_very_many_regions_is_sent_in_turns() -> None:
    async def run() -> None:
        peer = Peer()
        parts, data = zip(*(region(JOINED_BYTES + 1 + number % 7) for number in range(4 * REGIONS_A_TURN + 1)), strict=True)
        peer.dispatch.parts[b"many"] = list(parts)
        peer.send(framed(b"many") + framed(b"behind"))
        sent = [0, len(peer.transport.sent)]
        while sent[-1] > sent[-2]:
            await peer.round()
            sent.append(len(peer.transport.sent))
        assert max(after - before for before, after in itertools.pairwise(sent)) <= REGIONS_A_TURN * (JOINED_BYTES + 20)
        assert peer.received() == [b"".join(data), b"behind"]

    asyncio.run(run())


def test_what_comes_behind_many_regions_is_served_when_they_are_sent() -> None:
    """Otherwise each round would serve more regions than it sends, and what waits would grow without bound."""

    async def run() -> None:
        peer = Peer()
        parts, _ = zip(*(region(200) for _ in range(650)), strict=True)
        peer.dispatch.parts[b"many"] = list(parts)
        waiting = []
        for _ in range(60):
            if peer.connection._reading:
                peer.send(framed(b"many") * 20)
            waiting.append(len(peer.connection._sending))
            await peer.round()
        assert 650 < max(waiting) <= 4 * 650

    asyncio.run(run())


def test_a_slow_peer_costs_one_piece_of_a_large_region() -> None:
    async def run() -> None:
        peer = Peer()
        part, data = region(PIECE_BYTES * 3 + 5)
        peer.dispatch.slices[b"fetch"] = part
        peer.transport.full = True
        peer.send(framed(b"fetch") + framed(b"behind"))
        await peer.round()
        pieces = 0
        while peer.transport.held:
            assert len(peer.transport.held) <= PIECE_BYTES + 100
            pieces += 1
            peer.transport.drain()
        assert pieces >= 4
        assert peer.received() == [data, b"behind"]

    asyncio.run(run())


@pytest.mark.parametrize("size", [5000, 50_000])
def test_a_region_that_was_cut_meanwhile_ends_the_connection(size: int, caplog: pytest.LogCaptureFixture) -> None:
    peer = Peer()
    part, _ = region(size)
    part.file.truncate(100)
    peer.dispatch.slices[b"fetch"] = part
    with caplog.at_level(logging.INFO):
        peer.send(framed(b"fetch") + framed(b"behind"))
    assert peer.transport.aborted
    assert len(caplog.records) == 1
    with pytest.raises(StorageError):
        part.read()

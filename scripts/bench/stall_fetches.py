"""Attacks of the stall bench by many connections at once: fetches that wait, and requests that come faster than they are
served."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from typing import Final

from compat_tests.wire import Connection, batch
from ottla.wire.messages import fetch, list_offsets
from scripts.bench.stall_attacks import MIB, Attack, Frames, create, framed, pipelined, produced

WAITING: Final = 300
PARTITIONS: Final = 1_000
WAIT_MS: Final = 10_000
BETWEEN_S: Final = 0.01
PARKED_S: Final = 2.0
"""After this all fetches wait: nothing in their protocol says so."""
UNKNOWN: Final = 49_000
"""About as many partitions as one request may name."""
PIPELINING: Final = 40
FEW_HUNDRED: Final = 300


def sessionless(topic: str, count: int, existing: int, wait_ms: int) -> fetch.FetchRequest:
    """Asks for more than there is, of `count` partitions of a topic that has `existing`; each with offsets of its own."""
    partitions = [
        fetch.FetchPartition(
            index,
            fetch_offset=0 if index < existing else 10**12 + index,
            log_start_offset=10**12 + index,
            partition_max_bytes=MIB + index,
        )
        for index in range(count)
    ]
    topics = [fetch.FetchTopic(topic, partitions=partitions)]
    return fetch.FetchRequest(max_wait_ms=wait_ms, min_bytes=32 * MIB, max_bytes=64 * MIB, session_epoch=-1, topics=topics)


def woken() -> Frames:
    """Returns the frames of one connection after the other: fetches that wait, and at last Produces that wake all of them."""
    numbers = itertools.count()
    waiting = framed(sessionless("t", PARTITIONS, PARTITIONS, WAIT_MS), 12)

    def frames(connection: Connection) -> Iterator[bytes]:
        number = next(numbers)
        if number < WAITING:
            time.sleep(number * BETWEEN_S)  # else it is measured how they come
            yield waiting
            return
        time.sleep(WAITING * BETWEEN_S + PARKED_S)
        for _ in range(3):
            yield framed(produced({("t", 0): batch(b"v")}), 9)

    return frames


def together() -> Frames:
    """Returns the frame of each of 300 connections, when all of them have theirs: whoever makes its own first comes by itself."""
    frame = framed(sessionless("t", PARTITIONS, PARTITIONS, WAIT_MS), 12)
    everybody = threading.Barrier(WAITING)

    def frames(_: Connection) -> Iterator[bytes]:
        yield frame
        everybody.wait()

    return frames


def fetch_attacks() -> list[Attack]:
    few_hundred = list_offsets.ListOffsetsRequest(
        -1,
        0,
        [list_offsets.ListOffsetsTopic("t", [list_offsets.ListOffsetsPartition(index, -1, -1) for index in range(FEW_HUNDRED)])],
    )
    return [
        Attack(
            "Produce of one record that wakes 300 fetches of 1,000 partitions",
            woken(),
            create("t", PARTITIONS),
            connections=WAITING + 1,
        ),
        Attack(
            "Fetch of 1,000 partitions, by 300 connections at the same time",
            pipelined(lambda: sessionless("t", PARTITIONS, PARTITIONS, WAIT_MS), 12),
            create("t", PARTITIONS),
            connections=WAITING,
        ),
        Attack(
            "Fetch of 1,000 partitions, by 300 connections in one round of the loop",
            together(),
            create("t", PARTITIONS),
            connections=WAITING,
        ),
        Attack(
            "Fetch without a session of 49,000 partitions, of which one exists, by 30 connections",
            pipelined(lambda: sessionless("t", UNKNOWN, 1, WAIT_MS), 12),
            create("t"),
            connections=30,
            uses_up=True,
        ),
        Attack(
            "ListOffsets of 300 partitions, 40 by each of 40 connections",
            pipelined(lambda: few_hundred, 7, 40),
            create("t", FEW_HUNDRED),
            connections=PIPELINING,
        ),
    ]

"""Readers of a simulated world: consumers that assign partitions to themselves, and the whole read at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from random import Random
from typing import Any, Final, cast

from compat_tests.anomalies.history import READ_COMMITTED, READ_UNCOMMITTED, Key
from ottla.wire.batch import iter_batches
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import fetch, list_offsets
from ottla.wire.records import decode_records
from tests.sim.client import Client, Lost
from tests.sim.stage import Stage

_EARLIEST: Final = -2
Polled = tuple[list[tuple[int, int]], int, tuple[int, int]]
"""The records (offset, value), the next position, and (high watermark, last stable offset)."""


class Reader:
    """Reads partitions, as a consumer does that knows where it is."""

    def __init__(self, client: Client, random: Random) -> None:
        self.client = client
        self._random = random

    async def read(self, key: Key, position: int, *, committed: bool, max_wait_ms: int = 0) -> Polled | None:
        """Returns what there is from a position on; None if it was not answered, or with an error."""
        topic, _, partition = key.rpartition("-")
        most = self._random.choice((200, 2000, 1 << 20))
        wanted = fetch.FetchPartition(int(partition), fetch_offset=position, partition_max_bytes=most)
        request = fetch.FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=int(committed),
            session_epoch=-1,
            topics=[fetch.FetchTopic(topic, partitions=[wanted])],
        )
        try:
            answer = await self.client.call(fetch, 12, request)
        except Lost:
            return None
        data = answer.responses[0].partitions[0]
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return [], -1, (-1, -1)
        if data.error_code:
            return None
        records, following = decode(data, position, committed=committed)
        return records, following, (data.high_watermark, data.last_stable_offset)

    async def earliest(self, key: Key) -> int | None:
        """Returns where the log begins."""
        topic, _, partition = key.rpartition("-")
        wanted = list_offsets.ListOffsetsPartition(int(partition), timestamp=_EARLIEST)
        request = list_offsets.ListOffsetsRequest(-1, 0, [list_offsets.ListOffsetsTopic(topic, [wanted])])
        try:
            answer = (await self.client.call(list_offsets, 6, request)).topics[0].partitions[0]
        except Lost:
            return None
        return None if answer.error_code else int(answer.offset)


def decode(data: fetch.PartitionData, position: int, *, committed: bool) -> tuple[list[tuple[int, int]], int]:
    """Returns (offset, value) of the records from a position on, without those of transactions that were aborted if `committed`,
    and the next position.
    """
    aborted = sorted(((each.first_offset, each.producer_id) for each in data.aborted_transactions or ()), reverse=True)
    dropped: set[int] = set()
    records = []
    for header, batch in iter_batches(cast(bytes, data.records or b"")):
        while aborted and aborted[-1][0] <= header.last_offset:
            dropped.add(aborted.pop()[1])
        if header.is_control:
            dropped.discard(header.producer_id)
        elif not (committed and header.is_transactional and header.producer_id in dropped):
            for record in decode_records(batch):
                if record.offset >= position:
                    assert record.value is not None
                    records.append((record.offset, int(record.value)))
        position = max(position, header.next_offset)
    return records, position


class Consumer:
    """Reads all of its partitions round and round, committed or uncommitted, from the beginning or from where it goes on."""

    def __init__(self, world: Stage, name: str, keys: list[Key], *, committed: bool) -> None:
        self.world = world
        self.keys = keys
        self.committed = committed
        self.random = world.random(name)
        self.client = world.client(name)
        self.process = world.process()
        self._reader = Reader(self.client, self.random)
        self._positions: dict[Key, int] = {}

    async def once(self) -> None:
        if not self._positions or self.random.random() < 0.05:
            self._assign(dict.fromkeys(self.keys, 0) if self.random.random() < 0.8 else dict(self._positions))
        isolation = READ_COMMITTED if self.committed else READ_UNCOMMITTED
        operation = self.world.recorder.invoke(self.process, "poll", isolation=isolation)
        read: dict[Key, Any] = {}
        ends: dict[Key, list[int]] = {}
        for key in self.random.sample(self.keys, self.random.randint(1, len(self.keys))):
            polled = await self._reader.read(
                key, self._positions.get(key, 0), committed=self.committed, max_wait_ms=self.random.choice((0, 0, 500))
            )
            if polled is None:
                continue
            records, position, (high_watermark, stable) = polled
            if position < 0:
                start = await self._reader.earliest(key)
                if start is not None:
                    operation.info()
                    self._assign({**self._positions, key: start})
                    return
                continue
            self._positions[key] = position
            read[key] = [list(record) for record in records]
            ends[key] = [high_watermark, stable]
        if read:
            operation.ok(mops=[["poll", read]], ends=ends)
        else:
            operation.info()

    def _assign(self, positions: dict[Key, int]) -> None:
        self._positions = positions
        self.world.recorder.mark(self.process, "assign", positions=dict(positions))

    def restart(self) -> None:
        self.world.recorder.mark(self.process, "crash")
        self.client.close()
        self.process = self.world.process()
        self._positions = {}


async def read_whole(world: Stage, keys: Iterable[Key], *, committed: bool, limit_s: float) -> None:
    """Reads every key from its beginning to its end, as a fresh client: until nothing is open any more, and all is visible."""
    until = world.loop.time() + limit_s
    process = world.process()
    reader = Reader(world.client("the last reader"), world.random(f"whole {committed}"))
    for key in keys:
        isolation = READ_COMMITTED if committed else READ_UNCOMMITTED
        operation = world.recorder.invoke(process, "poll", isolation=isolation, final=True, keys=[key])
        start = position = await reader.earliest(key)
        records: list[tuple[int, int]] = []
        while True:
            polled = None if position is None else await reader.read(key, position, committed=committed)
            if position is None:
                start = position = await reader.earliest(key)
            if polled is not None and position is not None:
                found, following, (high_watermark, stable) = polled
                moved = following > position
                records += found
                position = max(position, following)
                if position >= high_watermark == stable:
                    operation.ok(mops=[["poll", {key: [list(record) for record in records]}]], start=start)
                    break
                if moved:
                    continue
            if world.loop.time() > until:
                operation.info(mops=[["poll", {key: [list(record) for record in records]}]])
                break
            await asyncio.sleep(0.3)

"""ProducerIds: hands out the ids of idempotent producers, each once in the life of the cluster.

The controller gives whole blocks (1,000 ids, one ProducerIdsRecord in the metadata log, durable before the first id is used),
so that an id costs a record only once in a thousand. After a crash what was left of a block is lost, never given again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Protocol


class BlockSource(Protocol):
    """What of the controller is needed here."""

    async def allocate_producer_ids(self) -> range:
        """A block of ids that nobody else gets, ever."""
        ...


class ProducerIds:
    """One a broker. `next_id` waits only where a block is used up."""

    __slots__ = ("_block", "_refilling", "_source")

    def __init__(self, source: BlockSource) -> None:
        self._source = source
        self._block: Iterator[int] = iter(())
        self._refilling = asyncio.Lock()

    async def next_id(self) -> int:
        """An id that nobody had before. StorageError where no block can be had."""
        while True:
            producer_id = next(self._block, None)
            if producer_id is not None:
                return producer_id
            async with self._refilling:
                producer_id = next(self._block, None)  # while we waited, another caller's block may have come
                if producer_id is not None:
                    return producer_id
                self._block = iter(await self._source.allocate_producer_ids())

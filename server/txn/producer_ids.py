"""`ProducerIds` hands out the ids of idempotent producers, each of them once in the life of the cluster.

The controller gives whole blocks (1,000 ids, one ProducerIdsRecord in the metadata log, durable before the first id is used), so
that there is one record for every thousand ids. After a crash the rest of a block is lost and never handed out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Protocol


class BlockSource(Protocol):
    """The part of the controller that allocates blocks of producer ids."""

    async def allocate_producer_ids(self) -> range:
        """Returns a block of ids that is never given to anyone else."""
        ...


class ProducerIds:
    """The producer ids of one broker. `next_id` waits only when a block is used up."""

    __slots__ = ("_block", "_refilling", "_source")

    def __init__(self, source: BlockSource) -> None:
        self._source = source
        self._block: Iterator[int] = iter(())
        self._refilling = asyncio.Lock()

    async def next_id(self) -> int:
        """Returns an id that was never used before. Raises StorageError if the controller cannot give a new block."""
        while True:
            producer_id = next(self._block, None)
            if producer_id is not None:
                return producer_id
            async with self._refilling:
                producer_id = next(self._block, None)  # while we waited, another caller's block may have come
                if producer_id is not None:
                    return producer_id
                self._block = iter(await self._source.allocate_producer_ids())

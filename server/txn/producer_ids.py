"""`ProducerIds` hands out the ids of idempotent producers, each of them once in the life of the cluster.

The controller gives whole blocks (1,000 ids, one ProducerIdsRecord in the metadata log, durable before the first id is used), so
that there is one record for every thousand ids. After a crash the rest of a block is lost and never handed out.

Where the controller is another node, the next block is fetched as soon as 90 % of the present one are used, as in Kafka:
producers then start without waiting for the controllers, also for a while when none of those can be reached.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

from ottla.log.errors import StorageError

PREFETCH_AT: Final = 0.9
"""The part of a block after which the next one is fetched."""

_log = logging.getLogger("ottla.server.txn")


class BlockSource(Protocol):
    """The part of the controller that allocates blocks of producer ids."""

    async def allocate_producer_ids(self) -> range:
        """Returns a block of ids that is never given to anyone else."""
        ...


class ProducerIds:
    """The producer ids of one broker. `next_id` waits only when no id is left. With `ahead`, blocks are fetched early."""

    __slots__ = ("_ahead", "_block", "_fetch_from", "_fetching", "_next", "_position", "_refilling", "_source")

    def __init__(self, source: BlockSource, *, ahead: bool = False) -> None:
        self._source = source
        self._ahead = ahead
        self._block = range(0)
        self._position = 0
        self._fetch_from = 0
        """The number of ids of the block after whose use the next one is fetched."""
        self._next: range | None = None
        self._fetching: asyncio.Task[None] | None = None
        self._refilling = asyncio.Lock()

    async def next_id(self) -> int:
        """Returns an id that was never used before. Raises StorageError if the controller cannot give a new block."""
        while self._position == len(self._block):
            if self._next is not None:
                self._begin(self._next)
                continue
            async with self._refilling:
                if self._position < len(self._block) or self._next is not None:
                    continue  # while we waited, another caller's block may have come
                if self._fetching is not None:
                    await asyncio.wait((self._fetching,))
                else:
                    self._begin(await self._source.allocate_producer_ids())
        producer_id = self._block[self._position]
        self._position += 1
        if self._ahead and self._position >= self._fetch_from and self._next is None and self._fetching is None:
            self._fetching = asyncio.ensure_future(self._fetch())
        return producer_id

    def _begin(self, block: range) -> None:
        self._block, self._position, self._next = block, 0, None
        self._fetch_from = int(len(block) * PREFETCH_AT)

    async def _fetch(self) -> None:
        """Gets the next block. A failure is not the end: the next id asks again."""
        try:
            self._next = await self._source.allocate_producer_ids()
        except StorageError as error:
            _log.info("the next producer ids are not here yet: %s", error)
        finally:
            self._fetching = None

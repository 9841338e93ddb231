"""These tests cover ProducerIds: each id is handed out once, whatever crashes, and there is one record for every thousand ids."""

from __future__ import annotations

import asyncio

from ottla.server.metadata.standalone import PRODUCER_IDS_BLOCK
from ottla.server.txn.producer_ids import ProducerIds
from tests.server.metadata.support import Node


def test_producer_ids_are_unique_across_crashes() -> None:
    node = Node()
    seen: list[int] = []
    for _ in range(3):
        ids = ProducerIds(node.start())
        seen += [asyncio.run(ids.next_id()) for _ in range(3)]
        node.power_cut()
    assert seen == [0, 1, 2, 1000, 1001, 1002, 2000, 2001, 2002]


def test_a_block_costs_one_record() -> None:
    node = Node()
    ids = ProducerIds(node.start())
    before = node.image.highest_offset
    seen = [asyncio.run(ids.next_id()) for _ in range(PRODUCER_IDS_BLOCK + 1)]
    assert seen == list(range(PRODUCER_IDS_BLOCK + 1))
    assert node.image.highest_offset == before + 2
    assert node.image.next_producer_id == 2 * PRODUCER_IDS_BLOCK


def test_ids_asked_for_at_once_come_from_one_block() -> None:
    """If it takes time to get a block, as in a quorum, all callers that wait share it."""

    class SlowBlocks:
        def __init__(self) -> None:
            self.given = 0

        async def allocate_producer_ids(self) -> range:
            await asyncio.sleep(0)
            self.given += 1
            return range(self.given * 10, self.given * 10 + 4)

    async def take() -> list[int]:
        ids = ProducerIds(source)
        return list(await asyncio.gather(*(ids.next_id() for _ in range(6))))

    source = SlowBlocks()
    assert sorted(asyncio.run(take())) == [10, 11, 12, 13, 20, 21]
    assert source.given == 2

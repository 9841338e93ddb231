"""These tests cover ProducerIds: each id is handed out once, whatever crashes, and there is one record for every thousand ids."""

from __future__ import annotations

import asyncio

import pytest

from ottla.log.errors import StorageError
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


class Blocks:
    """A controller that gives blocks of ten ids, when it is let."""

    def __init__(self) -> None:
        self.asked = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.fails = False

    async def allocate_producer_ids(self) -> range:
        self.asked += 1
        await self.may_answer.wait()
        if self.fails:
            raise StorageError("no controller")
        return range(self.asked * 10, self.asked * 10 + 10)


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_the_next_block_is_fetched_when_most_of_one_is_used() -> None:
    async def scenario() -> None:
        source = Blocks()
        ids = ProducerIds(source, ahead=True)
        assert [await ids.next_id() for _ in range(8)] == list(range(10, 18))
        await turns()
        assert source.asked == 1
        assert await ids.next_id() == 18
        await turns()
        assert source.asked == 2
        source.may_answer.clear()  # no controller answers any more, and nobody notices
        assert [await ids.next_id() for _ in range(9)] == [19, *range(20, 28)]
        assert source.asked == 2
        assert [await ids.next_id() for _ in range(2)] == [28, 29]
        waiting = asyncio.gather(ids.next_id(), ids.next_id())
        await turns()
        assert (source.asked, waiting.done()) == (3, False)
        source.may_answer.set()
        assert sorted(await waiting) == [30, 31]

    asyncio.run(scenario())


def test_a_fetch_that_failed_is_made_again_and_refuses_who_has_no_id() -> None:
    async def scenario() -> None:
        source = Blocks()
        ids = ProducerIds(source, ahead=True)
        for _ in range(9):
            await ids.next_id()
        source.fails = True
        await turns()
        assert source.asked == 2
        assert await ids.next_id() == 19
        await turns()
        with pytest.raises(StorageError, match="no controller"):
            await ids.next_id()
        source.fails = False
        assert await ids.next_id() == source.asked * 10

    asyncio.run(scenario())


def test_a_broker_that_is_its_own_controller_fetches_nothing_early() -> None:
    async def scenario() -> None:
        source = Blocks()
        ids = ProducerIds(source)
        for _ in range(10):
            await ids.next_id()
        await turns()
        assert source.asked == 1

    asyncio.run(scenario())

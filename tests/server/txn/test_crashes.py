"""This test kills a broker at any change to its disk: what was decided is completed everywhere, and no transaction is half
committed.

The markers of a transaction are written at once or, as those of a large one, in turns.

A producer writes to two partitions and commits a group's offset with each transaction. `play` runs it, and is also the model: it
records how each transaction ended, or that this is unknown. It is run again and again, each time stopped one change to the disk
later. After a kill -9 the disk has everything that was written; after a power cut, with flush.messages=1, everything that was
synced.

The broker's context is complete, with real logs, groups and coordinators; only the metadata comes from outside.
"""

from __future__ import annotations

import asyncio
import itertools
from contextlib import nullcontext, suppress
from typing import Any, Final

import pytest

from ottla.log.validate import Origin
from ottla.server.base.promise import Promise
from ottla.server.base.randomness import from_system
from ottla.server.coordination.internal_topic import InternalTopicLog
from ottla.server.group.coordinator import GroupCoordinator
from ottla.server.group.coordinator_config import GroupCoordinatorConfig
from ottla.server.group.records import InTransaction
from ottla.server.group.requests import Commit, Committer
from ottla.server.metadata.names import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.server.txn.coordinator import Producer, TransactionCoordinator
from ottla.server.txn.errors import TransactionError
from ottla.wire.batch import read_header
from ottla.wire.errors import ErrorCode
from ottla.wire.records import Record, build_batch, decode_records
from tests.fakes import NOW_MS, MemoryBroker
from tests.memdisk import MemDisk, PowerCut
from tests.server.coordination.memory import slow

TID: Final = "transfer"
GROUP: Final = "g"
PARTITIONS: Final = (("t", 0), ("t", 1))
TOPICS: Final = {"t": 2, CONSUMER_OFFSETS: 1, TRANSACTION_STATE: 1}
ENDS: Final = (True, False, True, True, False, True)
"""Of the transactions of the story: committed or aborted."""
UNKNOWN: Final = None


class Node:
    """A broker process on a disk. Producer ids come from the controller, which survives."""

    def __init__(self, disk: MemDisk, ids: itertools.count[int], version: int, *, durable: bool) -> None:
        settings = {"log.flush.interval.messages": "1"} if durable else {}
        self.broker = MemoryBroker(TOPICS, settings, disk=disk)
        self.version, self.ids = version, ids
        context: Any = self.broker.context
        self.broker.image.features["transaction.version"] = version
        log = InternalTopicLog(self.broker.replicas, self.broker.image, CONSUMER_OFFSETS)
        context.existing_groups = GroupCoordinator(
            log, self.broker.clock, GroupCoordinatorConfig(), self.broker.image, from_system()
        )
        context.producer_ids = self
        context.groups.refresh()
        self.coordinator: TransactionCoordinator = context.transaction_coordinator()
        self.coordinator.refresh()

    async def next_id(self) -> int:
        return next(self.ids)

    async def init(self) -> Producer:
        while True:
            try:
                return await self.coordinator.init_producer_id(TID, 60_000, None)
            except TransactionError as error:
                if error.code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                    raise

    def write(self, producer: Producer, number: int, sequence: int) -> None:
        """Runs transaction `number`: a record to each partition, and the group's offset."""
        for topic, index in PARTITIONS:
            self.coordinator.add_partitions(TID, *producer, [(topic, index)], client_version=self.version)
            replica = self.broker.replicas.get(topic, index)
            assert replica is not None
            record = Record(0, NOW_MS, None, str(number).encode(), [])
            batch = build_batch(
                [record],
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                base_sequence=sequence,
                transactional=True,
            )
            if replica.append(batch, origin=Origin.CLIENT).waits:
                replica.log.flush()  # a producer does not end a transaction before all of it is acknowledged
        self.coordinator.add_partitions(TID, *producer, [(CONSUMER_OFFSETS, 0)], client_version=self.version)
        shard = self.broker.context.groups.shard(GROUP)
        commit = Commit("t", self.broker.topic_id("t"), 0, number, -1, "")
        shard.commit(GROUP, Committer("", None, -1, 5), [commit], transaction=InTransaction(*producer))

    async def end(self, producer: Producer, *, commit: bool) -> Producer:
        ended = self.coordinator.end(TID, *producer, commit=commit, version=self.version)
        while isinstance(ended, Promise) and not ended.done():
            self.broker.clock.advance()  # the loop's next turn
        after = ended if isinstance(ended, Producer) else await ended
        return after if self.version >= 2 else producer

    # What readers see

    def records(self, index: int) -> dict[int, bool]:
        """Returns the transactions in a partition of `t`, and whether each was committed. None may be open."""
        replica = self.broker.replicas.get("t", index)
        assert replica is not None
        found: dict[int, bool] = {}
        opened: list[int] = []
        for batch in replica.log.iterate_batches(0):
            (record,) = decode_records(batch)
            if read_header(batch).is_control:
                assert record.key is not None
                found |= dict.fromkeys(opened, record.key[3] == 1)
                opened.clear()
            else:
                opened.append(int(record.value or b""))
        assert not opened
        assert replica.log.last_stable_offset == replica.log.log_end_offset
        return found

    def offset(self) -> int:
        """Returns the offset that the group has committed, or -1."""
        offsets = self.broker.context.groups.shard(GROUP).offsets
        assert not offsets.is_unstable(GROUP, "t", 0)
        found = offsets.get(GROUP, "t", self.broker.topic_id("t"), 0)
        return -1 if found is None else found.offset


Story = list[bool | None]
"""The end of each transaction, as far as its producer knows; the last one may be UNKNOWN."""


async def play(node: Node, story: Story) -> None:
    producer = await node.init()
    sequence = 0
    for number, commit in enumerate(ENDS):
        story.append(UNKNOWN)
        node.write(producer, number, sequence)
        after = await node.end(producer, commit=commit)
        sequence = 0 if after != producer else sequence + 1
        producer = after
        story[-1] = commit


Ends = tuple[bool, bool]
"""The end that a producer wanted for a transaction whose end it does not know, and the one that readers see (False also if they
see nothing)."""


def check(node: Node, story: Story) -> set[Ends]:
    seen = [node.records(index) for index in (0, 1)]
    for number, end in enumerate(story):
        ends = {partition.get(number) for partition in seen}
        if end is not UNKNOWN:
            assert ends == {end}, (number, story, seen)
        elif True in ends:
            assert (ends, ENDS[number]) == ({True}, True), (number, story, seen)
    committed = [number for number in range(len(story)) if seen[0].get(number)]
    assert node.offset() == (committed[-1] if committed else -1)
    transaction = node.coordinator.find(TID)
    assert transaction is None or transaction.is_idle
    return {(ENDS[number], bool(seen[0].get(number))) for number, end in enumerate(story) if end is UNKNOWN}


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("durable", [False, True], ids=["kill", "power-cut"])
@pytest.mark.parametrize("turns", [False, True], ids=["at-once", "in-turns"])
def test_no_transaction_is_half_committed_wherever_the_broker_dies(version: int, durable: bool, turns: bool) -> None:
    known: set[Ends] = set()
    for changes in itertools.count():
        disk, ids, story = MemDisk(lambda: NOW_MS), itertools.count(1000), list[bool | None]()
        node = Node(disk, ids, version, durable=durable)
        disk.stop_after(changes)
        over = False
        with suppress(PowerCut), slow(node.broker.clock) if turns else nullcontext():
            asyncio.run(play(node, story))
            over = True
        disk.stop_after(None)
        if durable:
            disk.crash()
        disk._locks.clear()
        after = Node(disk, ids, version, durable=durable)
        begun = after.coordinator.find(TID)
        assert begun is None or not begun.is_ending, "the start ends what was decided"
        asyncio.run(after.init())  # and the next producer of this id what was open
        known |= check(after, story)
        if over:
            break
    assert known == {(True, True), (True, False), (False, False)}, "some cuts were before a decision, and some behind it"

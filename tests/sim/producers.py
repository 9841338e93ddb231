"""Producers of a simulated world: plain, idempotent, transactional. They keep to the protocol as Kafka's own clients do, and
write down what they know of each write: done, certainly not done, or nobody knows.

A batch that may have been written is sent again only by a producer that is idempotent, with the same sequence: that is what the
broker promises to recognise. A transaction that may have been committed is asked for again with the same epoch.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, Final

from compat_tests.anomalies.history import READ_COMMITTED, Key, Recorded
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    init_producer_id,
    produce,
    txn_offset_commit,
)
from ottla.wire.records import Record, build_batch
from tests.sim.client import GROUP, TRANSACTION, Client, Lost
from tests.sim.readers import Reader
from tests.sim.stage import Stage

RETRIED: Final = frozenset({
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.UNSTABLE_OFFSET_COMMIT,
})  # fmt: skip
"""Errors after which a client asks again; what it asked for may have been done."""
REFUSED: Final = frozenset({
    ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.UNKNOWN_PRODUCER_ID,
})  # fmt: skip
"""Errors that say that it was not done."""
RETRIES: Final = 12
_TXN_TIMEOUT_MS: Final = 6_000
RECORD_KEYS: Final = 5
"""The number of record keys in a compacted partition: a value's is its remainder."""


def key_of(topic: str, partition: int) -> Key:
    return f"{topic}-{partition}"


def place_of(key: Key) -> tuple[str, int]:
    topic, _, partition = key.rpartition("-")
    return topic, int(partition)


class Producer:
    """The common part of all producers. `values` gives the values of this producer, each once."""

    def __init__(self, world: Stage, name: str, keys: list[Key], values: Any) -> None:
        self.world = world
        self.name = name
        self.keys = keys
        self.values = values
        self.random: Random = world.random(name)
        self.client: Client = world.client(name)
        self.process = world.process()
        self.producer_id, self.epoch = -1, -1
        self.sequences: dict[Key, int] = {}

    async def pause(self, longest: float = 0.4) -> None:
        await asyncio.sleep(self.random.random() * longest)

    def batch(self, key: Key, values: list[int], sequence: int = -1, *, transactional: bool = False) -> bytes:
        now_ms = self.world.clock.now_ms()
        records = [Record(0, now_ms, b"%d" % (value % RECORD_KEYS), b"%d" % value) for value in values]
        producer_id, epoch = (self.producer_id, self.epoch) if sequence >= 0 else (-1, -1)
        return build_batch(
            records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=transactional
        )

    def request(self, key: Key, batch: bytes, acks: int = -1, transactional_id: str | None = None) -> produce.ProduceRequest:
        topic, partition = place_of(key)
        data = produce.TopicProduceData(topic, partition_data=[produce.PartitionProduceData(partition, batch)])
        return produce.ProduceRequest(transactional_id, acks, 3000, [data])

    async def init(self, transactional_id: str | None = None) -> bool:
        """Gets a producer id and epoch; returns False if that is refused or does not work for long."""
        request = init_producer_id.InitProducerIdRequest(transactional_id, _TXN_TIMEOUT_MS, -1, -1)
        for _ in range(RETRIES):
            try:
                answer = await self.client.call(init_producer_id, 5, request)
            except Lost:
                await self.pause(1.0)
                continue
            if not answer.error_code:
                self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
                self.sequences = {}
                return True
            if transactional_id is not None:
                await self.client.find_coordinator(transactional_id, TRANSACTION)
            await self.pause(1.0)
        return False

    def next_values(self, most: int) -> list[int]:
        return [next(self.values) for _ in range(self.random.randint(1, most))]

    def restart(self) -> None:
        """The client crashes and comes back as another process."""
        self.world.recorder.mark(self.process, "crash")
        self.client.close()
        self.process = self.world.process()


def answer_of(response: produce.ProduceResponse) -> tuple[int, int]:
    """Returns (error code, offset of the first record) of an answer about one partition."""
    partition = response.responses[0].partition_responses[0]
    return partition.error_code, partition.base_offset


def sent(key: Key, values: list[int], first: int | None) -> list[Any]:
    """Returns the mops of a batch."""
    return [["send", key, [None if first is None else first + at, value]] for at, value in enumerate(values)]


class PlainProducer(Producer):
    """Sends each batch once, with acks 0, 1 or -1, and never again. `leader_lasts`: the leader's word is enough, because nobody
    else will lead.
    """

    def __init__(self, world: Stage, name: str, keys: list[Key], values: Any, *, leader_lasts: bool = True) -> None:
        super().__init__(world, name, keys, values)
        self._leader_lasts = leader_lasts

    async def once(self) -> None:
        key, values, acks = self.random.choice(self.keys), self.next_values(3), self.random.choice((0, 1, -1, -1))
        operation = self.world.recorder.invoke(self.process, "send", mops=sent(key, values, None), idempotent=True)
        request = self.request(key, self.batch(key, values), acks)
        try:
            if acks == 0:
                self.client.send_only(produce, 9, request)
                operation.info()
                return
            code, offset = answer_of(await self.client.call(produce, self.random.choice((3, 8, 12)), request))
        except Lost:
            operation.info()
            return
        if code or (acks == 1 and not self._leader_lasts):
            operation.info(error=code)
        else:
            operation.ok(mops=sent(key, values, offset))


class IdempotentProducer(Producer):
    """Sends batches one after the other or up to three at once, and again until it knows."""

    async def once(self) -> None:
        if self.producer_id < 0 and not await self.init():
            return
        key = self.random.choice(self.keys)
        window: list[tuple[list[int], bytes, Recorded]] = []
        for _ in range(self.random.choice((1, 1, 2, 3))):
            values = self.next_values(3)
            sequence = self.sequences.get(key, 0)
            self.sequences[key] = sequence + len(values)
            operation = self.world.recorder.invoke(self.process, "send", mops=sent(key, values, None), idempotent=True)
            window.append((values, self.batch(key, values, sequence), operation))
        await self._send(key, window)

    async def _send(self, key: Key, window: list[tuple[list[int], bytes, Recorded]]) -> None:
        for attempt in range(RETRIES):
            answers: list[asyncio.Future[Any]] = []
            refused = False
            try:
                for _, batch, _ in window:
                    answers.append(self.client.send(produce, 9, self.request(key, batch)))
                while window:
                    code, offset = answer_of(await self.client.wait(answers.pop(0)))
                    if code:
                        refused = code in REFUSED
                        break
                    values, _, operation = window.pop(0)
                    operation.ok(mops=sent(key, values, offset))
            except Lost:
                pass
            await self._drain(answers)
            if not window:
                return
            if refused:
                if attempt == 0 and code != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                    window.pop(0)[2].fail(error=code)
                break
            await self.pause(1.0)
        for _, _, operation in window:
            operation.info()
        self.producer_id = -1  # begin anew: the sequences are not known any more

    async def _drain(self, answers: list[asyncio.Future[Any]]) -> None:
        """Waits for what was sent after a batch that failed, so that nothing old is under way when all is sent again."""
        for answer in answers:
            try:
                await self.client.wait(answer)
            except Lost:
                continue


class TransactionalProducer(Producer):
    """Writes to several partitions in transactions, commits or aborts, and now and then reads and commits a group's offsets in
    them. `transactional_id` may have another producer at the same time: then one of them is fenced. `modern`: the protocol of
    KIP-890 (transaction version 2), in which a partition is added by the write to it.
    """

    def __init__(
        self, world: Stage, name: str, keys: list[Key], values: Any, transactional_id: str, *, modern: bool, reader: Reader | None
    ) -> None:
        super().__init__(world, name, keys, values)
        self.transactional_id = transactional_id
        self.modern = modern
        self.group = f"group of {transactional_id}"
        self._reader = reader
        self._position = 0
        self._ready = False

    async def once(self) -> None:
        if not self._ready:
            await self._begin_anew()
            return
        commit = self.random.random() < 0.7
        keys = self.random.sample(self.keys, self.random.randint(1, len(self.keys)))
        plan = [(key, self.next_values(2)) for key in keys]
        mops = [mop for key, values in plan for mop in sent(key, values, None)]
        fields = {"transactional_id": self.transactional_id, "isolation": READ_COMMITTED}
        offsets: dict[Key, int] = {}
        if self._reader is not None and self.random.random() < 0.7:
            polled = await self._reader.read(self.keys[0], self._position, committed=True)
            if polled is not None:
                records, position, _ = polled
                mops.append(["poll", {self.keys[0]: [list(record) for record in records]}])
                offsets = {self.keys[0]: position}
                self._position = position
        operation = self.world.recorder.invoke(self.process, "txn", mops=mops, **fields)
        done: list[Any] = [mop for mop in mops if mop[0] == "poll"]
        self._ready = False
        for key, values in plan:
            offset = await self._write(key, values)
            if offset is None:
                operation.fail(why="a write failed")  # nobody asks to commit: the next one with this id aborts it
                return
            done += sent(key, values, offset)
            await self.pause(0.2)
        if offsets:
            fields |= {"group": self.group}
            if not await self._send_offsets(offsets):
                operation.fail(why="the offsets failed")
                return
        if commit:
            operation.ending()
        outcome = await self._finish(commit=commit)
        known = {"mops": done, **fields, **({"offsets": offsets} if offsets else {})}
        if outcome is None and commit:
            operation.info(**known)
        elif outcome and commit:
            operation.ok(**known)
        else:
            operation.fail(**known)
        self._ready = outcome is True

    async def _begin_anew(self) -> None:
        operation = self.world.recorder.invoke(self.process, "init", transactional_id=self.transactional_id)
        self._ready = await self.init(self.transactional_id)
        if self._ready:
            operation.ok()
        else:
            operation.info()

    async def _write(self, key: Key, values: list[int]) -> int | None:
        """Returns the offset of the first value, None if the transaction cannot go on."""
        if not self.modern and not await self._add(key):
            return None
        sequence = self.sequences.get(key, 0)
        self.sequences[key] = sequence + len(values)
        batch = self.batch(key, values, sequence, transactional=True)
        for _ in range(RETRIES):
            try:
                request = self.request(key, batch, transactional_id=self.transactional_id)
                code, offset = answer_of(await self.client.call(produce, 12 if self.modern else 11, request))
            except Lost:
                code = ErrorCode.REQUEST_TIMED_OUT
            if not code:
                return offset
            if code not in RETRIED:
                return None
            await self.pause(0.5)
        return None

    async def _add(self, key: Key) -> bool:
        topic, partition = place_of(key)
        request = add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[add_partitions_to_txn.AddPartitionsToTxnTopic(topic, [partition])],
        )

        async def ask() -> int:
            answer = await self.client.call(add_partitions_to_txn, 3, request)
            return int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

        return await self._insist(ask)

    async def _send_offsets(self, offsets: dict[Key, int]) -> bool:
        if not self.modern:
            request = add_offsets_to_txn.AddOffsetsToTxnRequest(self.transactional_id, self.producer_id, self.epoch, self.group)

            async def add() -> int:
                return int((await self.client.call(add_offsets_to_txn, 3, request)).error_code)

            if not await self._insist(add):
                return False
        (key, offset), *_ = offsets.items()
        topic, partition = place_of(key)
        entry = txn_offset_commit.TxnOffsetCommitRequestPartition(partition, offset)
        commit = txn_offset_commit.TxnOffsetCommitRequest(
            self.transactional_id,
            self.group,
            self.producer_id,
            self.epoch,
            topics=[txn_offset_commit.TxnOffsetCommitRequestTopic(topic, partitions=[entry])],
        )

        async def ask() -> int:
            answer = await self.client.call(txn_offset_commit, 5 if self.modern else 3, commit)
            return int(answer.topics[0].partitions[0].error_code)

        return await self._insist(ask)

    async def _insist(self, ask: Any) -> bool:
        """Asks until it is done; returns False if it is refused or does not work for long."""
        for _ in range(RETRIES):
            try:
                code = await ask()
            except Lost:
                code = ErrorCode.REQUEST_TIMED_OUT
            if not code:
                return True
            if code not in RETRIED:
                return False
            if code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
                await self.client.find_coordinator(self.group, GROUP)
            await self.pause(0.5)
        return False

    async def _finish(self, *, commit: bool) -> bool | None:
        """Returns True if the transaction has ended as asked, False if it certainly has not, None if nobody knows."""
        request = end_txn.EndTxnRequest(self.transactional_id, self.producer_id, self.epoch, commit)
        unknown = False
        for _ in range(RETRIES):
            try:
                answer = await self.client.call(end_txn, 5 if self.modern else 3, request)
            except Lost as error:
                unknown |= error.sent
                await self.pause(0.5)
                continue
            if not answer.error_code:
                if self.modern:
                    self.producer_id, self.epoch, self.sequences = answer.producer_id, answer.producer_epoch, {}
                return True
            if answer.error_code not in RETRIED:
                return None if unknown else False
            unknown |= answer.error_code != ErrorCode.COORDINATOR_NOT_AVAILABLE
            await self.pause(0.5)
        return None

    def restart(self) -> None:
        super().restart()
        self._ready = False

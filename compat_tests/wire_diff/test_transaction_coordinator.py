"""The transaction coordinator: the life of transactional ids, as the answers to all requests that take part in it show it.

Kafka writes markers after it has answered EndTxn, and ottla before; so a scenario waits for the end of an end where the next
answer would tell the difference. What is seen of it in the log is compared in test_transactions.py.
"""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple

import pytest

from compat_tests.waiting import wait_for
from compat_tests.wire import Wire, batch
from compat_tests.wire_diff.same import check
from compat_tests.wire_diff.test_transactions import told
from ottla.wire.messages import offset_fetch
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.list_transactions import ListTransactionsRequest
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

CONCURRENT_TRANSACTIONS = 51
COMMIT, ABORT = True, False
V1, V2 = 4, 5
"""Of EndTxn: the last version without, and the first with a new epoch at every end."""


class Producer(NamedTuple):
    producer_id: int
    producer_epoch: int

    def moved(self, epochs: int) -> Producer:
        return self._replace(producer_epoch=self.producer_epoch + epochs)


class Client:
    """A transactional id, its topic with two partitions, and the requests of its producer."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.topic = wire.create("t", 2)
        self.tid = wire.name("tx")
        self.group = wire.name("g")
        self.ids = 0

    def init(self, version: int = 4, timeout_ms: int = 60_000, had: Producer = Producer(-1, -1), tid: str | None = None) -> Any:  # noqa: B008 - a tuple
        """Asks until the old transaction is ended; the answer names ids by their order."""
        while True:
            answer = self.wire.call(InitProducerIdRequest(self.tid if tid is None else tid, timeout_ms, *had), version)
            if answer.error_code != CONCURRENT_TRANSACTIONS:
                break
        if answer.producer_id >= 0 and ("producer", answer.producer_id) not in self.wire.labels:
            self.ids += 1
            self.wire.labels["producer", answer.producer_id] = f"<producer {self.ids}>"
        return answer

    def begin(self) -> Producer:
        answer = self.init()
        return Producer(answer.producer_id, answer.producer_epoch)

    def of(self, tid: str) -> Client:
        """Returns a client of another transactional id, with the same topic."""
        other = copy(self)
        other.tid = self.wire.name(tid)
        return other

    def add(self, producer: Producer, *partitions: int, version: int = 3, verify: bool = False, topic: str | None = None) -> Any:
        topics = [AddPartitionsToTxnTopic(self.topic if topic is None else topic, list(partitions))]
        of_broker = [AddPartitionsToTxnTransaction(self.tid, *producer, verify, topics)]
        return self.wire.call(AddPartitionsToTxnRequest(of_broker, self.tid, *producer, topics), version)

    def send(self, producer: Producer, partition: int = 0, sequence: int = 0, version: int = 9) -> Any:
        records = batch(
            b"v",
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=sequence,
            transactional=True,
        )
        named = self.wire.topic_ids[self.topic] if version >= 13 else self.topic
        return self.wire.produce(named, records, version=version, partition=partition, transactional_id=self.tid)

    def end(self, producer: Producer, result: bool = COMMIT, version: int = V2, *, wait: bool = True) -> Any:
        answer = self.wire.call(EndTxnRequest(self.tid, *producer, result), version)
        if wait:
            wait_for(lambda: not self.state().startswith("Prepare"), "the end is complete")
        return answer

    def state(self) -> str:
        found = self.wire.call(DescribeTransactionsRequest([self.tid]), 0).transaction_states[0]
        return str(found.transaction_state)

    def describe(self) -> Any:
        """DescribeTransactions, and ListTransactions of this id; times only whether there are any, partitions in order."""
        answer = self.wire.call(DescribeTransactionsRequest([self.tid]), 0)
        for found in answer.transaction_states:
            found.transaction_start_time_ms = min(found.transaction_start_time_ms, 0)
            for topic in found.topics:
                topic.partitions.sort()
        listed = self.wire.call(ListTransactionsRequest(), 1)
        return answer, [each for each in listed.transaction_states if each.transactional_id == self.tid]

    def commit_offset(self, producer: Producer, version: int = 5, offset: int = 7, topic: str | None = None, **more: Any) -> Any:
        name = self.topic if topic is None else topic
        topic_id = self.wire.topic_ids.get(name, b"\1" * 16)
        topics = [TxnOffsetCommitRequestTopic(name, topic_id, [TxnOffsetCommitRequestPartition(0, offset)])]
        return self.wire.call(TxnOffsetCommitRequest(self.tid, self.group, *producer, topics=topics, **more), version)

    def offset(self, *, stable: bool) -> Any:
        topic = offset_fetch.OffsetFetchRequestTopics(self.topic, partition_indexes=[0])
        group = offset_fetch.OffsetFetchRequestGroup(self.group, topics=[topic])
        return self.wire.call(offset_fetch.OffsetFetchRequest(groups=[group], require_stable=stable), 9)

    def read(self) -> Any:
        return [told(self.wire.fetch(self.topic, 0, partition=partition, isolation_level=1)) for partition in (0, 1)]


@pytest.mark.parametrize("version", range(6))
def test_init_at_every_version(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        client = Client(wire)
        first, second = client.init(version), client.init(version)
        answers = [first, second, client.describe()]
        answers += [client.init(version, timeout_ms) for timeout_ms in (0, -1, 900_000, 900_001)]
        answers += [client.init(version, tid=""), client.init(version, tid="x" * 300)]
        if version >= 3:
            had = Producer(second.producer_id, second.producer_epoch)
            tries = (
                had,
                had.moved(1),
                had.moved(2),
                had.moved(-1),
                had,
                Producer(had.producer_id + 500, 0),
                had._replace(producer_epoch=-1),
            )
            answers += [client.init(version, had=each) for each in tries]
        return answers

    check(wires, "T1", scenario)


@pytest.mark.parametrize("version", range(6))
def test_partitions_at_every_version(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        client = Client(wire)
        producer = client.begin()
        answers = [client.of("nobody").add(producer, 0, version=version)]
        if version >= 4:
            answers.append(client.add(producer, 1, version=version, verify=True))
        answers += [client.add(producer, 0, version=version), client.describe(), client.add(producer, 0, 1, version=version)]
        answers += [client.add(producer, 0, 9, version=version), client.add(producer, 0, version=version, topic="nope")]
        answers += [
            client.add(other, 0, version=version) for other in (producer.moved(1), producer.moved(-1), Producer(99_999, 0))
        ]
        if version >= 4:
            answers.append(client.add(producer, 0, version=version, verify=True))
        return [*answers, client.describe(), client.end(producer), client.add(producer, 0, version=version), client.describe()]

    check(wires, "T8", scenario)


@pytest.mark.parametrize("version", range(3, 14))
def test_produce_verifies_or_adds(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        client = Client(wire)
        producer = client.begin()
        answers = [client.send(producer, version=version), client.describe(), client.add(producer, 0)]
        answers += [client.send(producer, 0, n, version) for n in (0, 1)]
        answers += [client.send(other, 1, 0, version) for other in (producer.moved(1), producer.moved(-1), Producer(99_999, 0))]
        answers.append(client.of("nobody").send(producer, 1, 0, version))
        end = client.end(producer, version=V2 if version >= 12 else V1)
        return [*answers, end, client.send(producer, 0, 2, version), client.describe(), client.read()]

    check(wires, "T10b", scenario)


@pytest.mark.parametrize("result", [COMMIT, ABORT])
@pytest.mark.parametrize("version", range(6))
def test_ends_at_every_version(wires: dict[str, Wire], version: int, result: bool) -> None:
    def scenario(wire: Wire) -> Any:
        client = Client(wire)
        producer = client.begin()
        bumped = int(version >= V2)
        answers = [client.end(producer, COMMIT, version), client.of("nobody").end(producer, result, version, wait=False)]
        for number in range(3):
            answers += [client.add(producer, 0, 1), client.send(producer, 0, 0 if bumped else number), client.describe()]
            others = (producer.moved(1), producer.moved(-1), Producer(99_999, 0))
            answers += [client.end(other, result, version) for other in others]
            answers += [client.end(producer, result, version), client.describe()]
            answers += [client.end(producer, result, version), client.end(producer, not result, version)]
            producer = producer.moved(bumped)
        return [*answers, client.read()]

    check(wires, "T5", scenario)


@pytest.mark.parametrize("first", [COMMIT, ABORT])
def test_ends_of_nothing_raise_the_epoch(wires: dict[str, Wire], first: bool) -> None:
    """Version 2 lets a producer abort what never began, before and after other transactions."""

    def scenario(wire: Wire) -> Any:
        client = Client(wire)
        producer = client.begin()
        answers = [client.end(producer, ABORT), client.describe(), client.end(producer, ABORT), client.end(producer, COMMIT)]
        producer = producer.moved(1)
        answers += [client.send(producer, version=12), client.end(producer, first), client.describe()]
        producer = producer.moved(1)
        answers += [client.end(producer, COMMIT), client.end(producer, ABORT), client.describe(), client.end(producer, COMMIT)]
        return [*answers, client.init(), client.describe(), client.read()]

    check(wires, "ends of what never began", scenario)


@pytest.mark.parametrize("version", [V1, V2])
def test_who_takes_over_fences(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        client = Client(wire)
        old = client.begin()
        answers = [client.add(old, 0, 1), client.send(old), client.init(), client.describe(), client.read()]
        answers += [client.end(old, result, version) for result in (COMMIT, ABORT)]
        answers += [client.send(old, 0, 1), client.send(old, 0, 1, 12), client.add(old, 0), client.add(old, 0, version=1)]
        return [*answers, client.init(had=old), client.init(version=3, had=old), client.describe()]

    check(wires, "T3", scenario)


@pytest.mark.parametrize("version", range(7))
@pytest.mark.parametrize("result", [COMMIT, ABORT])
def test_offsets_in_a_transaction(wires: dict[str, Wire], version: int, result: bool) -> None:
    def scenario(wire: Wire) -> Any:
        client = Client(wire)
        producer = client.begin()
        answers = [client.commit_offset(producer, version)]
        answers += [wire.call(AddOffsetsToTxnRequest(client.tid, *producer, client.group), added) for added in range(5)]
        answers += [client.commit_offset(producer, version), client.offset(stable=False), client.offset(stable=True)]
        others = (producer.moved(1), producer.moved(-1), Producer(99_999, 0))
        answers += [client.commit_offset(other, version) for other in others]
        answers += [wire.call(AddOffsetsToTxnRequest(client.tid, *other, client.group), 3) for other in others]
        answers.append(client.commit_offset(producer, version, topic="nope"))
        if version >= 3:
            members: list[dict[str, Any]] = [{"member_id": "m"}, {"generation_id_or_member_epoch": 3}, {"group_instance_id": "i"}]
            answers += [client.commit_offset(producer, version, **member) for member in members]
        answers += [client.end(producer, result, V1), client.offset(stable=True)]
        return answers

    check(wires, "T17", scenario)


@pytest.mark.parametrize("version", range(3))
def test_listing(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        client = Client(wire)
        producer = client.begin()
        client.add(producer, 0)
        idle = client.init(tid=wire.name("idle"))
        filters: list[tuple[Any, ...]] = [
            ([],),
            (["Ongoing"],),
            (["Empty", "ongoing", "What", "What"],),
            (["Dead", "PrepareEpochFence"],),
            ([], [producer.producer_id]),
            ([], [idle.producer_id, producer.producer_id]),
            (["Ongoing"], [idle.producer_id]),
        ]
        if version >= 1:
            filters += [(["Ongoing"], [], 1 << 60), ([], [producer.producer_id], -5)]
        if version >= 2:
            filters += [([], [], -1, pattern) for pattern in ("", wire.name("tx"), ".*idle", "nothing", "(", "[[:alpha:]", "tx")]
        answers = []
        for each in filters:
            answer = wire.call(ListTransactionsRequest(*each), version)
            answer.transaction_states = [s for s in answer.transaction_states if s.transactional_id.startswith(wire.prefix)]
            answers.append(answer)
        ids = [client.tid, wire.name("idle"), "nope", "", client.tid]
        described = wire.call(DescribeTransactionsRequest(ids), 0)
        for found in described.transaction_states:
            found.transaction_start_time_ms = min(found.transaction_start_time_ms, 0)
        return [*answers, described, wire.call(DescribeTransactionsRequest([]), 0)]

    check(wires, "T16", scenario)


@pytest.mark.parametrize("version", [4, 5])
def test_no_transactions_at_all(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        answer = wire.call(AddPartitionsToTxnRequest([]), version, wire.patience_s("kafka"))
        return answer if isinstance(answer, str) else answer.error_code

    check(wires, "TC-none", scenario)

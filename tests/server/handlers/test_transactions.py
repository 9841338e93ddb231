"""A transaction's requests at every version, against a broker in this process: from InitProducerId to EndTxn, and who asks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, NamedTuple

import pytest

from ottla.testing import Broker
from ottla.wire.api import BY_MODULE
from ottla.wire.batch import iter_batches
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    create_topics,
    delete_topics,
    describe_transactions,
    end_txn,
    fetch,
    find_coordinator,
    init_producer_id,
    list_transactions,
    offset_fetch,
    produce,
    txn_offset_commit,
    update_features,
)
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.list_transactions import ListTransactionsRequest
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.wire.records import Record, build_batch
from tests.asking import ask


def versions(api: str) -> range:
    return range(BY_MODULE[api].min_version, BY_MODULE[api].max_version + 1)


class Producer(NamedTuple):
    producer_id: int
    producer_epoch: int


class Cluster:
    """A broker with topic `t` of two partitions and both coordinators at hand."""

    def __init__(self, broker: Broker) -> None:
        self.port = broker.port
        self.topic_id = bytes(16)

    async def ask(self, messages: Any, version: int, request: Any) -> Any:
        return await ask(self.port, messages, version, request)

    async def prepare(self) -> None:
        topic = create_topics.CreatableTopic("t", 2, 1)
        made = await self.ask(create_topics, 7, create_topics.CreateTopicsRequest([topic]))
        self.topic_id = made.topics[0].topic_id
        for kind in (0, 1):
            request = find_coordinator.FindCoordinatorRequest(key_type=kind, coordinator_keys=["tx"])
            while (await self.ask(find_coordinator, 4, request)).coordinators[0].error_code:
                pass

    async def init(self, version: int = 5, tid: str = "tx", timeout_ms: int = 60_000, had: Producer | None = None) -> Any:
        return await self.ask(init_producer_id, version, InitProducerIdRequest(tid, timeout_ms, *(had or (-1, -1))))

    async def producer(self) -> Producer:
        answer = await self.init()
        assert answer.error_code == 0
        return Producer(answer.producer_id, answer.producer_epoch)

    async def add(self, producer: Producer, version: int = 3, partitions: tuple[int, ...] = (0,), *, verify: bool = False) -> Any:
        """{(topic, partition): code}."""
        topics = [AddPartitionsToTxnTopic("t", list(partitions))]
        request = AddPartitionsToTxnRequest(
            [AddPartitionsToTxnTransaction("tx", *producer, verify, topics)], "tx", *producer, topics
        )
        answer = await self.ask(add_partitions_to_txn, version, request)
        if version >= 4:
            (only,) = answer.results_by_transaction
            assert only.transactional_id == "tx"
            found = only.topic_results
        else:
            found = answer.results_by_topic_v3_and_below
        return {(t.name, p.partition_index): p.partition_error_code for t in found for p in t.results_by_partition}

    async def send(self, producer: Producer, version: int = 9, partition: int = 0, sequence: int = 0) -> int:
        records = [Record(0, int(time.time() * 1000), None, b"v", [])]  # markers have today's time: old ones were another segment
        batch = build_batch(
            records,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=sequence,
            transactional=True,
        )
        data = produce.PartitionProduceData(partition, batch)
        topic = produce.TopicProduceData("t", self.topic_id, [data])
        answer = await self.ask(produce, version, produce.ProduceRequest("tx", -1, 5_000, [topic]))
        code: int = answer.responses[0].partition_responses[0].error_code
        return code

    async def commit_offset(
        self, producer: Producer, version: int, offset: int = 5, group: str = "g", member: tuple[str, int] = ("", -1)
    ) -> int:
        """Returns the error code. `member` is its id, and its generation or epoch."""
        partition = TxnOffsetCommitRequestPartition(0, offset)
        topic = TxnOffsetCommitRequestTopic("t", self.topic_id, [partition])
        member_id, epoch = member
        request = TxnOffsetCommitRequest(
            "tx", group, *producer, member_id=member_id, generation_id_or_member_epoch=epoch, topics=[topic]
        )
        answer = await self.ask(txn_offset_commit, version, request)
        code: int = answer.topics[0].partitions[0].error_code
        return code

    async def committed(self, group: str = "g", *, stable: bool = False) -> tuple[int, int]:
        """(code, offset)."""
        topic = offset_fetch.OffsetFetchRequestTopics("t", partition_indexes=[0])
        asked = offset_fetch.OffsetFetchRequestGroup(group, topics=[topic])
        answer = await self.ask(offset_fetch, 9, offset_fetch.OffsetFetchRequest(groups=[asked], require_stable=stable))
        partition = answer.groups[0].topics[0].partitions[0]
        return partition.error_code, partition.committed_offset

    async def end(self, producer: Producer, version: int, *, commit: bool = True, tid: str = "tx") -> Any:
        return await self.ask(end_txn, version, end_txn.EndTxnRequest(tid, *producer, commit))

    async def read(self, partition: int = 0, isolation: int = 1) -> tuple[list[bytes | None], int]:
        """(values read, how many transactions were aborted)."""
        wanted = fetch.FetchPartition(partition, fetch_offset=0, partition_max_bytes=1 << 20)
        request = fetch.FetchRequest(
            max_wait_ms=0, max_bytes=1 << 20, isolation_level=isolation, topics=[fetch.FetchTopic("t", partitions=[wanted])]
        )
        data = (await self.ask(fetch, 12, request)).responses[0].partitions[0]
        found = [header.is_control for header, _ in iter_batches(bytes(data.records))]
        return [None if control else b"v" for control in found], len(data.aborted_transactions or [])


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(offsets_topic_num_partitions=1, transaction_state_log_num_partitions=3) as broker:
        yield broker


Scenario = Callable[[Cluster, int], Coroutine[Any, Any, None]]


def with_versions(api: str) -> Callable[[Scenario], Callable[..., None]]:
    """The test runs against a fresh broker for each version of an API."""

    def decorate(scenario: Scenario) -> Callable[..., None]:
        @pytest.mark.parametrize("version", versions(api))
        def test(broker: Broker, version: int) -> None:
            async def run() -> None:
                cluster = Cluster(broker)
                await cluster.prepare()
                await scenario(cluster, version)

            asyncio.run(run())

        return test

    return decorate


def test_ends_that_raise_epochs_need_the_level_that_has_them(broker: Broker) -> None:
    """In a cluster that was begun by an older release, level 0 of the feature has no place for the client's version."""

    async def run() -> None:
        cluster = Cluster(broker)
        await cluster.prepare()
        lower = update_features.FeatureUpdateKey("transaction.version", 0, upgrade_type=2)
        assert (await cluster.ask(update_features, 1, update_features.UpdateFeaturesRequest(5000, [lower]))).error_code == 0
        producer = await cluster.producer()
        await cluster.add(producer)
        refused = await cluster.end(producer, 5)
        assert (refused.error_code, refused.producer_id) == (ErrorCode.UNSUPPORTED_VERSION, -1)
        assert (await cluster.end(producer, 4)).error_code == 0

    asyncio.run(run())


@with_versions("init_producer_id")
async def test_init_producer_id(cluster: Cluster, version: int) -> None:
    first, second = await cluster.init(version), await cluster.init(version)
    assert (first.error_code, first.producer_epoch) == (0, 0)
    assert (second.error_code, second.producer_id, second.producer_epoch) == (0, first.producer_id, 1)
    assert (await cluster.init(version, "")).error_code == ErrorCode.INVALID_REQUEST
    for timeout_ms in (0, 900_001, 3_600_000):
        assert (await cluster.init(version, timeout_ms=timeout_ms)).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    if version >= 3:
        refused = await cluster.init(version, had=Producer(first.producer_id, 0))
        fenced = ErrorCode.PRODUCER_FENCED if version >= 4 else ErrorCode.INVALID_PRODUCER_EPOCH
        assert (refused.error_code, refused.producer_id, refused.producer_epoch) == (fenced, -1, -1)


@with_versions("add_partitions_to_txn")
async def test_add_partitions_to_txn(cluster: Cluster, version: int) -> None:
    producer = await cluster.producer()
    assert await cluster.add(producer, version, (0, 1)) == {("t", 0): 0, ("t", 1): 0}
    assert await cluster.add(producer, version, (0, 9)) == {
        ("t", 0): ErrorCode.OPERATION_NOT_ATTEMPTED,
        ("t", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    old = Producer(producer.producer_id, producer.producer_epoch - 1)
    fenced = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert await cluster.add(old, version) == {("t", 0): fenced}
    assert await cluster.add(Producer(99, 0), version) == {("t", 0): ErrorCode.INVALID_PRODUCER_ID_MAPPING}


@pytest.mark.parametrize("version", [4, 5])
def test_verify_only(broker: Broker, version: int) -> None:
    async def run() -> None:
        cluster = Cluster(broker)
        await cluster.prepare()
        producer = await cluster.producer()
        await cluster.add(producer, 3, (0,))
        found = await cluster.add(producer, version, (0, 1), verify=True)
        assert found == {("t", 0): 0, ("t", 1): ErrorCode.TRANSACTION_ABORTABLE}

    asyncio.run(run())


@with_versions("produce")
async def test_a_partition_has_to_be_in_the_transaction(cluster: Cluster, version: int) -> None:
    producer = await cluster.producer()
    code = await cluster.send(producer, version)
    if version >= 12:
        assert code == 0, "it is put there"
    else:
        assert code == (ErrorCode.TRANSACTION_ABORTABLE if version >= 11 else ErrorCode.INVALID_TXN_STATE)
        await cluster.add(producer)
        assert await cluster.send(producer, version) == 0
    assert await cluster.send(producer, version, sequence=1) == 0
    assert await cluster.send(Producer(99, 0), version, 1) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    old = Producer(producer.producer_id, producer.producer_epoch + 1)
    assert await cluster.send(old, version, 1) == ErrorCode.INVALID_PRODUCER_EPOCH


@with_versions("end_txn")
async def test_end_txn(cluster: Cluster, version: int) -> None:
    bumped = int(version >= 5)
    producer = await cluster.producer()
    assert (await cluster.end(producer, version)).error_code == ErrorCode.INVALID_TXN_STATE
    for commit in (True, False):
        await cluster.add(producer)
        assert await cluster.send(producer, sequence=0 if bumped or commit else 1) == 0
        assert (await cluster.read())[0][-1:] != [b"v"], "not before the end"
        ended = await cluster.end(producer, version, commit=commit)
        assert ended.error_code == 0
        if bumped:
            assert (ended.producer_id, ended.producer_epoch) == (producer.producer_id, producer.producer_epoch + 1)
            producer = Producer(ended.producer_id, ended.producer_epoch)
        assert await cluster.read() == ([b"v", None, b"v", None][: 2 if commit else 4], 0 if commit else 1)
    old = Producer(producer.producer_id, producer.producer_epoch - 2 if bumped else 7)
    fenced = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert (await cluster.end(old, version)).error_code == fenced
    assert (await cluster.end(producer, version, tid="")).error_code == ErrorCode.INVALID_REQUEST
    assert (await cluster.end(producer, version, tid="other")).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


@with_versions("txn_offset_commit")
async def test_offsets_count_with_their_transaction(cluster: Cluster, version: int) -> None:
    producer = await cluster.producer()
    if version < 5:
        code = await cluster.commit_offset(producer, version)
        assert code == (ErrorCode.TRANSACTION_ABORTABLE if version >= 4 else ErrorCode.INVALID_TXN_STATE)
        request = add_offsets_to_txn.AddOffsetsToTxnRequest("tx", *producer, "g")
        assert (await cluster.ask(add_offsets_to_txn, min(version, 4), request)).error_code == 0
    assert await cluster.commit_offset(producer, version) == 0
    assert await cluster.committed() == (0, -1)
    assert await cluster.committed(stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    assert (await cluster.end(producer, 4)).error_code == 0
    assert await cluster.committed(stable=True) == (0, 5)
    assert await cluster.commit_offset(Producer(99, 0), version) == ErrorCode.INVALID_PRODUCER_ID_MAPPING


@with_versions("txn_offset_commit")
async def test_offsets_of_an_aborted_transaction(cluster: Cluster, version: int) -> None:
    producer = await cluster.producer()
    request = add_offsets_to_txn.AddOffsetsToTxnRequest("tx", *producer, "g")
    assert (await cluster.ask(add_offsets_to_txn, 4, request)).error_code == 0
    assert await cluster.commit_offset(producer, version) == 0
    if version >= 3:
        member = ("nobody", 1)
        assert await cluster.commit_offset(producer, version, member=member) == ErrorCode.UNKNOWN_MEMBER_ID
        unknown = ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.ILLEGAL_GENERATION
        assert await cluster.commit_offset(producer, version, group="new", member=member) == unknown
    assert (await cluster.end(producer, 4, commit=False)).error_code == 0
    assert await cluster.committed(stable=True) == (0, -1)


@with_versions("list_transactions")
async def test_list_and_describe(cluster: Cluster, version: int) -> None:
    producer = await cluster.producer()
    await cluster.add(producer, partitions=(1, 0))
    await cluster.init(tid="idle")

    async def listed(*filters: Any) -> set[tuple[str, str]]:
        answer = await cluster.ask(list_transactions, version, ListTransactionsRequest(*filters))
        assert answer.error_code == 0
        assert answer.unknown_state_filters == (["What"] if filters and "What" in filters[0] else [])
        return {(each.transactional_id, each.transaction_state) for each in answer.transaction_states}

    assert await listed() == {("tx", "Ongoing"), ("idle", "Empty")}
    assert await listed(["Ongoing", "What"]) == {("tx", "Ongoing")}
    assert await listed(["What"]) == set()
    assert await listed([], [producer.producer_id]) == {("tx", "Ongoing")}
    if version >= 1:
        assert await listed(["Ongoing"], [], 1_000_000) == set()
    if version >= 2:
        assert await listed([], [], -1, "id.*") == {("idle", "Empty")}
        refused = await cluster.ask(list_transactions, 2, ListTransactionsRequest([], [], -1, "("))
        assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    request = describe_transactions.DescribeTransactionsRequest(["tx", "nope", ""])
    described, unknown, empty = (await cluster.ask(describe_transactions, 0, request)).transaction_states
    assert (described.error_code, described.transaction_state, described.transaction_timeout_ms) == (0, "Ongoing", 60_000)
    assert (described.producer_id, described.producer_epoch) == producer
    assert [(topic.topic, topic.partitions) for topic in described.topics] == [("t", [0, 1])]
    assert described.transaction_start_time_ms > 0
    assert (unknown.error_code, empty.error_code) == (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ErrorCode.INVALID_REQUEST)


@with_versions("describe_transactions")
async def test_ids_go_with_the_topic_that_they_are_kept_in(cluster: Cluster, version: int) -> None:
    await cluster.add(await cluster.producer())
    request = delete_topics.DeleteTopicsRequest([], ["__transaction_state"], 5_000)
    assert (await cluster.ask(delete_topics, 5, request)).responses[0].error_code == 0
    find = find_coordinator.FindCoordinatorRequest(key_type=1, coordinator_keys=["tx"])
    while (await cluster.ask(find_coordinator, 4, find)).coordinators[0].error_code:
        pass  # it is being made anew, with the same leader epoch as the one before
    describe = describe_transactions.DescribeTransactionsRequest(["tx"])
    (found,) = (await cluster.ask(describe_transactions, version, describe)).transaction_states
    assert found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert (await cluster.init()).error_code == 0

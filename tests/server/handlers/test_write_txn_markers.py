"""WriteTxnMarkers: markers in the log, who is refused, offsets of transactions, and answers that wait for an fsync."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.log.errors import StorageError
from ottla.server.group.coordinator import GroupCoordinator
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from tests.fakes import MemoryBroker
from tests.log.support import batch
from tests.server.handlers.data_calls import call, fetch, fetch_request, produce, read, versions

NO_VERIFICATION = {"transaction.partition.verification.enable": "false"}


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker({"t": 3, "__consumer_offsets": 2}, NO_VERIFICATION)


def marker(producer_id: int, *topics: tuple[str, list[int]], commit: bool = False, epoch: int = 0, **fields: int) -> Any:
    return WritableTxnMarker(producer_id, epoch, commit, [WritableTxnMarkerTopic(*topic) for topic in topics], **fields)


def codes(answer: Any) -> dict[tuple[int, str, int], int]:
    return {
        (of.producer_id, topic.name, partition.partition_index): partition.error_code
        for of in answer.markers
        for topic in of.topics
        for partition in topic.partitions
    }


def write(broker: MemoryBroker, *markers: WritableTxnMarker, version: int = 2) -> dict[tuple[int, str, int], int]:
    return codes(call(broker, "write_txn_markers", version, WriteTxnMarkersRequest(list(markers))))


def log_of(broker: MemoryBroker, topic: str = "t", index: int = 0) -> Any:
    replica = broker.replicas.get(topic, index)
    assert replica is not None
    return replica.log


def begin(broker: MemoryBroker, producer_id: int, index: int = 0) -> None:
    records = batch(2, producer=(producer_id, 0, 0), transactional=True)
    assert produce(broker, "t", records, index=index, transactional_id="tx").error_code == 0


@pytest.mark.parametrize("version", versions("write_txn_markers"))
def test_each_partition_gets_its_marker(broker: MemoryBroker, version: int) -> None:
    begin(broker, 7)
    begin(broker, 7, index=1)
    begin(broker, 8)
    assert log_of(broker).last_stable_offset == 0
    answer = write(broker, marker(7, ("t", [0, 1, 9]), ("nope", [0])), marker(8, ("t", [0]), commit=True), version=version)
    assert answer == {(7, "t", 0): 0, (7, "t", 1): 0, (7, "t", 9): 3, (7, "nope", 0): 3, (8, "t", 0): 0}
    assert (log_of(broker).last_stable_offset, log_of(broker, index=1).last_stable_offset) == (6, 3)
    data = fetch(broker, "t", isolation_level=1)
    assert [(each.producer_id, each.first_offset) for each in data.aborted_transactions] == [(7, 0)]


def test_nothing_to_do(broker: MemoryBroker) -> None:
    assert write(broker) == {}
    assert write(broker, marker(7), marker(7, ("t", []))) == {}
    assert log_of(broker).log_end_offset == 0


def test_a_partition_twice_gets_one_marker(broker: MemoryBroker) -> None:
    assert write(broker, marker(7, ("t", [0, 0]))) == {(7, "t", 0): 0}
    assert log_of(broker).log_end_offset == 1


def test_of_several_markers_the_last_result_counts(broker: MemoryBroker) -> None:
    old, new = marker(7, ("t", [0]), coordinator_epoch=1), marker(7, ("t", [0]), coordinator_epoch=2)
    assert write(broker, new, old) == {(7, "t", 0): ErrorCode.TRANSACTION_COORDINATOR_FENCED}
    assert write(broker, old, new) == {(7, "t", 0): 0}


def test_refusals(broker: MemoryBroker) -> None:
    begin(broker, 7)
    for impossible in (marker(-1, ("t", [0])), marker(7, ("t", [0]), epoch=-1), marker(7, ("t", [0]), transaction_version=-1)):
        assert list(write(broker, impossible).values()) == [ErrorCode.INVALID_REQUEST]
    assert list(write(broker, marker(7, ("t", [0]), transaction_version=2)).values()) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert log_of(broker).log_end_offset == 2
    assert list(write(broker, marker(7, ("t", [0]), epoch=1, transaction_version=2)).values()) == [0]
    assert list(write(broker, marker(7, ("t", [0]))).values()) == [ErrorCode.INVALID_PRODUCER_EPOCH]


def test_who_does_not_lead(broker: MemoryBroker) -> None:
    broker.create_topic("elsewhere", leader=2)
    answer = write(broker, marker(7, ("elsewhere", [0])))
    assert list(answer.values()) in ([ErrorCode.NOT_LEADER_OR_FOLLOWER], [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])


def test_a_directory_that_failed(broker: MemoryBroker) -> None:
    with pytest.raises(StorageError), log_of(broker).directory.guard("a test"):
        raise OSError("broken")
    assert list(write(broker, marker(7, ("t", [0]))).values()) == [ErrorCode.KAFKA_STORAGE_ERROR]


class Groups:
    """The part of the group coordinator that the handler needs."""

    def __init__(self, *, loaded: bool) -> None:
        self.loaded = loaded
        self.ended: list[tuple[int, int, bool]] = []

    def is_loaded(self, partition: int) -> bool:
        return self.loaded

    def transaction_ended(self, partition: int, producer_id: int, *, committed: bool, replicated: object = None) -> None:
        assert replicated is None
        self.ended.append((partition, producer_id, committed))


@pytest.mark.parametrize("loaded", [True, False])
def test_the_groups_learn_of_their_markers(broker: MemoryBroker, loaded: bool) -> None:
    groups = Groups(loaded=loaded)
    context: Any = broker.context
    context.existing_groups = groups
    answer = write(broker, marker(7, ("__consumer_offsets", [1]), ("t", [0]), commit=True))
    expected = 0 if loaded else ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer == {(7, "__consumer_offsets", 1): expected, (7, "t", 0): 0}
    assert groups.ended == ([(1, 7, True)] if loaded else [])
    assert log_of(broker, "__consumer_offsets", 1).log_end_offset == int(loaded)


def test_the_coordinator_has_what_the_handler_asks_for() -> None:
    assert hasattr(GroupCoordinator, "is_loaded")
    assert hasattr(GroupCoordinator, "transaction_ended")


def test_the_answer_waits_for_the_fsync() -> None:
    broker = MemoryBroker({"t": 2}, NO_VERIFICATION | {"log.flush.interval.messages": "1"})
    waiting = call(broker, "write_txn_markers", 2, WriteTxnMarkersRequest([marker(7, ("t", [0, 1])), marker(8, ("t", [1]))]))
    assert not waiting.done()
    assert log_of(broker).high_watermark == 0
    broker.clock.advance()
    assert codes(read("write_txn_markers", 2, waiting.result())) == {(7, "t", 0): 0, (7, "t", 1): 0, (8, "t", 1): 0}
    assert [log_of(broker, index=index).high_watermark for index in (0, 1)] == [1, 2]


def test_an_fsync_that_fails() -> None:
    broker = MemoryBroker({"t": 2}, NO_VERIFICATION | {"log.flush.interval.messages": "1"})
    waiting = call(broker, "write_txn_markers", 2, WriteTxnMarkersRequest([marker(7, ("t", [0]), ("nope", [0]))]))
    with pytest.raises(StorageError), log_of(broker).directory.guard("a test"):
        raise OSError("broken")
    broker.clock.advance()
    assert codes(read("write_txn_markers", 2, waiting.result())) == {
        (7, "t", 0): ErrorCode.KAFKA_STORAGE_ERROR,
        (7, "nope", 0): 3,
    }


def test_a_reader_that_waits_is_woken(broker: MemoryBroker) -> None:
    begin(broker, 7)
    waiting = call(broker, "fetch", 12, fetch_request("t", {0: 0}, isolation_level=1, max_wait_ms=60_000))
    begin(broker, 8)
    broker.clock.advance()
    assert not waiting.done(), "nothing that it may see has come"
    write(broker, marker(7, ("t", [0])))
    broker.clock.advance()
    (topic,) = read("fetch", 12, waiting.result()).responses
    assert [each.producer_id for each in topic.partitions[0].aborted_transactions] == [7]


def test_a_topic_that_a_marker_names_again_gets_one_marker(broker: MemoryBroker) -> None:
    begin(broker, 7)
    before = log_of(broker).log_end_offset
    assert write(broker, marker(7, ("t", [0, 0]), ("nope", [0]), ("t", [0]))) == {(7, "t", 0): 0, (7, "nope", 0): 3}
    assert log_of(broker).log_end_offset == before + 1

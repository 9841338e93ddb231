"""Produce at every version: what is appended, what is refused and how, acks, transactions, hints to the leader."""

from __future__ import annotations

import errno
import struct
from typing import Any

import pytest
from crc32c import crc32c

from ottla.server.base.errors import CloseConnection
from ottla.server.base.promise import Acknowledgement
from ottla.server.handlers import produce as produce_module
from ottla.server.partitions.high_watermark import HighWatermark
from ottla.server.partitions.replica import Replica
from ottla.server.partitions.roles import Leader
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.internal.config_record import ConfigRecord
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.records import Record, build_batch
from tests.fakes import NOW_MS, MemoryBroker
from tests.in_loop import in_loop
from tests.log.support import batch
from tests.server.handlers.data_calls import call, fetch, produce, produce_request, read, versions
from tests.server.txn.fakes import TID, Driver

THREE = batch(3)


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker({"t": 2})


def patched(records: bytes, at: int, kind: str, value: int) -> bytes:
    """With a field overwritten, and the CRC made right again."""
    data = bytearray(records)
    struct.pack_into(f">{kind}", data, at, value)
    if at >= 21:
        struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    return bytes(data)


def code(answer: Any) -> tuple[ErrorCode, int, int, int]:
    return ErrorCode(answer.error_code), answer.base_offset, answer.log_append_time_ms, answer.log_start_offset


@pytest.mark.parametrize("version", versions("produce"))
def test_every_version_appends(broker: MemoryBroker, version: int) -> None:
    first, second = (produce(broker, "t", THREE, version) for _ in range(2))
    start = 0 if version >= 5 else -1
    assert code(first) == (ErrorCode.NONE, 0, -1, start)
    assert code(second) == (ErrorCode.NONE, 3, -1, start)


@pytest.mark.parametrize("acks", [1, -1])
def test_acks_1_and_all(broker: MemoryBroker, acks: int) -> None:
    assert produce(broker, "t", THREE, acks=acks).error_code == ErrorCode.NONE


def test_acks_0_gets_no_answer(broker: MemoryBroker) -> None:
    assert call(broker, "produce", 9, produce_request("t", {0: THREE}, acks=0)) is None
    assert produce(broker, "t", THREE).base_offset == 3


@pytest.mark.parametrize(("topic", "records"), [("nope", THREE), ("t", patched(THREE, 17, "I", 1)), ("t", None)])
def test_acks_0_and_an_error_closes(broker: MemoryBroker, topic: str, records: bytes | None) -> None:
    with pytest.raises(CloseConnection, match=f"{topic}-0"):
        call(broker, "produce", 9, produce_request(topic, {0: records}, acks=0))


def test_the_line_about_acks_0_and_many_errors_is_short(broker: MemoryBroker) -> None:
    name = "n" * 30_000
    with pytest.raises(CloseConnection, match=r"n-9: UNKNOWN_TOPIC_OR_PARTITION and 190 more$") as raised:
        call(broker, "produce", 9, produce_request(name, dict.fromkeys(range(200), THREE), acks=0))
    assert len(str(raised.value)) < 5_000


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_other_acks_are_invalid_and_append_nothing(broker: MemoryBroker, acks: int) -> None:
    assert code(produce(broker, "t", THREE, acks=acks)) == (ErrorCode.INVALID_REQUIRED_ACKS, -1, -1, -1)
    assert produce(broker, "nope", THREE, acks=acks).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert produce(broker, "t", THREE).base_offset == 0


UNREADABLE = {  # refused before the log's start plays a part
    "P6 wrong crc": (patched(THREE, 17, "I", 1), ErrorCode.CORRUPT_MESSAGE),
    "P7b magic 3": (patched(THREE, 16, "b", 3), ErrorCode.CORRUPT_MESSAGE),
    "trailing zeros": (THREE + bytes(40), ErrorCode.CORRUPT_MESSAGE),
    "P8 two batches": (THREE + THREE, ErrorCode.INVALID_RECORD),
    "P15 cut": (THREE[:-5], ErrorCode.INVALID_RECORD),
    "P9 null": (None, ErrorCode.INVALID_RECORD),
    "empty": (b"", ErrorCode.INVALID_RECORD),
}
UNFIT = {
    "P11 no records": patched(patched(THREE[:61], 8, "i", 49), 57, "i", 0),
    "P12 counts wrong": patched(THREE, 57, "i", 4),
    "P14 base offset": patched(THREE, 0, "q", 1000),
    "I15 no sequence": batch(2, producer=(7, 0, -1)),
    "control": patched(THREE, 21, "h", 0x20),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_what_cannot_be_read(broker: MemoryBroker, case: str) -> None:
    records, wanted = UNREADABLE[case]
    answer = produce(broker, "t", records)
    assert code(answer) == (wanted, -1, -1, -1)
    assert bool(answer.error_message) is (case == "P7b magic 3")


@pytest.mark.parametrize("case", UNFIT)
def test_what_the_log_refuses_names_its_start(broker: MemoryBroker, case: str) -> None:
    answer = produce(broker, "t", UNFIT[case])
    assert code(answer) == (ErrorCode.INVALID_RECORD, -1, -1, 0)
    assert (answer.record_errors, answer.error_message) == ([], None)


def test_refused_timestamps_are_named(broker: MemoryBroker) -> None:
    late = NOW_MS + 2 * 3_600_000
    answer = produce(broker, "t", build_batch([Record(0, NOW_MS, b"k", b"v", []), Record(1, late, b"k", b"v", [])]))
    assert code(answer) == (ErrorCode.INVALID_TIMESTAMP, -1, -1, 0)
    assert [error.batch_index for error in answer.record_errors] == [1]
    assert answer.record_errors[0].batch_index_error_message
    assert answer.error_message
    assert produce(broker, "t", THREE).base_offset == 0


def test_zstd_needs_version_7(broker: MemoryBroker) -> None:
    zstd = batch(3, codec=4)
    assert produce(broker, "t", zstd, 6).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert produce(broker, "t", zstd, 7).error_code == ErrorCode.NONE


def test_log_append_time_is_answered(broker: MemoryBroker) -> None:
    broker.create_topic("late", message_timestamp_type="LogAppendTime")
    broker.clock.advance(5)
    assert code(produce(broker, "late", THREE)) == (ErrorCode.NONE, 0, NOW_MS + 5000, 0)


def test_duplicates_answer_the_first_offset(broker: MemoryBroker) -> None:
    batches = [batch(2, producer=(7, 0, sequence)) for sequence in (0, 2, 4)]
    assert [produce(broker, "t", each).base_offset for each in batches] == [0, 2, 4]
    again = produce(broker, "t", batches[0])
    assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 0)
    gap = produce(broker, "t", batch(1, producer=(7, 0, 9)))
    assert code(gap) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1, -1, 0)
    assert produce(broker, "t", batch(1, producer=(7, -1, 0))).error_code == ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("version", [3, 9, 12])
def test_unknown_topics_and_partitions(broker: MemoryBroker, version: int) -> None:
    for topic, index in (("nope", 0), ("t", 2), ("t", -1), ("", 0)):
        assert code(produce(broker, topic, THREE, version, index)) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1, -1)
    assert "nope" not in broker.image.topics


def test_topic_ids(broker: MemoryBroker) -> None:
    assert produce(broker, "t", THREE, 13).error_code == ErrorCode.NONE
    assert produce(broker, "nope", THREE, 13).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert produce(broker, "t", THREE, 13, 9).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_internal_topics_are_not_for_clients(broker: MemoryBroker, topic: str) -> None:
    broker.create_topic(topic)
    assert code(produce(broker, topic, THREE)) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1, -1, -1)


def test_each_partition_for_itself_and_each_once(broker: MemoryBroker) -> None:
    request = produce_request("t", {0: patched(THREE, 17, "I", 1), 1: THREE})
    request.topic_data += [
        TopicProduceData("nope", partition_data=[PartitionProduceData(0, THREE)]),
        TopicProduceData("t", partition_data=[PartitionProduceData(1, batch(5))]),
    ]
    answer = call(broker, "produce", 9, request)
    found = {
        (topic.name, each.index): (each.error_code, each.base_offset)
        for topic in answer.responses
        for each in topic.partition_responses
    }
    assert found == {
        ("t", 0): (ErrorCode.CORRUPT_MESSAGE, -1),
        ("t", 1): (ErrorCode.NONE, 0),
        ("nope", 0): (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
    }
    assert [topic.name for topic in answer.responses] == ["t", "nope"]
    assert produce(broker, "t", THREE, index=1).base_offset == 5  # the later of the two


def test_nothing_asked_nothing_answered(broker: MemoryBroker) -> None:
    assert call(broker, "produce", 9, ProduceRequest(None, -1, 1000, [])).responses == []
    assert call(broker, "produce", 9, ProduceRequest(None, -1, 1000, [TopicProduceData("t")])).responses == []


def test_transactional_batches(broker: MemoryBroker) -> None:
    transactional = batch(1, producer=(7, 0, 0), transactional=True)
    request = produce_request("t", {0: transactional, 1: THREE})
    answer = call(broker, "produce", 9, request)
    codes = [each.error_code for each in answer.responses[0].partition_responses]
    assert codes == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 2
    assert produce(broker, "t", transactional[:-1]).error_code == ErrorCode.INVALID_RECORD  # no batch, so no transaction


@in_loop
async def test_each_transactional_batch_is_verified_whatever_stands_before_it(broker: MemoryBroker) -> None:
    driver = Driver()
    transactional = batch(1, producer=(*await driver.init(), 0), transactional=True)
    broker.context.existing_transaction_coordinator = driver.coordinator
    request = produce_request("t", {0: THREE, 9: transactional, 1: transactional}, transactional_id=TID)
    answer = call(broker, "produce", 9, request)
    codes = [each.error_code for each in answer.responses[0].partition_responses]
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TXN_STATE]


def test_a_request_has_one_producer_in_a_transaction(broker: MemoryBroker) -> None:
    mine, other, later = (batch(1, producer=(*producer, 0), transactional=True) for producer in ((7, 0), (8, 0), (7, 1)))
    for second in (other, later):
        answer = call(broker, "produce", 9, produce_request("t", {0: mine, 1: second}, transactional_id=TID))
        codes = [each.error_code for each in answer.responses[0].partition_responses]
        assert codes == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2


def test_transactional_batches_that_no_coordinator_is_asked_about(broker: MemoryBroker) -> None:
    transactional = batch(1, producer=(7, 0, 0), transactional=True)
    broker.image.apply(ConfigRecord(4, "", "transaction.partition.verification.enable", "false"))
    for version in versions("produce"):
        if version < 12:  # which has the coordinator add the partition
            assert produce(broker, "t", transactional, version, transactional_id="tx").error_code == ErrorCode.NONE
    assert broker.replica().log.last_stable_offset == 0


@pytest.mark.parametrize("version", [9, 10, 12, 13])
def test_not_the_leader(broker: MemoryBroker, version: int) -> None:
    broker.register_broker(2, port=9093)
    broker.elect("t", leader=2)
    answer = call(broker, "produce", version, produce_request("t", {0: THREE, 1: THREE}, version))
    refused, taken = answer.responses[0].partition_responses
    assert (refused.error_code, taken.error_code) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE)
    if version < 10:
        assert (refused.current_leader, answer.node_endpoints) == (None, [])
        return
    assert (refused.current_leader.leader_id, refused.current_leader.leader_epoch) == (2, 1)
    assert [(node.node_id, node.host, node.port) for node in answer.node_endpoints] == [(2, "host2", 9093)]
    assert taken.current_leader is None


def test_an_offline_log_is_a_storage_error(broker: MemoryBroker) -> None:
    broker.disk.fail("append", errno.EIO, path="t-0")
    assert code(produce(broker, "t", THREE)) == (ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1)
    assert produce(broker, "t", THREE, index=1).error_code == ErrorCode.KAFKA_STORAGE_ERROR  # the same directory
    assert fetch(broker, "t").error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_compacted_topics_want_keys(broker: MemoryBroker) -> None:
    broker.image.apply_all([ConfigRecord(2, "t", "cleanup.policy", "compact")])
    answer = produce(broker, "t", build_batch([Record(0, NOW_MS, None, b"v", [])]))
    assert code(answer) == (ErrorCode.INVALID_RECORD, -1, -1, 0)
    assert [error.batch_index for error in answer.record_errors] == [0]


def promised(broker: MemoryBroker, topic: str, batches: dict[int, bytes | None], **options: Any) -> Any:
    """The promise of an answer that is not there yet."""
    promise = call(broker, "produce", 9, produce_request(topic, batches, **options))
    assert type(promise) is Acknowledgement
    assert not promise.done()
    return promise


def kept(promise: Any, version: int = 9) -> list[tuple[ErrorCode, int, int, int]]:
    assert promise.done()
    return [
        code(answer) for topic in read("produce", version, promise.result()).responses for answer in topic.partition_responses
    ]


def test_flush_messages_1_syncs_before_the_answer(broker: MemoryBroker) -> None:
    broker.create_topic("safe", flush_messages="1")
    promise = promised(broker, "safe", {0: THREE})
    log = broker.replica("safe").log
    assert (log.log_end_offset, log.recovery_point, log.high_watermark) == (3, 0, 0)
    assert fetch(broker, "safe").records == b"", "nobody reads what may still be lost"
    broker.clock.advance()
    assert kept(promise) == [(ErrorCode.NONE, 0, -1, 0)]
    assert (log.recovery_point, log.high_watermark) == (3, 3)


def test_answers_that_wait_share_one_fsync_over_all_partitions(broker: MemoryBroker) -> None:
    broker.create_topic("safe", 2, flush_messages="1")
    promises = [promised(broker, "safe", {0: THREE, 1: THREE}) for _ in range(5)]
    broker.disk.trace.clear()
    broker.clock.advance()
    assert [[answer[1] for answer in kept(promise)] for promise in promises] == [[0, 0], [3, 3], [6, 6], [9, 9], [12, 12]]
    logs = [path for operation, path in broker.disk.trace if operation == "sync" and path.endswith(".log")]
    assert len(logs) == 2


def test_below_flush_messages_nothing_waits(broker: MemoryBroker) -> None:
    broker.create_topic("tens", flush_messages="10")
    for base_offset in (0, 3, 6):
        assert produce(broker, "tens", THREE).base_offset == base_offset
    promise = promised(broker, "tens", {0: THREE})
    assert broker.replica("tens").log.high_watermark == 9
    broker.clock.advance()
    assert kept(promise) == [(ErrorCode.NONE, 9, -1, 0)]
    assert produce(broker, "tens", THREE).base_offset == 12


def test_a_duplicate_waits_as_its_first_did(broker: MemoryBroker) -> None:
    broker.create_topic("safe", flush_messages="1")
    numbered = batch(3, producer=(7, 0, 0))
    promises = [promised(broker, "safe", {0: numbered}) for _ in range(2)]
    broker.clock.advance()
    assert [kept(promise)[0][:2] for promise in promises] == [(ErrorCode.NONE, 0), (ErrorCode.NONE, 0)]
    assert produce(broker, "safe", numbered).base_offset == 0


@pytest.mark.parametrize("operation", ["sync", "open"])
def test_what_cannot_be_made_durable_is_a_storage_error(broker: MemoryBroker, operation: str) -> None:
    broker.create_topic("safe", 2, flush_messages="1")
    context = broker.request(9)
    promise = produce_module.handle(produce_request("safe", {0: THREE, 1: THREE}), context)
    broker.disk.fail(operation, errno.EMFILE if operation == "open" else errno.EIO, path="safe-1")
    broker.clock.advance()
    lost = (ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1)
    assert kept(promise) == [(ErrorCode.NONE, 0, -1, 0), lost]
    assert broker.replicas.traffic["safe"].refused == 1
    assert context.failed, "its errors are counted"
    after = call(broker, "produce", 9, produce_request("safe", {1: THREE}))
    if operation == "sync":
        assert code(after.responses[0].partition_responses[0]) == lost, "never again"
    else:
        broker.clock.advance()
        assert kept(after) == [(ErrorCode.NONE, 3, -1, 0)]


def test_errors_and_what_waits_in_one_answer(broker: MemoryBroker) -> None:
    broker.create_topic("safe", flush_messages="1")
    promise = promised(broker, "safe", {0: THREE, 9: THREE})
    broker.clock.advance()
    assert [answer[0] for answer in kept(promise)] == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_acks_0_is_flushed_as_well(broker: MemoryBroker) -> None:
    broker.create_topic("safe", flush_messages="1")
    assert call(broker, "produce", 9, produce_request("safe", {0: THREE}, acks=0)) is None
    broker.clock.advance()
    assert broker.replica("safe").log.recovery_point == 3
    with pytest.raises(CloseConnection):
        call(broker, "produce", 9, produce_request("safe", {0: THREE, 9: THREE}, acks=0))


def test_a_client_that_left_hinders_nobody(broker: MemoryBroker) -> None:
    broker.create_topic("safe", flush_messages="1")
    gone, stays = (promised(broker, "safe", {0: THREE}) for _ in range(2))
    gone.cancel()
    broker.clock.advance()
    assert kept(stays) == [(ErrorCode.NONE, 3, -1, 0)]


def test_a_topic_that_goes_meanwhile(broker: MemoryBroker) -> None:
    broker.create_topic("safe", flush_messages="1")
    promise = promised(broker, "safe", {0: THREE})
    broker.delete_topic("safe")
    broker.clock.advance()
    assert kept(promise) == [(ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1)]
    assert produce(broker, "t", THREE).error_code == ErrorCode.NONE, "the directory is as well as before"


def test_what_came_in_is_counted_by_topic(broker: MemoryBroker) -> None:
    for index in (0, 1):
        produce(broker, "t", THREE, index=index)
    produce(broker, "t", THREE[:-1])
    produce(broker, "nowhere", THREE)
    traffic = broker.replicas.traffic["t"]
    assert (traffic.appends, traffic.refused, traffic.messages_in, traffic.bytes_in) == (2, 1, 6, 2 * len(THREE))
    assert set(broker.replicas.traffic) == {"t"}


# With followers


def followed(broker: MemoryBroker) -> tuple[Replica, HighWatermark]:
    broker.create_topic("led", followers=(2,))
    replica = broker.replica("led")
    assert isinstance(replica.role, Leader)
    assert replica.role.high_watermark is not None
    return replica, replica.role.high_watermark


def test_acks_all_is_answered_when_the_followers_have_the_batch(broker: MemoryBroker) -> None:
    replica, high_watermark = followed(broker)
    promise = promised(broker, "led", {0: THREE})
    assert fetch(broker, "led").records == b""
    high_watermark.on_fetch(2, 3)
    assert kept(promise) == [(ErrorCode.NONE, 0, -1, 0)]
    assert replica.log.high_watermark == 3


def test_acks_all_is_answered_in_the_time_that_the_request_gives(broker: MemoryBroker) -> None:
    _, high_watermark = followed(broker)
    promise = promised(broker, "led", {0: THREE})
    broker.clock.advance(0.999)
    assert not promise.done()
    broker.clock.advance(0.001)
    assert kept(promise)[0][0] == ErrorCode.REQUEST_TIMED_OUT
    high_watermark.on_fetch(2, 3)
    assert fetch(broker, "led").high_watermark == 3, "it is there all the same"


def test_acks_all_is_refused_below_min_insync_replicas_and_other_acks_are_not(broker: MemoryBroker) -> None:
    broker.create_topic("led", followers=(2,), min_insync_replicas="2")
    broker.change_isr("led", (1,))
    assert produce(broker, "led", THREE).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert broker.replica("led").log.log_end_offset == 0
    assert produce(broker, "led", THREE, acks=1).error_code == ErrorCode.NONE
    broker.change_isr("led", (1, 2))
    promise = promised(broker, "led", {0: THREE})
    broker.change_isr("led", (1,))
    assert not promise.done()
    broker.clock.advance(1.0)
    assert kept(promise)[0][0] == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize("acks", [0, 1])
def test_other_acks_do_not_wait_for_followers(broker: MemoryBroker, acks: int) -> None:
    replica, _ = followed(broker)
    answer = call(broker, "produce", 9, produce_request("led", {0: THREE}, acks=acks))
    assert (answer is None) == (acks == 0)
    assert (replica.log.log_end_offset, replica.log.high_watermark) == (3, 0)


def test_a_duplicate_waits_for_the_followers_too(broker: MemoryBroker) -> None:
    _, high_watermark = followed(broker)
    numbered = batch(3, producer=(7, 0, 0))
    promises = [promised(broker, "led", {0: numbered}) for _ in range(2)]
    high_watermark.on_fetch(2, 3)
    assert [kept(promise)[0][:2] for promise in promises] == [(ErrorCode.NONE, 0), (ErrorCode.NONE, 0)]
    assert produce(broker, "led", numbered).base_offset == 0


def test_when_leadership_ends_what_waits_is_answered_with_the_next_leader(broker: MemoryBroker) -> None:
    followed(broker)
    broker.register_broker(2, port=9093)
    request = broker.request(10)
    promise = produce_module.handle(produce_request("led", {0: THREE}), request)
    assert isinstance(promise, Acknowledgement)
    broker.elect("led", 2)
    answer = read("produce", 10, promise.result())
    partition = answer.responses[0].partition_responses[0]
    assert code(partition) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1, -1)
    assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (2, 1)
    assert [(endpoint.node_id, endpoint.port) for endpoint in answer.node_endpoints] == [(2, 9093)]
    assert request.failed
    assert broker.replicas.traffic["led"].refused == 1

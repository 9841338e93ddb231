"""The test kit's recording (docs/testkit.md): what clients sent, by HTTP and in Python; and that the same seed and the same
script give the same bytes."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

import ottla.testing
from compat_tests.brokers import Address
from compat_tests.testkit_port import call
from compat_tests.waiting import TIMEOUT_S, wait_for
from compat_tests.wire import Connection, batch
from ottla.wire.messages import (
    add_partitions_to_txn,
    api_versions,
    consumer_group_heartbeat,
    create_topics,
    end_txn,
    fetch,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
    share_group_heartbeat,
    sync_group,
)

AT: Final = "2040-01-01T00:00:00Z"
RUNS: Final = 10
SEED: Final = 7


def produce_one(kafka: ottla.testing.Broker, topic: str, **settings: Any) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "client.id": "writer", "log_level": 0, **settings})
    producer.produce(topic, b"one", key=b"\xff", headers={"h": b"x"})
    assert producer.flush(TIMEOUT_S) == 0


def test_what_a_client_sent_and_was_answered_by_http() -> None:
    with ottla.testing.Broker(test_port=0) as kafka:
        assert kafka.test_url is not None
        call(kafka.test_url, "POST", "/v1/recording", {"records": True})
        call(kafka.test_url, "POST", "/v1/faults", {"on": {"api": "Produce"}, "do": {"error": "NOT_LEADER_OR_FOLLOWER"}})
        produce_one(kafka, "orders", **{"enable.idempotence": True})
        consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["orders"])
        assert consumer.poll(TIMEOUT_S) is not None
        consumer.close()

        refused, accepted = call(kafka.test_url, "GET", "/v1/requests?api=Produce&client_id=write*")
        assert (refused["fault"], accepted["fault"]) == ("f1", None)
        assert refused["software"].startswith("confluent-kafka-python ")
        assert [each["response"]["responses"][0]["partition_responses"][0]["error_code"] for each in (refused, accepted)] == [
            6,
            0,
        ]
        (sent,) = accepted["request"]["topic_data"][0]["partition_data"][0]["records"]
        assert sent["records"][0]["value"] == "one"
        assert sent["records"][0]["key"] == {"base64": "/w=="}
        fetched = [each for each in call(kafka.test_url, "GET", "/v1/requests?api=Fetch&topic=orders") if each["response"]]
        batches = [part["records"] for each in fetched for topic in each["response"]["responses"] for part in topic["partitions"]]
        assert [record["value"] for found in batches for each in found for record in each["records"]] == ["one"]
        joined = call(kafka.test_url, "GET", "/v1/requests?api=JoinGroup,SyncGroup&group=g")
        assert {each["request"]["group_id"] for each in joined} == {"g"}
        assert joined[-1]["api"] == "SyncGroup"
        last = call(kafka.test_url, "GET", "/v1/requests?limit=1&format=frames")
        assert set(last[0]) == {"seq", "connection", "api", "version", "outcome", "request", "response"}


def test_which_requests_a_fault_holds() -> None:
    with ottla.testing.Broker() as kafka:
        kafka.record()
        fault = kafka.fault(api="Produce", hold=True)
        producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
        producer.produce("orders", b"one")
        fault.wait(1, timeout=TIMEOUT_S)
        (held,) = kafka.requests(held=True)
        assert (held.api, held.outcome, held.response) == ("Produce", "waiting", None)
        fault.release()
        assert producer.flush(TIMEOUT_S) == 0
        assert kafka.requests(held=True) == []
        wait_for(lambda: kafka.requests(api="Produce")[-1].outcome == "answered", "it is not answered")


# The same seed, the same script


def standing_broker(seed: int = SEED, **settings: Any) -> ottla.testing.Broker:
    """A broker whose clock stands, and which has coordinators; its requests are recorded from now on."""
    kafka = ottla.testing.Broker(seed=seed, **settings).start()
    kafka.clock.freeze()
    kafka.clock.set(AT)
    for topic in ("__consumer_offsets", "__transaction_state"):  # else the client waits for them, with requests
        kafka.create_topic(topic, 1, cleanup_policy="compact")
    kafka.record(records=True)
    return kafka


def recording_of(kafka: ottla.testing.Broker) -> list[str]:
    """All that is recorded, fields and frames, without how long each answer took and without the port."""
    port = kafka.port
    decoded = [json.dumps({**each, "took_us": 0}).replace(f": {port}", ": 0") for each in kafka._call("requests", {})]
    frames = kafka._call("requests", {"format": "frames"})
    raw = [
        b64decode(each[name]).replace(port.to_bytes(4, "big"), bytes(4)) for each in frames for name in ("request", "response")
    ]
    return [*decoded, *(frame.hex() for frame in raw)]


def play(kafka: ottla.testing.Broker) -> None:
    """One client's day: topics, records, a transaction, groups of three kinds; with faults that are left to chance."""
    kafka.fault(api="Heartbeat", error="REBALANCE_IN_PROGRESS", probability=0.5, times=-1)
    kafka.fault(api="Metadata", corrupt="flip", probability=0.3, times=-1)
    kafka.fault(api="Fetch", corrupt="crc", times=1)
    line = Connection(Address("ottla", kafka.port, 0, ""))
    say = line.call
    say(api_versions.ApiVersionsRequest("script", "1"), 3)
    created = say(create_topics.CreateTopicsRequest([create_topics.CreatableTopic("t", 2, 1)], 30_000), 7)
    topic_id = created.topics[0].topic_id
    for _ in range(5):
        line.send(metadata.MetadataRequest(None), 12)  # which may be spoiled
        line.receive()
    kafka.clock.advance(seconds=1)
    data = [produce.TopicProduceData("t", partition_data=[produce.PartitionProduceData(0, batch(b"one", b"two"))])]
    say(produce.ProduceRequest(None, -1, 30_000, data), 9)
    for _ in range(2):
        partition = fetch.FetchPartition(0, partition_max_bytes=1 << 20)
        asked = fetch.FetchRequest(max_bytes=1 << 20, session_epoch=0, topics=[fetch.FetchTopic("", topic_id, [partition])])
        assert say(asked, 13).responses[0].partitions[0].records
    latest = list_offsets.ListOffsetsPartition(0, timestamp=-1)
    say(list_offsets.ListOffsetsRequest(-1, topics=[list_offsets.ListOffsetsTopic("t", [latest])]), 7)

    begun = say(init_producer_id.InitProducerIdRequest("tx", 60_000), 4)
    assert begun.error_code == 0
    identity = begun.producer_id, begun.producer_epoch
    topics = [add_partitions_to_txn.AddPartitionsToTxnTopic("t", [1])]
    added = say(add_partitions_to_txn.AddPartitionsToTxnRequest([], "tx", *identity, topics), 3)
    assert added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0
    records = batch(b"three", producer_id=identity[0], producer_epoch=identity[1], base_sequence=0, transactional=True)
    data = [produce.TopicProduceData("t", partition_data=[produce.PartitionProduceData(1, records)])]
    assert say(produce.ProduceRequest("tx", -1, 30_000, data), 9).responses[0].partition_responses[0].error_code == 0
    assert say(end_txn.EndTxnRequest("tx", *identity, True), 3).error_code == 0

    protocols = [join_group.JoinGroupRequestProtocol("range", b"\0\1")]
    first = say(join_group.JoinGroupRequest("g", 30_000, 30_000, "", None, "consumer", protocols), 7)
    assert first.error_code == 79
    line.send(join_group.JoinGroupRequest("g", 30_000, 30_000, first.member_id, None, "consumer", protocols), 7)
    wait_for(lambda: kafka.requests(api="JoinGroup")[-1].request.member_id, "it has not come")
    kafka.clock.advance(ms=10)  # the time for others to join
    joined = line.answer(join_group, 7)
    assert joined.error_code == 0
    member = joined.generation_id, joined.member_id
    assignments = [sync_group.SyncGroupRequestAssignment(joined.member_id, b"mine")]
    say(sync_group.SyncGroupRequest("g", *member, None, "consumer", "range", assignments), 5)
    codes = [say(heartbeat.HeartbeatRequest("g", *member), 4).error_code for _ in range(10)]
    assert {0, 27} == set(codes)
    offsets = [offset_commit.OffsetCommitRequestTopic("t", partitions=[offset_commit.OffsetCommitRequestPartition(0, 1)])]
    say(offset_commit.OffsetCommitRequest("g", *member, topics=offsets), 8)
    say(offset_fetch.OffsetFetchRequest(groups=[offset_fetch.OffsetFetchRequestGroup("g")]), 8)
    say(leave_group.LeaveGroupRequest("g", members=[leave_group.MemberIdentity(joined.member_id)]), 5)
    modern = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest("new", "", 0, rebalance_timeout_ms=5000)
    modern.subscribed_topic_names, modern.topic_partitions = ["t"], []
    say(modern, 0)
    say(share_group_heartbeat.ShareGroupHeartbeatRequest("shared", "AAAAAAAAAAAAAAAAAAAAAQ", 0, None, ["t"]), 1)
    line.close()


def administer(kafka: ottla.testing.Broker) -> None:
    """A script of kafka-python's administrator, which sends nothing by itself but what it is told to."""
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap, client_id="admin")
    admin.create_topics([NewTopic("t", 2, 1), NewTopic("u", 1, 1)])
    admin.describe_topics(["t", "u"])
    admin.delete_topics(["u"])
    admin.list_topics()
    admin.close()


@pytest.mark.parametrize(
    ("script", "settings"), [(play, {"advertised_listeners": "PLAINTEXT://127.0.0.1:9092"}), (administer, {})]
)
def test_the_same_seed_and_the_same_script_give_the_same_bytes(
    script: Callable[[ottla.testing.Broker], None], settings: dict[str, Any]
) -> None:
    def recorded(seed: int) -> list[str]:
        kafka = standing_broker(seed, **settings)
        try:
            script(kafka)
            return recording_of(kafka)
        finally:
            kafka.stop()

    first = recorded(SEED)
    assert len(first) > 20
    for _ in range(RUNS - 1):
        assert recorded(SEED) == first
    assert recorded(SEED + 1) != first

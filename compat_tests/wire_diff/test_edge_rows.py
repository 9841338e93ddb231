"""Rows of docs/kafka-behaviour.md that have no place in the other files: leader epochs after a restart, a transaction whose
time is over, and single requests. edge_cases.py says which row is where.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from compat_tests.brokers import CLASSES, KINDS, Address
from compat_tests.reference.kafka import BrokerProcess
from compat_tests.waiting import wait_for
from compat_tests.wire import Wire, batch
from compat_tests.wire_diff.same import check, compare, normalise, same_answer
from compat_tests.wire_diff.test_fetch import filled
from compat_tests.wire_diff.test_transaction_coordinator import ABORT, Client, Producer
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import create_topics, describe_configs, fetch, find_coordinator, list_offsets, offset_commit
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

Brokers = dict[str, BrokerProcess]


def epoch_end(wire: Wire, topic: str, current: int, epoch: int, version: int = 4) -> Any:
    asked = OffsetForLeaderTopic(topic, [OffsetForLeaderPartition(0, current, epoch)])
    return wire.call(OffsetForLeaderEpochRequest(-1, [asked]), version)


@pytest.mark.parametrize("version", range(2, 5))
def test_ends_of_epochs(wires: dict[str, Wire], version: int) -> None:
    """Of this epoch, of a later one, and asked with a later one of the leader's, and of a topic that is not there."""

    def scenario(wire: Wire) -> Any:
        topic = filled(wire, 1)
        asked = ((topic, -1, 0), (topic, 0, 0), (topic, -1, 7), (topic, 7, 0), (wire.name("nope"), -1, 0))
        return [epoch_end(wire, name, current, epoch, version) for name, current, epoch in asked]

    check(wires, "OLE2", scenario)


@same_answer("F30")
def test_sessions_of_nothing(wire: Wire) -> Any:
    """A new session without topics, and no session."""
    topic = filled(wire, 1)
    new = wire.call(fetch.FetchRequest(session_id=0, session_epoch=0), 12)
    return new, wire.fetch(topic, session_id=0, session_epoch=-1)


@same_answer("DCF6")
def test_settings_of_other_resources(wire: Wire) -> Any:
    """Type 3 is none that has settings; 32 is a group."""
    asked = [describe_configs.DescribeConfigsResource(kind, name, None) for kind, name in ((3, "x"), (32, wire.name("g")))]
    return [wire.call(describe_configs.DescribeConfigsRequest([each]), 4) for each in asked]


@same_answer("FC5")
def test_coordinators_of_share_partitions(wire: Wire) -> Any:
    return wire.call(find_coordinator.FindCoordinatorRequest(key_type=2, coordinator_keys=["bad"]), 6)


@same_answer("OC14")
def test_offsets_that_no_log_has(wire: Wire) -> Any:
    topic = wire.create("t")
    parts = [offset_commit.OffsetCommitRequestPartition(0, offset) for offset in (-1, 1 << 40)]
    asked = [offset_commit.OffsetCommitRequestTopic(topic, partitions=[part]) for part in parts]
    return [wire.call(offset_commit.OffsetCommitRequest(wire.name("g"), topics=[each]), 9) for each in asked]


@pytest.fixture
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    directory = tmp_path_factory.mktemp("edges")
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}
    brokers = {kind: CLASSES[kind](directory / kind, settings) for kind in KINDS}
    try:
        for broker in brokers.values():
            broker.start()
        yield brokers
    finally:
        for broker in brokers.values():
            broker.stop()


def wire_of(broker: BrokerProcess) -> Wire:
    assert broker.process is not None
    wire = Wire(Address(broker.kind, broker.port, broker.process.pid, str(broker.log_file)), "edges")
    wire.warm_up()
    # The first request that a new Kafka forwards may reach its controller twice, and be answered with the second outcome.
    forwarded = wire.call(create_topics.CreateTopicsRequest([create_topics.CreatableTopic("warm-up", 1, 1, [], [])], 30_000), 7)
    assert forwarded.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS), forwarded
    return wire


def out_of_time(wire: Wire) -> Any:
    """T33: a transaction of a second is aborted by the coordinator, and its producer fenced."""
    client = Client(wire)
    answer = client.init(timeout_ms=1000)
    producer = Producer(answer.producer_id, answer.producer_epoch)
    sent = client.send(producer, version=12).responses[0].partition_responses[0].error_code
    wait_for(lambda: client.state() == "CompleteAbort", "the transaction is aborted")
    return sent, client.end(producer, ABORT, version=4).error_code, client.end(producer, ABORT, version=5).error_code


def after(wire: Wire, topic: str) -> Any:
    """With the leader's epoch of before, and where that ended; numbers of epochs are left out, for a restart may count by two."""
    epoch = wire.metadata(topic).topics[0].partitions[0].leader_epoch
    stale = wire.fetch(topic, current_leader_epoch=0).responses[0].partitions[0]
    asked = list_offsets.ListOffsetsPartition(0, 0, -1)
    listed = wire.call(list_offsets.ListOffsetsRequest(-1, 0, [list_offsets.ListOffsetsTopic(topic, [asked])]), 7)
    wire.produce(topic, batch(b"in a later epoch"))
    fetched = [wire.fetch(topic, offset, last_fetched_epoch=0).responses[0].partitions[0] for offset in (5, 4, 3)]
    diverging = [part.diverging_epoch for part in fetched]
    codes = [part.error_code for part in fetched]
    ended = [epoch_end(wire, topic, current, 0).topics[0].partitions[0] for current in (0, -1)]
    return epoch > 0, stale, listed.topics[0].partitions[0].error_code, codes, diverging, ended


def test_epochs_after_a_restart_and_a_transaction_out_of_time(pair: Brokers) -> None:
    answers = {}
    for kind, broker in pair.items():
        wire = wire_of(broker)
        timed = out_of_time(wire)
        topic = wire.create("epochs")
        for _ in range(2):
            wire.produce(topic, batch(b"x", b"y"))
        wire.close()
        broker.stop()
        broker.start()
        again = wire_of(broker)
        again.labels = wire.labels
        again.wait_for_topic(topic)
        answers[kind] = normalise([timed, after(again, topic)], again.labels)
        again.close()
    compare("R3", answers["kafka"], answers["ottla"])

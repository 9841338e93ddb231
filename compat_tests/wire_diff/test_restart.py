"""kill -9 and start again: what a broker still knows (docs/kafka-behaviour.md), seen by the same requests before and after.

The brokers here are this file's own: one of the tests makes Apache Kafka's controller give up its place.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests.brokers import CLASSES, KINDS, Address
from compat_tests.reference.kafka import BrokerProcess
from compat_tests.waiting import wait_for
from compat_tests.wire import Wire, batch
from compat_tests.wire_diff.members import Member, stable
from compat_tests.wire_diff.same import compare, normalise
from compat_tests.wire_diff.test_offsets import fetched
from ottla.wire.messages import create_topics, describe_configs, describe_groups, fetch, incremental_alter_configs, list_groups

PARTITIONS = 3
LOADING = 14  # COORDINATOR_LOAD_IN_PROGRESS: Apache Kafka loads the partitions of __consumer_offsets one by one
NOW_MS = int(time.time() * 1000)  # a producer whose newest record is a day old is forgotten in a restart


def wire_of(broker: BrokerProcess, prefix: str) -> Wire:
    assert broker.process is not None
    return Wire(Address(broker.kind, broker.port, broker.process.pid, str(broker.log_file)), prefix)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[dict[str, BrokerProcess]]:
    """A running broker of each kind that nobody else uses."""
    brokers = {kind: CLASSES[kind](tmp_path / kind) for kind in KINDS}
    try:
        for broker in brokers.values():
            broker.start()
            wire_of(broker, "warm").warm_up()
        yield brokers
    finally:
        for broker in brokers.values():
            broker.stop()


def sent(wire: Wire, topic: str, producer_id: int, sequence: int, count: int = 1, epoch: int = 0) -> Any:
    records = batch(*[b"v"] * count, first_ms=NOW_MS, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    return wire.produce(topic, records).responses[0].partition_responses[0]


def before(wire: Wire) -> dict[str, Any]:
    """Fill the broker; returns what `after` must know."""
    topic = wire.create("t", PARTITIONS, retention_ms="-1", cleanup_policy="compact,delete")
    producer_id = wire.new_producer_id()
    answers = [sent(wire, topic, producer_id, sequence, count) for sequence, count in ((0, 2), (2, 1), (3, 2))]
    answers += [wire.produce(topic, batch(b"x" * 100, codec=n), partition=1) for n in range(5)]
    member = stable(wire, wire.name("living"), instance="inst")
    simple = Member(wire, wire.name("simple"), "s")
    answers += [member.commit(topic, 3), simple.commit(topic, 4, metadata="note")]
    left = stable(wire, wire.name("left"), "m2")
    left.leave()
    change = incremental_alter_configs.AlterableConfig("flush.ms", 0, "77")
    resource = incremental_alter_configs.AlterConfigsResource(2, topic, [change])
    wire.call(incremental_alter_configs.IncrementalAlterConfigsRequest([resource]), 1)
    session = wire.fetch(topic, session_epoch=0).session_id
    return {"topic": topic, "producer": producer_id, "member": member, "session": session, "answers": answers}


def described_groups(wire: Wire, groups: list[str]) -> Any:
    return wire.call(describe_groups.DescribeGroupsRequest(groups), 6)


def after(wire: Wire, known: dict[str, Any]) -> dict[str, Any]:
    topic, producer_id, member = known["topic"], known["producer"], known["member"]
    wire.wait_for_topic(topic, PARTITIONS)
    wire.warm_up()
    alive = Member(wire, member.group, "again", "inst")
    alive.id, alive.generation = member.id, member.generation
    groups = [wire.name(stem) for stem in ("living", "simple", "left")]
    wait_for(
        lambda: all(described.error_code != LOADING for described in described_groups(wire, groups).groups), "groups are loaded"
    )
    settings = describe_configs.DescribeConfigsResource(2, topic, ["retention.ms", "cleanup.policy", "flush.ms"])
    found = {
        "stale session": wire.call(fetch.FetchRequest(max_bytes=1 << 20, session_id=known["session"], session_epoch=1), 12),
        "records": [bytes(wire.fetch(topic, partition=p).responses[0].partitions[0].records) for p in range(PARTITIONS)],
        "groups": described_groups(wire, groups),
        "listed": sorted(g.group_id for g in wire.call(list_groups.ListGroupsRequest(), 4).groups if g.group_id in groups),
        "offsets": [fetched(wire, group, None) for group in groups],
        "heartbeat": alive.heartbeat(),
        "synced": alive.sync(),
        "commit": alive.commit(topic, 9),
        "settings": wire.call(describe_configs.DescribeConfigsRequest([settings], True), 4),
        "duplicate": sent(wire, topic, producer_id, 3, 2),
        "older duplicate": sent(wire, topic, producer_id, 0, 2),
        "next": sent(wire, topic, producer_id, 5),
        "gap": sent(wire, topic, producer_id, 9),
        "topic again": wire.call(create_topics.CreateTopicsRequest([create_topics.CreatableTopic(topic, 1, 1)], 5000), 7),
    }
    found["producer ids are new"] = wire.new_producer_id() > producer_id
    return found


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_what_survives(pair: dict[str, BrokerProcess], how: str) -> None:
    """Killed, or stopped with SIGTERM: the same is there afterwards, topic ids too. Leader epochs may count on: left out."""
    answers = {}
    for kind, broker in pair.items():
        wire = wire_of(broker, "restart")
        known = before(wire)
        topic_ids = dict(wire.topic_ids)
        wire.close()
        if how == "kill":
            broker.kill()
        else:
            assert broker.stop() == 0
        broker.start()
        again = wire_of(broker, "restart")
        again.labels = wire.labels
        found = after(again, known)
        again.close()
        assert again.topic_ids == topic_ids, kind
        answers[kind] = normalise({"before": known["answers"], **found}, wire.labels)
    old = {kind: answer.pop("older duplicate")["error_code"] for kind, answer in answers.items()}
    compare("R1b" if how == "kill" else "R1c", old["kafka"], old["ottla"])
    compare("R1", answers["kafka"], answers["ottla"])


def test_an_unknown_config_operation(pair: dict[str, BrokerProcess]) -> None:
    """After it Apache Kafka's controller has to be elected again, which is why it must not happen on a shared broker."""
    answers = {}
    for kind, broker in pair.items():
        wire = wire_of(broker, "operation")
        topic = wire.create("t")
        change = incremental_alter_configs.AlterableConfig("retention.ms", 9, "1")
        resource = incremental_alter_configs.AlterConfigsResource(2, topic, [change])
        answer = wire.call(incremental_alter_configs.IncrementalAlterConfigsRequest([resource]), 1)
        answers[kind] = normalise([response.error_code for response in answer.responses], wire.labels)
        wire.close()
    compare("IAC8", answers["kafka"], answers["ottla"])

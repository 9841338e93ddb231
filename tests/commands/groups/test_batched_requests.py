"""Groups asked for together: the same as librdkafka gets one by one; and what is left to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import ottla.testing
from ottla.commands import admin
from ottla.commands.clients.brokers import Brokers
from ottla.commands.clients.client import Cluster
from ottla.commands.clients.partition import Partition
from ottla.commands.groups import batched_requests, reset
from ottla.commands.groups import states as group_states
from ottla.commands.groups.kinds import Listed, listed
from ottla.commands.groups.rows import NO_SUCH_GROUP, group_state

TOPIC = "orders"


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.testing.Broker]:
    """A broker with a group that has a member, and one that only has commits."""
    with ottla.testing.Broker(group_initial_rebalance_delay_ms=0) as made:
        made.create_topic(TOPIC, partitions=3)
        producer = Producer({"bootstrap.servers": made.bootstrap})
        for number in range(9):
            producer.produce(TOPIC, "x", partition=number % 3)
        assert producer.flush(30) == 0
        settings = {"bootstrap.servers": made.bootstrap, "client.id": "app", "auto.offset.reset": "earliest"}
        settings |= {"enable.auto.commit": "false"}
        reader = Consumer({**settings, "group.id": "reads"})
        reader.subscribe([TOPIC])
        while reader.poll(0.1) is None:
            pass
        for consumer in (reader, Consumer({**settings, "group.id": "read"})):
            consumer.commit(offsets=[TopicPartition(TOPIC, 1, 2)], asynchronous=False)
            if consumer is not reader:
                consumer.close()
        yield made
        reader.close()


@pytest.fixture
def cluster(broker: ottla.testing.Broker) -> Cluster:
    return Cluster({"bootstrap.servers": broker.bootstrap})


def test_it_is_what_librdkafka_gets(cluster: Cluster) -> None:
    ours = cluster.admin()
    with Brokers(cluster) as brokers:
        groups = list(listed(brokers).values())
        names = [one.name for one in groups]
        assert sorted(names) == ["read", "reads"]
        found, wrong = batched_requests.described(brokers, groups)
        theirs, failed = admin.settle_groups(cluster, ours.describe_consumer_groups(names))
        assert (wrong, failed) == ({}, {})
        assert found == {name: group_state(one) for name, one in theirs.items()}
        assert found["reads"].members[0].partitions == tuple(Partition(TOPIC, number) for number in range(3))
        assert batched_requests.committed_of(brokers, groups) == reset.committed_of(cluster, ours, names)
        wanted = [Partition(TOPIC, number) for number in range(3)]
        specs: dict[Partition, Any] = dict.fromkeys(wanted, admin.offset_specs().latest())
        assert batched_requests.ends_of(brokers, wanted) == admin.list_offsets(cluster, ours, specs)[0]
        (cut,) = ours.delete_records([TopicPartition(TOPIC, 2, 1)]).values()
        cut.result(30)
        first, end, _ = admin.first_and_end(cluster, ours, wanted)
        assert set(first.values()) == {0, 1}
        assert batched_requests.first_and_end_of(brokers, wanted) == (first, end)


def test_commits_are_those_in_the_topics_that_are_named(cluster: Cluster) -> None:
    with Brokers(cluster) as brokers:
        groups = list(listed(brokers).values())
        all_of_them = batched_requests.committed_of(brokers, groups)
        assert batched_requests.committed_of(brokers, groups, {TOPIC}) == all_of_them
        assert batched_requests.committed_of(brokers, groups, {"other"}) == ({"read": {}, "reads": {}}, {})


def test_what_is_not_there_is_an_error_or_left_out(cluster: Cluster) -> None:
    with Brokers(cluster) as brokers:
        gone = Listed("gone", "Empty", "classic", 1)
        _, wrong = batched_requests.described(brokers, [gone])
        assert wrong == {"gone": NO_SUCH_GROUP}
        assert batched_requests.ends_of(brokers, [Partition("none", 0), Partition(TOPIC, 9)]) == {}
        nobody = replace_broker(gone, 7)
        assert batched_requests.described(brokers, [nobody]) == ({}, {})
        assert batched_requests.committed_of(brokers, [nobody]) == ({}, {})


def replace_broker(group: Listed, broker: int | None) -> Listed:
    return group._replace(broker=broker)


@pytest.mark.parametrize("where", [1, 7, None])
def test_what_is_left_is_asked_for_one_by_one(cluster: Cluster, where: int | None) -> None:
    """A coordinator that has moved, or that only librdkafka knows."""
    with Brokers(cluster) as brokers:
        notes: dict[str, None] = {}
        groups = [replace_broker(one, where) for one in sorted(listed(brokers).values())]
        states, errors = group_states.states_of(cluster, cluster.admin(), brokers, groups, notes)
    assert (errors, notes) == ({}, {})
    assert [(state.name, state.total_lag, len(state.members)) for state in states] == [("read", 1, 0), ("reads", 1, 1)]


def test_however_many_groups_there_are_each_is_one_request(broker: ottla.testing.Broker, cluster: Cluster) -> None:
    ours = cluster.admin()
    with Brokers(cluster) as brokers:
        groups = list(listed(brokers).values())
        broker.record(1000)
        group_states.states_of(cluster, ours, brokers, groups, {})
        seen = [one.api for one in broker.requests(client_id="ottla")]
        broker.record(0)
    beside = {"ApiVersions", "Metadata"}  # of a client that connects
    assert sorted(api for api in seen if api not in beside) == ["DescribeGroups", "ListOffsets", "OffsetFetch"]


def test_offsets_of_one_topic_are_all_that_is_asked_for(broker: ottla.testing.Broker, cluster: Cluster) -> None:
    broker.create_topic("other", partitions=2)
    with Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "read"}) as consumer:
        consumer.commit(offsets=[TopicPartition("other", 1, 0)], asynchronous=False)
    ours = cluster.admin()
    with Brokers(cluster) as brokers:
        groups = sorted(listed(brokers).values())

        def ends_asked(topic: str | None) -> tuple[list[Any], list[str]]:
            broker.record(1000)
            states, errors = group_states.states_of(cluster, ours, brokers, groups, {}, topic)
            asked = [one for seen in broker.requests(api="ListOffsets") for one in seen.request.topics]
            broker.record(0)
            assert errors == {}
            return states, sorted(one.name for one in asked)

        (read, reads), asked = ends_asked(TOPIC)
        assert asked == [TOPIC]
        (read_all, reads_all), asked = ends_asked(None)
        assert asked == sorted([TOPIC, "other"])
        assert {one.partition.topic for one in read_all.offsets} == {TOPIC, "other"}
        assert read.offsets == tuple(one for one in read_all.offsets if one.partition.topic == TOPIC)
        assert reads == reads_all
        (read, reads), asked = ends_asked("other")
        assert (len(read.offsets), read.total_lag, asked) == (1, 0, ["other"])
        assert {(one.partition.topic, one.end_offset) for one in reads.offsets} == {(TOPIC, None)}  # its member has them


def test_a_coordinator_that_says_it_is_none_leaves_the_group(broker: ottla.testing.Broker, cluster: Cluster) -> None:
    with Brokers(cluster) as brokers:
        groups = list(listed(brokers).values())
        for api, ask in (("DescribeGroups", batched_requests.described), ("OffsetFetch", batched_requests.committed_of)):
            for error, left in (("NOT_COORDINATOR", True), ("GROUP_AUTHORIZATION_FAILED", False)):
                with broker.fault(api=api, group="read", error=error):
                    found, wrong = ask(brokers, groups)
                assert "read" not in found
                assert ("read" not in wrong) is left
                assert "reads" in found

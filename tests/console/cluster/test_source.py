"""Tests of what is asked of a cluster: once for many pages, and with the rest of the answer where a part is missing."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import ottla.testing
from ottla.commands import admin
from ottla.commands.clients import direct
from ottla.commands.clients.brokers import Brokers
from ottla.commands.clients.client import Cluster
from ottla.commands.clients.partition import Partition
from ottla.commands.config_rows import Kind
from ottla.commands.groups import batched_requests, kinds, states
from ottla.commands.output import Failure
from ottla.console.cluster import lags
from ottla.console.cluster import source as source_module
from ottla.console.cluster.lags import Furthest
from ottla.console.cluster.source import NO_ANSWER, Held, Source, summary_of
from ottla.console.errors import Missing
from tests.console.conftest import Records


def partition(number: int, leader: int = 1, replicas: tuple[int, ...] = (1, 2), isrs: tuple[int, ...] = (1, 2)) -> Any:
    return SimpleNamespace(id=number, leader=leader, replicas=replicas, isrs=isrs)


def test_the_summary_counts_what_is_wrong() -> None:
    broken = {0: partition(0), 1: partition(1, isrs=(1,)), 2: partition(2, leader=-1, isrs=())}
    topics = {"t": SimpleNamespace(partitions=broken), "__consumer_offsets": SimpleNamespace(partitions={})}
    brokers = {1: SimpleNamespace(host="one", port=1), 2: SimpleNamespace(host="two", port=2)}
    metadata: Any = SimpleNamespace(topics=topics, brokers=brokers, controller_id=2, cluster_id="id")
    found = summary_of(metadata)
    assert (found.topics["t"].under_replicated, found.topics["t"].without_leader, found.partitions) == (2, 1, 3)
    assert found.topics["__consumer_offsets"].is_internal
    assert [(node.number, node.is_controller, node.leads, node.holds) for node in found.nodes] == [
        (1, False, 2, 3),
        (2, True, 0, 3),
    ]


def test_metadata_are_asked_for_once_in_a_while(broker: ottla.testing.Broker, topic: Callable[..., str]) -> None:
    now = [0.0]
    source = Source(Cluster({"bootstrap.servers": broker.bootstrap}), lambda: now[0])
    first = source.summary()
    name = topic("source-later")
    assert source.summary() is first
    assert source.topic(name).partitions == 1  # it is looked for before it is said not to be there
    second = source.summary()
    with pytest.raises(Missing, match="no topic source-none"):
        source.topic("source-none")
    now[0] = 3.0
    assert source.summary() is not second
    assert source.groups() is source.groups()
    before = source.groups()
    source.changed()
    assert source.groups() is not before


def test_what_topics_hold(source: Source, topic: Callable[..., str], produced: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    name, empty = topic("source-held", 2), topic("source-empty")
    produced(name, b"1", b"2", partition=1)
    source.changed()
    held, notes = source.held([name, empty, "source-none"])
    assert notes == []
    assert held[empty] == Held(0, 0, {Partition(empty, 0): 0})
    assert held[name].offsets == 2
    assert (held[name].size_bytes or 0) > 60
    (first, second), notes = source.partitions(name, [0, 1])
    assert (first.end_offset, second.end_offset, second.leader, notes) == (0, 2, 1, [])

    def closed(*_: object) -> Any:
        raise Failure("closed")

    monkeypatch.setattr(direct, "log_sizes", closed)
    held, notes = source.held([name])
    assert held == {name: Held(2, None, {Partition(name, 0): 0, Partition(name, 1): 2})}
    assert notes == ["sizes are not known: closed"]
    assert source.end_offsets(name) == ({Partition(name, 0): 0, Partition(name, 1): 2}, [])  # no size is asked for


def test_what_is_asked_for_of_a_topic(broker: ottla.testing.Broker, source: Source, topic: Callable[..., str]) -> None:
    name = topic("source-asked", 2)
    source.changed()
    source.summary()
    beside = {"ApiVersions", "Metadata"}  # of a client that connects

    def asked(ask: Callable[[], object]) -> list[str]:
        broker.record(1000)
        ask()
        seen = [one.api for one in broker.requests(client_id="ottla")]
        broker.record(0)
        return sorted(api for api in seen if api not in beside)

    assert asked(lambda: source.held([name])) == ["DescribeLogDirs", "ListOffsets", "ListOffsets"]
    assert asked(lambda: source.end_offsets(name)) == ["ListOffsets"]


def test_offsets_that_a_leader_does_not_answer_at_once_are_left_to_librdkafka(
    source: Source, topic: Callable[..., str], produced: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic("source-left", 2)
    produced(name, b"1", partition=1)
    source.changed()
    known = source.held([name]), source.end_offsets(name)
    asked: list[list[Partition]] = []
    first_and_end = admin.first_and_end

    def ask(*given: Any) -> Any:
        asked.append(given[2])
        return first_and_end(*given)

    monkeypatch.setattr(admin, "first_and_end", ask)
    monkeypatch.setattr(direct, "ends", lambda *_: {name: {1: 1}})
    assert (source.held([name]), source.end_offsets(name)) == known
    assert asked == [[Partition(name, 0)], [Partition(name, 0)]]


def test_a_topic_that_goes_while_its_page_is_made(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "topic", lambda _: None)  # it is there still when it is looked for
    with pytest.raises(Missing, match="no topic source-gone"):
        source.partitions("source-gone", [0])


def test_of_many_notes_there_are_a_few(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = {str(number): "closed" for number in range(5)}
    few = ("0: closed", "1: closed", "2: closed", "and 2 more")
    monkeypatch.setattr(kinds, "listing", lambda *_: ({}, errors))
    monkeypatch.setattr(states, "states_of", lambda *_: ([], errors))
    source.changed()
    assert source.groups().notes == few
    assert source.states([]).notes == few
    source.changed()
    partitions = [Partition("source-none", number) for number in range(4)]
    monkeypatch.setattr(admin, "first_and_end", lambda *_: ({}, {}, dict.fromkeys(partitions[:3], "closed")))
    with Brokers(source.cluster, source.summary().metadata) as brokers:
        first, end, notes = source.offsets(brokers, partitions)
    assert (first, end) == ({}, {})
    assert notes == [f"the offsets of source-none [{number}] are not known: closed" for number in range(3)]


def test_settings_and_groups_that_are_not_there(source: Source, topic: Callable[..., str]) -> None:
    name = topic("source-settings", retention_ms="1000")
    source.changed()
    (found,) = [entry for entry in source.settings(Kind.TOPIC, name) if entry.name == "retention.ms"]
    assert (found.value, found.source) == ("1000", "topic")
    with pytest.raises(Failure, match="topic source-none: there is no such topic"):
        source.settings(Kind.TOPIC, "source-none")
    with pytest.raises(Missing, match="no group source-none"):
        source.state("source-none")


def test_groups_are_asked_for_by_a_client_of_their_own(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def listing(_: Any, ours: Any, *__: Any) -> Any:
        asked.append(ours)
        return {}, {}

    def states_of(_: Any, ours: Any, *__: Any) -> Any:
        asked.append(ours)
        return [], {}

    monkeypatch.setattr(kinds, "listing", listing)
    monkeypatch.setattr(states, "states_of", states_of)
    source.changed()
    source.groups()
    source.states([])
    source.changed()
    assert len({id(one) for one in (*asked, source.admin)}) == 3


def test_a_client_that_failed_is_not_kept() -> None:
    source = Source(Cluster({"bootstrap.servers": "127.0.0.1:1"}, timeout_s=0.5))
    before = source.admin
    assert source.admin is before
    with pytest.raises(Failure, match="cannot reach"):
        source.summary()
    assert source.admin is not before


def test_a_group_that_is_new_is_found(broker: ottla.testing.Broker, topic: Callable[..., str]) -> None:
    source = Source(Cluster({"bootstrap.servers": broker.bootstrap}), lambda: 0.0)
    source.groups()
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "source-new"})
    consumer.commit(offsets=[TopicPartition(topic("source-group"), 0, 0)], asynchronous=False)
    consumer.close()
    state, notes = source.state("source-new")
    assert (state.state, state.kind, notes) == ("Empty", "classic", ())


def test_who_is_the_furthest_behind_in_topics(
    broker: ottla.testing.Broker, topic: Callable[..., str], produced: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, other = topic("source-lag", 2), topic("source-lag-none")
    produced(name, b"1", b"2", b"3")
    for group, offset in (("source-near", 2), ("source-far", 1)):
        with Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group}) as consumer:
            consumer.commit(offsets=[TopicPartition(name, 0, offset)], asynchronous=False)
    source = Source(Cluster({"bootstrap.servers": broker.bootstrap}))
    ends = {Partition(name, 0): 3, Partition(name, 1): 0, Partition(other, 0): 0}
    found, notes = source.furthest(ends)
    assert found == {name: Furthest("source-far", 2, 2)}
    assert not any("source-" in note for note in notes)  # other tests have groups that librdkafka cannot name

    def nothing(_: Any, groups: Any, topics: Any) -> Any:
        assert topics == {name, other}
        return {}, {"source-near": "not allowed"}

    monkeypatch.setattr(batched_requests, "committed_of", nothing)
    found, notes = source.furthest(ends)
    assert found == {}
    assert any(NO_ANSWER in note for note in notes)
    monkeypatch.setattr(lags, "MOST_GROUPS", 0)
    assert any("not asked how far behind" in note for note in source.furthest(ends)[1])

    def closed() -> Any:
        raise Failure("closed")

    monkeypatch.setattr(source, "groups", closed)
    assert source.furthest(ends) == ({}, ["groups are not known: closed"])


def test_the_last_stable_offsets(
    broker: ottla.testing.Broker, topic: Callable[..., str], produced: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic("source-stable", 2)
    produced(name, b"1", b"2")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "source-stable"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(name, b"3", partition=0)
    assert producer.flush(30) == 0
    source = Source(Cluster({"bootstrap.servers": broker.bootstrap}))
    assert source.last_stable(name, [0, 1, 7]) == ({0: 2, 1: 0}, [])
    assert source.partitions(name, [0])[0][0].end_offset == 3
    producer.abort_transaction(30)
    assert source.last_stable(name, [0]) == ({0: 4}, [])
    with pytest.raises(Missing):
        source.last_stable("source-none", [0])
    monkeypatch.setattr(batched_requests, "ends_of", lambda *_: {})
    assert source.last_stable(name, [0, 1]) == ({}, ["how far committed records are to be read is not known of 2 partitions"])


def test_how_much_is_produced_in_all(
    broker: ottla.testing.Broker, topic: Callable[..., str], produced: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic("source-risen", 2)
    source = Source(Cluster({"bootstrap.servers": broker.bootstrap}))
    assert source.risen() == (0, [])
    produced(name, b"1", b"2")
    produced(name, b"3", partition=1)
    with Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "source-risen"}) as consumer:
        consumer.commit(offsets=[TopicPartition(name, 0, 1)], asynchronous=False)  # which is no record of theirs
    assert source.risen() == (3, [])
    monkeypatch.setattr(source_module, "MOST_RISING", 1)
    assert source.risen() == (None, ["what is produced is drawn for up to 1 partition, and there are more"])


def test_what_is_kept_for_a_moment() -> None:
    now, asked = [0.0], iter(range(9))
    source = Source(Cluster({"bootstrap.servers": "127.0.0.1:1"}), lambda: now[0])
    assert [source.kept("a", lambda: next(asked)) for _ in range(2)] == [0, 0]
    assert source.kept("b", lambda: next(asked)) == 1
    now[0] = 3.0
    assert source.kept("a", lambda: next(asked)) == 2

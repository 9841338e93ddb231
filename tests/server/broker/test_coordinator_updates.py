"""Tests of what coordinators learn about changed metadata: shards that come and go, and topics that are not what they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from ottla.server.broker.coordinator_updates import CoordinatorUpdates
from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord
from tests.fakes import MemoryBroker


class Coordinator:
    """Stands for every coordinator; remembers what it was called with."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *positional, **named: self.heard.append((name, *positional, *named.values()))

    def since(self) -> list[tuple[Any, ...]]:
        heard, self.heard = self.heard, []
        return heard


class Parts:
    """A broker in memory whose coordinators are stand-ins, followed from the start."""

    def __init__(self, *topics: str) -> None:
        self.broker = MemoryBroker(dict.fromkeys(topics, 1))
        self.groups, self.transactions, self.share_state = Coordinator(), Coordinator(), Coordinator()
        context = self.broker.context
        context.existing_groups = cast(Any, self.groups)
        context.existing_transaction_coordinator = cast(Any, self.transactions)
        context.existing_share_coordinator = cast(Any, self.share_state)
        self.updates = CoordinatorUpdates(context)
        self.updates.start()
        self.broker.image.subscribe(self.updates.follow)


def test_at_the_start_coordinators_whose_topic_is_there_load_their_shards() -> None:
    parts = Parts("__transaction_state")
    assert (parts.groups.since(), parts.transactions.since(), parts.share_state.since()) == ([("refresh",)], [("refresh",)], [])
    assert Parts("__share_group_state").share_state.since() == [("refresh",)]


def test_without_groups_there_is_no_coordinator_until_its_topic_is_there() -> None:
    broker = MemoryBroker({"t": 1})
    updates = CoordinatorUpdates(broker.context)
    updates.start()
    broker.image.subscribe(updates.follow)
    broker.create_topic("u", 2)
    broker.delete_topic("t")
    assert broker.context.existing_groups is None
    broker.create_topic("__consumer_offsets", 3)
    assert broker.context.existing_groups is not None
    assert broker.context.groups is broker.context.existing_groups
    assert [shard.partition for shard in broker.context.groups.loaded_shards()] == [0, 1, 2]


def test_at_a_start_groups_are_loaded_if_their_topic_is_there() -> None:
    broker = MemoryBroker({"__consumer_offsets": 2})
    CoordinatorUpdates(broker.context).start()
    assert broker.context.existing_groups is not None
    assert [shard.partition for shard in broker.context.groups.loaded_shards()] == [0, 1]


def test_a_shard_that_changed_hands_is_reported_to_its_own_coordinator() -> None:
    parts = Parts("__consumer_offsets", "__transaction_state", "__share_group_state")
    coordinators = {
        "__consumer_offsets": parts.groups, "__transaction_state": parts.transactions, "__share_group_state": parts.share_state
    }  # fmt: skip
    for topic, its_own in coordinators.items():
        for each in coordinators.values():
            each.since()
        parts.broker.elect(topic, leader=2)
        heard = {name: [what for what in each.since() if what[0] == "follow"] for name, each in coordinators.items()}
        assert heard.pop(topic) == [("follow", 0)], its_own
        assert not any(heard.values())


def test_groups_learn_of_a_new_topic_once_whatever_the_number_of_its_partitions() -> None:
    parts = Parts()
    parts.groups.since()
    parts.broker.create_topic("t", 5)
    assert parts.groups.since() == [("topic_changed", "t", True)]


def test_groups_learn_of_other_replicas_and_not_of_another_leader() -> None:
    parts = Parts("t")
    parts.groups.since()
    parts.broker.elect("t", leader=2)
    assert parts.groups.since() == []
    parts.broker.image.apply(PartitionChangeRecord(0, parts.broker.topic_id("t"), replicas=[1, 2]))
    assert parts.groups.since() == [("topic_changed", "t", False)]


def test_a_topic_that_is_gone() -> None:
    parts = Parts("t", "__transaction_state")
    for each in (parts.groups, parts.transactions, parts.share_state):
        each.since()
    parts.broker.delete_topic("t")
    assert parts.groups.since() == [("topic_deleted", "t"), ("topic_changed", "t")]
    assert parts.share_state.since() == [("topic_deleted", "t")]
    assert parts.transactions.since() == []
    parts.broker.delete_topic("__transaction_state")
    assert parts.transactions.since() == [("refresh",)]

"""These tests cover dead letters: which records get one, what it contains, which topics take it, and records that are archived
without one.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.log.partition import PartitionLog
from ottla.server.metadata.operation import Caller
from ottla.server.share.share_partitions import SharePartitions
from ottla.server.share.states import ACCEPT, GAP, REJECT, RELEASE
from ottla.server.share_state.batches import StateBatch
from ottla.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.internal.config_record import ConfigRecord
from ottla.wire.records import Record, decode_records
from tests.fakes import MemoryBroker
from tests.log.support import batch
from tests.server.handlers.data_calls import produce
from tests.server.handlers.share_calls import GROUP, Member, acquired, errors, share_broker
from tests.server.share.support import MemoryPersister

T0 = ("t", 0)
DLQ = "dlq.g"
ENABLE = "errors_deadletterqueue_group_enable"


def wanting(topic: str = DLQ, copies: bool = False, **broker_settings: str) -> tuple[MemoryBroker, MemoryPersister]:
    """Returns a broker with a topic of ten records, and a group that wants dead letters."""
    broker, persister = share_broker({"t": 2}, **broker_settings)
    broker.image.features["share.version"] = 2
    broker.image.apply(ConfigRecord(32, GROUP, "errors.deadletterqueue.topic.name", topic))
    broker.image.apply(ConfigRecord(32, GROUP, "errors.deadletterqueue.copy.record.enable", str(copies).lower()))
    produce(broker, "t", batch(10, value=b"v"))
    return broker, persister


def make(broker: MemoryBroker, name: str = DLQ, partitions: int = 1, enable: str = "true", **others: Any) -> None:
    """Makes a topic that takes dead letters if it is enabled."""
    settings: Any = {ENABLE: enable} | others
    broker.create_topic(name, partitions, **settings)


def letters(broker: MemoryBroker, topic: str = DLQ, partition: int = 0) -> list[Record]:
    replica = broker.replicas.get(topic, partition)
    assert replica is not None
    return [record for each in replica.log.iterate_batches(0) for record in decode_records(each)]


def offsets(found: list[Record]) -> list[int]:
    return [int(dict(letter.headers)["__dlq.errors.offset"] or b"") for letter in found]


def settled(broker: MemoryBroker, *kinds: int) -> Member:
    """Lets a member acknowledge the ten records with these types."""
    member = Member(broker)
    assert acquired(member.fetch([T0])) == {T0: [(0, 9, 1)]}
    assert errors(member.acknowledge({T0: [(0, 9, kinds)]})) == {T0: 0}
    return member


def test_what_is_rejected_gets_a_letter_and_nothing_else_does() -> None:
    broker, _ = wanting()
    make(broker)
    settled(broker, ACCEPT, REJECT, GAP, RELEASE, REJECT, ACCEPT, ACCEPT, ACCEPT, ACCEPT, ACCEPT)
    found = letters(broker)
    assert [(letter.key, letter.value) for letter in found] == [(None, None)] * 2
    assert found[1].headers == [
        ("__dlq.errors.topic", b"t"),
        ("__dlq.errors.partition", b"0"),
        ("__dlq.errors.offset", b"4"),
        ("__dlq.errors.group", b"g"),
        ("__dlq.errors.delivery.count", b"1"),
        ("__dlq.errors.message", b"The consumer rejected the record."),
    ]


def test_what_was_delivered_too_often_gets_a_letter() -> None:
    broker, _ = wanting()
    make(broker)
    broker.image.apply(ConfigRecord(32, GROUP, "share.delivery.count.limit", "2"))
    member = settled(broker, RELEASE)
    assert acquired(member.fetch()) == {T0: [(0, 9, 2)]}
    assert letters(broker) == []
    broker.clock.advance(30)
    assert offsets(letters(broker)) == list(range(10))
    assert dict(letters(broker)[0].headers)["__dlq.errors.message"] == b"The record was delivered as often as the group allows."


def test_letters_may_be_copies() -> None:
    broker, _ = wanting(copies=True)
    make(broker)
    settled(broker, *[ACCEPT] * 8, REJECT, REJECT)
    assert [(letter.key, letter.value) for letter in letters(broker)] == [(b"k", b"v")] * 2


def test_they_go_to_the_partition_of_the_same_number_and_fit_into_its_batches() -> None:
    broker, _ = wanting(copies=True)
    make(broker, partitions=3, max_message_bytes="1000")
    produce(broker, "t", batch(10, value=b"x" * 300), index=1)
    member = Member(broker)
    member.fetch([("t", 1)])
    member.acknowledge({("t", 1): [(0, 9, [REJECT])]})
    assert offsets(letters(broker, partition=1)) == list(range(10))


@pytest.mark.parametrize(
    ("topic", "enable"),
    [("__dlq", None), (DLQ, None), (DLQ, "false"), ("other", "true")],
    ids=["internal", "not there", "does not agree", "another prefix"],
)
def test_without_a_topic_that_takes_them_records_are_given_up_all_the_same(
    topic: str, enable: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    broker, persister = wanting(topic)
    if enable is not None:
        make(broker, topic, enable=enable)
    settled(broker, REJECT)
    assert "no dead letters are written" in caplog.text
    assert persister.writes == [[StateBatch(0, 9, 1, 4)]]


def test_a_group_that_wants_none(caplog: pytest.LogCaptureFixture) -> None:
    broker, _ = wanting(topic="")
    settled(broker, REJECT)
    assert not caplog.records


def test_an_older_share_version_has_none() -> None:
    broker, _ = wanting()
    make(broker)
    broker.image.features["share.version"] = 1
    settled(broker, REJECT)
    assert letters(broker) == []


class Creating:
    """A controller that creates topics."""

    def __init__(self, broker: MemoryBroker) -> None:
        self.broker = broker

    async def create_topics(self, request: CreateTopicsRequest, caller: Caller | None) -> CreateTopicsResponse:
        (topic,) = request.topics
        settings: Any = {each.name.replace(".", "_"): each.value for each in topic.configs}
        self.broker.create_topic(topic.name, **settings)
        return CreateTopicsResponse(topics=[CreatableTopicResult(topic.name)])


@pytest.mark.parametrize(("name", "created"), [("dlq.g", True), ("other", False)])
def test_a_topic_is_created_where_the_broker_allows_it(name: str, created: bool) -> None:
    broker, persister = wanting(name, errors_deadletterqueue_auto_create_topics_enable="true")
    controller: Any = Creating(broker)
    broker.context.existing_share_partitions = SharePartitions(
        persister, broker.context.settings, broker.image, broker.replicas, broker.clock, controller, broker.context.workers
    )

    async def give_up() -> None:
        settled(broker, REJECT)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(give_up())
    assert (name in broker.image.topics) == created
    if created:
        assert offsets(letters(broker, name)) == list(range(10))


@pytest.mark.parametrize("exists", [True, False])
def test_letters_wait_for_the_partition_to_be_made(exists: bool) -> None:
    """Thousands of others may be made before it (server/partitions/backlog.py)."""
    broker, persister = wanting("dlq.g", errors_deadletterqueue_auto_create_topics_enable="true")
    controller: Any = Creating(broker)
    broker.context.existing_share_partitions = SharePartitions(
        persister, broker.context.settings, broker.image, broker.replicas, broker.clock, controller, broker.context.workers
    )
    broker.disk.before_change = lambda operation, path: broker.clock.spend(1.0)
    broker.create_topic("others", 3)
    if exists:
        broker.create_topic("dlq.g", errors_deadletterqueue_group_enable="true")

    async def give_up() -> None:
        settled(broker, REJECT)
        for _ in range(10):
            await asyncio.sleep(0)
            broker.clock.advance()

    asyncio.run(give_up())
    assert offsets(letters(broker, "dlq.g")) == list(range(10))


def test_a_letter_that_kafka_was_about_to_write_is_written() -> None:
    broker, persister = wanting()
    make(broker)
    persister.batches = (StateBatch(2, 3, 1, 3),)
    member = Member(broker)
    assert acquired(member.fetch([T0])) == {T0: [(0, 1, 1), (4, 9, 1)]}
    assert offsets(letters(broker)) == [2, 3]
    assert persister.writes == [[StateBatch(2, 3, 1, 4)]]


def test_what_is_given_up_together_is_read_from_the_log_once(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, _ = wanting(copies=True)
    make(broker)
    reads: list[int] = []
    iterate = PartitionLog.iterate_batches

    def counted(log: PartitionLog, first: int) -> Any:
        reads.append(first)
        return iterate(log, first)

    monkeypatch.setattr(PartitionLog, "iterate_batches", counted)
    settled(broker, *[ACCEPT, REJECT] * 5)
    assert reads == [1]
    monkeypatch.undo()
    assert [(letter.key, letter.value) for letter in letters(broker)] == [(b"k", b"v")] * 5
    assert offsets(letters(broker)) == [1, 3, 5, 7, 9]

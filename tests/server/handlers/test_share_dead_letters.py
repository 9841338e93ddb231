"""These tests cover dead letters: which records get one, what it contains, which topics take it, and records that are archived
without one.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from ottla.server.metadata.operation import Caller
from ottla.server.share import dead_letters, letter_copies
from ottla.server.share.dead_letters import LETTERS_A_BATCH
from ottla.server.share.sessions import SessionKey
from ottla.server.share.share_partition import SharePartition
from ottla.server.share.share_partitions import SharePartitions
from ottla.server.share.states import ACCEPT, ARCHIVED, ARCHIVING, GAP, REJECT, RELEASE
from ottla.server.share_state.batches import StateBatch
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.internal.config_record import ConfigRecord
from ottla.wire.records import Record, decode_records
from tests.fakes import MemoryBroker
from tests.log.support import batch
from tests.server.handlers.data_calls import produce
from tests.server.handlers.share_calls import GROUP, Member, acquired, errors, share_broker
from tests.server.share.support import MemoryPersister

T0 = ("t", 0)
T1 = ("t", 1)
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
        for _ in range(5):
            await asyncio.sleep(0)
            broker.clock.advance()

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
    read = letter_copies._read

    def counted(file: Any, located: Any) -> Any:
        reads.append(located.base_offset)
        return read(file, located)

    monkeypatch.setattr(letter_copies, "_read", counted)
    settled(broker, *[ACCEPT, REJECT] * 5)
    assert reads == [0]
    assert [(letter.key, letter.value) for letter in letters(broker)] == [(b"k", b"v")] * 5
    assert offsets(letters(broker)) == [1, 3, 5, 7, 9]


MANY = 20 * LETTERS_A_BATCH


def slow(broker: MemoryBroker) -> None:
    """Lets every look at the clock take two milliseconds, so that a turn ends after a few steps."""
    now = broker.clock.ticks_ns
    looked = itertools.count(1)
    broker.clock.ticks_ns = lambda: now() + 2_000_000 * next(looked)  # type: ignore[method-assign]  # of this clock only


def rejecting_many(copies: bool = False) -> tuple[MemoryBroker, MemoryPersister, Member]:
    """Lets a member reject a batch whose letters take many turns."""
    broker, persister = wanting(copies=copies)
    make(broker)
    produce(broker, "t", batch(MANY, value=b"v"), index=1)
    slow(broker)
    member = Member(broker)
    assert acquired(member.fetch([T1])) == {T1: [(0, MANY - 1, 1)]}
    assert errors(member.acknowledge({T1: [(0, MANY - 1, [REJECT])]})) == {T1: 0}
    return broker, persister, member


def share_of(broker: MemoryBroker) -> SharePartition | None:
    return broker.context.share_partitions().get(GROUP, (broker.topic_id("t"), 1))


def one_round(broker: MemoryBroker) -> None:
    """Runs what was put off, but not what that puts off."""
    broker.clock.run_round()


@pytest.mark.parametrize("copies", [False, True])
def test_many_letters_are_written_in_turns(copies: bool) -> None:
    """The records are archived when all of them are written: until then a crash would have them written again."""
    broker, persister, _ = rejecting_many(copies)
    assert persister.writes == [[StateBatch(0, MANY - 1, 1, ARCHIVING)]]
    counts = [len(letters(broker, partition=0))]
    while counts[-1] < MANY:
        assert persister.writes == [[StateBatch(0, MANY - 1, 1, ARCHIVING)]]
        one_round(broker)
        counts.append(len(letters(broker)))
    assert max(after - before for before, after in itertools.pairwise(counts)) <= 5 * LETTERS_A_BATCH
    broker.clock.advance()
    assert persister.writes[1:] == [[StateBatch(0, MANY - 1, 1, ARCHIVED)]]
    assert offsets(letters(broker)) == list(range(MANY))
    assert {letter.value for letter in letters(broker)} == {b"v" if copies else None}
    share = share_of(broker)
    assert share is not None
    assert (share.start, share.batches, share.is_archiving) == (MANY, [], False)


def test_nothing_is_delivered_beyond_the_locks_while_letters_wait() -> None:
    broker, _, member = rejecting_many()
    produce(broker, "t", batch(1, value=b"v"), index=1)
    assert acquired(member.fetch()) == {}
    assert errors(member.acknowledge({T1: [(0, MANY - 1, [ACCEPT])]})) == {T1: 121}
    broker.clock.advance()
    assert acquired(member.fetch()) == {T1: [(MANY, MANY, 1)]}


def test_letters_are_written_though_the_members_are_gone() -> None:
    """The share partition is dropped after that."""
    broker, persister, _ = rejecting_many()
    shares = broker.context.share_partitions()
    shares.connection_lost(shares.sessions.find(SessionKey(GROUP, "m")).connection)
    assert share_of(broker) is not None
    assert len(letters(broker)) < MANY
    broker.clock.advance()
    assert offsets(letters(broker)) == list(range(MANY))
    assert persister.writes[-1] == [StateBatch(0, MANY - 1, 1, ARCHIVED)]
    assert share_of(broker) is None


def test_who_loads_the_share_partition_anew_writes_the_letters_anew() -> None:
    broker, persister, member = rejecting_many()
    written = len(letters(broker))
    broker.context.share_partitions().forget_partition(broker.topic_id("t"), 1)
    broker.clock.advance()
    assert len(letters(broker)) == written
    assert len(persister.writes) == 1
    member.fetch()
    broker.clock.advance()
    assert offsets(letters(broker)) == [*range(written), *range(MANY)]
    assert persister.writes[-1] == [StateBatch(0, MANY - 1, 1, ARCHIVED)]


def test_letters_end_where_the_state_cannot_be_written() -> None:
    broker, persister = wanting()
    make(broker)
    produce(broker, "t", batch(MANY, value=b"v"), index=1)
    slow(broker)
    member = Member(broker)
    member.fetch([T1])
    persister.refusal = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert errors(member.acknowledge({T1: [(0, MANY - 1, [REJECT])]})) == {T1: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    written = len(letters(broker))
    persister.refusal = None
    share = share_of(broker)
    assert share is not None
    assert not share.is_archiving
    assert [run.member_id for held in share.batches for run in held.runs] == ["m"]
    broker.clock.spend(1)
    for _ in range(MANY):
        if not broker.clock.turns._waiting:
            break
        one_round(broker)
    assert len(letters(broker)) == written


def test_letters_go_on_where_locks_end_that_cannot_be_written() -> None:
    """The end of a lock is not undone, so what it gave up does not stay in the state ARCHIVING."""
    broker, persister = wanting()
    make(broker)
    broker.image.apply(ConfigRecord(32, GROUP, "share.delivery.count.limit", "2"))
    produce(broker, "t", batch(MANY, value=b"v"), index=1)
    member = Member(broker)
    assert acquired(member.fetch([T1])) == {T1: [(0, MANY - 1, 1)]}
    assert errors(member.acknowledge({T1: [(0, MANY - 1, [RELEASE])]})) == {T1: 0}
    assert acquired(member.fetch()) == {T1: [(0, MANY - 1, 2)]}
    slow(broker)
    persister.refusal = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    broker.clock.advance(30)
    persister.refusal = None
    broker.clock.advance()
    assert offsets(letters(broker)) == list(range(MANY))
    share = share_of(broker)
    assert share is not None
    assert (share.start, share.batches, share.is_archiving) == (MANY, [], False)


def test_archiving_survives_that_its_end_cannot_be_written(caplog: pytest.LogCaptureFixture) -> None:
    broker, persister, _ = rejecting_many()
    persister.refusal = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    broker.clock.advance()
    assert "cannot write that records are archived" in caplog.text
    share = share_of(broker)
    assert share is not None
    assert (share.start, share.is_archiving) == (MANY, False)


def test_copies_are_made_by_one_after_the_other() -> None:
    """Each holds a batch that is unfolded."""
    broker, persister, member = rejecting_many(copies=True)
    persister.batches = ()  # it keeps the state of one share partition
    assert acquired(member.fetch([T0])) == {T0: [(0, 9, 1)]}
    member.acknowledge({T0: [(0, 9, [REJECT])]})
    assert persister.writes == [[StateBatch(0, MANY - 1, 1, ARCHIVING)], [StateBatch(0, 9, 1, ARCHIVING)]]
    broker.clock.advance()
    sources = [dict(letter.headers)["__dlq.errors.partition"] for letter in letters(broker)]
    assert sources == [b"1"] * MANY + [b"0"] * 10


def test_the_next_one_copies_if_the_first_gives_up() -> None:
    broker, persister, member = rejecting_many(copies=True)
    persister.batches = ()
    assert acquired(member.fetch([T0])) == {T0: [(0, 9, 1)]}
    member.acknowledge({T0: [(0, 9, [REJECT])]})
    broker.context.share_partitions().forget_partition(broker.topic_id("t"), 1)
    written = len(letters(broker))
    broker.clock.advance()
    assert len(letters(broker)) == written + 10


def test_lost_letters_have_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    broker, persister, _ = rejecting_many()
    written = len(letters(broker))
    broker.delete_topic(DLQ)
    broker.clock.advance()
    lost = MANY - written
    assert [record.getMessage() for record in caplog.records if "lost" in record.getMessage()] == [
        f"{lost} dead letters to {DLQ} are lost: the topic was deleted"
    ]
    assert persister.writes[-1] == [StateBatch(0, MANY - 1, 1, ARCHIVED)]


def test_a_letter_that_is_too_large_for_the_topic_is_not_even_encoded(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, _ = wanting(copies=True)
    make(broker, max_message_bytes="1000")
    produce(broker, "t", batch(1, value=b"x" * 2000), index=1)
    monkeypatch.setattr(dead_letters, "build_batch", lambda batch: pytest.fail("encoded"))
    member = Member(broker)
    member.fetch([T1])
    assert errors(member.acknowledge({T1: [(0, 0, [REJECT])]})) == {T1: 0}
    assert f"1 dead letters to {DLQ} are lost: a letter has 2001 bytes, 1000 are allowed" in caplog.text

"""Share groups (KIP-932) with the Java client's KafkaShareConsumer, against ottla and against Apache Kafka.

What is promised: among members of one group each record is delivered once when it is accepted; one that is released, or whose
lock ends, or whose member dies, is delivered again with its count; a rejected one is not.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from compat_tests.java_client import Java, JavaAt, running
from compat_tests.reference import jvm
from compat_tests.reference.kafka import BrokerProcess
from compat_tests.waiting import wait_for

Unique = Callable[[str], str]
Delivery = tuple[int, int, int]
"""Partition, offset, delivery count."""
LOCK_MS = 15_000
POLL_MS = 500


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    with running(tmp_path_factory.mktemp("share"), "ShareProgram") as java:
        yield java


@pytest.fixture
def java(program: Java, bootstrap: str) -> JavaAt:
    return program.at(bootstrap)


class Group:
    """A share group that reads its one topic from the start."""

    def __init__(self, java: JavaAt, unique: Unique, partitions: int = 1, **settings: str) -> None:
        self.java = java
        self.topic = java.topic(unique("share"), partitions)
        self.name = unique("group")
        self.settings = {"share_auto_offset_reset": "earliest"} | settings
        changes = [[key.replace("_", "."), "SET", value] for key, value in self.settings.items()]
        java.call("alter_configs", type="GROUP", name=self.name, changes=changes)
        self.produced = 0

    def produce(self, count: int, partitions: int = 1, batch: int = 50) -> None:
        """Values count up; `batch` records in a batch at the most."""
        records = [{"partition": n % partitions, "value": str(self.produced + n)} for n in range(count)]
        for at in range(0, count, batch):
            self.java.call("produce", topic=self.topic, records=records[at : at + batch], settings={"linger.ms": "50"})
        self.produced += count

    def join(self, member: str, java: JavaAt | None = None, /, **settings: str) -> Member:
        dotted = {key.replace("_", "."): value for key, value in settings.items()}
        (java or self.java).call("share_join", member=member, group=self.name, topics=[self.topic], settings=dotted)
        return Member(java or self.java, member)

    def work(self, member: str, java: JavaAt | None = None, /, **settings: str) -> None:
        dotted = {key.replace("_", "."): value for key, value in settings.items()}
        (java or self.java).call("share_work", member=member, group=self.name, topics=[self.topic], settings=dotted)


class Member:
    """A share consumer that the test controls."""

    def __init__(self, java: JavaAt, name: str) -> None:
        self.java, self.name = java, name

    def poll(self) -> list[Delivery]:
        """Returns what one poll brings, if anything."""
        return [(p, offset, count) for p, offset, count, _ in self.java.call("share_poll", member=self.name, timeout_ms=POLL_MS)]

    def given(self, count: int) -> list[Delivery]:
        """Polls until there were `count` records; more is a failure. For acknowledgements that are not explicit."""
        found: list[Delivery] = []

        def enough() -> bool:
            found.extend(self.poll())
            return len(found) >= count

        wait_for(enough, f"{self.name} has {count} records")
        assert len(found) == count
        return found

    def first(self) -> list[Delivery]:
        """Polls until something comes, and returns that."""
        found: list[list[Delivery]] = []

        def some() -> bool:
            found.append(self.poll())
            return bool(found[-1])

        wait_for(some, f"{self.name} has records")
        return found[-1]

    def acknowledge(self, records: list[Delivery], kind: str) -> None:
        self.java.call("share_acknowledge", member=self.name, types=[[p, offset, kind] for p, offset, _ in records])

    def commit(self) -> dict[str, str | None]:
        found: dict[str, str | None] = self.java.call("share_commit", member=self.name)
        return found

    def leave(self) -> None:
        self.java.call("share_leave", member=self.name)


def worked(java: JavaAt, members: list[str]) -> list[Delivery]:
    return [tuple(each) for member in members for each in java.call("share_worked", member=member)]


def offsets(records: list[Delivery]) -> list[int]:
    return [offset for _, offset, _ in records]


@pytest.mark.parametrize(
    "settings", [{}, {"share_acquire_mode": "record_limit", "max_poll_records": "7"}], ids=["batches", "strict"]
)
def test_four_members_on_one_partition_get_each_record_once(java: JavaAt, unique: Unique, settings: dict[str, str]) -> None:
    group = Group(java, unique)
    members = [unique("member") for _ in range(4)]
    group.produce(200)
    for member in members:
        group.work(member, **settings)

    def most_are_at_work() -> bool:
        group.produce(100, batch=5)
        return sum(bool(java.call("share_worked", member=member)) for member in members) >= 3

    wait_for(most_are_at_work, "three of them had something to do")
    wait_for(lambda: len(worked(java, members)) >= group.produced, "all records were delivered")
    delivered = [tuple(each) for member in members for each in java.call("share_stop", member=member)]
    assert Counter(offset for _, offset, _ in delivered) == Counter(range(group.produced))
    assert {count for _, _, count in delivered} == {1}


def test_members_come_and_go_and_nothing_is_lost(java: JavaAt, unique: Unique) -> None:
    group = Group(java, unique, partitions=3)
    everything: list[Delivery] = []
    for round_number in range(3):
        members = [unique("member") for _ in range(1 + round_number)]
        for member in members:
            group.work(member)
        group.produce(300, partitions=3)
        before = len(everything)
        wait_for(lambda: before + len(worked(java, members)) >= group.produced, "all records were delivered")  # noqa: B023
        for member in members:
            everything += [tuple(each) for each in java.call("share_stop", member=member)]
    assert Counter((p, offset) for p, offset, _ in everything) == Counter((p, n) for p in range(3) for n in range(300))


def test_what_is_released_comes_again_with_its_count_and_what_is_rejected_does_not(java: JavaAt, unique: Unique) -> None:
    group = Group(java, unique)
    group.produce(9)
    member = group.join("m", share_acknowledgement_mode="explicit")
    for count in range(1, 4):
        records = member.first()
        assert records == [(0, offset, count) for offset in ([0, 3, 6] if count > 1 else range(9))]
        released = [each for each in records if each[1] % 3 == 0]
        member.acknowledge(released, "RELEASE")
        member.acknowledge([each for each in records if each[1] % 3 == 1], "ACCEPT")
        member.acknowledge([each for each in records if each[1] % 3 == 2], "REJECT")
        assert member.commit() == {"0": None}
    records = member.first()
    member.acknowledge(records, "ACCEPT")
    member.commit()
    member.leave()
    other = group.join("other")
    group.produce(1)
    assert offsets(other.given(1)) == [9]
    other.leave()


def test_a_record_that_is_released_too_often_is_given_up(java: JavaAt, unique: Unique) -> None:
    group = Group(java, unique, share_delivery_count_limit="3")
    group.produce(1)
    member = group.join("m", share_acknowledgement_mode="explicit")
    for count in (1, 2, 3):
        records = member.first()
        assert records == [(0, 0, count)]
        member.acknowledge(records, "RELEASE")
        member.commit()
    group.produce(1)
    records = member.first()
    assert records == [(0, 1, 1)]
    member.acknowledge(records, "ACCEPT")
    member.leave()


def test_polling_again_accepts_what_was_polled_before(java: JavaAt, unique: Unique) -> None:
    group = Group(java, unique)
    group.produce(10)
    member = group.join("m")
    member.given(10)
    assert member.commit() == {"0": None}
    member.leave()
    group.produce(5)
    other = group.join("other")
    assert offsets(other.given(5)) == [10, 11, 12, 13, 14]
    other.leave()


def test_who_leaves_leaves_what_it_did_not_acknowledge(java: JavaAt, unique: Unique) -> None:
    group = Group(java, unique)
    group.produce(10)
    member = group.join("m", share_acknowledgement_mode="explicit")
    records = member.first()
    member.acknowledge(records[:4], "ACCEPT")
    member.commit()
    member.leave()
    other = group.join("other")
    assert other.given(6) == [(0, offset, 2) for offset in range(4, 10)]
    other.leave()


def keeper_and_loser(java: JavaAt, unique: Unique) -> tuple[Group, Member, list[Delivery], Member, list[Delivery]]:
    """A group of ten records, of which one member holds the first three and another one the rest, none of them acknowledged.

    The client asks its broker once more if one of its polls ends just when an answer comes; then the first member has three more
    in hand, which it gives as soon as it may. A group in which that happens is left, and another one made, three times at most.
    """
    explicit = {"share_acknowledgement_mode": "explicit"}
    for _ in range(3):
        group = Group(java, unique, share_record_lock_duration_ms=str(LOCK_MS))
        group.produce(10)
        keeper = group.join("keeper", **explicit, max_poll_records="3", share_acquire_mode="record_limit")
        kept = keeper.first()
        assert kept == [(0, offset, 1) for offset in range(3)]
        assert java.call("share_lock_ms", member="keeper") == LOCK_MS
        loser = group.join("loser", **explicit)
        lost = loser.first()
        if offsets(lost) != list(range(6, 10)):
            break
        keeper.acknowledge(kept, "ACCEPT")
        assert keeper.commit() == {"0": None}
        assert keeper.first() == [(0, offset, 1) for offset in range(3, 6)], "nobody has them"
        for member in (keeper, loser):
            member.leave()
    return group, keeper, kept, loser, lost


def test_a_lock_that_ends_and_one_that_is_renewed(java: JavaAt, unique: Unique) -> None:
    group, keeper, kept, loser, lost = keeper_and_loser(java, unique)
    assert lost == [(0, offset, 1) for offset in range(3, 10)]
    other = group.join("other", share_acknowledgement_mode="explicit")
    again: list[Delivery] = []

    def others_turn() -> bool:
        keeper.acknowledge(kept, "RENEW")
        assert keeper.commit() == {"0": None}
        assert keeper.first() == kept  # the client gives them once more, without the broker
        found = other.poll()
        other.acknowledge(found, "ACCEPT")
        again.extend(found)
        return len(again) >= len(lost)

    wait_for(others_turn, "locks have ended", timeout_s=4 * LOCK_MS / 1000)
    assert again == [(0, offset, 2) for offset in offsets(lost)]
    assert other.commit() == {"0": None}
    keeper.acknowledge(kept, "ACCEPT")
    assert keeper.commit() == {"0": None}
    for member in (keeper, loser, other):
        member.leave()


def test_records_of_aborted_transactions_are_left_out(java: JavaAt, unique: Unique) -> None:
    group = Group(java, unique, share_isolation_level="read_committed")
    producer = Producer({"bootstrap.servers": java.bootstrap, "transactional.id": unique("tx")})
    producer.init_transactions(30)
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        for n in range(5):
            producer.produce(group.topic, str(n), partition=0)
        producer.flush(30)
        end(30)
    member = group.join("m")
    assert offsets(member.given(5)) == [6, 7, 8, 9, 10]
    member.leave()


def test_a_member_that_is_killed(java: JavaAt, unique: Unique, tmp_path: Path) -> None:
    """Its connection ends, and what it held is delivered to another, once more counted."""
    group = Group(java, unique)
    group.produce(20)
    with running(tmp_path, "ShareProgram") as victim:
        doomed = group.join("doomed", victim.at(java.bootstrap), share_acknowledgement_mode="explicit")
        records = doomed.first()
        doomed.acknowledge(records[:5], "ACCEPT")
        assert doomed.commit() == {"0": None}
        victim.process.kill()
    other = group.join("other")
    assert other.given(15) == [(0, offset, 2) for offset in range(5, 20)]
    other.leave()


def test_a_broker_that_is_killed(program: Java, unique: Unique, fresh_broker: Callable[..., BrokerProcess]) -> None:
    """Checks that what was acknowledged stays so, and the rest is delivered again: nothing is lost, no accepted record comes
    twice."""
    broker = fresh_broker()
    java = program.at(broker.bootstrap)
    group = Group(java, unique)
    group.produce(100)
    member = group.join("m", share_acknowledgement_mode="explicit", max_poll_records="10", share_acquire_mode="record_limit")
    accepted: list[int] = []
    for kill in (False, True, False, True, False):
        records = member.first()
        assert not set(offsets(records)) & set(accepted)
        member.acknowledge(records, "ACCEPT")
        if member.commit() == {"0": None}:
            accepted += offsets(records)
        if kill:
            broker.kill()
            broker.start()

    def drained() -> bool:
        records = member.poll()
        if not records:
            return len(accepted) == 100
        assert not set(offsets(records)) & set(accepted)
        member.acknowledge(records, "ACCEPT")
        if member.commit() == {"0": None}:
            accepted.extend(offsets(records))
        return len(accepted) == 100

    wait_for(drained, "all records were accepted", timeout_s=60)
    assert sorted(accepted) == list(range(100))
    member.leave()


def test_several_partitions_and_more_members_than_partitions(java: JavaAt, unique: Unique) -> None:
    group = Group(java, unique, partitions=2)
    members = [unique("member") for _ in range(5)]
    for member in members:
        group.work(member)
    group.produce(500, partitions=2)
    wait_for(lambda: len(worked(java, members)) >= 500, "all records were delivered")
    delivered: list[Any] = [tuple(each) for member in members for each in java.call("share_stop", member=member)]
    assert Counter((p, offset) for p, offset, _ in delivered) == Counter((p, n) for p in range(2) for n in range(250))


def test_the_console_share_consumer(java: JavaAt, unique: Unique) -> None:
    """Apache's tool of 4.3.1: releases what it shows, then accepts it, and then rejects something."""
    group = Group(java, unique)
    group.produce(20)
    wanted = sorted(str(n) for n in range(20))
    for option in (["--release"], []):
        assert sorted(console(java.bootstrap, group, "--max-messages", "20", *option)) == wanted
    group.produce(3)
    assert sorted(console(java.bootstrap, group, "--max-messages", "3", "--reject")) == ["20", "21", "22"]


def console(bootstrap: str, group: Group, *arguments: str) -> list[str]:
    """Returns what kafka-console-share-consumer.sh shows."""
    done = subprocess.run(
        [
            *jvm.java("kafka-tools", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"),
            *("org.apache.kafka.tools.consumer.ConsoleShareConsumer", "--bootstrap-server", bootstrap),
            *("--topic", group.topic, "--group", group.name, *arguments),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done
    return done.stdout.split()

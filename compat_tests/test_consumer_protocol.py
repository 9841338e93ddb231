"""The consumer protocol of KIP-848 by three clients: Java, librdkafka and franz-go. Groups grow and shrink while records come in,
the broker dies and comes back, members die without a word, and classic groups become consumer groups and classic ones again.

The brokers ask for heartbeats every half second, so that a rebalance takes a second or two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType
from confluent_kafka.admin import AdminClient

from compat_tests.consumer_members import AnyMember, Librdkafka, Numbers, OfFranz, OfJava, leaving, shared
from compat_tests.java_client import Java, running
from compat_tests.reference.kafka import BrokerProcess
from compat_tests.topics import make_topics
from compat_tests.waiting import wait_for

PARTITIONS = 12
ALL = list(range(PARTITIONS))
CLIENTS = ["java", "librdkafka", "franz"]
QUICK = {
    "group_consumer_heartbeat_interval_ms": "500",
    "group_consumer_min_heartbeat_interval_ms": "500",
    "group_consumer_assignment_interval_ms": "300",
    "group_consumer_session_timeout_ms": "6000",
    "group_consumer_min_session_timeout_ms": "3000",
    "group_initial_rebalance_delay_ms": "0",
}
Unique = Callable[[str], str]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    with running(tmp_path_factory.mktemp("java")) as java:
        yield java


@pytest.fixture
def quick(fresh_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    return fresh_broker(**QUICK)


@pytest.fixture
def topic(quick: BrokerProcess, unique: Unique) -> str:
    name = unique("t")
    make_topics(quick.bootstrap, PARTITIONS, name)
    return name


@pytest.fixture
def numbers(quick: BrokerProcess, topic: str) -> Iterator[Numbers]:
    made = Numbers(quick.bootstrap, topic, PARTITIONS)
    yield made
    made.end()


@pytest.fixture
def member(quick: BrokerProcess, topic: str, program: Java, unique: Unique) -> Callable[..., AnyMember]:
    """`member("java", group)`: a new member that reads the test's topic."""

    def make(client: str, group: str, **settings: Any) -> AnyMember:
        if client == "franz":
            return OfFranz(quick.bootstrap, group, topic)
        if client == "librdkafka":
            return Librdkafka(quick.bootstrap, group, topic, **settings)
        return OfJava(program.at(quick.bootstrap), unique("m"), group, topic, **settings)

    return make


def everything_read(members: list[AnyMember], sent: list[str]) -> None:
    """All that was sent was read, by somebody, and each member read each partition in order."""
    wait_for(lambda: {value for each in members for value in each.values} >= set(sent), "everything is read")
    for each in members:
        for partition in ALL:
            numbers = [int(value.split(":")[1]) for value in each.values if value.startswith(f"{partition}:")]
            in_order = all(later <= earlier + 1 for earlier, later in pairwise(numbers))
            assert in_order or partition_moved(each, partition), "a member left something out"


def partition_moved(member: AnyMember, partition: int) -> bool:
    """Did it lose the partition, and get it back?"""
    had = [partition in held for held in member.history]
    return sum(now and not before for before, now in zip([False, *had], had, strict=False)) > 1


@pytest.mark.parametrize("client", CLIENTS)
def test_three_members_six_and_two(client: str, numbers: Numbers, member: Callable[..., AnyMember]) -> None:
    """Nobody stops while others come and go: what stays with a member is never taken from it. Nothing is lost, nor read twice."""
    here: list[AnyMember] = [member(client, "g") for _ in range(3)]
    gone: list[AnyMember] = []
    with leaving(here):
        wait_for(lambda: shared(here) == ALL and all(len(each.assigned) == 4 for each in here), "three share")
        before = [(each, set(each.assigned), len(each.history)) for each in here]
        here += [member(client, "g") for _ in range(3)]
        wait_for(lambda: shared(here) == ALL and all(len(each.assigned) == 2 for each in here), "six share")
        for each, had, steps in before:
            kept = set(each.assigned)
            assert kept < had, "a member keeps half of what it had"
            assert all(kept <= set(held) for held in each.history[steps:]), "and has it all the time"
        for _ in range(4):
            gone.append(here.pop(0))
            gone[-1].leave()
        wait_for(lambda: shared(here) == ALL and all(len(each.assigned) == 6 for each in here), "two share")
        sent = numbers.stop()
        everything_read([*here, *gone], sent)
    read = Counter(value for each in [*here, *gone] for value in each.values)
    assert set(read) == set(sent)
    assert max(read.values()) == 1, "who leaves commits first"


@pytest.mark.parametrize("client", CLIENTS)
def test_the_broker_dies_and_comes_back(
    client: str, quick: BrokerProcess, numbers: Numbers, member: Callable[..., AnyMember]
) -> None:
    here: list[AnyMember] = [member(client, "g") for _ in range(3)]
    with leaving(here):
        wait_for(lambda: shared(here) == ALL and all(each.values for each in here), "three share and read")
        quick.kill()
        quick.start()
        here.append(member(client, "g"))
        wait_for(lambda: shared(here) == ALL and all(len(each.assigned) == 3 for each in here), "four share")
        everything_read(here, numbers.stop())


def test_members_die_without_a_word(numbers: Numbers, member: Callable[..., AnyMember]) -> None:
    """Their session ends, and the others read on from what they had committed."""
    here: list[AnyMember] = [member("franz", "g") for _ in range(3)]
    with leaving(here):
        wait_for(lambda: shared(here) == ALL and all(each.values for each in here), "three share and read")
        dead = here.pop(0)
        assert isinstance(dead, OfFranz)
        dead.kill()
        wait_for(lambda: shared(here) == ALL, "two share what three had")
        everything_read([*here, dead], numbers.stop())


@pytest.mark.parametrize("client", ["java", "librdkafka"])
def test_a_group_moves_to_the_new_protocol_and_back(
    client: str, quick: BrokerProcess, numbers: Numbers, member: Callable[..., AnyMember]
) -> None:
    """Member by member, as a rolling restart does it; nothing is lost on the way."""
    admin = AdminClient({"bootstrap.servers": quick.bootstrap})
    here: list[AnyMember] = [member(client, "g", protocol="classic") for _ in range(2)]
    everybody = list(here)
    with leaving(here):
        wait_for(lambda: shared(here) == ALL and all(each.assigned for each in here), "two share")
        assert kind_of(admin) == (ConsumerGroupType.CLASSIC, ConsumerGroupState.STABLE)
        for protocol in ("consumer", "classic"):
            for _ in range(2):
                here.append(member(client, "g", protocol=protocol))
                everybody.append(here[-1])
                wait_for(lambda: shared(here) == ALL and all(each.assigned for each in here), f"one more, of {protocol}")
                here.pop(0).leave()
                wait_for(lambda: shared(here) == ALL and all(each.assigned for each in here), "two share")
            wanted = ConsumerGroupType.CONSUMER if protocol == "consumer" else ConsumerGroupType.CLASSIC
            wait_for(lambda: kind_of(admin) == (wanted, ConsumerGroupState.STABLE), f"the group is {protocol}")  # noqa: B023 - called within the round
        everything_read(everybody, numbers.stop())


def kind_of(admin: AdminClient) -> tuple[Any, Any]:
    (found,) = [group for group in admin.list_consumer_groups().result(30).valid if group.group_id == "g"]
    return found.type, found.state


@pytest.mark.parametrize("client", ["java"])
def test_an_expression_that_the_broker_matches(client: str, quick: BrokerProcess, program: Java, unique: Unique) -> None:
    java, stem, name = program.at(quick.bootstrap), unique("re"), unique("m")
    java.topic(f"{stem}-a", 1)
    java.call("join", member=name, regex=f"{stem}-.", settings={"group.id": stem, "group.protocol": "consumer"})
    try:
        java.call("produce", topic=f"{stem}-a", records=[{"value": "a"}])
        wait_for(lambda: java.call("member", member=name)["values"] == ["a"], "the first topic is read")
        java.topic(f"{stem}-b", 1)
        java.call("produce", topic=f"{stem}-b", records=[{"value": "b"}])
        wait_for(lambda: java.call("member", member=name)["values"] == ["a", "b"], "a later topic is read")
    finally:
        assert java.call("leave", member=name)["error"] is None

"""Healthy groups of all four kinds, in many states: none is called stuck, slow or odd."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import TopicPartition

from compat_tests.brokers import Address
from compat_tests.test_commands_groups import SHARER, Sharer
from compat_tests.tools_diff.streams_member import StreamsMember
from ottla.commands.why.verdicts import Level
from tests.commands.why.world import World, until

KINDS = ("classic", "consumer")


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """Twenty groups and more, each with members that go on working."""
    with World() as world:
        for kind in KINDS:
            _read_all(world, kind)
            _commit_to_the_middle(world, kind)
            _with_transactions(world, kind)
            _with_two_members(world, kind)
        _without_membership(world)
        _compacted(world)
        _of_the_newer_kinds(world)
        yield world


def _read_all(world: World, kind: str) -> None:
    world.topic(f"read-{kind}", 2)
    world.produce(f"read-{kind}", 20)
    world.reader(f"caught-up-{kind}", f"read-{kind}", group_protocol=kind)
    world.until_committed(f"caught-up-{kind}", f"read-{kind}", 20)
    world.reader(f"by-pattern-{kind}", f"^read-{kind}", group_protocol=kind)
    world.topic(f"empty-{kind}")
    world.reader(f"of-empty-{kind}", f"empty-{kind}", group_protocol=kind)
    world.reader(f"static-{kind}", f"read-{kind}", group_protocol=kind, group_instance_id="i-1")


def _commit_to_the_middle(world: World, kind: str) -> None:
    """A group that is behind and comes nearer: it handles a record in some ms."""
    world.topic(f"long-{kind}")
    world.produce(f"long-{kind}", 20_000)
    world.reader(f"comes-nearer-{kind}", f"long-{kind}", group_protocol=kind, handle_s=0.001)
    until(lambda: world.committed(f"comes-nearer-{kind}", f"long-{kind}"), "it has committed something")


def _with_transactions(world: World, kind: str) -> None:
    world.topic(f"txn-{kind}")
    producer = world.transaction(f"etl-{kind}", f"txn-{kind}", 3)
    world.transaction(f"aborts-{kind}", f"txn-{kind}", 2, end="abort")
    stops = threading.Event()

    def work() -> None:
        while not stops.wait(0.05):
            producer.begin_transaction()
            producer.produce(f"txn-{kind}", "x", partition=0)
            producer.commit_transaction(20)

    thread = threading.Thread(target=work, daemon=True)
    world.closing += [stops.set, thread.join]
    world.reader(f"committed-only-{kind}", f"txn-{kind}", group_protocol=kind, isolation_level="read_committed")
    world.reader(f"uncommitted-too-{kind}", f"txn-{kind}", group_protocol=kind, isolation_level="read_uncommitted")
    thread.start()


def _with_two_members(world: World, kind: str) -> None:
    world.topic(f"both-{kind}", 2)
    for number in range(2):
        world.reader(f"two-{kind}", f"both-{kind}", group_protocol=kind, client_id=f"two-{number}", waits=False)

    def are_both() -> bool:
        members = world.facts(f"two-{kind}", 0).members
        return len(members) == 2 and all(member.partitions for member in members)

    until(are_both, "both have a partition")
    world.produce(f"both-{kind}", 5)


def _without_membership(world: World) -> None:
    world.topic("assigned")
    world.produce("assigned", 5)
    world.commit("ended", "assigned", 5)
    reader = world.reader("assigns", waits=False)
    reader.do(lambda consumer: consumer.assign([TopicPartition("assigned", 0, 0)]))
    world.until_committed("assigns", "assigned", 5)


def _compacted(world: World) -> None:
    world.topic(
        "compacted", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01", segment_ms="100", min_compaction_lag_ms="0"
    )
    world.produce("compacted", 50, key="k")
    world.reader("of-compacted", "compacted")
    world.until_committed("of-compacted", "compacted", 50)
    world.broker.run("compaction")


def _of_the_newer_kinds(world: World) -> None:
    address = Address("ottla", world.broker.port, 0, "")
    world.topic("queue")
    for number in range(2):
        sharer = Sharer(address, f"share-{number}", "queue")
        world.closing.append(sharer.leave)
        task = StreamsMember(address, f"streams-{number}", SHARER, ("queue",))
        world.closing.append(task.leave)


def test_no_healthy_group_is_called_stuck(world: World) -> None:
    names = sorted(each["group"] for each in world.inside.ask("groups", limit=100)["groups"])
    assert len(names) >= 20
    with ThreadPoolExecutor(4) as threads:
        verdicts = dict(zip(names, threads.map(world.verdict, names), strict=True))
    assert {name: verdict for name, verdict in verdicts.items() if verdict.level is Level.STUCK} == {}
    quiet = [name for name in names if name.startswith(("caught-up", "of-", "ended", "static", "share", "streams", "assigns"))]
    assert {name: verdicts[name] for name in quiet if verdicts[name].level is not Level.WELL} == {}
    kinds = {each["kind"] for each in world.inside.ask("groups", limit=100)["groups"]}
    assert kinds == {"classic", "consumer", "share", "streams"}


def test_nor_is_it_by_a_plain_client(world: World) -> None:
    for name in ("caught-up-classic", "comes-nearer-consumer", "committed-only-classic", "ended", "share-0"):
        verdict = world.verdict(name, has_inside=False)
        assert verdict.level is not Level.STUCK, verdict


@pytest.mark.parametrize("kind", KINDS)
def test_one_that_has_just_started_or_rebalances_for_a_moment(world: World, kind: str) -> None:
    world.topic(f"new-{kind}", 2)
    world.produce(f"new-{kind}", 20)
    world.reader(f"new-{kind}", f"new-{kind}", group_protocol=kind, waits=False)
    assert world.verdict(f"caught-up-{kind}").level is Level.WELL
    until(lambda: world.facts(f"new-{kind}", 0).exists, "it has joined")

    def is_not_stuck() -> bool:
        return world.verdict(f"new-{kind}").level is not Level.STUCK

    until(is_not_stuck, "it has begun")  # a watch of half a second may end before a member's first fetch
    world.reader(f"new-{kind}", f"new-{kind}", group_protocol=kind, waits=False)
    until(is_not_stuck, "it goes on")

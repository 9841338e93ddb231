"""The fifteen reasons, staged at a broker with real clients: the right verdict, with the right names in it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from os import SEEK_END
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from typer.testing import CliRunner

from ottla.commands import group
from ottla.commands.clients import direct
from ottla.commands.clients.direct import Refused
from ottla.commands.output import Failure
from ottla.commands.why.gathering import GROUPS, Asked, gather
from ottla.commands.why.verdicts import Level, Verdict, judge
from ottla.server.dispatch.chain import Place
from ottla.wire.messages import alter_client_quotas
from tests.commands.why.world import World, until


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World() as made:
        yield made


def check(verdict: Verdict, reason: str, *words: str, level: Level = Level.STUCK) -> None:
    assert (verdict.reason, verdict.level) == (reason, level), verdict
    missing = [word for word in words if word not in verdict.text]
    assert not missing, verdict


def test_1_there_is_no_such_group(world: World) -> None:
    check(world.verdict("nobody"), "not-there", "nobody")


def test_1_there_is_no_such_topic(world: World) -> None:
    world.reader("to-nothing", "not-made", waits=False, group_protocol="consumer")
    until(lambda: "not-made" in world.verdict("to-nothing", 0).text, "the member has joined")
    check(world.verdict("to-nothing"), "not-there", "not-made", "to-nothing-client")


def test_2_a_partition_is_offline_and_3_there_is_no_coordinator() -> None:
    with World(nodes=2) as world:
        world.topic("offline")
        world.produce("offline")
        world.commit("of-offline", "offline", 3)
        fault = world.broker.fault(api="FindCoordinator", group="of-offline", error="COORDINATOR_NOT_AVAILABLE", times=-1)
        check(world.verdict("of-offline"), "no-coordinator")
        fault.remove()
        world.broker.move_leader("offline", 0, to=None)
        check(world.verdict("of-offline"), "offline", "offline [0]")


def test_who_may_not_see_a_group_is_told_that_and_not_that_its_coordinator_has_gone(world: World) -> None:
    fault = world.broker.fault(api="FindCoordinator", group="secret", error="GROUP_AUTHORIZATION_FAILED", times=-1)
    with pytest.raises(Refused, match="asked who coordinates it"):
        world.verdict("secret")
    fault.remove()


def test_a_group_is_found_where_the_cluster_does_not_show_the_topic_of_groups(world: World) -> None:
    world.topic("shown")
    world.produce("shown")
    world.commit("of-shown", "shown", 10)
    ours = world.cluster.admin()
    metadata = world.cluster.reach(ours)
    del metadata.topics[GROUPS]  # as for a client that may not describe it
    asked = Asked(world.cluster, ours, metadata, time.sleep, lambda: 0)
    check(judge(gather(asked, "of-shown", 0)), "not-behind", level=Level.WELL)
    check(judge(gather(asked, "nobody", 0)), "not-there")


def test_4_nobody_reads(world: World) -> None:
    world.topic("unread")
    world.produce("unread", 10)
    world.commit("nobody-reads", "unread", 4)
    check(world.verdict("nobody-reads"), "no-member", "6 records")


def test_5_a_rebalance_waits_for_a_member(world: World) -> None:
    world.topic("shared", 2)
    slow = world.reader("waiting", "shared", client_id="the-slow-one")
    slow.be_busy()
    world.reader("waiting", "shared", client_id="the-new-one", waits=False)
    until(lambda: world.verdict("waiting", 0).reason == "rebalancing", "the rebalance has begun")
    check(world.verdict("waiting"), "rebalancing", "waits for the-slow-one", "127.0.0.1", "at most")


def test_6_a_member_has_no_partition(world: World) -> None:
    world.topic("one")
    for name in ("first", "second"):
        world.reader("too-many", "one", client_id=name, waits=False, group_protocol="consumer")

    def is_settled() -> bool:
        facts = world.facts("too-many", 0)
        return len(facts.members) == 2 and facts.state == "Stable" and any(member.partitions for member in facts.members)

    until(is_settled, "both are members")
    idle = next(member for member in world.facts("too-many", 0).members if not member.partitions)
    check(world.verdict("too-many"), "idle-member", idle.client_id, "2 members for 1 partition", level=Level.NOTICE)


def test_7_a_member_has_paused_its_partition(world: World) -> None:
    world.topic("paused")
    world.produce("paused", 5)
    reader = world.reader("pauses", "paused")
    world.until_committed("pauses", "paused", 5)
    reader.do(lambda consumer: consumer.pause([TopicPartition("paused", 0)]))
    world.produce("paused", 3)
    check(world.verdict("pauses"), "not-fetching", "pauses-client (127.0.0.1) has paused [0]", "3 records", "has paused all")


def test_8_the_offset_is_not_there(world: World) -> None:
    world.topic("deleted")
    world.produce("deleted", 10)
    world.commit("too-late", "deleted", 2)
    for done in world.admin.delete_records([TopicPartition("deleted", 0, 6)]).values():
        done.result(20)
    reader = world.reader("too-late", "deleted", auto_offset_reset="error")
    until(lambda: reader.errors, "the consumer has said so")
    check(world.verdict("too-late"), "out-of-range", "too-late-client", "offset 2 of deleted [0]", "log's start, 6")


def test_9_an_open_transaction_is_in_the_way(world: World) -> None:
    world.topic("blocked")
    world.produce("blocked", 5)
    world.reader("behind-etl", "blocked", isolation_level="read_committed")
    world.until_committed("behind-etl", "blocked", 5)
    world.transaction("etl-7", "blocked", 3, end=None)
    check(
        world.verdict_once("behind-etl", "blocked"),
        "blocked",
        "blocked [0] is blocked at offset 5 by transaction etl-7",
        "open for",
    )


def test_10_a_quota_makes_it_wait(world: World) -> None:
    world.topic("heavy")
    world.produce("heavy", 200, size=2000)
    alter = alter_client_quotas
    entry = alter.RequestEntryData(
        [alter.RequestEntityData("client-id", "the-greedy")], [alter.OpData("consumer_byte_rate", 3000.0)]
    )
    with direct.connect(world.cluster, "127.0.0.1", world.broker.port) as connection:
        answer = connection.call(alter.AlterClientQuotasRequest([entry]))
    assert not answer.entries[0].error_code
    world.reader(
        "slowed",
        "heavy",
        client_id="the-greedy",
        fetch_max_bytes="4000",
        max_partition_fetch_bytes="4000",
        message_max_bytes="3000",
    )
    until(lambda: world.verdict("slowed", 0.2).reason == "throttled", "it has used up its quota")
    check(world.verdict("slowed", 1.0), "throttled", "the-greedy at 127.0.0.1", "consumer_byte_rate=3000 of client id the-greedy")


def test_11_it_reads_and_does_not_commit(world: World) -> None:
    world.topic("uncommitted")
    world.produce("uncommitted", 8)
    reader = world.reader("forgets", "uncommitted", enable_auto_commit="false")
    until(lambda: reader.read == 8, "it has read all")
    check(world.verdict_once("forgets", "not-committing"), "not-committing", "forgets-client", "uncommitted [0]", "offset 8")


def test_12_the_next_batch_is_damaged(world: World) -> None:
    world.topic("damaged")
    world.produce("damaged", 5)
    world.commit("stops", "damaged", 5)
    world.produce("damaged", 1)
    with (world.broker.data_dir / "damaged-0" / f"{0:020d}.log").open("r+b") as file:
        file.seek(-1, SEEK_END)  # the last byte of the last batch
        (last,) = file.read(1)
        file.seek(-1, SEEK_END)
        file.write(bytes([last ^ 1]))
    world.produce("damaged", 2)
    reader = world.reader("stops", "damaged", check_crcs="true")
    until(lambda: reader.errors, "the consumer has said so")
    words = ("stops-client (127.0.0.1) cannot go on", "damaged [0], at offset 5, is damaged", "checksum (CRC)")
    check(world.verdict_once("stops", "damaged"), "damaged", *words)


def test_13_a_record_is_larger_than_what_it_takes(world: World) -> None:
    world.topic("large", max_message_bytes="3000000")
    world.produce("large", 1, size=500_000)
    small: dict[str, Any] = {"fetch_max_bytes": "10000", "max_partition_fetch_bytes": "10000", "message_max_bytes": "10000"}
    world.reader("small", "large", receive_message_max_bytes="20000", **small)
    check(world.verdict_once("small", "too-large"), "too-large", "large [0], at offset 0", "small-client")


def test_14_it_falls_behind(world: World) -> None:
    world.topic("fast")
    world.produce("fast", 50)
    stops = threading.Event()

    def write() -> None:
        while not stops.wait(0.02):
            world.produce("fast", 20)

    writer = threading.Thread(target=write)
    reader = world.reader("slow", "fast", handle_s=0.02)
    until(lambda: (world.committed("slow", "fast") or 0) > 2, "it has begun to commit")
    writer.start()
    try:
        verdict = world.verdict_once("slow", "behind", 1.0)
    finally:
        stops.set()
        writer.join()
    check(verdict, "behind", "falls further behind", "records/s", level=Level.NOTICE)
    assert reader.read


def test_15_the_lag_is_a_marker(world: World) -> None:
    world.topic("marked")
    world.transaction("etl-8", "marked", 3)
    world.commit("done", "marked", 3)
    verdict = world.verdict("done")
    check(verdict, "markers", "0 records are left to read", "The lag of 1", level=Level.WELL)


def test_a_watch_leaves_nothing_behind(world: World) -> None:
    """The link is there while somebody watches, and no longer."""
    kit = world.broker._kit
    assert kit is not None
    links = kit.lives.broker.chain._links
    watches = [world.inside.ask("watch_group", name="done", seconds=1)["watch"] for _ in range(2)]
    world.inside.ask("unwatch_group", watch=watches[0])
    assert Place.GROUPS in links
    world.inside.ask("unwatch_group", watch=watches[1])
    assert Place.GROUPS not in links
    with pytest.raises(Failure, match="no such watch"):
        world.inside.ask("watched_group", watch=watches[1])


def test_the_command_says_what_a_client_sees(world: World) -> None:
    words = ["why", "nobody-reads", "--bootstrap", world.bootstrap, "--watch", "0"]
    said = CliRunner().invoke(group.app, [*words, "--json"])
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)
    assert (found["reason"], found["level"], found["records_left"], found["is_exact"]) == ("no-member", "stuck", 6, True)
    assert "no member, and 6 records" in CliRunner().invoke(group.app, words).stdout


def test_a_plain_client_sees_less(world: World) -> None:
    verdict = world.verdict("pauses", has_inside=False)
    check(verdict, "behind", "as far as a client can see", level=Level.NOTICE)
    check(world.verdict("behind-etl", has_inside=False), "blocked", "etl-7")

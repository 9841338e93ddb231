"""Tests of what a test may ask of the clock: segments, transactions and members grow old at once, and the answer says which."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.server.testkit.fields import Refused
from ottla.wire.messages import (
    add_partitions_to_txn,
    consumer_group_heartbeat,
    describe_groups,
    init_producer_id,
    join_group,
    sync_group,
)
from tests.server.testkit.lives_rig import Client, Rig, living, run
from tests.server.testkit.members import connect, until_coordinated, until_taken

DAY_MS = 86_400_000
MIB = 1024 * 1024


async def advance(rig: Rig, ms: int, **fields: Any) -> Any:
    return await rig.call("POST", "/v1/clock/advance", {"ms": ms, **fields})


def test_retention_deletes_what_an_advance_makes_old() -> None:
    async def scenario() -> None:
        async with living() as rig:
            configs = {"retention.ms": 7 * DAY_MS, "segment.bytes": MIB, "cleanup.policy": ["delete"]}
            await rig.call("PUT", "/v1/topics/orders", {"configs": configs})
            now_ms = (await rig.call("GET", "/v1/clock"))["now_ms"]
            for _ in range(4):
                await rig.produce("orders", value=b"v" * (MIB // 2 + 1), timestamp_ms=now_ms)
            assert (await advance(rig, 6 * DAY_MS))["deleted_segments"] == 0
            assert await rig.offset("orders", -2) == 0
            moved = await advance(rig, 2 * DAY_MS)
            assert moved["deleted_segments"] == 4
            assert moved["passes"].count("retention") == 1
            assert await rig.offset("orders", -2) == await rig.offset("orders", -1) == 4
            assert moved["now_ms"] - now_ms - 8 * DAY_MS < 60_000

    run(scenario)


def test_a_log_that_notes_when_it_appends_notes_the_advanced_time() -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("PUT", "/v1/topics/orders", {"configs": {"message.timestamp.type": "LogAppendTime"}})
            await rig.call("POST", "/v1/clock/freeze")
            now_ms = (await rig.call("POST", "/v1/clock/set", {"at": "2090-03-01T00:00:00Z"}))["now_ms"]
            assert now_ms == 3_792_009_600_000
            await rig.produce("orders")
            log = rig.lives.context.replicas.logs.get("orders", 0)
            assert log is not None
            assert log.segments.active.largest_timestamp() == now_ms

    run(scenario)


def test_an_open_transaction_is_aborted_when_its_time_is_over() -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("PUT", "/v1/topics/orders")
            client = await connect(rig, "producer", "t", 1)
            begin = init_producer_id.InitProducerIdRequest("t", 900_000)
            producer = await until_taken(client, init_producer_id, 2, begin)
            assert producer.error_code == 0
            topic = add_partitions_to_txn.AddPartitionsToTxnTopic("orders", [0])
            body = add_partitions_to_txn.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="t",
                v3_and_below_producer_id=producer.producer_id,
                v3_and_below_producer_epoch=producer.producer_epoch,
                v3_and_below_topics=[topic],
            )
            await client.ask(add_partitions_to_txn, 3, body)
            assert (await advance(rig, 880_000))["aborted_transactions"] == []
            assert (await advance(rig, 30_000))["aborted_transactions"] == ["t"]
            assert (await advance(rig, 900_000))["aborted_transactions"] == []
            await client.close()

    run(scenario)


async def join(client: Client, group: str) -> str:
    """Makes the client a member of a classic group, alone and stable; returns the member id."""
    await until_coordinated(client, group)
    request = join_group.JoinGroupRequest(
        group, 45_000, 60_000, "", None, "consumer", [join_group.JoinGroupRequestProtocol("range", b"")]
    )
    joined = await until_taken(client, join_group, 3, request)
    assert joined.error_code == 0
    synced = await client.ask(
        sync_group,
        3,
        sync_group.SyncGroupRequest(
            group,
            joined.generation_id,
            joined.member_id,
            assignments=[sync_group.SyncGroupRequestAssignment(joined.member_id, b"a")],
        ),
    )
    assert synced.error_code == 0
    return str(joined.member_id)


def test_members_are_expelled_after_their_session_timeout() -> None:
    async def scenario() -> None:
        async with living(group_initial_rebalance_delay_ms="0") as rig:
            client = await Client("app").connect(rig.port)
            member = await join(client, "billing")
            assert (await advance(rig, 44_000))["expired_members"] == []
            moved = await advance(rig, 2_000)
            assert moved["expired_members"] == [{"group": "billing", "member": member}]
            assert moved["timers"] >= 1
            described = await client.ask(describe_groups, 0, describe_groups.DescribeGroupsRequest(["billing"]))
            assert described.groups[0].group_state == "Empty"
            await client.close()

    run(scenario)


@pytest.mark.parametrize("modern", [False, True])
def test_members_with_a_connection_are_kept_if_that_is_asked_for(modern: bool) -> None:
    async def enter(client: Client, group: str) -> str:
        if not modern:
            return await join(client, group)
        await until_coordinated(client, group)
        request = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            group, group + "-member", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=["orders"], topic_partitions=[]
        )
        entered = await until_taken(client, consumer_group_heartbeat, 1, request)
        assert entered.error_code == 0
        return str(entered.member_id)

    async def scenario() -> None:
        async with living(group_initial_rebalance_delay_ms="0") as rig:
            alive, dead = await Client("alive").connect(rig.port), await Client("dead").connect(rig.port)
            kept, lost = await enter(alive, "kept"), await enter(dead, "lost")
            connections = rig.lives.broker.listeners[0].connections
            session = next(each.session for each in connections if each.session.client_id == "dead")
            closed = asyncio.Event()
            session.on_close(lambda _: closed.set())
            await dead.close()
            await closed.wait()
            moved = await advance(rig, 3_600_000, keep_members=True)
            assert moved["expired_members"] == [{"group": "lost", "member": lost}]
            assert (await advance(rig, 30_000))["expired_members"] == []
            assert (await advance(rig, 20_000))["expired_members"] == [{"group": "kept", "member": kept}]
            await alive.close()

    run(scenario)


def test_retention_runs_when_it_is_asked_for() -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("PUT", "/v1/topics/orders", {"configs": {"retention.ms": 1000}})
            await rig.produce("orders", timestamp_ms=1_000_000)
            ran = await rig.call("POST", "/v1/run", {"what": "retention"})
            assert ran["deleted_segments"] == 1
            assert ran["passes"] == ["retention", "delete"]
            assert (await rig.call("POST", "/v1/run", {"what": "expiry"}))["passes"][0] == "offset expiration"
            await rig.call("POST", "/v1/run", {"what": "compaction"})
        async with living(log_cleaner_enable="false") as rig:
            with pytest.raises(Refused, match=r"compaction is off, because log\.cleaner\.enable is false"):
                await rig.call("POST", "/v1/run", {"what": "compaction"})

    run(scenario)


def test_the_clock_stands_and_goes_on() -> None:
    async def scenario() -> None:
        async with living() as rig:
            frozen = await rig.call("POST", "/v1/clock/freeze")
            assert frozen["frozen"]
            again = await rig.call("GET", "/v1/clock")
            assert again["now_ms"] == frozen["now_ms"]
            await advance(rig, 5)
            assert (await rig.call("GET", "/v1/clock"))["now_ms"] == frozen["now_ms"] + 5
            assert not (await rig.call("POST", "/v1/clock/resume"))["frozen"]

    run(scenario)


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("/v1/clock/advance", {}, "ms is missing; it must be a whole number"),
        ("/v1/clock/advance", {"ms": -1}, "ms must be between 0 and "),
        ("/v1/clock/advance", {"msec": 1, "ms": 1}, "msec is no field here; did you mean ms?"),
        ("/v1/clock/set", {"at": "tomorrow"}, "at must be a time such as 2027-03-01T00:00:00Z, or ms since 1970, not 'tomorrow'"),
        ("/v1/clock/advance", {"days": 1}, "days is no field here; there are keep_members, ms"),
        ("/v1/clock/set", {"to": 1}, "to is no field here; "),
        ("/v1/run", {"wat": "expiry"}, "wat is no field here; did you mean what?"),
        ("/v1/clock/set", {}, "at must be a time such as"),
        ("/v1/clock/set", {"at": "2001-01-01"}, "at must not be before what the clock shows"),
        ("/v1/clock/set", {"at": 9_999_999_999_999}, "at must not be a century or more ahead of what the clock shows"),
        ("/v1/run", {"what": "compactoin"}, "what: there is no 'compactoin'; did you mean compaction?"),
        ("/v1/restart", {"how": "power"}, "how: there is no 'power'; did you mean power_cut?"),
        ("/v1/restart", {"down_ms": -1}, "down_ms must be between 0 and 600000"),
        ("/v1/reset", {"kep": []}, "kep is no field here"),
        ("/v1/snapshots", {"name": 7}, "name must be a text, not 7"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_by_the_name_of_its_field(path: str, body: dict[str, Any], told: str) -> None:
    async def scenario() -> None:
        async with living() as rig:
            with pytest.raises(Refused) as refused:
                await rig.call("POST", path, body)
            assert str(refused.value).startswith(told)
            assert refused.value.status == 400
            assert await rig.topics() == []

    run(scenario)

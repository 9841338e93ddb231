"""Waits for groups: states that no record tells of, members, commits, lag; and whom a rebalance waits for, until when."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from ottla.server.testkit.fields import Refused
from tests.server.testkit.lives_rig import Rig, living, run
from tests.server.testkit.members import (
    assignment,
    beat_consumer,
    commit,
    connect,
    enter_classic,
    enter_consumer,
    enter_share,
    enter_streams,
    leave_classic,
    send_join,
    send_sync,
)
from tests.server.testkit.waiting.test_pending import missing


async def begun(rig: Rig, **until: Any) -> asyncio.Task[Any]:
    waiting = rig.wait(**until)
    await asyncio.sleep(0)
    return waiting


def test_each_state_of_a_classic_rebalance_is_seen_when_it_comes() -> None:
    async def scenario() -> None:
        async with living(group_initial_rebalance_delay_ms="0") as rig:
            first, second = await connect(rig, "app-1", "billing"), await connect(rig, "app-2", "billing")
            completing = await begun(rig, group="billing", state="CompletingRebalance")
            joined = await send_join(first, "billing")
            assert (await completing)["members"] == 1
            stable = await begun(rig, group="billing", state="Stable", members=1)
            await send_sync(first, "billing", joined, {joined.member_id: assignment(0)})
            await stable
            preparing = await begun(rig, group="billing", state="PreparingRebalance", members=2)
            second_joins = rig.background(send_join(second, "billing"))
            await preparing
            text = await missing(rig, group="billing", state="Stable", members=2)
            assert re.fullmatch(r"billing is PreparingRebalance, 2 of 2 members; waits for app-1 until \+[3-6]\d\.\d s", text)
            await rig.call("POST", "/v1/clock/freeze")
            assert (await missing(rig, group="billing", state="Stable")).endswith("s, which the frozen clock does not reach")
            both = await begun(rig, group="billing", state="CompletingRebalance", members=2)
            again = await send_join(first, "billing", joined.member_id)
            await both
            other = await second_joins
            text = await missing(rig, group="billing", state="Stable")
            assert text.startswith("billing is CompletingRebalance, 2 members; waits for app-1, app-2 until +60.0 s")
            members = {joined.member_id: assignment(0), other.member_id: assignment(1)}
            second_syncs = rig.background(send_sync(second, "billing", other, members if other.leader == other.member_id else {}))
            await send_sync(first, "billing", again, members if again.leader == again.member_id else {})
            await second_syncs
            await rig.wait(group="billing", state="Stable", members=2)
            for client in (first, second):
                await client.close()

    run(scenario)


def test_a_member_that_leaves_or_is_expelled_ends_a_wait() -> None:
    async def scenario() -> None:
        async with living(group_initial_rebalance_delay_ms="0") as rig:
            client = await connect(rig, "app-1", "billing")
            for expelled in (False, True):
                member_id = await enter_classic(client, "billing", 0)
                empty = await begun(rig, group="billing", state="Empty")
                if expelled:
                    await rig.call("POST", "/v1/clock/advance", {"ms": 46_000})
                else:
                    await leave_classic(client, "billing", member_id)
                assert (await empty)["members"] == 0
            await client.close()

    run(scenario)


def test_the_initial_delay_is_waited_for_by_the_broker_s_clock() -> None:
    async def scenario() -> None:
        async with living(group_initial_rebalance_delay_ms="60000") as rig:
            client = await connect(rig, "app-1", "billing")
            joins = rig.background(send_join(client, "billing"))
            await rig.wait(group="billing", members=1)
            text = await missing(rig, group="billing", state="Stable")
            assert re.fullmatch(r"billing is PreparingRebalance, 1 members; waits until \+[3-6]\d\.\d s", text)
            completing = await begun(rig, group="billing", state="CompletingRebalance")
            await rig.call("POST", "/v1/clock/advance", {"ms": 60_000})
            await completing
            await joins
            await client.close()

    run(scenario)


def test_members_of_one_client_are_told_apart() -> None:
    async def scenario() -> None:
        async with living(group_consumer_assignment_interval_ms="0") as rig:
            await rig.call("PUT", "/v1/topics/orders", {"partitions": 2})
            client = await connect(rig, "app", "billing")
            first = await enter_consumer(client, "billing", "m-1")
            await rig.wait(group="billing", state="Stable", members=1)
            await enter_consumer(client, "billing", "m-2")
            text = await missing(rig, group="billing", state="Stable", members=2)
            assert text.startswith("billing is Reconciling, 2 of 2 members; waits for app (m-1), app (m-2)")
            stable = await begun(rig, group="billing", state="Stable")
            answer = await beat_consumer(client, "billing", "m-1", first.member_epoch)
            owned = answer.assignment.topic_partitions
            await beat_consumer(client, "billing", "m-1", answer.member_epoch, owned)
            epoch = (await beat_consumer(client, "billing", "m-1", answer.member_epoch, owned)).member_epoch
            assert epoch > first.member_epoch
            while not stable.done():
                await beat_consumer(client, "billing", "m-2", epoch)
            await stable
            await client.close()

    run(scenario)


def test_commits_and_lag() -> None:
    async def scenario() -> None:
        async with living(group_initial_rebalance_delay_ms="0") as rig:
            await rig.call("PUT", "/v1/topics/orders", {"partitions": 2})
            await rig.call("POST", "/v1/records/orders", [{"value": "v"}] * 5)
            client = await connect(rig, "app-1", "billing")
            wanted = {"group": "billing", "topic": "orders", "partition": 0, "offset": 5}
            assert await missing(rig, committed=wanted) == "there is no group billing, nor any other"
            member_id = await enter_classic(client, "billing", 0, 1)
            assert await missing(rig, committed=wanted) == "billing has committed nothing in orders-0"
            assert await missing(rig, group="billing", lag=0) == "billing has a lag of 5, more than 0: orders-0 5"
            lagging, committed = await begun(rig, group="billing", lag=0), await begun(rig, committed=wanted)
            await commit(client, "billing", 3, member_id, 1)
            assert await missing(rig, committed=wanted) == "billing has committed 3 in orders-0, not 5"
            assert (await rig.wait(0, group="billing", lag=2))["lag"] == 2
            assert not lagging.done()
            await commit(client, "billing", 5, member_id, 1)
            assert (await committed)["offset"] == 5
            assert (await lagging)["lag"] == 0
            await client.close()

    run(scenario)


def test_a_group_that_has_done_nothing_has_no_lag_yet() -> None:
    async def scenario() -> None:
        async with living(group_streams_initial_rebalance_delay_ms="0") as rig:
            client = await connect(rig, "app-1", "billing")
            await enter_streams(client, "billing")
            assert await missing(rig, group="billing", lag=0) == "billing has committed nothing yet"
            await client.close()

    run(scenario)


def test_a_group_that_does_not_exist_is_dead() -> None:
    async def scenario() -> None:
        async with living(group_initial_rebalance_delay_ms="0") as rig:
            assert await rig.wait(0, group="billing", state="Dead") == {"group": "billing", "state": "Dead"}

    run(scenario)


def test_what_a_share_group_can_never_be() -> None:
    async def scenario() -> None:
        async with living(share_coordinator_state_topic_num_partitions="1", group_share_assignment_interval_ms="0") as rig:
            await rig.call("PUT", "/v1/topics/orders")
            client = await connect(rig, "app-1", "billing")
            await enter_share(client, "billing")
            await rig.wait(group="billing", state="Stable", members=1)
            with pytest.raises(Refused, match=r"^this can never be: billing is a share group, which commits no offsets$"):
                await rig.wait(committed={"group": "billing", "topic": "orders", "offset": 1})
            never = r"^this can never be: billing is a share group, whose states are Empty, Stable$"
            with pytest.raises(Refused, match=never):
                await rig.wait(group="billing", state="Assigning")
            await client.close()

    run(scenario)

"""Groups of all four kinds, as a test sees them."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.log.transactions import append_marker
from ottla.server.inspect.assignments import decode_assignment
from ottla.server.testkit.fields import Refused
from tests.server.testkit.lives_rig import Rig, living, run
from tests.server.testkit.members import (
    SHARE_MEMBER,
    assignment,
    commit,
    connect,
    enter_classic,
    enter_consumer,
    enter_share,
    enter_streams,
    send_join,
)


async def seeded(rig: Rig, records: int = 5) -> None:
    """Makes the topic `orders` with two partitions, and so many records in the first."""
    await rig.call("PUT", "/v1/topics/orders", {"partitions": 2})
    await rig.call("POST", "/v1/records/orders", [{"value": str(number)} for number in range(records)])


async def group(rig: Rig, group_id: str = "billing") -> Any:
    return await rig.call("GET", f"/v1/groups/{group_id}")


def offsets(described: Any) -> list[tuple[int, int | None, int | None]]:
    return [(each["partition"], each["offset"], each["lag"]) for each in described["offsets"]]


def test_a_classic_group_has_members_assignments_commits_and_a_session() -> None:
    async def scenario() -> None:
        async with living(group_initial_rebalance_delay_ms="0") as rig:
            await seeded(rig)
            client = await connect(rig, "app-1", "billing")
            member_id = await enter_classic(client, "billing", 0, 1)
            await rig.call("POST", "/v1/clock/freeze")
            await commit(client, "billing", 3, member_id, 1)
            found = await group(rig)
            assert (found["kind"], found["state"], found["generation"], found["protocol"]) == ("classic", "Stable", 1, "range")
            member = found["members"][0]
            assert (member["member_id"], member["client_id"], member["host"]) == (member_id, "app-1", "127.0.0.1")
            assert (member["assignment"], member["waits_in"]) == ({"orders": [0, 1]}, None)
            assert offsets(found) == [(0, 3, 2), (1, None, 0)]
            assert (found["lag"], found["offsets"][0]["metadata"]) == (2, "m")
            assert found["timers"] == [{"timer": "session", "member_id": member_id, "due_in_ms": 45_000}]
            await client.close()

    run(scenario)


def test_a_member_that_waits_for_the_others_is_seen_waiting() -> None:
    async def scenario() -> None:
        async with living(group_initial_rebalance_delay_ms="60000") as rig:
            client = await connect(rig, "app-1", "billing")
            joining = rig.wait(group="billing", members=1)
            join = rig.background(send_join(client, "billing"))
            await joining
            found = await group(rig)
            assert (found["state"], found["members"][0]["waits_in"]) == ("PreparingRebalance", "JoinGroup")
            assert {each["timer"] for each in found["timers"]} == {"join", "session"}
            parked = (await rig.call("GET", "/v1/connections"))["connections"][0]["parked"]
            assert (parked["api"], parked["version"]) == ("JoinGroup", 3)
            await rig.call("POST", "/v1/clock/advance", {"ms": 60_000})
            assert (await join).error_code == 0
            await client.close()

    run(scenario)


def test_a_consumer_group_has_epochs_and_targets() -> None:
    async def scenario() -> None:
        async with living(group_consumer_assignment_interval_ms="0") as rig:
            await seeded(rig)
            client = await connect(rig, "app-1", "billing")
            await enter_consumer(client, "billing", "m-1")
            await enter_consumer(client, "billing", "m-2")
            found = await group(rig)
            assert (found["kind"], found["state"], found["epoch"], found["assignment_epoch"]) == ("consumer", "Reconciling", 3, 3)
            first, second = found["members"]
            assert (first["assignment"], first["epoch"], first["protocol"]) == ({"orders": [0, 1]}, 2, "consumer")
            assert sorted([*first["target"]["orders"], *second["target"]["orders"]]) == [0, 1]
            assert (second["assignment"], second["state"]) == ({}, "UNRELEASED_PARTITIONS")
            assert offsets(found) == [(0, None, 5), (1, None, 0)]
            assert [each["timer"] for each in found["timers"]] == ["session", "session"]
            await client.close()

    run(scenario)


def test_a_share_group_has_start_offsets() -> None:
    async def scenario() -> None:
        async with living(share_coordinator_state_topic_num_partitions="1", group_share_assignment_interval_ms="0") as rig:
            await seeded(rig)
            client = await connect(rig, "app-1", "billing")
            await enter_share(client, "billing")
            found = await group(rig)
            assert (found["kind"], found["state"]) == ("share", "Stable")
            assert found["members"][0]["member_id"] == SHARE_MEMBER
            assert found["members"][0]["assignment"] == {"orders": [0, 1]}
            assert [each["partition"] for each in found["offsets"]] == [0, 1]
            assert [(each["timer"], each["member_id"]) for each in found["timers"]] == [("session", SHARE_MEMBER)]
            await client.close()

    run(scenario)


def test_a_streams_group_has_tasks_and_the_partitions_that_they_read() -> None:
    async def scenario() -> None:
        async with living(group_streams_initial_rebalance_delay_ms="0", group_streams_assignment_interval_ms="0") as rig:
            await seeded(rig)
            client = await connect(rig, "app-1", "billing")
            await enter_streams(client, "billing")
            found = await group(rig)
            assert found["kind"] == "streams"
            assert found["members"][0]["target"]["active"] == {"sub": [0, 1]}
            assert found["members"][0]["assignment"] == {"active": {"sub": [0, 1]}, "standby": {}, "warmup": {}}
            assert offsets(found) == [(0, None, 5), (1, None, 0)]
            assert [each["timer"] for each in found["timers"]] == ["session"]
            await client.close()
        async with living() as rig:
            await seeded(rig)
            client = await connect(rig, "app-1", "billing")
            await enter_streams(client, "billing")
            assert [each["timer"] for each in (await group(rig))["timers"]] == ["initial rebalance", "session"]
            await client.close()

    run(scenario)


def test_a_group_that_only_commits_is_simple_and_markers_are_no_lag() -> None:
    async def scenario() -> None:
        async with living() as rig:
            await seeded(rig, 3)
            client = await connect(rig, "admin", "billing")
            await commit(client, "billing", 3)
            replica = rig.replica("orders")
            append_marker(replica.log, producer_id=7, producer_epoch=0, commit=True, coordinator_epoch=0, leader_epoch=0)
            found = await group(rig)
            assert (found["state"], found["members"], offsets(found)) == ("Empty", [], [(0, 3, 0)])
            await rig.call("POST", "/v1/records/orders", {"value": "four"})
            assert offsets(await group(rig)) == [(0, 3, 2)]
            await client.close()

    run(scenario)


def test_groups_are_listed_and_one_that_is_not_there_is_refused() -> None:
    async def scenario() -> None:
        async with living(group_initial_rebalance_delay_ms="0") as rig:
            client = await connect(rig, "admin", "billing")
            await seeded(rig)
            for name in ("billing", "billing-2", "audit"):
                await commit(client, name, 0)
            listed = await rig.call("GET", "/v1/groups", {"limit": 2})
            assert [each["group"] for each in listed["groups"]] == ["audit", "billing"]
            assert listed["left_off"] == 1
            with pytest.raises(Refused, match=r"^there is no group 'biling'; did you mean billing\?$") as refused:
                await group(rig, "biling")
            assert refused.value.status == 404
            await client.close()

    run(scenario)


@pytest.mark.parametrize(
    "data", [b"", b"\0\0", b"\0\0\0\0\0\x01\0\x09or", assignment(0, 1)[:-6], b"\0\0\x7f\xff\xff\xff" + bytes(6) + b"\xff\xfa"]
)
def test_what_is_no_assignment_of_a_consumer_is_not_taken_for_one(data: bytes) -> None:
    assert decode_assignment(data) is None


def test_an_assignment_is_decoded() -> None:
    assert decode_assignment(assignment(2, 0)) == {"orders": [0, 2]}

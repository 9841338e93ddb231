"""Tests of what can be waited for, but for groups: when it has come about, what is said while it has not, and what can never
be."""

from __future__ import annotations

import asyncio
import re
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.server.testkit.waiting.condition import Missing
from ottla.server.testkit.waiting.conditions import Quiet
from ottla.wire.messages import list_groups
from tests.fakes import ManualClock
from tests.server.testkit.calls.test_look_calls import begin, end
from tests.server.testkit.lives_rig import Client, living, run
from tests.server.testkit.members import connect
from tests.server.testkit.waiting.test_pending import missing, refusal


def test_a_topic_and_its_partitions() -> None:
    async def scenario() -> None:
        async with living() as rig:
            assert await missing(rig, topic="orders") == "there is no topic orders, nor any other"
            await rig.call("PUT", "/v1/topics/order", {"partitions": 2})
            assert await missing(rig, topic="orders") == "there is no topic orders; did you mean order?"
            assert await missing(rig, topic="order", partitions=3) == "order has 2 of 3 partitions"
            assert (await rig.wait(0, topic="order", partitions=2))["partitions"] == 2

    run(scenario)


def test_records_up_to_an_offset() -> None:
    async def scenario() -> None:
        async with living() as rig:
            waiting = rig.wait(topic="orders", end_offset=2)
            await asyncio.sleep(0)
            await rig.call("PUT", "/v1/topics/orders")
            await rig.produce("orders")
            assert not waiting.done()
            await rig.produce("orders")
            assert await waiting == {"topic": "orders", "partition": 0, "end_offset": 2}

    run(scenario)


def test_a_state_of_a_transaction() -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("PUT", "/v1/topics/orders")
            assert await missing(rig, transaction="t-1", state="Ongoing") == "there is no transactional id t-1, nor any other"
            client = await connect(rig, "app", "t-1", 1)
            ongoing = rig.wait(transaction="t-1", state="Ongoing")
            producer = await begin(client, "t-1")
            assert (await ongoing)["producer_id"] == producer.producer_id
            text = await missing(rig, transaction="t-1", state="CompleteCommit")
            assert re.fullmatch(r"t-1 is Ongoing, not CompleteCommit; it times out at \+[89]\d\d\.\d s", text)
            await rig.call("POST", "/v1/clock/freeze")
            assert "which the frozen clock does not reach" in await missing(rig, transaction="t-1", state="CompleteCommit")
            complete = rig.wait(transaction="t-1", state="CompleteAbort")
            await asyncio.sleep(0)
            await end(client, "t-1", producer, commit=False)
            assert (await complete)["state"] == "CompleteAbort"
            await client.close()

    run(scenario)


def test_an_advance_that_aborts_a_transaction_ends_a_wait_for_that() -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("PUT", "/v1/topics/orders")
            client = await connect(rig, "app", "t-1", 1)
            await begin(client, "t-1")
            aborted = rig.wait(transaction="t-1", state="CompleteAbort")
            await asyncio.sleep(0)
            await rig.call("POST", "/v1/clock/advance", {"ms": 1_000_000})
            assert (await aborted)["state"] == "CompleteAbort"
            await client.close()

    run(scenario)


def test_a_number_of_connections() -> None:
    async def scenario() -> None:
        async with living() as rig:
            two = rig.wait(connections=2)
            await asyncio.sleep(0)
            clients = [await Client(name).connect(rig.port) for name in ("a", "b")]  # they say nothing
            assert await two == {"connections": 2}
            assert await missing(rig, connections=0) == "2 connections are open, of None, and not 0"
            await clients[0].ask(list_groups, 2, list_groups.ListGroupsRequest())
            none = rig.wait(connections=0)
            await asyncio.sleep(0)
            for client in clients:
                await client.close()
            assert await none == {"connections": 0}

    run(scenario)


def test_quiet_comes_by_itself() -> None:
    async def scenario() -> None:
        async with living() as rig:
            assert (await rig.wait(quiet_ms=5))["quiet_ms"] >= 5
            assert await missing(rig, quiet_ms=60_000) == "requests still come"

    run(scenario)


def test_each_request_begins_the_quiet_anew() -> None:
    clock = ManualClock()
    quiet = Quiet(cast(Any, SimpleNamespace(clock=clock)), 80)
    request = cast(Any, SimpleNamespace(client_id="app", api_key=3))
    for _ in range(3):
        assert quiet.due_in_s() == pytest.approx(0.08)
        clock.advance(0.06)
        assert isinstance(quiet.look(cast(Any, None), cast(Any, None)), Missing)
        quiet.note_request(None, request)
    text = quiet.look(cast(Any, None), cast(Any, None))
    assert text == Missing("requests still come; the last was Metadata of app")
    clock.advance(0.08)
    assert quiet.look(cast(Any, None), cast(Any, None)) == {"quiet_ms": 80}


@pytest.mark.parametrize(
    ("until", "told"),
    [
        ({}, "until must have exactly one of group, committed, topic, request, transaction, connections, quiet_ms"),
        ({"grop": "g"}, "until.grop is no field here; did you mean group?"),
        ({"group": "g", "topic": "t"}, "until must have exactly one of"),
        ({"group": "g", "stat": "Stable"}, "until.stat is no field here; did you mean state?"),
        ({"group": "g", "state": "Stabel"}, "until.state: there is no state 'Stabel' of groups; did you mean Stable?"),
        ({"group": "g", "state": "Empty", "members": 1}, "this can never be: a group that is Empty has no members"),
        ({"transaction": "t", "state": "Complete"}, "until.state: there is no state 'Complete' of transactions"),
        ({"transaction": "t"}, "until.state is missing"),
        ({"topic": "orders", "partition": 1, "end_offset": 1}, "this can never be: orders has 1 partitions, and no 1"),
        ({"topic": "orders", "partition": 0}, "until.end_offset is missing"),
        ({"committed": {"group": "g", "topic": "orders", "partition": 3, "offset": 1}}, "this can never be: orders has"),
        ({"committed": {"group": "g", "topic": "orders", "ofset": 1}}, "until.committed.offset is missing"),
        ({"request": {"api": "Produc"}}, "on.api: 'Produc' is no API that is served; did you mean Produce?"),
        ({"request": {"api": "ListGroups", "topic": "t"}}, "on.topic: this can never match"),
        ({"connections": -1}, "until.connections must be between 0 and"),
        ({"quiet_ms": 0}, "until.quiet_ms must be between 1 and"),
    ],
)  # fmt: skip
def test_what_is_wrong_or_can_never_be_is_refused_at_once(until: dict[str, Any], told: str) -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("PUT", "/v1/topics/orders")
            refused = await refusal(rig, 600_000, **until)
            assert (refused.status, str(refused)[: len(told)]) == (400, told)

    run(scenario)

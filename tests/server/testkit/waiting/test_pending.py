"""Waits: they end with their cause, say what was missing, outlive the lives of the broker, and leave nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

import pytest

from ottla.server.dispatch.chain import Place
from ottla.server.metadata.image import CLIENT_METRICS
from ottla.server.partitions.replica import Replica
from ottla.server.requests.context import BrokerContext
from ottla.server.testkit.faults.bench import Bench
from ottla.server.testkit.fields import Refused
from ottla.server.testkit.waiting.condition import Condition, Missing
from ottla.server.testkit.waiting.conditions import EndOffset
from ottla.wire.api import Api
from ottla.wire.messages import list_groups
from ottla.wire.messages.internal.config_record import ConfigRecord
from tests.asking import ask
from tests.log.support import batch
from tests.server.testkit.lives_rig import Client, Rig, living, run

HARDLY_ANY_MS = 10


async def refusal(rig: Rig, timeout_ms: int = HARDLY_ANY_MS, **until: Any) -> Refused:
    """Returns what a wait ends with that ends in vain."""
    with pytest.raises(Refused) as refused:
        await rig.wait(timeout_ms, **until)
    return refused.value


async def missing(rig: Rig, **until: Any) -> str:
    """Returns what a wait says that ends in vain."""
    return str(await refusal(rig, **until)).removeprefix(f"after {HARDLY_ANY_MS} ms: ")


def subscriptions(rig: Rig) -> list[Any]:
    """Everything that may have somebody to tell."""
    of_replicas = [replica.watchers for replica in rig.lives.context.replicas]
    chain: Any = rig.lives.broker.chain
    link = chain._links.get(Place.WAITS)
    return [*of_replicas, rig.lives.on_change, rig.lives.clock.on_run, rig.lives.network.on_connection, link]


def test_a_wait_for_what_is_there_ends_at_once() -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("PUT", "/v1/topics/orders")
            found = await rig.wait(0, topic="orders")
            assert found == {"topic": "orders", "partitions": 1, "records": 0, "internal": False}
            assert "waits" in vars(rig.kit)
            assert not any(subscriptions(rig))

    run(scenario)


def test_nothing_is_subscribed_to_but_while_a_wait_is_pending() -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("PUT", "/v1/topics/orders")
            assert not any(subscriptions(rig))
            waits = [rig.wait(topic="orders", partition=0, end_offset=1), rig.wait(topic="audit")]
            await asyncio.sleep(0)
            assert all(subscriptions(rig)[:-1])
            assert not subscriptions(rig)[-1]  # no request by itself ends one of these
            await rig.call("PUT", "/v1/topics/audit")
            await waits[1]
            assert all(subscriptions(rig)[:1])
            await rig.produce("orders")
            await waits[0]
            assert not any(subscriptions(rig))
            given_up = rig.wait(topic="orders", partition=0, end_offset=9)
            await asyncio.sleep(0)
            given_up.cancel()
            await asyncio.gather(given_up, return_exceptions=True)
            assert not any(subscriptions(rig))

    run(scenario)


def test_what_is_missing_is_said_when_the_time_is_over() -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("PUT", "/v1/topics/orders")
            late = await refusal(rig, topic="orders", partition=0, end_offset=2)
            assert (late.status, str(late)) == (HTTPStatus.REQUEST_TIMEOUT, "after 10 ms: orders-0 ends at 0, not at 2")

    run(scenario)


def test_a_wait_that_becomes_impossible_ends_then() -> None:
    async def scenario() -> None:
        async with living() as rig:
            waiting = rig.wait(topic="orders", partition=7, end_offset=1)
            await asyncio.sleep(0)
            await rig.call("PUT", "/v1/topics/orders", {"partitions": 3})
            with pytest.raises(Refused, match=r"^this can never be: orders has 3 partitions, and no 7$") as refused:
                await waiting
            assert refused.value.status == HTTPStatus.BAD_REQUEST
            assert not any(subscriptions(rig))

    run(scenario)


@pytest.mark.parametrize("how", ["clean", "kill"])
def test_a_wait_goes_on_over_a_restart(how: str) -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("PUT", "/v1/topics/orders")
            records, topic, request = (
                rig.wait(topic="orders", partition=0, end_offset=1),
                rig.wait(topic="audit"),
                rig.wait(request={"api": "ListGroups"}),
            )
            await asyncio.sleep(0)
            await rig.call("POST", "/v1/restart", {"how": how})
            await rig.produce("orders")
            await rig.call("PUT", "/v1/topics/audit")
            await ask(rig.port, list_groups, 2, list_groups.ListGroupsRequest())
            assert (await records)["end_offset"] == 1
            assert (await topic)["partitions"] == 1
            assert (await request)["count"] == 1

    run(scenario)


def test_a_wait_that_a_restart_brings_about_ends_with_it() -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("PUT", "/v1/topics/orders")
            name = (await rig.call("POST", "/v1/snapshots"))["name"]
            await rig.call("DELETE", "/v1/topics/orders")
            waiting = rig.wait(topic="orders")
            await asyncio.sleep(0)
            await rig.call("POST", f"/v1/snapshots/{name}/restore")
            assert (await waiting)["topic"] == "orders"

    run(scenario)


def test_while_the_broker_is_down_that_is_what_is_missing() -> None:
    async def scenario() -> None:
        async with living() as rig:
            restart = rig.background(rig.call("POST", "/v1/restart", {"how": "kill", "down_ms": 600_000}))
            await asyncio.sleep(0)
            assert str(await refusal(rig, 1, topic="orders")) == "after 1 ms: the broker is down: it was stopped"
            restart.cancel()
            await asyncio.gather(restart, return_exceptions=True)

    run(scenario)


def test_a_wait_ends_in_the_turn_after_its_cause() -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("PUT", "/v1/topics/orders")
            replica = rig.replica("orders")
            condition = EndOffset("orders", 0, 1)
            waiting = rig.background(rig.kit.waits.until(condition, 10_000))
            await asyncio.sleep(0)
            replica.append(batch())
            assert not rig.kit.waits._pending[condition].done()
            for _ in range(2):  # this task is the first in a turn, and a look comes after it
                await asyncio.sleep(0)
            assert rig.kit.waits._pending[condition].done()
            await waiting

    run(scenario)


class Flag(Condition):
    """Comes about when the test says so, and is looked at only if something else happens."""

    def __init__(self, api: str = "", due_in_s: float | None = None, *, watches_connections: bool = False) -> None:
        self.watches_connections = watches_connections
        self.up = False
        self._api = api
        self._due_in_s = due_in_s

    def look(self, bench: Bench, context: BrokerContext) -> dict[str, Any] | Missing:
        return {} if self.up else Missing("the flag is not up")

    def concerns(self, api: Api) -> bool:
        return api.name == self._api

    def due_in_s(self) -> float | None:
        return self._due_in_s


async def raised(rig: Rig, flag: Flag, cause: Callable[[], Awaitable[object]]) -> None:
    """Waits for a flag that is up already, but not looked at before its cause."""
    waiting = rig.background(rig.kit.waits.until(flag, 600_000))
    await asyncio.sleep(0)
    flag.up = True
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done()
    await cause()
    await waiting


def test_each_cause_alone_ends_a_wait() -> None:
    async def scenario() -> None:
        async with living() as rig:
            client = await Client("app").connect(rig.port)

            async def change_metadata() -> None:
                rig.lives.context.metadata.apply(ConfigRecord(CLIENT_METRICS, "m", "interval.ms", "1000"))

            async def ask_list() -> None:
                await client.ask(list_groups, 2, list_groups.ListGroupsRequest())

            async def nothing() -> None:
                pass

            async def restart() -> None:
                await rig.call("POST", "/v1/restart", {"how": "kill"})

            await ask_list()
            await rig.call("POST", "/v1/clock/freeze")  # every pass of the broker would have it looked at, too
            await raised(rig, Flag(), change_metadata)
            await raised(rig, Flag("ListGroups"), ask_list)
            await raised(rig, Flag(due_in_s=0.5), nothing)
            await raised(rig, Flag(watches_connections=True), client.close)
            await raised(rig, Flag(), restart)

    run(scenario)


def test_an_answer_that_comes_late_ends_a_wait_when_it_comes() -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("POST", "/v1/clock/freeze")
            held = await rig.call("POST", "/v1/faults", {"on": {"api": "ListGroups"}, "do": {"hold": True}})
            flag = Flag("ListGroups")
            waiting = rig.background(rig.kit.waits.until(flag, 600_000))
            await asyncio.sleep(0)
            asking = rig.background(ask(rig.port, list_groups, 2, list_groups.ListGroupsRequest()))
            await rig.call("POST", f"/v1/faults/{held['id']}/wait")
            for _ in range(5):
                await asyncio.sleep(0)
            flag.up = True
            await rig.call("POST", f"/v1/faults/{held['id']}/release")
            await waiting
            await asking

    run(scenario)


def test_requests_are_seen_in_a_later_life() -> None:
    async def scenario() -> None:
        async with living() as rig:
            waiting = rig.wait(request={"api": "ListGroups"})
            await asyncio.sleep(0)
            await rig.call("POST", "/v1/restart", {"how": "kill"})
            await ask(rig.port, list_groups, 2, list_groups.ListGroupsRequest())
            assert (await waiting)["count"] == 1

    run(scenario)


def test_a_look_happens_once_for_all_that_happened_in_a_turn() -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("PUT", "/v1/topics/orders")
            waiting = rig.wait(topic="orders", partition=0, end_offset=100)
            await asyncio.sleep(0)
            waits, looks = rig.kit.waits, []
            look = waits._look

            def counted(condition: Any) -> Any:
                looks.append(condition)
                return look(condition)

            waits._look = counted  # type: ignore[method-assign]  # to count
            for _ in range(50):
                waits.tell()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert len(looks) == 1
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)

    run(scenario)


class Counted(Flag):
    """Counts how often it is asked what it watches."""

    def __init__(self, replica: Replica) -> None:
        super().__init__("ListGroups", 600.0)
        self.asked = 0
        self._replica = replica

    def watched(self, context: BrokerContext) -> list[Replica]:
        self.asked += 1
        return [self._replica]


def test_a_wait_that_begins_or_ends_costs_the_others_nothing() -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("PUT", "/v1/topics/orders")
            await rig.call("POST", "/v1/clock/freeze")  # every pass of the broker would have all looked at, too
            replica = rig.replica("orders")
            rerouted: list[int] = []
            rig.lives.broker.chain.subscribe(lambda: rerouted.append(len(waits)))
            conditions = [Counted(replica) for _ in range(20)]
            waits: list[asyncio.Task[Any]] = []
            for condition in conditions:
                waits.append(rig.background(rig.kit.waits.until(condition, 600_000)))
                await asyncio.sleep(0)
            assert [condition.asked for condition in conditions] == [1] * 20
            assert rerouted == [1]
            for waiting in waits[:-1]:
                waiting.cancel()
            await asyncio.gather(*waits[:-1], return_exceptions=True)
            assert [condition.asked for condition in conditions] == [1] * 20
            assert rerouted == [1]
            conditions[-1].up = True
            replica.append(batch())
            await waits[-1]
            assert rerouted == [1, 20]
            assert not any(subscriptions(rig))
            assert rig.kit.waits._alarm is None

    run(scenario)


def test_the_soonest_wait_that_time_brings_about_sets_the_alarm() -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("POST", "/v1/clock/freeze")
            late, soon = Flag(due_in_s=500.0), Flag(due_in_s=0.01)
            waits = [rig.background(rig.kit.waits.until(flag, 600_000)) for flag in (late, soon)]
            await asyncio.sleep(0)
            soon.up = late.up = True
            await asyncio.gather(*waits)

    run(scenario)


def test_a_wait_that_ends_leaves_the_others_their_requests() -> None:
    async def scenario() -> None:
        async with living() as rig:
            requests = {"api": "ListGroups"}
            given_up, waiting = rig.wait(request=requests), rig.wait(request=requests)
            other = rig.wait(request={"api": "Heartbeat"})
            await asyncio.sleep(0)
            for ended in (given_up, other):
                ended.cancel()
            await asyncio.gather(given_up, other, return_exceptions=True)
            await ask(rig.port, list_groups, 2, list_groups.ListGroupsRequest())
            assert (await waiting)["count"] == 1

    run(scenario)


def test_requests_are_seen_as_they_end_and_go_on_as_they_would() -> None:
    async def scenario() -> None:
        async with living() as rig:
            client = await Client("app").connect(rig.port)
            held = await rig.call("POST", "/v1/faults", {"on": {"api": "ListGroups"}, "do": {"hold": True}})
            waiting = rig.wait(request={"api": "ListGroups", "client_id": "app"}, count=2)
            await asyncio.sleep(0)
            first = rig.background(client.ask(list_groups, 2, list_groups.ListGroupsRequest()))
            await rig.call("POST", f"/v1/faults/{held['id']}/wait")
            assert not waiting.done()
            await rig.call("POST", f"/v1/faults/{held['id']}/release")
            assert (await first).error_code == 0
            await ask(rig.port, list_groups, 2, list_groups.ListGroupsRequest())
            assert not waiting.done()
            await client.ask(list_groups, 2, list_groups.ListGroupsRequest())
            found = await waiting
            assert (found["count"], found["last"]["client_id"]) == (2, "app")
            assert len(await rig.call("GET", "/v1/faults")) == 1
            await client.close()

    run(scenario)

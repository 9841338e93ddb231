"""Asking other brokers: whom, where, and what happens when they move or this broker stops."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable

import pytest

from ottla.server.base.randomness import from_seed
from ottla.server.interbroker.other_brokers import OtherBrokers
from ottla.server.peers.outcomes import Closed, Disconnected, TimedOut
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.internal.fence_broker_record import FenceBrokerRecord
from ottla.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from tests.fakes import NODE_ID, MemoryBroker
from tests.server.peers.node import PlayedNetwork, versions
from tests.server.replication.played import turns

TWO = 2
TIMEOUT_MS = 1000


class Network(PlayedNetwork):
    """Every connection is made."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[tuple[str, int]] = []

    async def connect_to(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, context: ssl.SSLContext | None = None
    ) -> None:
        self.addresses.append((host, port))
        await super().connect_to(factory, "other", 9092)


class Rig:
    def __init__(self) -> None:
        self.broker = MemoryBroker({}, {"request.timeout.ms": str(TIMEOUT_MS)})
        self.network = Network()
        self.broker.register_broker(TWO, 9002)
        self.others = OtherBrokers(self.broker.config, self.broker.image, self.broker.clock, from_seed(1), self.network)


def run(scenario: Callable[[Rig], Awaitable[object]]) -> None:
    async def main() -> None:
        rig = Rig()
        try:
            await scenario(rig)
        finally:
            await asyncio.wait_for(rig.others.close(), 10)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_a_broker_has_one_connection_at_its_registered_address() -> None:
    async def scenario(rig: Rig) -> None:
        answers = [rig.others.ask(TWO, WriteTxnMarkersRequest([]), min_version=1) for _ in range(2)]
        await turns()
        (end,) = rig.network.connected
        end.answer(versions())
        await turns()
        for _ in answers:
            end.answer(WriteTxnMarkersResponse([]))
        assert [(await answer).markers for answer in answers] == [[], []]
        assert rig.network.addresses == [("host2", 9002)]
        assert {asked.header.client_id for asked in end.requests[1:]} == {f"broker-{NODE_ID}-coordinators"}

    run(scenario)


def test_what_waits_for_replicas_holds_up_nothing_else() -> None:
    async def scenario(rig: Rig) -> None:
        rig.others.ask(TWO, WriteTxnMarkersRequest([]))
        rig.others.ask(TWO, ApiVersionsRequest("a", "1"))
        await turns()
        assert len(rig.network.connected) == 2

    run(scenario)


def test_a_broker_that_registered_elsewhere_is_asked_there() -> None:
    async def scenario(rig: Rig) -> None:
        before = rig.others.ask(TWO, ApiVersionsRequest("a", "1"))
        await turns()
        rig.broker.register_broker(TWO, 9003)
        after = rig.others.ask(TWO, ApiVersionsRequest("a", "1"))
        await turns()
        with pytest.raises(Closed):
            await before
        assert rig.network.addresses == [("host2", 9002), ("host2", 9003)]
        assert [end.open for end in rig.network.connected] == [False, True]
        after.cancel()

    run(scenario)


def test_a_request_may_take_as_long_as_the_setting_says() -> None:
    async def scenario(rig: Rig) -> None:
        answer = rig.others.ask(TWO, ApiVersionsRequest("a", "1"))
        await turns()
        rig.network.connected[0].answer(versions())
        await turns()
        rig.broker.clock.advance(TIMEOUT_MS / 1000 - 0.1)
        assert not answer.done()
        rig.broker.clock.advance(0.2)
        with pytest.raises(TimedOut):
            await answer

    run(scenario)


def test_who_leads_a_partition() -> None:
    async def scenario(rig: Rig) -> None:
        rig.broker.create_topic("t", followers=(TWO,))
        assert rig.others.leader("t", 0) == NODE_ID == rig.others.node_id
        rig.broker.elect("t", TWO)
        assert rig.others.leader("t", 0) == TWO
        rig.broker.elect("t", -1)
        assert rig.others.leader("t", 0) == -1
        assert rig.others.leader("t", 1) is None
        assert rig.others.leader("u", 0) is None

    run(scenario)


def test_nobody_asks_a_broker_that_is_not_there() -> None:
    async def scenario(rig: Rig) -> None:
        with pytest.raises(Disconnected, match="broker 7 is not there"):
            await rig.others.ask(7, ApiVersionsRequest("a", "1"))
        rig.broker.image.apply(FenceBrokerRecord(TWO, TWO))
        with pytest.raises(Disconnected, match="broker 2 is not there"):
            await rig.others.ask(TWO, ApiVersionsRequest("a", "1"))
        assert rig.network.addresses == []

    run(scenario)


def test_nothing_is_asked_once_it_is_closed_and_nobody_waits_for_ever() -> None:
    async def scenario(rig: Rig) -> None:
        waiting = rig.others.ask(TWO, ApiVersionsRequest("a", "1"))
        await turns()
        await rig.others.close()
        with pytest.raises(Closed):
            await waiting
        with pytest.raises(Closed):
            await rig.others.ask(TWO, ApiVersionsRequest("a", "1"))

    run(scenario)

"""Whose controllers these are, before directories are formatted: one that agrees, one that does not, and none."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from ottla.server.base.clock import LoopClock
from ottla.server.base.network import OsNetwork
from ottla.server.base.randomness import from_seed
from ottla.server.metadata.cluster import CannotJoin
from ottla.server.peers.outcomes import Disconnected, UnsupportedVersion
from ottla.server.quorum.controller_outage import FIRST_SECONDS
from ottla.server.quorum.first_contact import ask_for_cluster, until_one_agrees
from ottla.server.settings.broker_config import BrokerConfig
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from tests.server.metadata.support import CLUSTER_ID
from tests.server.quorum.controller_node import ControllerNode
from tests.server.quorum.played import RETRY_MS, A, B, Played, run, turns


def about_the_log(code: ErrorCode) -> FetchResponse:
    return FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(error_code=code)])])


def asks(scenario: Callable[[Played, asyncio.Future[None]], Awaitable[object]]) -> None:
    async def main(played: Played) -> None:
        work = until_one_agrees(played.finder, played.controllers, CLUSTER_ID, played.clock, 2000, RETRY_MS)
        asking = asyncio.ensure_future(work)
        try:
            await turns()
            await scenario(played, asking)
        finally:
            asking.cancel()
            await asyncio.wait([asking])

    run(main)


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_a_controller_that_takes_the_id_is_enough(code: ErrorCode) -> None:
    async def scenario(played: Played, asking: asyncio.Future[None]) -> None:
        asked = played.answer(about_the_log(code))
        await asking
        assert (asked.cluster_id, asked.replica_id, asked.replica_state) == (CLUSTER_ID, -1, None)

    asks(scenario)


def test_one_of_another_cluster_ends_the_start() -> None:
    async def scenario(played: Played, asking: asyncio.Future[None]) -> None:
        played.answer(Disconnected("refused"))
        await turns()
        where = played.open[0].address
        played.answer(FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
        with pytest.raises(CannotJoin, match=f"^--cluster-id: {where} belongs to another cluster than {CLUSTER_ID}, so nothing"):
            await asking

    asks(scenario)


def test_without_one_it_goes_on_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    async def scenario(played: Played, asking: asyncio.Future[None]) -> None:
        asked = []
        for _ in range(4):
            asked.append(played.open[0].address)
            played.answer(Disconnected("refused"))
            await turns()
        assert set(asked) == {A, B}
        played.clock.advance(FIRST_SECONDS)
        played.answer(Disconnected("refused"))
        await turns()
        assert not asking.done()
        assert caplog.text.count("no controller has answered for 5 s") == 1

    asks(scenario)


@pytest.mark.parametrize(
    "answer", [about_the_log(ErrorCode.UNKNOWN_TOPIC_ID), FetchResponse(error_code=99), UnsupportedVersion("too old")]
)
def test_what_is_no_controller_is_not_believed_and_not_asked_without_a_pause(answer: object) -> None:
    async def scenario(played: Played, asking: asyncio.Future[None]) -> None:
        played.answer(answer)
        await turns(50)
        assert played.open == []
        await played.pass_time(RETRY_MS / 1000)
        assert len(played.open) == 1
        played.answer(about_the_log(ErrorCode.NONE))
        await asking

    asks(scenario)


def test_over_real_connections() -> None:
    async def main() -> None:
        controller = ControllerNode()
        await controller.start()
        texts = {"process.roles": "broker", "node.id": "7", "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller.port}"}
        config, _ = BrokerConfig.from_mapping(texts)
        try:
            await ask_for_cluster(config, CLUSTER_ID, LoopClock(), from_seed(1), OsNetwork())
            with pytest.raises(CannotJoin):
                await ask_for_cluster(config, "AAAAAAAAAAAAAAAAAAAAAw", LoopClock(), from_seed(1), OsNetwork())
        finally:
            await controller.close()
        assert asyncio.all_tasks() <= {asyncio.current_task()}, "a task is left"

    asyncio.run(main())

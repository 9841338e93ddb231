"""Channel: whom a request goes to, and when it goes again."""

from __future__ import annotations

import asyncio

import pytest

from ottla.server.peers.outcomes import Closed, Disconnected, UnsupportedVersion
from ottla.server.peers.peer import Peer
from ottla.server.quorum.channel import ControllerUnreachable
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from tests.server.quorum.played import A, B, Played, run, turns

TIMEOUT_MS = 1_000
FINE = AllocateProducerIdsResponse(producer_id_start=5)
NOT_THE_ONE = AllocateProducerIdsResponse(error_code=ErrorCode.NOT_CONTROLLER)


def ask(played: Played) -> asyncio.Future[AllocateProducerIdsResponse]:
    return asyncio.ensure_future(played.channel.ask(AllocateProducerIdsRequest(1, 2), TIMEOUT_MS))


def test_a_request_waits_until_the_leader_is_known() -> None:
    async def scenario(played: Played) -> None:
        asking = ask(played)
        await played.pass_time(0.1)
        assert played.asked == []
        played.finder.learn(3, 2)
        await played.pass_time(0.1)
        assert [each.address for each in played.asked] == [B]
        assert played.asked[0].timeout_ms < TIMEOUT_MS
        played.answer(FINE)
        assert (await asking).producer_id_start == 5

    run(scenario)


@pytest.mark.parametrize("end", [NOT_THE_ONE, Disconnected("gone")])
def test_it_goes_to_the_next_leader(end: object) -> None:
    async def scenario(played: Played) -> None:
        played.finder.learn(3, 1)
        asking = ask(played)
        await turns()
        played.answer(end)
        await turns()
        assert played.finder.leader is None, "so that it is looked for"
        played.finder.learn(4, 2)
        await played.pass_time(0.05)
        played.answer(FINE)
        assert [each.address for each in played.asked] == [A, B]
        assert (await asking).producer_id_start == 5

    run(scenario)


def test_a_leader_that_was_found_meanwhile_is_not_forgotten() -> None:
    async def scenario(played: Played) -> None:
        played.finder.learn(3, 1)
        asking = ask(played)
        await turns()
        played.finder.learn(4, 2)
        played.answer(NOT_THE_ONE)
        await played.pass_time(0.05)
        assert [each.address for each in played.asked] == [A, B]
        played.answer(FINE)
        await asking

    run(scenario)


def test_when_the_time_is_over_the_last_reason_is_said() -> None:
    async def scenario(played: Played) -> None:
        asking = ask(played)
        await played.pass_time(0.5)
        played.finder.learn(3, 1)
        await played.pass_time(0.1)
        played.answer(Disconnected("a:9093 closed the connection"))
        await played.pass_time(1)
        with pytest.raises(ControllerUnreachable, match="within 1000 ms: a:9093 closed the connection"):
            await asking

    run(scenario)


def test_nobody_leads() -> None:
    async def scenario(played: Played) -> None:
        asking = ask(played)
        await played.pass_time(1.1)
        with pytest.raises(ControllerUnreachable, match="nobody is known to lead"):
            await asking

    run(scenario)


@pytest.mark.parametrize("error", [UnsupportedVersion("too old"), Closed("closed")])
def test_what_cannot_get_better_ends_it_at_once(error: Exception) -> None:
    async def scenario(played: Played) -> None:
        played.finder.learn(3, 1)
        asking = ask(played)
        await turns()
        played.answer(error)
        with pytest.raises(ControllerUnreachable, match=str(error)):
            await asking

    run(scenario)


def test_what_depends_on_the_controller_s_versions_is_made_when_they_are_known() -> None:
    async def scenario(played: Played) -> None:
        played.finder.learn(3, 1)
        played.at(A).versions = {}

        async def request(peer: Peer) -> AllocateProducerIdsRequest:
            return AllocateProducerIdsRequest(len(peer.versions), 2)

        asking = asyncio.ensure_future(played.channel.ask(request, TIMEOUT_MS))
        await turns()
        assert isinstance(played.open[0].request, ApiVersionsRequest)
        played.at(A).versions = {1: (0, 1), 2: (0, 1)}
        played.answer(ApiVersionsResponse())
        await turns()
        assert played.answer(FINE).broker_id == 2
        await asking

    run(scenario)


def test_an_answer_may_say_in_its_own_way_that_the_controller_is_not_active() -> None:
    async def scenario(played: Played) -> None:
        played.finder.learn(3, 1)
        asking = asyncio.ensure_future(
            played.channel.ask(
                CreateTopicsRequest(), TIMEOUT_MS, is_refused=lambda answer: bool(answer.topics and answer.topics[0].error_code)
            )
        )
        await turns()
        played.answer(CreateTopicsResponse(topics=[CreatableTopicResult("t", error_code=41)]))
        played.finder.learn(4, 1)
        await played.pass_time(0.05)
        played.answer(CreateTopicsResponse(topics=[CreatableTopicResult("t")]))
        assert (await asking).topics[0].error_code == 0

    run(scenario)

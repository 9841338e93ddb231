"""Registering: which answers are tried again, for how long, and what is said at the end."""

from __future__ import annotations

import asyncio

import pytest

from ottla.server.metadata.cluster import CannotJoin
from ottla.server.peers.outcomes import Disconnected
from ottla.server.quorum.registrar import register
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.broker_registration import BrokerRegistrationResponse
from tests.server.quorum.played import Played, run, turns
from tests.server.quorum.test_registration import made

TIMEOUT_MS = 3_000
ATTEMPT_MS = 1_000
BUSY = BrokerRegistrationResponse(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION)


def begin(played: Played) -> asyncio.Future[int]:
    played.finder.learn(3, 1)
    return asyncio.ensure_future(register(played.channel, made(), played.clock, TIMEOUT_MS, ATTEMPT_MS))


def test_the_epoch_is_the_answer_s() -> None:
    async def scenario(played: Played) -> None:
        registering = begin(played)
        await turns()
        played.answer(BrokerRegistrationResponse(broker_epoch=70))
        assert await registering == 70

    run(scenario)


def test_it_is_tried_again_while_an_earlier_session_lasts(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")

    async def scenario(played: Played) -> None:
        registering = begin(played)
        for _ in range(3):
            await turns()
            played.answer(BUSY)
            await played.pass_time(0.3)
        played.answer(BrokerRegistrationResponse(broker_epoch=71))
        assert await registering == 71
        assert len({id(each.request) for each in played.asked}) == 1, "the same incarnation"

    run(scenario)
    assert caplog.text.count("DUPLICATE_BROKER_REGISTRATION") == 1


def test_at_last_it_says_what_may_be_wrong() -> None:
    async def scenario(played: Played) -> None:
        registering = begin(played)
        while not registering.done():
            await turns()
            if played.open:
                played.answer(BUSY)
            await played.pass_time(0.3)
        with pytest.raises(
            CannotJoin, match=r"node.id 4 .* within 3000 ms .*another broker of this node.id seems to run: stop it"
        ):
            registering.result()

    run(scenario)


def test_a_last_attempt_without_an_answer_does_not_hide_what_was_said() -> None:
    async def scenario(played: Played) -> None:
        registering = begin(played)
        await turns()
        played.answer(BUSY)
        await played.pass_time(0.3)
        played.answer(Disconnected("no time left"))
        await played.pass_time(TIMEOUT_MS / 1000)
        with pytest.raises(CannotJoin, match=r"DUPLICATE_BROKER_REGISTRATION; another broker of this node.id"):
            await registering

    run(scenario)


def test_a_connection_that_swallows_the_request_is_given_up() -> None:
    async def scenario(played: Played) -> None:
        registering = begin(played)
        await turns()
        assert [each.timeout_ms for each in played.asked] == [ATTEMPT_MS]
        played.answer(Disconnected("did not answer"))
        played.finder.learn(4, 1)
        await played.pass_time(0.3)
        assert len(played.asked) == 2
        played.answer(BrokerRegistrationResponse(broker_epoch=73))
        assert await registering == 73

    run(scenario)


def test_a_refusal_is_said_at_once() -> None:
    async def scenario(played: Played) -> None:
        registering = begin(played)
        await turns()
        played.answer(BrokerRegistrationResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
        with pytest.raises(CannotJoin, match="kafka-features"):
            await registering

    run(scenario)


def test_another_controller_is_asked() -> None:
    async def scenario(played: Played) -> None:
        registering = begin(played)
        await turns()
        played.answer(BrokerRegistrationResponse(error_code=ErrorCode.NOT_CONTROLLER))
        played.finder.learn(4, 2)
        await played.pass_time(0.1)
        played.answer(BrokerRegistrationResponse(broker_epoch=72))
        assert await registering == 72
        assert [each.address.host for each in played.asked] == ["a", "b"]

    run(scenario)


def test_without_a_controller_the_time_is_over_too() -> None:
    async def scenario(played: Played) -> None:
        registering = begin(played)
        await turns()
        played.finder.learn(4, -1)
        played.answer(Disconnected("gone"))
        await played.pass_time(TIMEOUT_MS / 1000 + 0.1)
        with pytest.raises(CannotJoin, match=r"initial.broker.registration.timeout.ms.*gone"):
            await registering

    run(scenario)

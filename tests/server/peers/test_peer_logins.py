"""A peer that logs in: before anything else is asked, and again before the login ends."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.server.peers.outcomes import Disconnected
from ottla.server.peers.peer import State
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.metadata import MetadataResponse
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeResponse
from tests.server.peers.node import Rig, turns
from tests.server.peers.states import Secured, ask, outcome, run, wait_too_long_for_it


async def log_in(rig: Rig, lifetime_ms: int = 0) -> list[Any]:
    """Answers the two requests of a login, and returns them."""
    await turns()
    rig.node.answer(SaslHandshakeResponse(0, ["PLAIN"]))
    await turns()
    rig.node.answer(SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms))
    await turns()
    return [each.body for each in rig.node.requests[rig.node.answered - 2 : rig.node.answered]]


def test_it_logs_in_before_anything_else_is_asked() -> None:
    context: Any = object()

    async def scenario(rig: Rig) -> None:
        first = ask(rig)
        await rig.ready()
        assert rig.peer.state is State.NEGOTIATING
        handshake, token = await log_in(rig)
        assert (handshake.mechanism, token.auth_bytes) == ("PLAIN", b"\0broker\0s3cret")
        assert rig.network.contexts == [context]
        rig.node.answer(MetadataResponse(cluster_id="a"))
        assert outcome(first) == "a"
        rig.clock.advance(100_000)
        assert is_in(rig, State.READY), "this login lasts"

    run(scenario, Secured(context))


def is_in(rig: Rig, state: State) -> bool:
    return rig.peer.state is state


def test_a_login_is_renewed_before_it_ends_and_requests_wait_for_that() -> None:
    async def scenario(rig: Rig) -> None:
        before = ask(rig)
        await rig.ready()
        await log_in(rig, 10_000)
        rig.clock.advance(8)
        assert is_in(rig, State.READY)
        rig.clock.advance(1)
        during = ask(rig)
        rig.node.answer(MetadataResponse(cluster_id="before"))
        handshake, _ = await log_in(rig, 10_000)
        assert handshake.mechanism == "PLAIN"
        rig.node.answer(MetadataResponse(cluster_id="during"))
        assert [outcome(before), outcome(during)] == ["before", "during"]
        rig.clock.advance(9)
        await log_in(rig)
        assert is_in(rig, State.READY)
        assert rig.network.attempts == 1

    run(scenario, Secured())


def test_a_login_that_is_refused_fails_who_waits_and_says_why() -> None:
    async def scenario(rig: Rig) -> None:
        first = ask(rig)
        await rig.ready()
        rig.node.answer(SaslHandshakeResponse(0, ["PLAIN"]))
        await turns()
        rig.node.answer(SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, "who?"))
        await turns()
        with pytest.raises(Disconnected, match="refuses the login of broker by PLAIN: 'who"):
            first.result()
        assert is_in(rig, State.PAUSED)

    run(scenario, Secured())


@pytest.mark.parametrize("refused", [False, True])
def test_a_login_that_is_not_renewed_ends_the_connection(refused: bool) -> None:
    async def scenario(rig: Rig) -> None:
        ask(rig)
        await rig.ready()
        await log_in(rig, 10_000)
        rig.clock.advance(9)
        waiting = ask(rig)
        rig.node.answer(MetadataResponse())
        if refused:
            await turns()
            rig.node.answer(SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, []))
            await turns()
        else:
            await wait_too_long_for_it(rig)
        assert outcome(waiting) is Disconnected
        await turns()
        assert not is_in(rig, State.READY)

    run(scenario, Secured())

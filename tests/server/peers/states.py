"""The ways into each of a peer's states, and what leads along each edge of their table."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from ottla.log.config_def import Secret
from ottla.server.base.promise import Promise
from ottla.server.peers.backoff import JITTER
from ottla.server.peers.peer import State
from ottla.server.security.client import SaslLogin
from ottla.wire.messages.metadata import MetadataRequest
from tests.server.peers.node import Rig, refuse, turns

LONG_MS = 3_600_000
SETUP_S = 10.0
PAUSE_S = 0.05
STEP_S = 0.02
"""Shorter than any pause."""
SURE = 1 + JITTER
"""So many times a wait is surely over."""

Scenario = Callable[[Rig], Awaitable[object]]


def run(scenario: Scenario, security: Any = None, **settings: int) -> None:
    async def main() -> None:
        rig = Rig(security, **settings)
        await asyncio.wait_for(scenario(rig), 30)
        await rig.peer.close()
        assert rig.clock.waiting == 0, "a timer is left"
        assert all(connection.gone for connection in rig.network.connected), "a connection is left"
        assert asyncio.all_tasks() <= {asyncio.current_task()}, "a task is left"

    asyncio.run(main())


def ask(rig: Rig, timeout_ms: int = LONG_MS) -> Promise[Any]:
    return rig.peer.call(MetadataRequest(), timeout_ms)


def outcome(promise: Promise[Any]) -> Any:
    """Returns what became of a call: the cluster id of its answer, the class of its error, or None."""
    if not promise.done():
        return None
    try:
        return promise.result().cluster_id
    except Exception as error:  # noqa: BLE001 - it is what is compared
        return type(error)


async def connecting(rig: Rig) -> None:
    rig.network.hold = asyncio.Event()
    ask(rig)
    await turns()


async def negotiating(rig: Rig) -> None:
    ask(rig)
    await turns()


async def ready(rig: Rig) -> None:
    await negotiating(rig)
    await rig.ready()


async def paused(rig: Rig) -> None:
    rig.network.on_connect = refuse
    await negotiating(rig)


async def closed(rig: Rig) -> None:
    await rig.peer.close()


REACH: dict[State, Scenario] = {
    State.IDLE: lambda rig: turns(),
    State.CONNECTING: connecting,
    State.NEGOTIATING: negotiating,
    State.READY: ready,
    State.PAUSED: paused,
}


async def connect(rig: Rig) -> None:
    rig.network.hold = asyncio.Event()
    ask(rig)
    rig.clock.advance(PAUSE_S * SURE)


async def be_connected(rig: Rig) -> None:
    assert rig.network.hold is not None
    rig.network.hold.set()


async def wait_too_long_for_it(rig: Rig) -> None:
    state = rig.peer.state
    for _ in range(int(SETUP_S * SURE / STEP_S) + 1):
        if rig.peer.state is state:
            rig.clock.advance(STEP_S)


async def rest(rig: Rig) -> None:
    rig.clock.advance(PAUSE_S * SURE)


async def lose(rig: Rig) -> None:
    rig.node.close()


class Secured:
    """Logs in by PLAIN, over what `encrypted` says."""

    def __init__(self, encrypted: Any = None) -> None:
        self.login = SaslLogin("PLAIN", "broker", Secret("s3cret"), lambda: "nonce")
        self.context = lambda: encrypted


async def renew(rig: Rig) -> None:
    rig.peer._security = Secured()  # type: ignore[assignment]  # a login is all that is used of it
    rig.peer._renew()


EDGES: dict[tuple[State, State], Scenario] = {
    (State.IDLE, State.CONNECTING): connect,
    (State.CONNECTING, State.NEGOTIATING): be_connected,
    (State.CONNECTING, State.PAUSED): wait_too_long_for_it,
    (State.NEGOTIATING, State.READY): Rig.ready,
    (State.NEGOTIATING, State.PAUSED): lose,
    (State.READY, State.PAUSED): lose,
    (State.READY, State.NEGOTIATING): renew,
    (State.PAUSED, State.CONNECTING): connect,
    (State.PAUSED, State.IDLE): rest,
    **{(state, State.CLOSED): closed for state in REACH},
}

"""A broker in memory with a test kit around it, and requests to it without a network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from ottla.server.base.clock import LoopClock
from ottla.server.base.promise import Promise
from ottla.server.broker.broker import Broker
from ottla.server.dispatch.route import Waiting
from ottla.server.dispatch.routes import Dispatch
from ottla.server.handlers import BROKER
from ottla.server.requests.session import Session
from ottla.server.testkit.calls.control import find_call
from ottla.server.testkit.faults.frames import joined
from ottla.server.testkit.given import Given
from ottla.server.testkit.kit import Kit
from ottla.wire.header import decode_response_header, encode_request_header
from tests.fakes import NOW_MS
from tests.memdisk import MemDisk
from tests.server.broker.whole_broker import config


class UnderTest:
    """The broker, its kit, and a client of it."""

    def __init__(self, broker: Broker, kit: Kit) -> None:
        self.broker = broker
        self.kit = kit
        assert broker.context is not None
        self.context = broker.context
        self.session = Session("PLAINTEXT", "127.0.0.1")

    def call(self, method: str, path: str, body: Any = None, query: Mapping[str, str] | None = None) -> Any:
        """Returns what a call of the kit answers, or an awaitable of it."""
        found, variables = find_call(method, path)
        return found.function(self.kit, Given(variables, body, query))

    def fault(self, on: dict[str, Any], do: dict[str, Any], **rules: Any) -> Any:
        """Installs a fault; what is known of it."""
        return self.call("POST", "/v1/faults", {"on": on, "do": do, **rules})

    def state(self, fault: Any) -> Any:
        """Returns what is known of a fault now."""
        return self.call("GET", f"/v1/faults/{fault['id']}")

    async def send(self, module: Any, version: int, request: Any, role: str = BROKER, client_id: str | None = "app-1") -> bytes:
        """The body of the answer to a request, behind the header; nothing if there is no answer."""
        return await sent(self.serve(module, version, request, role, client_id))

    def serve(self, module: Any, version: int, request: Any, role: str = BROKER, client_id: str | None = "app-1") -> Any:
        """Returns what `Dispatch.serve` returns for a request."""
        return Dispatch(self.context, self.broker.chain, role).serve(frame_of(module, version, request, client_id), self.session)

    async def ask(self, module: Any, version: int, request: Any, role: str = BROKER, client_id: str | None = "app-1") -> Any:
        """The decoded answer to a request."""
        body = await self.send(module, version, request, role, client_id)
        return module.DECODE_RESPONSE[version](body, answer_header(module, version))[0]


def answer_header(module: Any, version: int) -> int:
    """Returns how long the header of an answer is, behind its size."""
    return decode_response_header(module.API_KEY, version, bytes(5), 0)[1]


def frame_of(module: Any, version: int, request: Any, client_id: str | None, correlation_id: int = 7) -> bytes:
    """The frame of a request, without its size."""
    parts: list[Any] = [encode_request_header(module.API_KEY, version, correlation_id, client_id)]
    module.ENCODE_REQUEST[version](request, parts)
    return b"".join(parts)


async def sent(answer: Any) -> bytes:
    """Returns what a connection sends for what was served, without the size in front."""
    if isinstance(answer, Waiting):
        promised: Any = answer.answer
        done = asyncio.get_running_loop().create_future()
        waited = promised if isinstance(promised, Promise) else asyncio.ensure_future(promised)
        waited.add_done_callback(lambda _: done.set_result(None))
        await done
        answer = answer.route.finish(waited, answer)
    if answer is None:
        return b""
    return joined(answer)[4:]


@asynccontextmanager
async def under_test(seed: int = 1, **settings: str) -> AsyncIterator[UnderTest]:
    """A broker that serves, with its kit."""
    kit = Kit(LoopClock(), Random(seed))
    broker = Broker(config(**settings), disk=MemDisk(lambda: NOW_MS), around=kit.around)
    await broker.start()
    try:
        yield UnderTest(broker, kit)
    finally:
        await broker.stop()

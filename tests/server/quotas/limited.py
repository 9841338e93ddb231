"""A broker in memory whose clients have quotas: requests go through dispatch, and time only passes when the test lets it."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Callable
from typing import Any

from ottla.server.dispatch.chain import Chain, Place
from ottla.server.dispatch.route import Waiting
from ottla.server.dispatch.routes import Dispatch
from ottla.server.metadata.quotas import Entity
from ottla.server.quotas.enforcement import ClientQuotas
from ottla.server.quotas.rates import Windows
from ottla.server.requests.session import Session
from ottla.wire.header import decode_response_header, encode_request_header
from tests.fakes import LISTENER, MemoryBroker

CLIENTS = Windows(11, 1000)
CHANGES = Windows(10, 1000)


class Client:
    """The network's side of its session: how long it was muted for, each time."""

    def __init__(self) -> None:
        self.muted: list[int] = []

    def hold(self, size: int, expire_early: Callable[[], object] | None = None) -> None:
        pass

    def mute(self, throttle_time_ms: int) -> None:
        self.muted.append(throttle_time_ms)


class LimitedBroker(MemoryBroker):
    """`step_ns` pass between two looks at the clock of requests."""

    def __init__(self, topics: dict[str, int], settings: dict[str, str] | None = None) -> None:
        super().__init__(topics, settings)
        self.chain = Chain()
        self.dispatch = Dispatch(self.context, self.chain)
        self.step_ns = 0
        self._ticks = 1
        self.quotas = ClientQuotas(self.clock, CLIENTS, CHANGES, self._tick)
        self.client = Client()
        self.limits: list[tuple[Entity, str]] = []

    def _tick(self) -> int:
        self._ticks += self.step_ns
        return self._ticks

    def limit(self, *entity: tuple[str, str | None], **values: float) -> None:
        """The only quotas from now on; nobody's are none at all."""
        for before, key in self.limits:
            self.quotas.set_quota(before, key, None)
        self.limits = [(tuple(entity) or (("client-id", "c"),), key) for key in values]
        for whose, key in self.limits:
            self.quotas.set_quota(whose, key, values[key])
        self.context.quotas = self.quotas if self.quotas.limited else None
        self.chain.put(Place.QUOTAS, self.context.quotas and self.quotas)

    def serve(self, request: Any, version: int, *, client_id: str | None = "c", user: str = "ANONYMOUS") -> Any:
        """The answer as its client reads it; a function that gives it where it has to be waited for; None where there is none."""
        messages = sys.modules[type(request).__module__]
        parts: list[Any] = [encode_request_header(messages.API_KEY, version, 1, client_id)]
        messages.ENCODE_REQUEST[version](request, parts)
        self.frame_bytes = len(b"".join(parts))
        session = Session(LISTENER, "127.0.0.1", connection=self.client, principal=f"User:{user}")
        answer = self.dispatch.serve(b"".join(parts), session)

        def read(frame: Any) -> Any:
            joined = b"".join(
                part.read() if hasattr(part, "read") else part for part in ([frame] if type(frame) is bytes else frame)
            )
            self.answer_bytes = len(joined)
            _, at = decode_response_header(messages.API_KEY, version, joined, 4)
            return messages.DECODE_RESPONSE[version](joined, at)[0]

        if not isinstance(answer, Waiting):
            return None if answer is None else read(answer)
        if inspect.iscoroutine(answer.answer):
            return read(asyncio.run(_finished(answer)))
        return lambda: read(answer.route.finish(answer.answer, answer))  # type: ignore[arg-type]  # it is done by then


async def _finished(waiting: Waiting) -> Any:
    done = asyncio.ensure_future(waiting.answer)
    await asyncio.wait([done])
    return waiting.route.finish(done, waiting)

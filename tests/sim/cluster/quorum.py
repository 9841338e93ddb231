"""The controllers as hosts of the simulated network: connections of brokers, and the metadata log as a Fetch gets it.

Which of the requests reach the controller model (controller.py) is decided here; what follows from them, there. A Fetch of the
metadata that finds nothing waits for the next change, as long as it asks for.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from importlib import import_module
from random import Random
from typing import Any, Final

from ottla.wire.api import APIS
from ottla.wire.errors import ErrorCode
from ottla.wire.header import RequestHeader, decode_request_header
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from ottla.wire.primitives import WireStruct
from tests.server.peers.node import frame, versions
from tests.server.quorum.leaders_log import LEADER_ID
from tests.sim.cluster.controller import Controller
from tests.sim.cluster.network import Fabric, FabricLink
from tests.sim.loop import VirtualLoop
from tests.sim.network import Link, Port, Receiver

HOST: Final = "controller"
PORT: Final = 9093
_SIZE: Final = 4
_SESSIONS_LOOKED_AT_S: Final = 0.1


class Quorum(Port):
    """The controllers' host; see the module's docstring. `away`: nobody leads them, and nobody is heard."""

    host = HOST

    def __init__(self, loop: VirtualLoop, random: Random, fabric: Fabric) -> None:
        super().__init__(loop, random, contextvars.Context())
        self.controller = Controller(loop.time, self._wake)
        self.away = False
        self._fabric = fabric
        self._waiting: list[Callable[[], None]] = []
        fabric.hosts[HOST] = self

    async def end_sessions(self) -> None:
        """Looks for brokers that are silent, until the task is cancelled."""
        while True:
            await asyncio.sleep(_SESSIONS_LOOKED_AT_S)
            if not self.away:
                self.controller.end_sessions()

    def fail_over(self) -> None:
        """Ends what `away` began: another controller leads."""
        self.away = False
        self.controller.fail_over()

    def hang_up(self) -> None:
        """The controller that led is gone, and with it its connections."""
        self.away = True
        for link in list(self.links):
            link.cut()

    # Connections

    def connect(self, client: Receiver, origin: str = "") -> Link:
        if self.away:
            raise ConnectionRefusedError("no controller is there")
        link = FabricLink(self, client, self._random, self._fabric, origin)
        self.links[link] = None
        link.server = _End(self, link)  # type: ignore[assignment]  # it has what a link calls
        return link

    def ask(self, data: bytes) -> bytes:
        """Returns the answer to a framed request that waits for nothing. Raises ConnectionResetError."""
        if self.away:
            raise ConnectionResetError("no controller is there")
        header, request = _decode(data[_SIZE:])
        return frame(header, self._answer(request))

    def take(self, data: bytes, reply: Callable[[bytes], None]) -> None:
        """Takes a request; `reply` gets the framed answer, sooner or later."""
        header, request = _decode(data)
        if isinstance(request, FetchRequest):
            self._fetch(request, lambda answer: reply(frame(header, answer)))
        else:
            reply(frame(header, self._answer(request)))

    def _answer(self, request: Any) -> WireStruct:
        return versions() if isinstance(request, ApiVersionsRequest) else self.controller.answer(request)

    # The metadata log

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each()

    def _fetch(self, request: FetchRequest, reply: Callable[[FetchResponse], None]) -> None:
        (asked,) = request.topics[0].partitions
        epoch, log = self.controller.epoch, self.controller.log
        if asked.current_leader_epoch == epoch and asked.fetch_offset >= log.end:
            answered: list[bool] = []

            def answer() -> None:
                if not answered:
                    answered.append(True)
                    timer.cancel()
                    reply(self._found(request))

            timer = self.loop.call_later(request.max_wait_ms / 1000, answer, context=self.context)
            self._waiting.append(answer)
        else:
            reply(self._found(request))

    def _found(self, request: FetchRequest) -> FetchResponse:
        (asked,) = request.topics[0].partitions
        epoch, log = self.controller.epoch, self.controller.log
        found = PartitionData(current_leader=LeaderIdAndEpoch(LEADER_ID, epoch), high_watermark=log.end)
        if asked.current_leader_epoch != epoch:
            newer = asked.current_leader_epoch > epoch
            found.error_code = ErrorCode.UNKNOWN_LEADER_EPOCH if newer else ErrorCode.FENCED_LEADER_EPOCH
        else:
            found.records = log.fetched(asked.fetch_offset)
        topic = FetchableTopicResponse(request.topics[0].topic, request.topics[0].topic_id, [found])
        return FetchResponse(responses=[topic], node_endpoints=[NodeEndpoint(LEADER_ID, HOST, PORT)])


def _decode(data: bytes) -> tuple[RequestHeader, Any]:
    header, at = decode_request_header(data, 0)
    messages = import_module(f"ottla.wire.messages.{APIS[header.api_key].module}")
    return header, messages.DECODE_REQUEST[header.api_version](data, at)[0]


class _End:
    """The controllers' end of one connection."""

    def __init__(self, quorum: Quorum, link: FabricLink) -> None:
        self._quorum = quorum
        self._link = link
        self._bytes = b""

    def feed(self, data: bytes) -> None:
        self._bytes += data
        while len(self._bytes) >= _SIZE:
            size = int.from_bytes(self._bytes[:_SIZE], "big")
            request, rest = self._bytes[_SIZE : _SIZE + size], self._bytes[_SIZE + size :]
            if len(request) < size:
                return
            self._bytes = rest
            self._quorum.take(request, self._reply)

    def _reply(self, data: bytes) -> None:
        if self._link.open:
            self._link.answer(data)

    def sent(self, size: int) -> None:
        """Nothing waits for that."""

    def end_of_input(self) -> None:
        """No broker half-closes."""

    def lose(self, error: Exception | None) -> None:
        self._quorum.links.discard(self._link)

"""`Channel`: requests to the active controller, whoever that is, again elsewhere when it has changed, until the time is over.

Who leads the quorum is found out by fetching the metadata (metadata_fetcher.py), which goes on all the time. So a request waits
until the leader is known, goes there, and if that controller is no longer active or does not answer, waits until another one is
known. As with Kafka's NodeToControllerChannelManager, a request whose connection was lost may have been carried out already.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from ottla.log.errors import StorageError
from ottla.server.base.clock import sleep
from ottla.server.peers.handshake import SOFTWARE
from ottla.server.peers.outcomes import Closed, PeerError, UnsupportedVersion
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.api_versions import ApiVersionsRequest

if TYPE_CHECKING:
    from ottla.server.base.clock import Clock
    from ottla.server.peers.peer import Peer
    from ottla.server.quorum.controllers import Controllers
    from ottla.server.quorum.finder import Finder
    from ottla.wire.primitives import WireStruct


class ControllerUnreachable(StorageError):
    """No active controller answered in time. It is a StorageError, because that is what the controller of a broker that is its
    own quorum raises when the metadata cannot be changed, and clients are answered the same: they may try again."""


def is_not_controller(answer: Any) -> bool:
    """Returns whether an answer with an error code for the whole request says that the controller is not the active one."""
    return bool(answer.error_code == ErrorCode.NOT_CONTROLLER)


class Channel:
    """Asks the active controller; see the module's docstring."""

    def __init__(self, finder: Finder, controllers: Controllers, clock: Clock, retry_ms: int) -> None:
        self._finder = finder
        self._controllers = controllers
        self._clock = clock
        self._retry_s = retry_ms / 1000

    async def ask(
        self,
        request: WireStruct | Callable[[Peer], Awaitable[WireStruct]],
        timeout_ms: int,
        *,
        attempt_ms: int | None = None,
        min_version: int = 0,
        is_refused: Callable[[Any], bool] = is_not_controller,
    ) -> Any:
        """Returns the active controller's answer. A request that depends on what the controller knows is given as an async
        function of the peer, which is connected then. `is_refused` says of an answer whether it came from a controller that is
        not active. With `attempt_ms`, a connection that swallows the request is given up after that time, and another one is
        tried.

        Raises ControllerUnreachable when the time is over, or if the controller has no version of the request.
        """
        deadline = self._clock.monotonic() + timeout_ms / 1000
        reason = "nobody is known to lead the quorum"
        while True:
            leader = self._finder.leader
            left_ms = int((deadline - self._clock.monotonic()) * 1000)
            if left_ms <= 0:
                raise ControllerUnreachable(f"no controller carried out the request within {timeout_ms} ms: {reason}")
            if leader is None:
                await sleep(self._clock, self._retry_s)
                continue
            peer = self._controllers.at(leader.address)
            try:
                wait_ms = left_ms if attempt_ms is None else min(left_ms, attempt_ms)
                answer = await self._ask(peer, request, wait_ms, min_version)
            except (UnsupportedVersion, Closed) as error:
                raise ControllerUnreachable(str(error)) from error
            except PeerError as error:
                reason = str(error)
            else:
                if not is_refused(answer):
                    return answer
                reason = f"{leader.address} is not the active controller"
            if self._finder.leader == leader:
                self._finder.did_not_answer(leader.address)
            await sleep(self._clock, self._retry_s)

    @staticmethod
    async def _ask(
        peer: Peer, request: WireStruct | Callable[[Peer], Awaitable[WireStruct]], timeout_ms: int, min_version: int
    ) -> Any:
        if callable(request):
            if not peer.versions:
                await peer.call(ApiVersionsRequest(*SOFTWARE), timeout_ms)  # any request would do
            request = await request(peer)
        return await peer.call(request, timeout_ms, min_version=min_version)

"""The network of a simulated cluster: every node has a host, and between two hosts either direction can be cut.

What is sent in a direction that is cut waits, as TCP repeats it until it arrives; a connection is not made while one of its
directions is cut. `network.py` one folder up has the connections themselves, and what can happen to one of them.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from ottla.server.base.network import BlockingSocket
from tests.sim.loop import VirtualLoop
from tests.sim.network import Link, Port, Receiver

if TYPE_CHECKING:
    import ssl


class Host(Protocol):
    """The interface of a host to others: `connect` to it, or `ask` it in no time, as a thread that waits does."""

    def connect(self, client: Receiver, origin: str = "") -> Link: ...


class Fabric:
    """Knows the hosts, and which directions are cut."""

    def __init__(self) -> None:
        self.hosts: dict[str, Host] = {}
        self.links: list[FabricLink] = []
        self.cut: set[tuple[str, str]] = set()
        """(from, to) of the directions in which nothing arrives."""

    def is_apart(self, one: str, other: str) -> bool:
        """Returns whether one of both directions is cut."""
        return (one, other) in self.cut or (other, one) in self.cut

    def part(self, source: str, target: str) -> None:
        """Cuts a direction."""
        self.cut.add((source, target))

    def join(self, source: str, target: str) -> None:
        """Ends the cut of a direction; what waited arrives now."""
        self.cut.discard((source, target))
        self.links = [link for link in self.links if link.open]
        for link in self.links:
            link.release()

    def join_all(self) -> None:
        """Ends all cuts."""
        for source, target in sorted(self.cut):
            self.join(source, target)


class FabricLink(Link):
    """A connection between two hosts."""

    def __init__(self, port: Port, client: Receiver, random: Random, fabric: Fabric, origin: str) -> None:
        super().__init__(port, client, random)
        self._fabric = fabric
        self.hosts = origin, port.host
        self._held: dict[bool, list[tuple[Callable[..., None], tuple[Any, ...]]]] = {True: [], False: []}
        fabric.links.append(self)

    def _is_cut(self, to_server: bool) -> bool:
        return (self.hosts if to_server else self.hosts[::-1]) in self._fabric.cut

    def _pass(self, to_server: bool, arrive: Callable[..., None], *args: Any) -> None:
        if self._is_cut(to_server) or self._held[to_server]:
            self._held[to_server].append((arrive, args))
        else:
            arrive(*args)

    def release(self) -> None:
        """Has arrive what waited in a direction that is not cut any more."""
        for to_server, held in self._held.items():
            if held and not self._is_cut(to_server):
                self._held[to_server] = []
                for arrive, args in held:
                    self._loop.call_soon(arrive, *args, context=self._port.context if to_server else self._wire)

    def _arrive_at_server(self, data: bytes) -> None:
        self._pass(True, super()._arrive_at_server, data)

    def _arrive_at_client(self, data: bytes) -> None:
        self._pass(False, super()._arrive_at_client, data)

    def _lose_client(self) -> None:
        self._pass(False, super()._lose_client)

    def _lose_server(self, error: Exception | None) -> None:
        self._pass(True, super()._lose_server, error)


class NodePort(Port):
    """The network of one life of a node. `ask` is how a thread of it asks a controller: it has the answer at once, or raises
    OSError."""

    def __init__(
        self,
        loop: VirtualLoop,
        random: Random,
        context: contextvars.Context,
        fabric: Fabric,
        host: str,
        ask: Callable[[bytes], bytes],
    ) -> None:
        super().__init__(loop, random, context)
        self.host = host
        self._fabric = fabric
        self._ask = ask

    def make_link(self, client: Receiver, origin: str) -> Link:
        """Returns a connection from the host `origin`."""
        return FabricLink(self, client, self._random, self._fabric, origin)

    async def connect_to(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, context: ssl.SSLContext | None = None
    ) -> None:
        """See Network. While the hosts are apart it waits, however long that is."""
        while self._fabric.is_apart(self.host, host):  # noqa: ASYNC110 - as TCP, which sends its first packet again
            await asyncio.sleep(0.2)
        self.others = self._fabric.hosts  # type: ignore[assignment]  # one of them is no broker's
        await super().connect_to(factory, host, port, context)

    def dial(self, host: str, port: int, timeout_s: float, context: ssl.SSLContext | None = None) -> BlockingSocket:
        if self._fabric.is_apart(self.host, host):
            raise TimeoutError(f"{host} cannot be reached")
        return _DirectSocket(lambda data: self._ask_from_here(host, data))

    def _ask_from_here(self, host: str, data: bytes) -> bytes:
        """Returns a controller's answer. If only the way back is cut, the controller has heard all the same."""
        if (self.host, host) in self._fabric.cut:
            raise TimeoutError(f"{host} cannot be reached")
        answer = self._ask(data)
        if (host, self.host) in self._fabric.cut:
            raise TimeoutError(f"{host} does not answer")
        return answer


class _DirectSocket:
    """A connection of a thread, which has the answer to what it sent before anything else happens."""

    def __init__(self, ask: Callable[[bytes], bytes]) -> None:
        self._ask = ask
        self._received = b""

    def sendall(self, data: bytes, /) -> None:
        self._received += self._ask(data)

    def recv(self, size: int, /) -> bytes:
        data, self._received = self._received[:size], self._received[size:]
        return data

    def settimeout(self, seconds: float, /) -> None:
        """Nothing takes any time."""

    def shutdown(self, how: int, /) -> None:
        """Nobody waits."""

    def close(self) -> None:
        """Nothing is held."""

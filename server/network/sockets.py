"""Binds addresses, and has the event loop serve them.

Listeners and the metrics pages get both functions as parameters, so that a test can give them a network of its own.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from ottla.server.network.socket_settings import SocketSettings

Bind = Callable[[str | None, int, SocketSettings], socket.socket]
"""Binds an address, given as host, port and settings. See `bound_socket`."""
ServeSocket = Callable[[Callable[[], asyncio.BaseProtocol], socket.socket, int], Awaitable[asyncio.Server]]
"""Makes a server from a factory of protocols, a bound socket and a backlog. See `loop_server`."""

Resolve = Callable[[str], Awaitable[str]]
"""Looks up the address of a host. See `address_of_host`."""


def bound_socket(host: str | None, port: int, settings: SocketSettings) -> socket.socket:
    """Returns a socket bound to the address: the IPv4 one if a name has both. Without a host it is every interface, of both.

    Raises OSError if the address cannot be bound.
    """
    if host:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = min(found, key=lambda each: each[0] != socket.AF_INET)
        return _bound(family, address, settings)
    if socket.has_dualstack_ipv6():
        return _bound(socket.AF_INET6, ("::", port), settings)
    return _bound(socket.AF_INET, ("0.0.0.0", port), settings)


def _bound(family: socket.AddressFamily, address: Any, settings: SocketSettings) -> socket.socket:
    """Binds a new socket; the sockets of its connections inherit all options that are set here."""
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if family == socket.AF_INET6 and address[0] == "::":
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        if settings.send_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.send_buffer_bytes)
        if settings.receive_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.receive_buffer_bytes)
        sock.bind(address)
    except OSError:
        sock.close()
        raise
    return sock


async def loop_server(factory: Callable[[], asyncio.BaseProtocol], sock: socket.socket, backlog: int) -> asyncio.Server:
    """Returns a server of the running event loop, which begins to accept connections with its `start_serving`."""
    return await asyncio.get_running_loop().create_server(factory, sock=sock, backlog=backlog, start_serving=False)


async def address_of_host(host: str) -> str:
    """Returns the first address of a host, looked up by the running event loop.

    Raises OSError, or UnicodeError if the text cannot be a host name.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return str(found[0][4][0])

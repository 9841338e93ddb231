"""The network as a parameter: what the server asks of it, and the operating system's.

Nothing else in the server binds an address, makes a server, opens a connection or looks up a host. A Broker is handed its
network, so that a test can hand it one of its own.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from ottla.security.addresses import is_loopback

if TYPE_CHECKING:
    import ssl


Socket = socket.socket
"""An address that listens, or a connection that no protocol has yet."""
LOOPBACK_SEND_BYTES: Final = 256 * 1024
"""The send buffer of connections at a loopback address, if the settings say nothing. There the kernel's own grows until an answer
of 1 MB fits in. It may wake the client in the middle of `sendfile`, which then takes turns with it every few packets; with a
buffer that is full before, a fetch of 1 MB batches took 0.59 to 1.16 of the CPU in eight pairs, 0.79 in the median. On the way to
another machine no such client takes the sender's core, and a buffer of a fixed size would bound what is under way."""


class BlockingSocket(Protocol):
    """A connection by which a thread waits: what is used of a socket there. Every method may raise OSError."""

    def sendall(self, data: bytes, /) -> None:
        """Sends all of the bytes."""
        ...

    def recv(self, size: int, /) -> bytes:
        """Returns some bytes, at most `size`; none at the connection's end."""
        ...

    def settimeout(self, seconds: float, /) -> None:
        """Lets each of the calls above raise TimeoutError after so long."""
        ...

    def shutdown(self, how: int, /) -> None:
        """Ends the connection; a thread that waits by it is woken."""
        ...

    def close(self) -> None:
        """Closes the socket."""
        ...


class Network(Protocol):
    """The network: here addresses are bound, connections opened and hosts looked up."""

    def bind(self, host: str | None, port: int, *, send_buffer_bytes: int = -1, receive_buffer_bytes: int = -1) -> socket.socket:
        """Returns a socket bound to the address: the IPv4 one if a name has both. Without a host it is every interface, of both.

        The sizes are of the buffers of its connections; -1 leaves them to the system, but a send buffer at a loopback address has
        LOOPBACK_SEND_BYTES then. Raises OSError if the address cannot be bound.
        """
        ...

    async def serve(self, factory: Callable[[], asyncio.BaseProtocol], sock: socket.socket, backlog: int) -> asyncio.Server:
        """Returns a server on a bound socket, which begins to accept connections with its `start_serving`."""
        ...

    async def accept(self, listening: socket.socket) -> socket.socket:
        """Returns the next connection to a socket that listens and does not block. Raises OSError."""
        ...

    def when_readable(self, sock: socket.socket, size: int, callback: Callable[[], None]) -> None:
        """Calls back, once, when `size` bytes can be read of a connection that no protocol has yet, or its client has closed it.
        Nothing is read. `stop_waiting` ends the wait, and has to be called before anything else is done with the connection.
        Raises OSError."""
        ...

    def peek(self, sock: socket.socket, size: int) -> bytes:
        """Returns up to `size` of the bytes that can be read, and leaves them to be read; none if the client has closed the
        connection. Raises OSError."""
        ...

    def stop_waiting(self, sock: socket.socket) -> None:
        """Ends what `when_readable` began."""
        ...

    async def encrypt(
        self,
        factory: Callable[[], asyncio.BaseProtocol],
        sock: socket.socket,
        context: ssl.SSLContext,
        handshake_s: float,
        shutdown_s: float,
    ) -> None:
        """Gives a connection that was accepted to the protocol that `factory` makes, once the TLS handshake is over, and returns
        then. The handshake may take `handshake_s`, and the end of the connection `shutdown_s`. Raises OSError if the handshake
        fails; the connection is closed then, and if this is cancelled.
        """
        ...

    async def connect_to(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, context: ssl.SSLContext | None = None
    ) -> None:
        """Opens a connection for the protocol that `factory` makes, and returns when that protocol has it, with a context after
        the TLS handshake. A host's addresses are tried one after the other. Raises OSError, or UnicodeError if the text cannot be
        a host name; nothing is left open if it is cancelled.
        """
        ...

    def dial(self, host: str, port: int, timeout_s: float, context: ssl.SSLContext | None = None) -> BlockingSocket:
        """Opens a connection for a thread, which waits for no step of it longer than `timeout_s`; the TLS handshake is one
        of them if there is a context. Raises OSError, or UnicodeError if the text cannot be a host name."""
        ...

    async def address_of(self, host: str) -> str:
        """Returns the first address of a host. Raises OSError, or UnicodeError if the text cannot be a host name."""
        ...

    def own_host(self) -> str:
        """Returns the name by which others reach this machine. A name that does not resolve (in a container without DNS) would be
        useless: then it is localhost.
        """
        ...


class OsNetwork:
    """The network of the operating system and of the running event loop."""

    def bind(self, host: str | None, port: int, *, send_buffer_bytes: int = -1, receive_buffer_bytes: int = -1) -> socket.socket:
        """See Network."""
        family, address = _address(host, port)
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:  # the sockets of its connections inherit all options that are set here
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if family == socket.AF_INET6 and address[0] == "::":
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            if send_buffer_bytes < 0 and is_loopback(address[0]):
                send_buffer_bytes = LOOPBACK_SEND_BYTES
            if send_buffer_bytes > 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
            if receive_buffer_bytes > 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
            sock.bind(address)
        except OSError:
            sock.close()
            raise
        return sock

    async def serve(self, factory: Callable[[], asyncio.BaseProtocol], sock: socket.socket, backlog: int) -> asyncio.Server:
        """See Network."""
        return await asyncio.get_running_loop().create_server(factory, sock=sock, backlog=backlog, start_serving=False)

    async def accept(self, listening: socket.socket) -> socket.socket:
        """See Network."""
        sock, _ = await asyncio.get_running_loop().sock_accept(listening)
        return sock

    def when_readable(self, sock: socket.socket, size: int, callback: Callable[[], None]) -> None:
        """See Network."""
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)  # otherwise the loop would turn until all bytes are there
        loop = asyncio.get_running_loop()

        def ready() -> None:
            loop.remove_reader(sock)
            callback()

        loop.add_reader(sock, ready)

    def peek(self, sock: socket.socket, size: int) -> bytes:
        """See Network."""
        return sock.recv(size, socket.MSG_PEEK)

    def stop_waiting(self, sock: socket.socket) -> None:
        """See Network."""
        asyncio.get_running_loop().remove_reader(sock)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)

    async def encrypt(
        self,
        factory: Callable[[], asyncio.BaseProtocol],
        sock: socket.socket,
        context: ssl.SSLContext,
        handshake_s: float,
        shutdown_s: float,
    ) -> None:
        """See Network."""
        await asyncio.get_running_loop().connect_accepted_socket(
            factory, sock, ssl=context, ssl_handshake_timeout=handshake_s, ssl_shutdown_timeout=shutdown_s
        )

    async def connect_to(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, context: ssl.SSLContext | None = None
    ) -> None:
        """See Network."""
        await asyncio.get_running_loop().create_connection(factory, host, port, ssl=context)

    def dial(self, host: str, port: int, timeout_s: float, context: ssl.SSLContext | None = None) -> socket.socket:
        """See Network."""
        sock = socket.create_connection((host, port), timeout_s)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock if context is None else context.wrap_socket(sock, server_hostname=host)  # which closes it if that fails

    async def address_of(self, host: str) -> str:
        """See Network."""
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return str(found[0][4][0])

    def own_host(self) -> str:
        """See Network."""
        name = socket.gethostname()
        try:
            socket.getaddrinfo(name, None)
        except OSError:
            return "localhost"
        return name


def _address(host: str | None, port: int) -> tuple[socket.AddressFamily, Any]:
    """Returns the family of a new socket and the address to bind it to."""
    if host:
        name = host.encode() if host.isascii() else host  # for a text Python loads the tables of all Unicode, a MiB of them
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = min(found, key=lambda each: each[0] != socket.AF_INET)
        return family, address
    if socket.has_dualstack_ipv6():
        return socket.AF_INET6, ("::", port)
    return socket.AF_INET, ("0.0.0.0", port)

"""The console as a process: a socket on this machine, a line that says where, and pages until SIGTERM or Ctrl-C.

uvicorn serves with h11, so nothing needs to be compiled. How many connections there are, and how large and how slow a request's
head is, are bounded (connection.py); what a page may take is bounded by calls.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import uvicorn

from ottla.commands.clients.client import Cluster
from ottla.commands.output import Failure
from ottla.console.cluster.source import Source
from ottla.console.running.calls import Calls
from ottla.console.web.app import CLUSTER_ONLY, Beside, Who, application
from ottla.console.web.attempts import Attempts
from ottla.console.web.collector import run_less_often
from ottla.console.web.connection import MAX_CONNECTIONS, Connection, Handshake
from ottla.console.web.idle import Idle
from ottla.console.web.login import Login
from ottla.console.web.security import Place, hosts_of
from ottla.console.web.sessions import Sessions
from ottla.security.addresses import source_of
from ottla.security.console_access import address_of

if TYPE_CHECKING:
    from ottla.console.web.users import Users

HTTPS_PORT: Final = 443
NO_NAMES: Final = "the certificate names no host (subjectAltName), so no browser accepts it; make one with this machine's name"
MAX_HEAD_BYTES: Final = 64 << 10
_STOP_S: Final = 2
_MORE_S: Final = 5.0
"""A page may take so much longer than the cluster's timeout: it asks several times, and reads for some seconds."""


class Listening(NamedTuple):
    """The address at which the console listens. With TLS, `context` returns what has its key now, and `names` are those of its
    certificate."""

    socket: socket.socket
    host: str
    port: int
    context: Callable[[], ssl.SSLContext] | None = None
    names: tuple[str, ...] = ()

    @property
    def is_remote(self) -> bool:
        """Returns whether other machines reach it."""
        return not ipaddress.ip_address(self.host).is_loopback

    @property
    def url(self) -> str:
        """The address for browsers."""
        return address_of(self.host, self.port, None if self.context is None else self.names)

    @property
    def place(self) -> Place:
        """The hosts that the console answers to. With TLS no page without it can set or read its cookie."""
        if self.context is None:
            return Place(hosts_of(self.host, self.port), f"ottla-console-{self.port}")
        hosts = hosts_of(self.host, self.port, self.names, HTTPS_PORT)
        return Place(hosts, f"__Host-ottla-console-{self.port}", is_encrypted=True)


def listen(
    host: str,
    port: int,
    context: Callable[[], ssl.SSLContext] | None = None,
    names: tuple[str, ...] = (),
    *,
    has_users: bool = False,
) -> Listening:
    """Opens the port, with TLS if there is a `context` (see Listening). Raises Failure if the address is taken, not this
    machine's, or reached by others without TLS or users."""
    try:
        address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        raise Failure(f"--host {host!a} is not an address; use 127.0.0.1, or 0.0.0.0 for all of this machine's") from None
    missing = [] if context is not None else ["--keystore"]
    missing += [] if has_users else ["--users"]
    if not address.is_loopback and missing:
        raise Failure(
            f"--host {host}: other machines reach that, so the console needs TLS and users of its own; add "
            f"{' and '.join(missing)} (docs/console.md), or listen on 127.0.0.1 and reach it by ssh -L {port}:127.0.0.1:{port}"
        )
    if not address.is_loopback and not names:
        raise Failure(f"--host {host}: {NO_NAMES}")
    made = socket.socket(socket.AF_INET6 if address.version == 6 else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if made.family == socket.AF_INET6 and address.is_unspecified:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        made.bind((str(address), port))
        made.listen(MAX_CONNECTIONS)
    except OSError as error:
        made.close()
        raise Failure(f"{host}:{port}: {error.strerror or error}; --port 0 picks a free port") from None
    return Listening(made, str(address), made.getsockname()[1], context, names)


def log_to_stderr() -> None:
    """Has the console log to standard error; a second call changes nothing."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")


def _encrypted(context: Callable[[], ssl.SSLContext]) -> type[asyncio.Protocol]:
    """Returns what uvicorn calls for each connection."""
    return cast("type[asyncio.Protocol]", partial(Handshake, context, set(), source_of, Connection))


class _Server(uvicorn.Server):
    """Leaves signals alone: they are caught where the loop is."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Until:
    """Ends a console from outside, from any thread: once it serves, or as soon as it does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stop: Callable[[], object] | None = None
        self._is_over = False

    def on_end(self, stop: Callable[[], object]) -> None:
        """Has `stop` called at the end, at once if that has come. It has to be safe in any thread."""
        with self._lock:
            self._stop = stop
            over = self._is_over
        if over:
            stop()

    def end(self) -> None:
        """Ends it."""
        with self._lock:
            self._is_over = True
            stop = self._stop
        if stop is not None:
            stop()


def serve(
    cluster: Cluster,
    at: Listening,
    sessions: Sessions,
    *,
    read_only: bool,
    users: Users | None = None,
    seen_by: frozenset[str] | None = None,
    ready: Callable[[], None] = lambda: None,
    beside: Beside = CLUSTER_ONLY,
    until: Until | None = None,
) -> bool:
    """Serves until a signal; `ready` is called once the port answers. `seen_by` are the users who see what lies beside the
    cluster, None for all. With `until` it is a broker that has started this console: it ends with it, and when nobody has looked
    for a while (idle.py). Returns whether a thread is still in a call: the process then has to end by `leave` (threads.py)."""
    log_to_stderr()
    calls = Calls(cluster.timeout_s + _MORE_S)
    source = Source(cluster)
    login = Login(sessions, users, Attempts(time.monotonic), from_here_only=at.is_remote)
    app = application(source, calls, Who(sessions, login, seen_by), at.place, read_only=read_only, beside=beside)
    idle = Idle(app)
    config = uvicorn.Config(
        app if until is None else idle,
        http=Connection if at.context is None else _encrypted(at.context),
        ws="none",
        loop="asyncio",
        lifespan="off",
        backlog=MAX_CONNECTIONS,  # so many are accepted at once, too, each with a descriptor until it is refused
        log_config=None,
        log_level="error",  # a warning is what a stranger sends that is no HTTP, as often as the stranger likes
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        timeout_graceful_shutdown=_STOP_S,
    )
    server = _Server(config)

    async def run() -> None:
        loop = asyncio.get_running_loop()

        def stop() -> None:
            server.should_exit = True
            calls.end()  # or the server would wait for them

        def stop_from_elsewhere() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended already
                loop.call_soon_threadsafe(stop)

        for which in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(which, stop)
        if until is not None:
            idle.begin(stop)
            until.on_end(stop_from_elsewhere)
        ready()
        await server.serve(sockets=[at.socket])

    run_less_often()
    is_busy = False
    try:
        asyncio.run(run())
    finally:
        is_busy = calls.close() or source.gatherings.running > 0
    return is_busy

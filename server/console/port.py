"""The console's port while nobody looks: a socket that listens, and a callback.

The first connection is left where it is, in the socket's queue, for the process that it starts. While that runs, the broker does
not look at the port. When it has ended the broker watches again, so what came meanwhile starts the next one. A process that dies
is started again with the next connection; after three deaths in a minute none is for as long, and the port answers one line.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ottla.server.base.clock import wait_at_most
from ottla.server.console.child import Child, Launch, launch

if TYPE_CHECKING:
    from ottla.server.base.clock import Clock
    from ottla.server.inspect.subject import Subject

DEATHS: Final = 3
DEATHS_WITHIN_S: Final = 60.0
SOON_S: Final = 1.0
"""A process that ends so soon has died, whatever its exit code is."""
STOP_S: Final = 3.0
"""The time for which a stop waits for the process before killing it."""
REFUSED_AT_ONCE: Final = 16
MOST_REFUSED: Final = 64
"""So many connections that were refused are open at a time: the broker's descriptors are for its clients."""
REFUSED_OPEN_S: Final = 0.5
_BODY: Final = b"The console ended three times within a minute, and is not started for a minute; the broker's log says why.\n"
REFUSAL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(_BODY), _BODY)
)

_log: Final = logging.getLogger("ottla.server.console")


class ConsolePort:
    """Starts a console's process when somebody connects. `watch` begins, and `close` ends it all."""

    def __init__(self, listening: socket.socket, subject: Subject, clock: Clock, launch: Launch = launch) -> None:
        self._listening = listening
        self._subject = subject
        self._clock = clock
        self._launch = launch
        self._orders: Callable[[], Mapping[str, Any]] = dict
        self._deaths: deque[float] = deque(maxlen=DEATHS)
        self._child: Child | None = None
        self._running: asyncio.Task[None] | None = None
        self._refused: dict[socket.socket, None] = {}  # connections that have been answered the line, the oldest first
        self._is_watched = False
        self._is_closed = False

    def watch(self, orders: Callable[[], Mapping[str, Any]]) -> None:
        """Waits for the first connection, without a thread or a task. `orders` returns what a process is told when it starts."""
        self._orders = orders
        asyncio.get_running_loop().add_reader(self._listening, self._asked)
        self._is_watched = True

    def _watch_again(self) -> None:
        if not self._is_closed:
            self.watch(self._orders)

    def _ignore(self) -> None:
        if self._is_watched:
            asyncio.get_running_loop().remove_reader(self._listening)
            self._is_watched = False

    def _asked(self) -> None:
        if self._dies_always:
            self._refuse()
            return
        self._ignore()
        self._running = asyncio.create_task(self._run())

    @property
    def _dies_always(self) -> bool:
        deaths = self._deaths
        if len(deaths) < DEATHS or deaths[-1] - deaths[0] > DEATHS_WITHIN_S:
            return False
        return self._clock.monotonic() - deaths[-1] < DEATHS_WITHIN_S

    async def _run(self) -> None:
        """Runs a process to its end, and watches again."""
        began = self._clock.monotonic()
        try:
            child = self._child = await Child.start(self._listening, self._orders(), self._subject, self._launch)
            if self._is_closed:
                child.terminate()
            code = await child.wait()
        except OSError as error:
            if self._is_closed:  # the stop has closed the port in the middle of the start
                return
            _log.error("%s: the console cannot be started: %s", "ottla.console.port", error)
            code = 1
        except Exception:  # noqa: BLE001 - a bug in this start must not leave the port to nobody
            _log.exception("%s: the console cannot be run", "ottla.console.port")
            if self._child is not None:
                self._child.kill()
            code = 1
        finally:
            self._child = None
        if self._is_closed:
            return
        now = self._clock.monotonic()
        if code or now - began < SOON_S:
            self._deaths.append(now)
            _log.warning("the console ended with exit code %d; the next request starts it again", code)
        self.watch(self._orders)

    def _refuse(self) -> None:
        """Answers a line to each connection that waits, some at a time."""
        for _ in range(REFUSED_AT_ONCE):
            try:
                connection, _ = self._listening.accept()
            except (BlockingIOError, ConnectionError):  # none waits any more
                return
            except OSError:  # no descriptor is left: the loop would find the connection again with every turn
                self._ignore()
                self._clock.call_later(REFUSED_OPEN_S, self._watch_again)
                return
            connection.setblocking(False)
            with contextlib.suppress(OSError):
                connection.recv(1 << 16)  # unread, it would have the answer thrown away by a reset
            with contextlib.suppress(OSError):
                connection.send(REFUSAL)
                connection.shutdown(socket.SHUT_WR)
            if len(self._refused) >= MOST_REFUSED:
                self._let_go(next(iter(self._refused)))
            self._refused[connection] = None
            self._clock.call_later(REFUSED_OPEN_S, partial(self._let_go, connection))

    def _let_go(self, connection: socket.socket) -> None:
        self._refused.pop(connection, None)
        connection.close()

    def end(self) -> None:
        """Stops listening and asks the process to end; `close` waits for that."""
        self._is_closed = True
        self._ignore()
        self._listening.close()
        for connection in tuple(self._refused):
            self._let_go(connection)
        if self._child is not None:
            self._child.terminate()

    async def close(self) -> None:
        """Ends what is left, within STOP_S; nothing of it is there when this returns."""
        self.end()
        if self._running is None:
            return
        if not await wait_at_most(self._clock, STOP_S, (self._running,)) and self._child is not None:
            self._child.kill()
        await self._running

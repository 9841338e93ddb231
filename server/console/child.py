"""The console's process: what it is given, and how it is started and ended.

It inherits three things: the socket that listens, its end of the channel, and the log, which is standard error. What it has to
know is the first line on the channel, so that no token is on a command line or in an environment.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from ottla.server.console.channel import Channel

if TYPE_CHECKING:
    from ottla.server.inspect.subject import Subject

MODULE: Final = "ottla.console.activated"
_KEPT: Final = frozenset(
    (
        "HOME",
        "LANG",
        "LANGUAGE",
        "LD_LIBRARY_PATH",
        "PATH",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
        "TMPDIR",
        "TZ",
        "VIRTUAL_ENV",
    )
)
_KEPT_PREFIXES: Final = ("LC_", "KRB5")


class Process(Protocol):
    """Declares what is used of a process."""

    pid: int

    async def wait(self) -> int:
        """Returns its exit code once it has ended."""
        ...

    def terminate(self) -> None:
        """Asks it to end. Raises ProcessLookupError if it has."""
        ...

    def kill(self) -> None:
        """Ends it. Raises ProcessLookupError if it has ended."""
        ...


Launch = Callable[[Sequence[str], Mapping[str, str], Sequence[int]], Process]
"""Starts a program: its words, its environment, and the descriptors that it inherits. Raises OSError."""


class _Launched:
    """A program on this machine. The loop is woken by a descriptor of the process when it ends, without a thread."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.pid = process.pid
        self._process = process
        self._watched = os.pidfd_open(process.pid)
        self._loop = asyncio.get_running_loop()
        self._code: asyncio.Future[int] = self._loop.create_future()
        self._loop.add_reader(self._watched, self._note_end)
        self.terminate = process.terminate
        self.kill = process.kill

    def _note_end(self) -> None:
        self._loop.remove_reader(self._watched)
        os.close(self._watched)
        self._code.set_result(self._process.wait())  # it has ended

    async def wait(self) -> int:
        return await asyncio.shield(self._code)


def launch(words: Sequence[str], environment: Mapping[str, str], descriptors: Sequence[int]) -> Process:
    """Starts a program on this machine, without input and output but for standard error, which is the log. It inherits these
    descriptors and no others; uvloop's own way would leave it all that the broker was given."""
    nothing = subprocess.DEVNULL
    process = subprocess.Popen(words, stdin=nothing, stdout=nothing, env=dict(environment), pass_fds=tuple(descriptors))
    try:
        return _Launched(process)
    except OSError:  # the kernel has no such descriptors
        process.kill()
        process.wait()
        raise


def environment_of(given: Mapping[str, str], path: Sequence[str]) -> dict[str, str]:
    """Returns what of the broker's environment the console gets: nothing that may hold a secret. It finds modules where the
    broker does, whose `sys.path` is `path`."""
    kept = {name: text for name, text in given.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)}
    return kept | {"PYTHONPATH": os.pathsep.join(os.path.abspath(each) for each in path), "PYTHONUNBUFFERED": "1"}


class Child:
    """One process of the console, from its start to its end."""

    def __init__(self, process: Process, channel: Channel) -> None:
        self.process = process
        self._channel = channel

    @classmethod
    async def start(cls, listening: socket.socket, orders: Mapping[str, Any], subject: Subject, launch: Launch) -> Child:
        """Starts the process, which serves the socket as `orders` say. Raises OSError."""
        ours, theirs = socket.socketpair()
        with theirs:
            ours.setblocking(False)
            channel = Channel(subject)
            transport, _ = await asyncio.get_running_loop().create_unix_connection(lambda: channel, sock=ours)
            try:
                transport.write(json.dumps(orders).encode() + b"\n")
                if listening.fileno() < 0:
                    raise OSError("the port was closed")
                words = (sys.executable, "-P", "-m", MODULE, str(listening.fileno()), str(theirs.fileno()))
                environment = environment_of(os.environ, sys.path)
                process = launch(words, environment, (listening.fileno(), theirs.fileno()))
            except BaseException:
                channel.close()
                raise
        return cls(process, channel)

    async def wait(self) -> int:
        """Returns the exit code once the process has ended; the channel is closed then."""
        try:
            return await self.process.wait()
        finally:
            self._channel.close()

    def terminate(self) -> None:
        """Asks the process to end, if it has not."""
        self._channel.close()
        with contextlib.suppress(ProcessLookupError):
            self.process.terminate()

    def kill(self) -> None:
        """Ends the process, if it has not ended."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()

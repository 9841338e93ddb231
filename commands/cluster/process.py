"""`NodeProcess`: a node of a cluster as a process: Apache Kafka's controller, or a broker of ottla.

What a node prints goes into one file, one start after the other. It has a process group of its own, so that Ctrl-C at a terminal
reaches only the command, which stops the nodes in order.
"""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import struct
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ottla.commands.cluster.errors import ClusterError
from ottla.commands.cluster.layout import HOST, Place

STOP_SECONDS: Final = 60.0
"""The time that a node may take to stop before it is killed. A broker that the controllers do not let go stops after its
session."""
_PROBE_SECONDS: Final = 1.0
_API_VERSIONS: Final = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""A request of ApiVersions, version 0, with correlation id 1 and without a client id."""
_TAIL_BYTES: Final = 64 << 10
_STAMP: Final = re.compile(r"^ottla: ")


class NodeProcess:
    """A node; see the module's docstring. `lock` is a descriptor that the process keeps open for as long as it lives. `core` is
    the one that it runs on, None for any (cores.py)."""

    def __init__(
        self, place: Place, command: Sequence[str], environment: Mapping[str, str], log: Path, lock: int, core: int | None = None
    ) -> None:
        self.place = place
        self.log = log
        self.core = core
        self._command = command
        self._environment = environment
        self._lock = lock
        self._process: subprocess.Popen[bytes] | None = None
        self._log_begin = 0
        self._pidfd = -1

    @property
    def name(self) -> str:
        return self.place.name

    @property
    def pid(self) -> int | None:
        """The id of the process, None if it was never started."""
        return self._process.pid if self._process is not None else None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def fileno(self) -> int:
        """Returns a descriptor that becomes readable when the process ends."""
        return self._pidfd

    def start(self) -> None:
        """Starts the process; it is not ready yet. Raises ClusterError if it runs, or cannot run on its core."""
        if self.is_running:
            raise ClusterError(f"{self.name} runs already (pid {self.pid})")
        self._close()
        with open(self.log, "ab") as log:
            self._log_begin = log.tell()
            self._process = subprocess.Popen(
                self._command,
                cwd=self.log.parent,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=dict(self._environment),
                pass_fds=(self._lock,),
                process_group=0,
            )
        self._pidfd = os.pidfd_open(self._process.pid)
        if self.core is not None:
            self._pin(self.core)

    def _pin(self, core: int) -> None:
        """Binds the process, which has only one thread yet, to a core: its later threads inherit it. Raises ClusterError."""
        assert self._process is not None
        try:
            os.sched_setaffinity(self._process.pid, {core})
        except ProcessLookupError:
            return  # it ended at once, which whoever waits for it sees and says
        except OSError as error:
            raise ClusterError(
                f"--cores: {self.name} cannot run on core {core}: {error.strerror}; leave the option out"
            ) from error

    def is_ready(self) -> bool:
        """Returns whether the node serves: a broker says so in its log, a controller answers."""
        if self.place.kind == "controller":
            return answers(self.place.port)
        return f"[KafkaServer id={self.place.node_id}] started".encode() in self.printed()

    def printed(self) -> bytes:
        """Returns the end of what the process has printed since its start."""
        with open(self.log, "rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(self._log_begin, size - _TAIL_BYTES))
            return log.read()

    def terminate(self) -> None:
        """Asks the process to stop in order."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends the process at once."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def wait(self, seconds: float | None) -> bool:
        """Waits until the process has ended; returns whether it has."""
        if not self.is_running:
            return True
        readable, _, _ = select.select([self._pidfd], [], [], seconds)
        return bool(readable) and not self.is_running

    def stop(self, seconds: float = STOP_SECONDS) -> bool:
        """Stops the process, at once if it takes too long; returns whether it stopped in order."""
        self.terminate()
        if self.wait(seconds):
            in_order = self._process is None or self._process.returncode in (0, 128 + signal.SIGTERM)
        else:
            self.kill()
            self.wait(None)
            in_order = False
        self._close()
        return in_order

    def _close(self) -> None:
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def how_it_ended(self) -> str:
        """Returns one line about a process that has ended: how, and the last that it printed."""
        code = self._process.poll() if self._process is not None else None
        if code is not None and code < 0:
            return f"ended by {signal.Signals(-code).name}"
        lines = self.printed().decode(errors="replace").splitlines()
        said = next((line for line in reversed(lines) if line.strip()), "")
        last = _STAMP.sub("", said)[:1000]
        return f"ended with exit code {code}" + (f": {last}" if last else "")


def answers(port: int) -> bool:
    """Returns whether a node at this port of the machine answers ApiVersions without an error."""
    try:
        with socket.create_connection((HOST, port), timeout=_PROBE_SECONDS) as connection:
            connection.sendall(_API_VERSIONS)
            answer = connection.recv(10, socket.MSG_WAITALL)  # size, correlation id, error code
    except OSError:
        return False
    return len(answer) == 10 and struct.unpack(">iih", answer)[1:] == (1, 0)

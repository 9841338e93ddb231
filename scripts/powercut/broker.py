"""ottla in the guest, with its data on the disk that loses its power, for clients outside.

The guest's network is a TAP device of this machine, which `prepare_network` makes, best in a network name space of its own. A
guest that is killed says goodbye to nobody: clients find out by themselves, as with a machine that has lost its power.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import IO, Any, Final

from compat_tests.brokers import Ottla
from compat_tests.reference.kafka import CLUSTER_ID, answers_metadata
from scripts.powercut.run import MKFS, guest_command, guest_environment, make_disk

FILESYSTEMS: Final = tuple(sorted(MKFS))
DEVICE, OUTSIDE, INSIDE, PORT = "ottla-tap", "10.77.0.1/24", "10.77.0.2", 9092
_ROOT: Final = Path(__file__).resolve().parents[2]
_DISK_MIB: Final = 512


def prepare_network() -> None:
    """Makes the TAP device."""
    for command in (f"tuntap add dev {DEVICE} mode tap", f"addr add {OUTSIDE} dev {DEVICE}", f"link set {DEVICE} up"):
        subprocess.run(["ip", *command.split()], check=True)


class Guest(subprocess.Popen[bytes]):
    """A guest's kernel, whose children are its processes. Signals are for all of them, but only the kernel is stopped for a
    while: it traces the others, and takes one that somebody else stops for one that has crashed, with which it panics."""

    def send_signal(self, sig: int) -> None:
        if self.poll() is not None:
            return
        if sig in (signal.SIGSTOP, signal.SIGCONT):
            os.kill(self.pid, sig)
        else:
            os.killpg(self.pid, sig)


class OttlaInGuest(Ottla):
    """A broker of ottla in the guest. What ends it with SIGKILL is a power cut."""

    def __init__(self, directory: Path, settings: dict[str, str], filesystem: str) -> None:
        super().__init__(directory, settings, PORT)
        self._filesystem = filesystem

    @classmethod
    @contextmanager
    def on_disk(cls, directory: Path, settings: dict[str, str], filesystem: str) -> Iterator[OttlaInGuest]:
        """Yields a broker on a new disk."""
        make_disk(directory / "disk", filesystem, _DISK_MIB)
        broker = cls(directory, settings, filesystem)
        try:
            yield broker
        finally:
            broker.kill()

    @property
    def bootstrap(self) -> str:
        return f"{INSIDE}:{PORT}"

    def place(self) -> dict[str, str]:
        return {
            "listeners": f"PLAINTEXT://{INSIDE}:{PORT},CONTROLLER://{INSIDE}:{PORT + 1}",
            "advertised.listeners": f"PLAINTEXT://{INSIDE}:{PORT}",
            "controller.quorum.bootstrap.servers": f"{INSIDE}:{PORT + 1}",
            "log.dirs": "/mnt/data/log",
        }

    def answers(self) -> bool:
        return answers_metadata(self.port, INSIDE)

    def command(self) -> list[str]:
        lines = [
            f"ip addr add {INSIDE}/24 dev eth0 && ip link set eth0 up",
            f"export PYTHONPATH={quote(str(_ROOT))} CLUSTER_ID={CLUSTER_ID} PYTHONDONTWRITEBYTECODE=1",
            " ".join(map(quote, [sys.executable, "-m", "ottla", "serve", str(self.properties)])),
        ]
        (self.directory / "command").write_text("\n".join(lines) + "\n")
        return [*guest_command(self.directory, self._filesystem), f"eth0=tuntap,{DEVICE}"]

    def environment(self) -> dict[str, str]:
        return guest_environment()

    def spawn(self, log: IO[Any]) -> subprocess.Popen[bytes]:
        return Guest(
            self.command(),
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=self.environment(),
            start_new_session=True,  # the guest's processes are children of its own, in this group
        )

    def stop(self) -> int:
        """Cuts the power: nobody asks a machine whose power is cut to shut down."""
        self.kill()
        return 0

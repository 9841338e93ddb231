"""Disks that fail, for processes under test: by strace, which makes system calls of a running process fail or take their time,
and by a small file system of the process's own.

strace is attached to a broker for one file; every thread of the broker is held, those to come as well. Calls are chosen
by name, so each fault lists those that one or the other broker makes. A mount is in a mount namespace that the broker has to
itself (`unshare`), so that it goes with it, and no root is needed; from outside it is seen below /proc/<pid>/root.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import TracebackType
from typing import Final

WRITES: Final = "write,pwrite64,writev,pwritev,pwritev2"
SYNCS: Final = "fsync,fdatasync"


class Strace:
    """While it is entered, calls of the process on `path` are as `how` says, such as error=EIO or delay_enter=300000 (us)."""

    def __init__(self, pid: int, path: Path, calls: str, how: str, trace: Path) -> None:
        self._trace = trace
        self._command = ["strace", "-f", "-p", str(pid), "-P", str(path), "-e", f"trace={calls}"]
        self._command += ["-e", f"inject={calls}:{how}", "-o", str(trace)]
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Strace:
        self._process = subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        line = self._process.stderr.readline()
        assert "attached" in line, f"strace: {line}{self._process.stderr.read()}"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._process is not None
        assert self._process.stderr is not None
        self._process.terminate()
        self._process.wait()
        self._process.stderr.close()

    def calls(self) -> list[str]:
        """Returns the calls that it has seen, a line a call; those that were interrupted by another thread's count once."""
        return [line for line in self._trace.read_text().splitlines() if "resumed>" not in line and "(" in line]


def in_own_mounts(command: list[str], mounts: str) -> list[str]:
    """The command behind a shell that runs `mounts` where nobody else sees it, and becomes the command."""
    return ["unshare", "--map-root-user", "--mount", "sh", "-ec", f'{mounts}; exec "$@"', "sh", *command]


def seen_by(pid: int, path: Path) -> Path:
    """A path in the mounts of a process."""
    return Path(f"/proc/{pid}/root{path}")

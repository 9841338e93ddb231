"""Killing the recorded trace for real: strace sends SIGKILL at the N-th call of a kind, for every call that changes something.

First the program runs to its end under strace, which writes down its calls; each that may change something in the directory is a
kill point (name of the call, how many of that name came before it in the process). Then it runs again for each, and dies as that
call begins. What was written is in the page cache and must all be there, so the model allows what was before the operation under
way, what would be after it, and the steps between. (strace 6.1 sends no signal with --seccomp-bpf, which would be faster.)
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ottla.log.disk.files import OsDisk
from tests.memdisk import MemDisk
from tests.sim.model import Loss
from tests.sim.trace import States, Trace, check_disk

ROOT = Path(__file__).resolve().parents[2]
CALLS = (
    "openat,mkdir,mkdirat,rename,renameat,renameat2,unlink,unlinkat,rmdir,write,writev,pwrite64,pwritev,pwritev2,"
    "ftruncate,fallocate,fsync,fdatasync,utimensat,copy_file_range,sendfile"
)
_CALL = re.compile(r"^(\d+) +(\w+)\((.*)")
_LIMIT_SECONDS = 120


@dataclass(frozen=True)
class KillPoint:
    """The `number`-th call of this name, counted from 1; `done` operations were done before it."""

    call: str
    number: int
    done: int
    line: str


@dataclass(frozen=True)
class Moment:
    """The model around one operation."""

    name: str
    before: States
    after: States
    now_ms: int


@cache
def moments() -> list[Moment]:
    """The model's word for every operation, and last for the time after all of them."""
    trace = Trace(MemDisk(), "/data")
    found, before = [], dict(trace.before)
    for name in trace.play():
        found.append(Moment(name, before, dict(trace.after), trace.now_ms))
        before = dict(trace.before)
    return [*found, Moment("the end", before, before, trace.now_ms)]


def kill_points(directory: Path) -> list[KillPoint]:
    """Runs the program to its end; every call that changes `directory`, in order."""
    _run(directory, [])  # whatever the interpreter keeps for the next time, it keeps now
    log = directory.with_suffix(".calls")
    done = _run(directory, ["strace", "-f", "-qq", "-y", "-e", f"trace={CALLS}", "-o", str(log)])
    assert done == len(moments()) - 1, f"only {done} operations"
    found: list[KillPoint] = []
    counts: Counter[str] = Counter()
    done, process = 0, ""
    for line in log.read_text(errors="replace").splitlines():
        matched = _CALL.match(line)
        if matched is None:
            continue
        pid, call, rest = matched.groups()
        process = process or pid
        counts[call] += pid == process
        if str(directory) in rest and (call != "openat" or "O_CREAT" in rest):
            assert pid == process, f"another thread's call cannot be counted: {line}"
            found.append(KillPoint(call, counts[call], done, line))
        elif rest.startswith("1<"):
            done += 1
    return found


def kill_at(point: KillPoint, directory: Path) -> None:
    """Runs the program until it is killed there, and checks what is left. AssertionError."""
    inject = f"inject={point.call}:signal=SIGKILL:when={point.number}"
    strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={point.call}", "-e", inject]
    done = _run(directory, strace, killed=True)
    assert done == point.done, f"killed after {done} operations, not {point.done}"
    moment = moments()[done]
    try:
        check_disk(OsDisk(), str(directory), moment.before, moment.after, Loss.KILL, lambda: moment.now_ms)
    except Exception as error:
        error.add_note(f"killed during {moment.name}, at {point.line}")
        raise


def _run(directory: Path, tracer: list[str], *, killed: bool = False) -> int:
    """Runs the program on an empty directory; how many operations it did."""
    shutil.rmtree(directory, ignore_errors=True)
    ended = subprocess.run(
        [*tracer, sys.executable, "-m", "tests.sim.program", str(directory)],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "PYTHONHASHSEED": "0"},
        capture_output=True,
        timeout=_LIMIT_SECONDS,
        check=False,
    )
    code = -signal.SIGKILL if killed else 0
    assert ended.returncode == code, f"ended with {ended.returncode}: {ended.stderr.decode()[-2000:]}"
    return len(ended.stdout)

"""The cleaner as a process of its own: jobs come in on stdin and results go out on stdout, as a line of JSON each.

Compiled or not, the loops of a cleaning hold the interpreter's lock; in the broker's process every request would wait for them.
Here no request does, and the system gives the broker's process the processor first (`nice`).

    in     a CleaningJob's fields
    out    {"group": a CleanedGroup's values}                          any number of times; the files are durable
           {"done": a CleaningStats' fields}                           and the next job may come
           {"failed": "damaged" | "disk" | "unknown", "reason": text, "errno": number or null}      and the next job may come;
           "unknown" means that nobody knows what the disk holds (log.disk.files.StateUnknown)

Nothing comes in while a job is under way. If stdin ends, the result is no longer wanted: the files of the segment under way are
removed and the process ends. Where the system can do it (Linux), the process is killed together with the broker: a process that
lived on would make files in directories that the next broker has already put in order, and the start after that would take those
files for what they are not.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, BinaryIO, Final

from ottla.log.compaction.cleaner import Cleaner, Throttle
from ottla.log.compaction.cleaning_job import CleaningAborted, CleaningJob, MapTooSmall
from ottla.log.disk.files import Disk, OsDisk, StateUnknown
from ottla.log.errors import CorruptRecord

NICE: Final = 10
_PR_SET_PDEATHSIG: Final = 1


def main() -> int:
    """Does the jobs that arrive on stdin until it ends; returns the exit status."""
    _die_with_parent()
    os.nice(NICE)
    with open(sys.stdout.fileno(), "wb", buffering=0, closefd=False) as answers:  # unbuffered: nothing is left to flush at exit
        return serve(sys.stdin.buffer, answers, OsDisk(), time.monotonic)


def _die_with_parent() -> None:
    if sys.platform == "linux":
        import ctypes  # prctl(2) is nowhere else in Python

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def serve(jobs: BinaryIO, answers: BinaryIO, disk: Disk, monotonic: Callable[[], float]) -> int:
    """Does the jobs, one after the other; returns the exit status. `jobs` must have a descriptor. `monotonic` is a clock in s."""

    def wait(seconds: float) -> None:
        if select.select([jobs], [], [], seconds)[0]:
            raise CleaningAborted("the broker is gone or has called the cleaning off")

    def answer(message: dict[str, Any]) -> None:
        try:
            answers.write(json.dumps(message).encode() + b"\n")
            answers.flush()
        except BrokenPipeError:
            raise CleaningAborted("the broker is gone") from None

    with contextlib.suppress(CleaningAborted):
        while line := jobs.readline():
            answer(_clean(CleaningJob(**json.loads(line)), disk, monotonic, wait, answer))
    return 0


def _clean(
    job: CleaningJob,
    disk: Disk,
    monotonic: Callable[[], float],
    wait: Callable[[float], None],
    answer: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:
    """Does a job; returns the last answer to it. Raises CleaningAborted."""
    cleaner = Cleaner(disk, job, Throttle(job.bytes_per_second, monotonic, wait))
    try:
        for group in cleaner.groups():
            answer({"group": group})
    except (CorruptRecord, MapTooSmall) as error:
        return {"failed": "damaged", "reason": str(error), "errno": None}
    except OSError as error:
        kind = "unknown" if isinstance(error, StateUnknown) else "disk"
        return {"failed": kind, "reason": str(error), "errno": error.errno}
    return {"done": asdict(cleaner.stats)}

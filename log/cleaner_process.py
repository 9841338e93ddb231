"""The cleaner as a process of its own: jobs come in on stdin, what became of them goes out on stdout, a line of JSON each.

Compiled or not, the loops of a cleaning hold the interpreter's lock; in the broker's process every request would wait for them.
Here nobody does, and the system gives the broker's process the processor first (`nice`).

    in     a CleaningJob's fields
    out    {"group": [base offset, size, [base offsets replaced]]}     any number of times; the files are durable
           {"done": a CleaningStats' fields}                           and the next job may come
           {"failed": "damaged" | "disk" | "unknown", "reason": text, "errno": number or null}      likewise; "unknown": a disk
           of which nobody knows what it holds (log.files.StateUnknown)

Nothing comes in while a job is under way; if stdin ends, nobody wants the result: the files of the segment under way are removed
and the process ends. So it dies with the broker, however that died, and costs nothing once it is not needed.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from dataclasses import asdict
from typing import Any, BinaryIO, Final

from ottla.log.cleaner import Cleaner, CleaningAborted, CleaningJob, MapTooSmall, Throttle
from ottla.log.errors import CorruptRecord
from ottla.log.files import Disk, OsDisk, StateUnknown

NICE: Final = 10


def main() -> int:
    """Serves stdin until it ends."""
    os.nice(NICE)
    return serve(sys.stdin.buffer, sys.stdout.buffer, OsDisk())


def serve(jobs: BinaryIO, answers: BinaryIO, disk: Disk) -> int:
    """Does the jobs, one after the other; returns the exit status. `jobs` must have a descriptor."""

    def wait(seconds: float) -> None:
        if select.select([jobs], [], [], seconds)[0]:
            raise CleaningAborted("the broker is gone or calls it off")

    def answer(message: dict[str, Any]) -> None:
        answers.write(json.dumps(message).encode() + b"\n")
        answers.flush()

    while line := jobs.readline():
        job = CleaningJob(**json.loads(line))
        cleaner = Cleaner(disk, job, Throttle(job.bytes_per_second, time.monotonic, wait))
        try:
            for group in cleaner.groups():
                answer({"group": group})
        except CleaningAborted:
            return 0
        except (CorruptRecord, MapTooSmall) as error:
            answer({"failed": "damaged", "reason": str(error), "errno": None})
        except OSError as error:
            kind = "unknown" if isinstance(error, StateUnknown) else "disk"
            answer({"failed": kind, "reason": str(error), "errno": error.errno})
        else:
            answer({"done": asdict(cleaner.stats)})
    return 0

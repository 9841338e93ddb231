"""Every crash point of the recorded trace on a disk in memory: the power is cut before every change of the disk, and once after
the last, with every loss that `ottla.server.testkit.disk.power_loss` allows.

All of them where they are at most `EVERY`, else `EVERY` by seed; `tests/sim/crash_points.py` does the same with more.
"""

from __future__ import annotations

import pytest

from tests.memdisk import MemDisk
from tests.sim.losses import survivors
from tests.sim.model import Loss
from tests.sim.trace import Trace, check_disk

EVERY = 10
DIRECTORY = "/data"


class CrashPoints:
    """Plays the trace and looks at what a power cut would leave, at every `step`-th change from the `first` on."""

    def __init__(self, *, sector_bytes: int, ordered_names: bool, bound: int, first: int = 0, step: int = 1) -> None:
        self.disk = MemDisk(lambda: self.trace.now_ms, sector_bytes=sector_bytes, ordered_names=ordered_names)
        self.trace = Trace(self.disk, DIRECTORY)
        self.points = 0
        self.looks = 0
        self.exhaustive = 0
        self._bound = bound
        self._first = first
        self._step = step

    def play(self) -> None:
        self.disk.before_change = self._look
        name = "the start"
        for name in self.trace.play():
            self.last = name
        self._look("end", name)

    last = "the start"

    def _look(self, operation: str, path: str) -> None:
        at = self.points
        self.points += 1
        if at % self._step != self._first:
            return
        disks, all_of_them = survivors(self.disk, self._bound, seed=at)
        self.exhaustive += all_of_them
        for number, disk in enumerate(disks):
            self.looks += 1
            try:
                check_disk(disk, DIRECTORY, self.trace.before, self.trace.after, Loss.POWER, lambda: self.trace.now_ms)
            except Exception as error:
                error.add_note(f"crash point {at}, outcome {number}: after {self.last}, before {operation} of {path}")
                raise


@pytest.mark.parametrize("first", range(4))
@pytest.mark.parametrize(("sector_bytes", "ordered_names"), [(64, False), (512, True)])
def test_a_power_cut_at_every_change(sector_bytes: int, ordered_names: bool, first: int) -> None:
    points = CrashPoints(sector_bytes=sector_bytes, ordered_names=ordered_names, bound=EVERY, first=first, step=4)
    points.play()
    assert points.trace.done >= 40
    assert points.points > 250
    assert points.looks > points.points / 4

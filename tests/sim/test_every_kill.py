"""The recorded trace, killed for real by strace at a sample of all its calls. `tests/sim/crash_points.py killed` does it
at every one.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.sim.kills import kill_at, kill_points

SAMPLE = 40


def test_a_kill_at_any_call_that_changes_the_disk(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    points = kill_points(directory)
    assert len(points) > 400
    calls = {at.call for at in points}
    assert {"write", "rename", "openat", "fsync", "fdatasync", "ftruncate", "unlink", "mkdir", "pwrite64"} <= calls
    for point in Random(5).sample(points, SAMPLE):
        kill_at(point, directory)

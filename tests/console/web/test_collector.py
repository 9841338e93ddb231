"""The garbage collector, in a process of its own: what is set there would stay set for other tests."""

from __future__ import annotations

import subprocess
import sys

_SCRIPT = """
import gc
from ottla.console.web.collector import run_less_often
if {less_often}:
    run_less_often()
of_each = [one["collections"] for one in gc.get_stats()]
kept = [[] for _ in range(9_000)]
print(*(one["collections"] - before for one, before in zip(gc.get_stats(), of_each)), gc.get_freeze_count() > 1_000)
print(gc.get_threshold()[2])
"""


def _run(*, less_often: bool) -> list[str]:
    command = [sys.executable, "-c", _SCRIPT.format(less_often=less_often)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_a_page_of_many_objects_is_made_without_a_collection() -> None:
    assert _run(less_often=True) == ["0 0 0 True", "10"]
    usual, _ = _run(less_often=False)
    assert not usual.startswith("0 ")
    assert usual.endswith("False")

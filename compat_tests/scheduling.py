"""Which worker runs which tests, and in which order: the longest first, and everything that uses Spark on one worker.

pytest-xdist gives a worker one file of tests at a time. Here all files that use Spark are one unit of work, so that a run has a
single Spark session. No other unit takes as long, so it begins first; then come the files in LONG, because a long file that began
last would leave the other workers idle at the end.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Final

import pytest
from xdist.scheduler import LoadFileScheduling

SPARK: Final = "spark"
"""The mark of tests that use Spark, and the name of their unit of work."""
SPARK_FILES: Final = ("test_spark", "test_pipeline", "test_flights")
"""How the names of their files begin: the process that gives out work knows only names."""
LONG: Final = ("test_streams.py", "test_connect.py", "test_kill_rounds.py", "test_client_suites.py")
"""Files that take over a minute, the longest first, as `--durations` shows them."""


def in_order(items: list[pytest.Item]) -> list[pytest.Item]:
    """The tests in the order in which their files are to begin. UsageError for one that uses Spark in a file of another name."""
    for item in items:
        if item.get_closest_marker(SPARK) and not item.path.name.startswith(SPARK_FILES):
            raise pytest.UsageError(f"{item.nodeid} uses Spark: the name of its file has to begin with one of {SPARK_FILES}")
    return sorted(items, key=_rank)


def _rank(item: pytest.Item) -> int:
    name = item.path.name
    if name.startswith(SPARK_FILES):
        return -1
    return LONG.index(name) if name in LONG else len(LONG)


class SparkOnOneWorker(LoadFileScheduling):
    """Gives out a file of tests at a time, and all files that use Spark together."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return SPARK if PurePath(file).name.startswith(SPARK_FILES) else file

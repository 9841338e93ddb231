"""Coordinators move between ottla and Apache Kafka in the middle of work of every kind: classic, consumer, share and streams
groups, and copies in transactions. scripts/coordinator_moves.py does this fifty times, and compares with a cluster of Kafka's
alone.
"""

from __future__ import annotations

from pathlib import Path

from compat_tests.cluster.coordinators import SETTINGS
from compat_tests.cluster.mixed import Mixed
from compat_tests.cluster.workload import KINDS, at_work, make_work, move_all

MOVES = 4


def test_nothing_is_lost_doubled_or_shared_anew_when_coordinators_move(tmp_path: Path) -> None:
    cluster = Mixed(tmp_path, ["ottla", "ottla", "kafka"], SETTINGS)
    with at_work(cluster) as load:
        load.begin([make_work(kind, cluster, tmp_path) for kind in KINDS])
        for turn in range(MOVES):
            load.round(lambda: move_all(cluster, turn))  # noqa: B023 - called within the round
        outcomes = load.finish()
    for kind, outcome in outcomes.items():
        assert (outcome["epochs"], outcome.get("assignments", 0)) == (0, 0), f"{kind}: {outcome}"

"""Kafka Streams and Kafka Connect while each broker of a cluster is killed (kill -9) in turn and started again: three brokers of
ottla, and two beside one of Apache Kafka.

A word count with exactly_once_v2, as a classic group, counts each word once; the application is killed as well. Two workers of
Connect with exactly.once.source.support bring each line of a file exactly once to a topic, and at least once to another file; one
of them is killed as well, and its connectors and tasks go to the other. `python -m scripts.application_kills` does this for
longer, also with streams groups and without that support, and compares with a cluster of Kafka's alone.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.cluster.coordinators import SETTINGS
from compat_tests.cluster.mixed import LETTERS, Mixed
from compat_tests.cluster.work import PARTITIONS
from compat_tests.cluster.workload import at_work, disturbances, make_work


@pytest.mark.parametrize("letters", ["ooo", "ook"])
@pytest.mark.parametrize("kind", ["classic-streams", "connect-once"])
def test_each_record_counts_once_while_each_broker_dies_in_turn(letters: str, kind: str, tmp_path: Path) -> None:
    cluster = Mixed(tmp_path, [LETTERS[letter] for letter in letters], SETTINGS)
    with at_work(cluster) as load:
        work = make_work(kind, cluster, tmp_path)
        load.begin([work])
        for each in disturbances(load, work):
            load.round(each.action)
        outcome = load.finish()[kind]
    assert outcome["state"] == "Stable"
    assert outcome.get("behind") in (None, dict.fromkeys(range(PARTITIONS), 0)), outcome

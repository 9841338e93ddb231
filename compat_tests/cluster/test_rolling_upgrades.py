"""A broker's directory goes from Apache Kafka to ottla and back under load, as in a rolling upgrade, and the cluster's features
are raised on the way. Groups and transactions go on, nothing is lost or doubled, and members do not share their partitions anew.
"""

from __future__ import annotations

from pathlib import Path

from compat_tests.cluster.coordinators import SETTINGS
from compat_tests.cluster.features import raise_to
from compat_tests.cluster.mixed import Mixed
from compat_tests.cluster.workload import at_work, make_work, replace_broker

CHANGING, KAFKA, OTTLA = 1, 2, 3


def test_a_broker_goes_to_ottla_and_back_under_load_while_features_rise(tmp_path: Path) -> None:
    cluster = Mixed(tmp_path, ["kafka", "kafka", "ottla"], SETTINGS, release="4.0-IV3")
    with at_work(cluster) as load:
        load.begin([make_work(kind, cluster, tmp_path) for kind in ("classic", "consumer", "transactions")])
        load.round(lambda: replace_broker(cluster, CHANGING, "ottla"))
        load.round(lambda: raise_to(cluster, "4.2", CHANGING))
        load.round(lambda: replace_broker(cluster, CHANGING, "kafka"))
        load.round(lambda: raise_to(cluster, "4.4", OTTLA))
        outcomes = load.finish()
    for kind, outcome in outcomes.items():
        assert (outcome["epochs"], outcome.get("assignments", 0)) == (0, 0), f"{kind}: {outcome}"

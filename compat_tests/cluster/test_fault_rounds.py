"""Brokers of ottla and of Apache Kafka are killed and stopped under load, in a cluster of three: nothing that was acknowledged is
lost, the others lead, and all replicas are the same in the end. scripts/cluster_faults.py plays more of this, with pauses, cut
networks and full disks, and measures.
"""

from __future__ import annotations

from pathlib import Path

from compat_tests.cluster.fault_rounds import Rounds, settings
from compat_tests.cluster.mixed import Mixed

FIRST, SECOND, KAFKA = 1, 2, 3


def test_nothing_acknowledged_is_lost_when_brokers_are_killed_and_stopped(tmp_path: Path) -> None:
    cluster = Mixed(tmp_path, ["ottla", "ottla", "kafka"], settings(session_s=4))
    try:
        cluster.start()
        rounds = Rounds(cluster)
        with rounds.under_load():
            for fault, node in (("kill", FIRST), ("stop", SECOND), ("kill", KAFKA), ("stop", KAFKA)):
                rounds.play(fault, node)
    finally:
        cluster.stop()

"""Tests of what scripts/rolling_upgrades.py decides without a cluster: in which order brokers and features change."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.cluster.features import RELEASES
from compat_tests.cluster.mixed import Mixed
from scripts.rolling_upgrades import way


@pytest.fixture
def cluster(tmp_path: Path) -> Mixed:
    """Of which nothing runs."""
    return Mixed(tmp_path, ["kafka", "kafka", "kafka"])


def test_every_broker_goes_there_and_back(cluster: Mixed) -> None:
    newest = list(RELEASES)[-1]
    assert [(step.said, step.release) for step in way(cluster, ["ottla", "kafka"], newest)] == [
        ("1 becomes ottla", newest),
        ("2 becomes ottla", newest),
        ("3 becomes ottla", newest),
        ("1 becomes kafka", newest),
        ("2 becomes kafka", newest),
        ("3 becomes kafka", newest),
    ]


def test_features_rise_in_the_first_turn(cluster: Mixed) -> None:
    assert [(step.said, step.release) for step in way(cluster, ["ottla", "kafka"], "4.0")] == [
        ("1 becomes ottla", "4.0"),
        ("features of 4.1", "4.1"),
        ("2 becomes ottla", "4.1"),
        ("features of 4.2", "4.2"),
        ("3 becomes ottla", "4.2"),
        ("features of 4.3", "4.3"),
        ("features of 4.4", "4.4"),
        ("1 becomes kafka", "4.4"),
        ("2 becomes kafka", "4.4"),
        ("3 becomes kafka", "4.4"),
    ]
    raised = [step.said.split()[-1] for step in way(cluster, ["kafka", "ottla", "kafka"], "3.9") if "features" in step.said]
    assert raised == list(RELEASES)[1:]

"""A year of flights through `ottla pipeline run`, driver and broker each killed -9 twice on the way, equal to pandas row for row.

scripts/flights_pipeline.py is the show, and runs all 336,776 flights; here are those of the first weeks. Then the audit: nothing
is missing or doubled, and the audit reports one record that is, on purpose. Same test for ottla and for Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compat_tests import flights_pipeline

pytestmark = [pytest.mark.spark, pytest.mark.kafka_in_full, pytest.mark.slow, pytest.mark.timeout(1200)]

DAYS = 31


def test_flights_survive_kills_of_driver_and_broker_and_the_audit_misses_nothing(
    fresh_broker: Callable[..., Any], spark: Any, tmp_path: Path
) -> None:
    directory = tmp_path / "show"
    directory.mkdir()
    show = flights_pipeline.Show(fresh_broker(), directory, DAYS)
    assert len(show.flights) > 26_000
    show.run()
    assert show.differences(spark) == []
    assert show.audits() == []

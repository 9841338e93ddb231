"""336,776 real flights through a broker that is killed -9 and restarted while they are on their way.

flights.py does the work and the comparison; here the broker dies once half of the flights are produced, with a consumer
group of three reading along. Same test for ottla and for Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from compat_tests import flights

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]


def test_every_flight_arrives_once_and_in_order_though_the_broker_dies_midway(
    fresh_broker: Callable[..., Any], spark: Any, unique: Callable[[str], str]
) -> None:
    broker = fresh_broker()

    def kill_and_restart() -> None:
        broker.kill()
        broker.start()

    count, problems = flights.run(broker.bootstrap, unique("flights"), spark, at_half=kill_and_restart)
    assert count == 336_776
    assert problems == []

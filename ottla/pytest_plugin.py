"""The pytest fixture `kafka_broker`, which every test run has in an environment that has ottla.

    def test_orders(kafka_broker):
        producer = Producer({"bootstrap.servers": kafka_broker.bootstrap})

    @pytest.mark.kafka_broker(num_partitions=3, auto_create_topics_enable=False)
    def test_without_automatic_topics(kafka_broker): ...

It is an `ottla.testing.Broker`, by default a new and empty one for each test, which takes some milliseconds. With
`kafka_broker_scope = session` (or package, module, class) in pytest's configuration, tests share one; then the marker counts
where that scope begins (a module's `pytestmark`, say). pytest loads this file in every run, so it imports nothing of the broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from ottla.testing import Broker

SCOPE: Final = "kafka_broker_scope"
MARKER: Final = "kafka_broker"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        SCOPE,
        "the scope of the fixture kafka_broker: function, class, module, package, session",
        default="function",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{MARKER}(**settings): the broker's settings, with _ for the dots of their names")


def _scope(fixture_name: str, config: pytest.Config) -> Any:  # pytest checks the name itself
    return config.getini(SCOPE)


@pytest.fixture(scope=_scope)
def kafka_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A running broker: `.bootstrap`, `.port`, `.data_dir`. Settings by the marker `kafka_broker`."""
    from ottla.testing import Broker

    marker = request.node.get_closest_marker(MARKER)
    if marker is not None and marker.args:
        raise pytest.UsageError(f"the marker {MARKER} takes settings as keywords, as in num_partitions=3; not {marker.args}")
    with Broker(**(marker.kwargs if marker is not None else {})) as broker:
        yield broker

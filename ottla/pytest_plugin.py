"""The pytest fixtures `kafka_broker`, `kafka_topic` and `kafka_cluster`, which every test run has in an environment that has
ottla.

    def test_orders(kafka_broker):
        producer = Producer({"bootstrap.servers": kafka_broker.bootstrap})

    @pytest.mark.kafka_broker(num_partitions=3, auto_create_topics_enable=False)
    def test_without_automatic_topics(kafka_broker): ...

It is an `ottla.testing.Broker`, by default a new and empty one for each test, which takes some milliseconds. With
`kafka_broker_scope = session` (or package, module, class) in pytest's configuration, tests share one; then the marker counts
where that scope begins (a module's `pytestmark`, say). With `kafka_broker_reset = true` each of these tests finds it empty: it is
reset before a test if another one had it, at the same address.

    @pytest.mark.kafka_topic(partitions=3, cleanup_policy="compact")
    def test_prices(kafka_broker, kafka_topic): ...

is the name of a new topic of that broker, which no other test has.

    @pytest.mark.kafka_fault(api="Fetch", delay_ms=200)
    def test_with_a_slow_broker(kafka_broker): ...

breaks the broker on purpose for as long as the test runs (docs/testkit.md), also one that tests share.

The broker's latest requests are recorded, and the report of a test that failed has the last of them, and the faults.

    def test_failover(kafka_cluster):
        kafka_cluster.brokers[0].kill()

is an `ottla.testing.Cluster` of three brokers, which takes seconds to start, so by default the whole run shares one; a marker
`kafka_cluster(nodes=2, ...)` counts where the scope in `kafka_cluster_scope` begins.

pytest loads this file in every run, so it imports nothing of the broker.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from ottla.testing import Broker, Cluster

SCOPE: Final = "kafka_broker_scope"
RESET: Final = "kafka_broker_reset"
MARKER: Final = "kafka_broker"
FAULT_MARKER: Final = "kafka_fault"
TOPIC_MARKER: Final = "kafka_topic"
CLUSTER_SCOPE: Final = "kafka_cluster_scope"
CLUSTER_MARKER: Final = "kafka_cluster"

RECORDED: Final = 1000
"""So many requests are recorded, without their records."""
REPORTED: Final = 50
"""So many of them are in the report of a test that failed."""

_BEFORE: Final = pytest.StashKey[dict[str, int]]()
"""The places at which a test's report begins: it leaves out what came before."""
_RUNNING: Final = pytest.StashKey[dict["Broker", "pytest.Mark | None"]]()
"""The brokers that run, with the markers that they were started with."""
_NUMBERS: Final = itertools.count(1)
_LONGEST_NAME: Final = 200


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        SCOPE,
        "the scope of the fixture kafka_broker: function, class, module, package, session",
        default="function",
    )
    parser.addini(RESET, "whether a kafka_broker that tests share is reset between them", type="bool", default=False)
    parser.addini(
        CLUSTER_SCOPE,
        "the scope of the fixture kafka_cluster: function, class, module, package, session",
        default="session",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{MARKER}(**settings): the broker's settings, with _ for the dots of their names")
    text = f"{FAULT_MARKER}(**fault): a fault of kafka_broker while the test runs, as for ottla.testing.Broker.fault"
    config.addinivalue_line("markers", text)
    config.addinivalue_line("markers", f"{TOPIC_MARKER}(partitions=None, **settings): the topic's partitions and settings")
    text = f"{CLUSTER_MARKER}(nodes=3, controllers=1, **settings): the cluster, and the settings of all its nodes"
    config.addinivalue_line("markers", text)


def _scope(fixture_name: str, config: pytest.Config) -> Any:  # pytest checks the name itself
    return config.getini(SCOPE)


def _cluster_scope(fixture_name: str, config: pytest.Config) -> Any:
    return config.getini(CLUSTER_SCOPE)


@pytest.fixture(scope=_scope)
def kafka_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A running broker: `.bootstrap`, `.port`, `.data_dir`. Settings by the marker `kafka_broker`."""
    from ottla.testing import Broker

    running = request.config.stash.setdefault(_RUNNING, {})
    with Broker(**_given(request, MARKER)) as broker:
        broker.record(RECORDED)
        running[broker] = request.node.get_closest_marker(MARKER)
        try:
            yield broker
        finally:
            del running[broker]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Resets the broker that earlier tests have had, before any fixture of this one can use it. Raises UsageError if the test has
    a marker that its broker was not started with."""
    if "kafka_broker" not in getattr(item, "fixturenames", ()):
        return (yield)
    for broker in item.config.stash.get(_RUNNING, {}):
        if item.config.getini(RESET):
            broker.reset()
        item.stash[_BEFORE] = broker.begin_report()
    result = yield
    _check_marker(item)
    return result


def _check_marker(item: pytest.Item) -> None:
    """Raises UsageError for a marker without effect. A broker that is not the plugin's is none of its business."""
    running, broker = item.config.stash.get(_RUNNING, {}), getattr(item, "funcargs", {}).get("kafka_broker")
    marker = item.get_closest_marker(MARKER)
    if marker is not None and broker in running and marker != running[broker]:
        raise pytest.UsageError(
            f"the marker {MARKER} has no effect here: tests share a broker ({SCOPE} = {item.config.getini(SCOPE)}), and it was "
            "started without these settings; put the marker where that scope begins, or take a narrower scope"
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds to the report of a failed test what its broker knows."""
    report = yield
    running = item.config.stash.get(_RUNNING, {}) if "kafka_broker" in getattr(item, "fixturenames", ()) else {}
    if running and report.failed and report.when != "teardown":
        try:
            text = next(reversed(running)).report(**item.stash.get(_BEFORE, {}), limit=REPORTED)
        except Exception as error:  # noqa: BLE001 - the test's own failure is what counts
            text = f"the broker does not say what happened: {error!r}"
        if text:
            report.sections.append(("kafka_broker", text))
    return report


@pytest.fixture
def kafka_topic(request: pytest.FixtureRequest, kafka_broker: Broker) -> str:
    """The name of a new topic. Partitions and settings by the marker `kafka_topic`."""
    words = re.sub(r"[^a-zA-Z0-9_-]+", "-", request.node.name).strip("-")[:_LONGEST_NAME]
    topic = f"{words}-{next(_NUMBERS)}"
    kafka_broker.create_topic(topic, **_given(request, TOPIC_MARKER))
    return topic


@pytest.fixture(scope=_cluster_scope)
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A running cluster: `.bootstrap`, `.brokers`, `.data_dir`. Its size and settings by the marker `kafka_cluster`."""
    from ottla.testing import Cluster

    with Cluster(**_given(request, CLUSTER_MARKER)) as cluster:
        yield cluster


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Has the faults of a test's markers in force while it runs, the nearest marker's last. Raises UsageError if the test has no
    broker, or the fault is none."""
    markers = list(item.iter_markers(FAULT_MARKER))[::-1]
    if not markers:
        return (yield)
    broker: Broker | None = getattr(item, "funcargs", {}).get("kafka_broker")
    if broker is None:
        raise pytest.UsageError(f"the marker {FAULT_MARKER} breaks kafka_broker, which this test does not use")
    with ExitStack() as faults:
        for marker in markers:
            try:
                faults.enter_context(broker.fault(**_keywords(marker)))
            except ValueError as error:
                raise pytest.UsageError(f"the marker {FAULT_MARKER}: {error}") from error
        return (yield)


def _given(request: pytest.FixtureRequest, name: str) -> dict[str, Any]:
    """Returns what the marker of this name gives, nothing if there is none. Raises UsageError if that is not keywords."""
    marker = request.node.get_closest_marker(name)
    return {} if marker is None else _keywords(marker)


def _keywords(marker: pytest.Mark) -> dict[str, Any]:
    """Returns what a marker gives. Raises UsageError if that is not keywords."""
    if marker.args:
        raise pytest.UsageError(f"the marker {marker.name} takes settings as keywords, as in name=value; not {marker.args}")
    return dict(marker.kwargs)

"""Brokers and clients for the compat tests.

`kind` runs a test twice: against ottla and against Apache Kafka. `broker` and `bootstrap` give that kind's shared broker, which
the whole run uses: so topics and groups take names from `unique`. `fresh_broker` makes one of its own for a test that kills or
configures it. Nothing here skips: a jar, tool or client that is missing fails the tests that need it.

With OTTLA_COMPAT_QUORUM=1 in the environment, ottla is the broker of a real quorum (brokers.py), and `kind` is only ottla.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests.before_tests import let_ctrl_c_through, why_not_to_test
from compat_tests.reference.kafka import BrokerProcess

ROOT = Path(__file__).resolve().parents[1]

pytest.register_assert_rewrite("compat_tests.client_jobs", "compat_tests.programs")

from compat_tests import forms  # noqa: E402 - after the line above
from compat_tests.brokers import CLASSES, IN_QUORUM, KINDS, Address, SharedBrokers  # noqa: E402
from compat_tests.reference import jvm  # noqa: E402
from compat_tests.seen import LEDGER  # noqa: E402
from compat_tests.topics import make_topics  # noqa: E402

DIRECTORY = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    """The directory of the run's brokers: made by the first process, which passes it to the workers in their input."""
    if why_not := why_not_to_test():
        raise pytest.UsageError(why_not)
    config.addinivalue_line("filterwarnings", "ignore:(read|open)_text is deprecated:DeprecationWarning")  # within kafka-python
    config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")  # py4j and kafka-python leave some
    config.addinivalue_line("filterwarnings", "ignore:unclosed <ssl.SSLSocket:ResourceWarning")  # kafka-python leaves these
    let_ctrl_c_through()
    os.environ["SPARK_SUBMIT_OPTS"] = jvm.spark_options()
    forms.begin(config)
    worker_input: dict[str, Any] | None = getattr(config, "workerinput", None)
    if worker_input is None:
        config.stash[DIRECTORY] = Path(tempfile.mkdtemp(prefix="ottla-compat-"))
    else:
        config.stash[DIRECTORY] = Path(worker_input["ottla_directory"])


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["ottla_directory"] = str(node.config.stash[DIRECTORY])


def pytest_unconfigure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput") or DIRECTORY not in config.stash:
        return
    directory = config.stash[DIRECTORY]
    SharedBrokers(directory).stop_all()
    if keep := os.environ.get("OTTLA_COMPAT_KEEP"):  # the brokers' logs, for a look at a failure
        for log in directory.glob("*/broker.log"):
            shutil.copy(log, Path(keep) / f"{log.parent.name}.log")
    shutil.rmtree(directory)


@pytest.hookimpl(trylast=True)  # after -m and -k, so that what is left out is what this run would have had
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    forms.leave_out(config, items)


def pytest_sessionfinish(session: pytest.Session) -> None:
    forms.end(session.config)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    forms.worker_ended(node.config, getattr(node, "workeroutput", {}))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Rows of docs/kafka-behaviour.md have tests outside wire_diff, too."""
    if report.when == "call" and report.passed:
        LEDGER.passed.add(report.nodeid)


@pytest.fixture(scope="session")
def shared_brokers(pytestconfig: pytest.Config) -> SharedBrokers:
    return SharedBrokers(pytestconfig.stash[DIRECTORY])


@pytest.fixture(scope="session", params=("ottla",) if IN_QUORUM else KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def broker(kind: str, shared_brokers: SharedBrokers) -> Address:
    return shared_brokers.get(kind)


@pytest.fixture(scope="session")
def bootstrap(broker: Address) -> str:
    return broker.bootstrap


@pytest.fixture
def fresh_broker(kind: str, tmp_path: Path) -> Iterator[Callable[..., BrokerProcess]]:
    """`fresh_broker(**settings)`: a started broker of this kind for this test only; underscores in names stand for dots."""
    made: list[BrokerProcess] = []

    def make(**settings: str) -> BrokerProcess:
        dotted = {name.replace("_", "."): value for name, value in settings.items()}
        broker = CLASSES[kind](tmp_path / f"{kind}-{len(made)}", dotted)
        made.append(broker)
        broker.start()
        return broker

    yield make
    for broker in made:
        broker.stop()
        shutil.rmtree(broker.directory)


@pytest.fixture
def unique() -> Callable[[str], str]:
    """`unique(stem)`: a topic or group name no other test has."""
    return lambda stem: f"{stem}-{uuid.uuid4().hex[:10]}"


@pytest.fixture
def topic_of(bootstrap: str, unique: Callable[[str], str]) -> Callable[[str], str]:
    """`topic_of(stem)`: the name of a new topic of three partitions."""

    def make(stem: str) -> str:
        name = unique(stem)
        make_topics(bootstrap, 3, name)
        return name

    return make


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One Spark session for the process, with the connector's jars. Its Python workers must be this interpreter."""
    from compat_tests.reference import maven

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .appName("ottla")
        .config("spark.jars", ",".join(str(jar) for jar in sorted(maven.jar_dir("spark-kafka").iterdir())))
        .config("spark.ui.enabled", "false")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    yield session
    session.stop()

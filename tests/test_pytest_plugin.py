"""The fixture kafka_broker, as a project that has ottla installed sees it: pytest finds it by its entry point."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ottla.testing import Broker

TESTS = """
import pytest, socket

SEEN = []

def test_it_serves(kafka_broker):
    socket.create_connection(("127.0.0.1", kafka_broker.port)).close()
    SEEN.append(kafka_broker.data_dir)

@pytest.mark.kafka_broker(num_partitions=7)
def test_settings_by_the_marker(kafka_broker):
    SEEN.append(kafka_broker.data_dir)
    assert kafka_broker._settings.get("num.partitions") == {partitions!r}

def test_how_many_there_were():
    assert len(set(SEEN)) == {brokers}
"""


def run(directory: Path, tests: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (directory / "test_users.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-q", "--strict-markers", "-W", "error", *arguments]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)


def test_each_test_has_its_own_broker_and_settings(tmp_path: Path) -> None:
    ran = run(tmp_path, TESTS.format(partitions="7", brokers=2))
    assert ran.returncode == 0, ran.stdout


def test_a_wider_scope_shares_one(tmp_path: Path) -> None:
    tests = TESTS.replace("@pytest.mark.kafka_broker(num_partitions=7)\n", "")
    ran = run(tmp_path, tests.format(partitions=None, brokers=1), "-o", "kafka_broker_scope=session")
    assert ran.returncode == 0, ran.stdout


MARKED = """
import pytest

pytestmark = pytest.mark.kafka_broker(num_partitions=7)

def test_with_the_marker_of_the_module(kafka_broker): pass

@pytest.mark.kafka_broker(num_partitions=7)
def test_with_the_same(kafka_topic): pass

@pytest.mark.kafka_broker(retention=5)
def test_with_another(kafka_topic): pass

class TestIt:
    pytestmark = pytest.mark.kafka_broker(num_partitions=8)

    def test_with_that_of_its_class(self, kafka_broker): pass
"""


@pytest.mark.parametrize(
    ("scope", "outcome"),
    [
        ("session", "4 errors"),
        ("module", "2 passed, 2 errors"),
        ("class", "3 passed, 1 error"),
        ("function", "3 passed, 1 error"),
    ],
)
def test_a_marker_that_has_no_effect_is_said(tmp_path: Path, scope: str, outcome: str) -> None:
    ran = run(tmp_path, MARKED, "-o", f"kafka_broker_scope={scope}")
    assert f"{outcome} in " in ran.stdout
    shared = f"the marker kafka_broker has no effect here: tests share a broker (kafka_broker_scope = {scope})"
    assert (shared in ran.stdout) == (scope in ("session", "module")), ran.stdout


def test_settings_without_a_name_are_refused(tmp_path: Path) -> None:
    ran = run(tmp_path, "import pytest\n@pytest.mark.kafka_broker(3)\ndef test_it(kafka_broker): pass\n")
    assert ran.returncode != 0
    assert "takes settings as keywords" in ran.stdout


def test_a_run_that_does_not_use_it_loads_no_broker(tmp_path: Path) -> None:
    ran = run(
        tmp_path,
        "import sys\ndef test_it():\n    assert 'ottla.testing' not in sys.modules and 'ottla.server' not in sys.modules\n",
    )
    assert ran.returncode == 0, ran.stdout


@pytest.mark.kafka_broker(num_partitions=2)
def test_our_own_tests_have_it(kafka_broker: Broker) -> None:
    assert kafka_broker.data_dir.is_dir()


FAULTS = """
import pytest
from ottla.wire.messages import list_groups
from tests.server.testkit.python.test_handles import code_of

pytestmark = pytest.mark.kafka_fault(api="ListGroups", client_id="nobody", error="REQUEST_TIMED_OUT")

@pytest.mark.kafka_fault(api="ListGroups", error="NOT_COORDINATOR", times=-1)
def test_with_it(kafka_broker):
    assert code_of(kafka_broker) == 16

def test_without_it(kafka_broker):
    assert code_of(kafka_broker) == 0
"""


def test_a_fault_by_a_marker_lasts_as_long_as_its_test(tmp_path: Path) -> None:
    ran = run(tmp_path, FAULTS, "-o", "kafka_broker_scope=session", "-o", f"pythonpath={Path(__file__).parents[1]}")
    assert ran.returncode == 0, ran.stdout


@pytest.mark.parametrize(
    ("test", "said"),
    [
        (
            "@pytest.mark.kafka_fault(api='Fetch', hold=True)\ndef test_it(): pass",
            "breaks kafka_broker, which this test does not use",
        ),
        ("@pytest.mark.kafka_fault(apy='Fetch')\ndef test_it(kafka_broker): pass", "did you mean api?"),
        ("@pytest.mark.kafka_fault('Fetch', hold=True)\ndef test_it(kafka_broker): pass", "takes settings as keywords"),
        ("@pytest.mark.kafka_fault(api='Fetc', hold=True)\ndef test_it(kafka_broker): pass", "did you mean Fetch?"),
    ],
)
def test_a_fault_that_is_none_is_said(tmp_path: Path, test: str, said: str) -> None:
    ran = run(tmp_path, f"import pytest\n{test}\n")
    assert ran.returncode != 0
    assert said in ran.stdout


RESET = """
import pytest, socket

SEEN = []

@pytest.fixture
def seeded(kafka_broker):
    kafka_broker.create_topic("seeded")

@pytest.mark.parametrize("round", range(3))
def test_it_is_empty(kafka_broker, seeded, kafka_topic, round):
    SEEN.append((kafka_broker.port, kafka_broker.cluster_id))
    assert [path.name for path in kafka_broker.data_dir.glob("test_it*-0")] == [f"{kafka_topic}-0"]
    kafka_broker.clock.advance(days=1)
    assert abs(kafka_broker.clock.now_ms / 1000 - __import__("time").time() - 86400) < 60

def test_who_does_not_use_it_resets_nothing(): pass

def test_it_was_one_broker():
    assert len(set(SEEN)) == 1 and len(SEEN) == 3
"""


def test_a_shared_broker_is_reset_between_tests_if_that_is_wanted(tmp_path: Path) -> None:
    ran = run(tmp_path, RESET, "-o", "kafka_broker_scope=session", "-o", "kafka_broker_reset=true")
    assert ran.returncode == 0, ran.stdout


@pytest.mark.kafka_topic(partitions=3, cleanup_policy=["compact", "delete"])
def test_a_topic_of_its_own(kafka_broker: Broker, kafka_topic: str) -> None:
    made = sorted(path.name for path in kafka_broker.data_dir.glob(f"{kafka_topic}-*"))
    assert made == [f"{kafka_topic}-{partition}" for partition in range(3)]
    assert kafka_topic.startswith("test_a_topic_of_its_own-")


FAILS = """
import asyncio, pytest
from ottla.wire.messages import list_groups
from tests.server.testkit.python.test_handles import asked, code_of

@pytest.mark.parametrize("round", range(2))
def test_it_fails(kafka_broker, round):
    with kafka_broker.fault(api="ListGroups", error="NOT_COORDINATOR"):
        assert code_of(kafka_broker) == 0

@pytest.fixture
def broken(kafka_broker):
    code_of(kafka_broker)
    raise RuntimeError("before the test")

def test_its_fixture_fails(broken): pass

def test_it_passes(kafka_broker):
    assert len(kafka_broker.requests(api="ListGroups")) == {seen}
"""


def sections(output: str) -> list[str]:
    """Returns what the reports of failed tests say of their brokers."""
    return [part.split("\n___", 1)[0].split("\n===", 1)[0] for part in output.split(" kafka_broker -----")[1:]]


@pytest.mark.parametrize(("scope", "seen"), [("function", 0), ("session", 3)])
def test_a_failure_is_reported_with_what_the_broker_saw_of_the_test(tmp_path: Path, scope: str, seen: int) -> None:
    here = ("-o", f"kafka_broker_scope={scope}", "-o", f"pythonpath={Path(__file__).parents[1]}")
    ran = run(tmp_path, FAILS.replace("{seen}", str(seen)), *here)
    assert "2 failed, 1 passed, 1 error" in ran.stdout, ran.stdout
    first, second, fixture = sorted(sections(ran.stdout), key=lambda section: "fault" not in section)
    for section, fault in ((first, "f1"), (second, "f1" if scope == "function" else "f2")):
        assert section.count("ListGroups v2  answered") == 1
        assert section.count("\nfault ") == 1
        assert f"fault {fault}, over: 1 hits in 1 matches" in section
        assert f"by fault {fault}  NOT_COORDINATOR" in section
    assert fixture.count("ListGroups v2  answered") == 1
    assert "fault" not in fixture


SILENT = """
def test_it(kafka_broker):
    assert 0

def test_stopped(kafka_broker):
    kafka_broker.stop()
    assert 0
"""


def test_a_broker_that_has_nothing_to_say_is_not_in_the_report(tmp_path: Path) -> None:
    ran = run(tmp_path, SILENT)
    assert "2 failed" in ran.stdout, ran.stdout
    (stopped,) = sections(ran.stdout)
    assert "the broker does not say what happened: RuntimeError" in stopped

"""The matrix of which tests stand for which capability of which client. A cell of the matrix shows their outcomes, and nothing
else.

A pattern is searched in `<file>::<name>`, as in `test_go.py::TestFranz::test_every_codec[ottla]`. A cell without tests says why:
the client cannot do it, or it is tested elsewhere. A pattern that finds no test at all is an error of this table
(tests/scripts/test_compat_report.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from scripts.compat_report.results import KINDS, PASSED, Test

CAPABILITIES: Final = (
    "produce and consume",
    "every codec",
    "idempotent producer",
    "groups",
    "groups of KIP-848",
    "transactions",
    "administration",
    "share groups",
)


@dataclass(frozen=True)
class Without:
    """A cell that has no test, and why."""

    why: str


CANNOT: Final = Without("the client does not have it")
BELOW: Final = Without("the Java client below it does this, and is tested separately")
JAVA: Final = Without("built on the Java client, which is tested separately")
_ROUND: Final = "test_a_record_comes_back|test_consumes_from"


def _program(file: str, owner: str, **without: Without) -> dict[str, str | Without]:
    """Returns a client of compat_tests/programs.py: the jobs of client_jobs.py."""
    at = rf"^{file}::{owner}::"
    names = "topics|settings|offsets_and|offsets_of|the_cluster|single_offsets|bytes_in|what_one_broker"
    cells: dict[str, str | Without] = {
        "produce and consume": at + f"({_ROUND})",
        "every codec": at + "test_every_codec",
        "idempotent producer": at + "(test_every_codec|test_a_record_comes_back)",
        "groups": at + "test_two_members_of_a_group",
        "groups of KIP-848": CANNOT,
        "transactions": at + "(test_transactions|test_reads_what_is_committed)",
        "administration": at + f"test_({names})",
        "share groups": CANNOT,
    }
    return cells | {name.replace("_", " "): reason for name, reason in without.items()}


CLIENTS: Final[Mapping[str, Mapping[str, str | Without]]] = {
    "Java client 4.3.1": {
        "produce and consume": r"^test_java\.py::test_(a_record_larger|consuming|broker_time)",
        "every codec": r"^test_java\.py::test_records_come_back",
        "idempotent producer": r"^test_java\.py::test_records_come_back",
        "groups": r"^test_java\.py::test_(a_group|a_static|a_second|a_pattern)",
        "groups of KIP-848": r"^test_consumer_protocol\.py::.*java|^test_consumer_protocol\.py::test_members_die",
        "transactions": r"^test_transactions\.py::|^test_apache_transactions\.py::",
        "administration": r"^test_java\.py::test_(groups|group_off|topics|settings|records_are|the_|log|producers|leaders)",
        "share groups": r"^test_share_consumers\.py::",
    },
    "Apache's tools": {
        "produce and consume": r"^test_apache_(tools|admin)\.py::test_(console|verifiable|performance)",
        "every codec": JAVA,
        "idempotent producer": r"^test_apache_tools\.py::test_verifiable_producer",
        "groups": r"^test_apache_tools\.py::test_(consumer_groups|offsets)",
        "groups of KIP-848": r"^test_apache_tools\.py::test_consumer_groups",
        "transactions": r"test_a_transaction_that_hangs|test_the_tool_shows_transactions",
        "administration": r"^test_apache_admin\.py::|^tools_diff/",
        "share groups": r"test_the_console_share_consumer",
    },
    "librdkafka (confluent-kafka)": {
        "produce and consume": r"^test_confluent\.py::test_(a_record|large|many|assign)",
        "every codec": r"^test_confluent\.py::test_every_codec",
        "idempotent producer": r"^test_confluent\.py::test_(every_codec|kill_9)",
        "groups": r"^test_confluent\.py::test_(a_group|cooperative|a_static)",
        "groups of KIP-848": r"^test_consumer_protocol\.py::.*librdkafka",
        "transactions": r"test_read_committed\.py::.*confluent|test_reads_what_is_committed",
        "administration": r"^test_confluent\.py::test_(topics|configs|records|groups)",
        "share groups": r"^test_share_confluent\.py::",
    },
    "kcat": {
        "produce and consume": r"^test_kcat\.py::test_(consuming|metadata|producing)",
        "every codec": r"^test_kcat\.py::test_records_come_back",
        "idempotent producer": r"^test_kcat\.py::test_records_come_back",
        "groups": r"^test_kcat\.py::test_a_(group|static)",
        "groups of KIP-848": Without("built with an older librdkafka"),
        "transactions": CANNOT,
        "administration": CANNOT,
        "share groups": CANNOT,
    },
    "kafka-python": {
        "produce and consume": r"^test_kafka_python\.py::test_(a_record|acks|keys|assign|an_off)|suites\.py::.*test_consumer_int",
        "every codec": r"^test_kafka_python\.py::test_every_codec|suites\.py::.*end_to_end",
        "idempotent producer": r"suites\.py::.*test_idempotent",
        "groups": r"^test_kafka_python\.py::test_(a_group|committed|a_static)|suites\.py::.*test_group",
        "groups of KIP-848": CANNOT,
        "transactions": r"suites\.py::.*test_transactional|test_read_committed\.py::.*kafka_python",
        "administration": r"^test_kafka_python\.py::test_(topic|deleted|groups)|suites\.py::.*test_admin_int",
        "share groups": CANNOT,
    },
    "aiokafka": {
        "produce and consume": r"^test_aiokafka\.py::test_(a_record|assign)",
        "every codec": r"^test_aiokafka\.py::test_records_come_back",
        "idempotent producer": r"^test_aiokafka\.py::test_records_come_back",
        "groups": r"^test_aiokafka\.py::test_(a_group|a_static|commits)",
        "groups of KIP-848": CANNOT,
        "transactions": r"test_read_committed\.py::.*aiokafka",
        "administration": r"^test_aiokafka\.py::test_(topics|settings|records_are)",
        "share groups": CANNOT,
    },
    "franz-go": _program(r"test_go\.py", "TestFranz") | {"groups of KIP-848": r"^test_consumer_protocol\.py::.*franz"},
    "sarama": _program(r"test_go\.py", "TestSarama"),
    "segmentio/kafka-go": _program(
        r"test_go\.py",
        "TestKafkaGo",
        idempotent_producer=CANNOT,
        transactions=Without("it has no transactional producer; its readers do meet markers"),
    ),
    "kafkajs": _program(r"test_node\.py", "TestKafkaJs"),
    "@platformatic/kafka": _program(r"test_node\.py", "TestPlatformatic"),
    "rdkafka (Rust)": _program(r"test_rust\.py", "TestRdkafka"),
    "Kafka Streams": {
        "produce and consume": r"^test_streams\.py::",
        "every codec": BELOW,
        "idempotent producer": r"^test_streams\.py::",
        "groups": r"^test_streams\.py::.*classic",
        "groups of KIP-848": r"^test_streams(_groups)?\.py::(?!.*classic)",
        "transactions": r"^test_streams\.py::",
        "administration": BELOW,
        "share groups": CANNOT,
    },
    "Kafka Connect": {
        "produce and consume": r"^test_connect\.py::",
        "every codec": BELOW,
        "idempotent producer": r"^test_connect\.py::test_a_source_writes",
        "groups": r"^test_connect\.py::",
        "groups of KIP-848": CANNOT,
        "transactions": r"^test_connect\.py::test_a_source_writes",
        "administration": BELOW,
        "share groups": CANNOT,
    },
    "Spark": {
        "produce and consume": r"^test_spark\.py::",
        "every codec": BELOW,
        "idempotent producer": BELOW,
        "groups": Without("Spark assigns partitions itself"),
        "groups of KIP-848": Without("Spark assigns partitions itself"),
        "transactions": r"^test_spark\.py::test_read_committed",
        "administration": r"^test_spark\.py::test_subscribe_pattern",
        "share groups": CANNOT,
    },
}


@dataclass(frozen=True)
class Cell:
    """The outcomes of the tests of one capability, counted for each kind of broker as (passed, of)."""

    tests: tuple[Test, ...]
    why: str = ""

    def counts(self, kind: str) -> tuple[int, int]:
        outcomes = [test.outcome for test in self.tests if test.kind == kind]
        return outcomes.count(PASSED), len(outcomes)

    @property
    def holds(self) -> bool:
        """Returns whether every test passes against both brokers."""
        return all(passed == of > 0 for passed, of in map(self.counts, KINDS))

    @property
    def mark(self) -> str:
        """The mark of the line: good, bad, or part (nothing failed, but it was not run against both brokers)."""
        if any(test.outcome != PASSED for test in self.tests if test.kind):
            return "bad"
        return "good" if self.holds else "part"

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(f"{test.file}::{test.plain}" for test in self.tests))


def cell(tests: tuple[Test, ...], wanted: str | Without) -> Cell:
    if isinstance(wanted, Without):
        return Cell((), wanted.why)
    pattern = re.compile(wanted)
    return Cell(tuple(test for test in tests if pattern.search(f"{test.file}::{test.name}")))


def cells(tests: tuple[Test, ...]) -> dict[str, dict[str, Cell]]:
    return {client: {name: cell(tests, wanted[name]) for name in CAPABILITIES} for client, wanted in CLIENTS.items()}

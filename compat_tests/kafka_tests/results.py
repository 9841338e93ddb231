"""The outcomes of Kafka's own tests, as a file: compat_tests/kafka_tests/results.json, which scripts/kafka_tests.py writes.

A list of rows, one a case, sorted by class and case: {"class", "case", "brokers", "kafka", "ottla", "reason", "seconds"}.

- `kafka`: passed, failed or excluded; null where it was not run. `ottla`: the same.
- `reason`: why a case is out of the denominator, in words where we looked (OUT), or what failed; "" where both passed.
- `brokers`: how many the test asked for, or controllers where these are more; it got one.
- `seconds`: how long the case took with the broker that ran it last.

Beside it, results.run.json has the date and the commit of the run that last wrote it (compat_tests/provenance.py).

The denominator is what Apache Kafka 4.4.0 passes through this harness. Cases that make no cluster at all are not in the file.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from compat_tests.kafka_tests.runner import JARS, Case
from compat_tests.provenance import stamp
from compat_tests.reference import maven

RESULTS: Final = Path(__file__).parent / "results.json"
SEVERAL: Final = Path(__file__).parent / "several.json"
"""The same for cases that ask for several brokers and get them: those that do not pass with one."""
SETS: Final = {
    "clients": "kafka-clients-integration-tests-4.3.1-test.jar",
    "tools": "kafka-tools-4.3.1-test.jar",
    "streams": "kafka-streams-integration-tests-4.3.1-test.jar",
}
_OF_CLUSTERS: Final = (b"ClusterInstance", b"EmbeddedKafkaCluster")
_BASES: Final = ("AbstractJoinIntegrationTest", "AbstractResetIntegrationTest")
_OLDER: Final = "a test of 4.3 expects texts, versions or settings that 4.4 has changed"
_APART: Final = "needs a controller on a node of its own"
_SAME_JVM: Final = "needs the broker's metrics or loggers in the JVM of the test"
OUT: Final = {
    r"BrokerApiVersionsCommandTest#testBrokerApiVersionsCommandOutput": _OLDER,
    r"ConfigCommandIntegrationTest#testAlterStreamsGroup": _OLDER,
    r"FeatureCommandTest#test(DescribeWithKRaft|DowngradeMetadataVersionWithKRaft)": _OLDER,
    r"MetadataVersionIntegrationTest#testDefaultIsLatestVersion": _OLDER,
    r"StaticBrokerConfigTest#testInternalConfigs": _OLDER,
    r"(DescribeFeatures|FeatureCommand)Test#test\w*Unstable": _OLDER,
    r"DescribeFeaturesTest#testSendRequestToWrongNodeType": _APART,
    r"MetadataQuorumCommandTest#testDescribeQuorumReplicationSuccessful\[1\]": "needs two controllers",
    r"MetadataQuorumCommandTest#testDescribeQuorum\w+Successful\[3\]": "needs two brokers that are controllers, too",
    r"StaticBrokerConfigTest#testTopicConfigsGetImpacted": _APART,
    r"ResetIntegrationWithSslTest#": "needs a listener with SSL, and a library that creates keys",
    r"ConfigCommandIntegrationTest#testBrokerLoggerConfigUpdate": _SAME_JVM,
    r"MetricsDuringTopicCreationDeletionTest#": _SAME_JVM,
    r"ShareConsumerTest#testRenewAcknowledgement(InvalidStateRecord|NoResultInPoll)": _SAME_JVM,
}
"""The reasons why Kafka fails cases that ask for one broker."""
BY_CHANCE: Final = {
    r"\.PlaintextConsumerTest#test(Classic|Async)Consumer?CoordinatorFailover": (
        "needs a second broker: it stops the only one and commits, which works only if the consumer has no position yet"
    ),
    r"\.ProducerFailureHandlingTest#testNotEnoughReplicasAfterBrokerShutdown": (
        "needs 2 brokers; with one, it ends in time only by chance"
    ),
}
"""Cases that ask for several brokers and, with one, pass now and then with either kind: they are out."""

Row = dict[str, Any]


def classes(name: str) -> list[str]:
    """The test classes of a set that make clusters. Raises MavenFailed."""
    found = []
    with zipfile.ZipFile(maven.jar_dir(JARS) / SETS[name]) as jar:
        for entry in jar.namelist():
            simple = entry.rpartition("/")[2].removesuffix(".class")
            if not entry.endswith("Test.class") or "$" in entry or simple in _BASES:
                continue
            if any(word in jar.read(entry) for word in _OF_CLUSTERS):
                found.append(entry.removesuffix(".class").replace("/", "."))
    return sorted(found)


def load(path: Path = RESULTS) -> list[Row]:
    rows: list[Row] = json.loads(path.read_text()) if path.exists() else []
    return rows


def merged(rows: list[Row], kind: str, cases: Iterable[Case], *, several: bool = False) -> list[Row]:
    """Returns the rows with the results of a run against one kind of broker; with `several`, cases got all that they ask for."""
    table = {(row["class"], row["case"]): row for row in rows}
    for case in cases:
        if case.brokers == 0 and not case.owner.startswith("org.apache.kafka.streams.") and case.case:
            table.pop((case.owner, case.case), None)
            continue
        empty: Row = {"class": case.owner, "case": case.case, "brokers": max(1, case.brokers), "kafka": None, "ottla": None}
        row = table.setdefault((case.owner, case.case), empty | {"reason": "", "seconds": 0.0})
        row[kind], row["seconds"] = case.result, case.seconds
        became = {row["kafka"], row["ottla"]}
        if case.result == "excluded" or (case.result == "failed" and "excluded" not in became):
            row["reason"] = _why(case, kafka_failed=row["kafka"] == "failed", several=several)
        elif not became & {"failed", "excluded"}:
            row["reason"] = ""
        row["brokers"] = max(1, case.brokers, row["brokers"])
        for pattern, why in () if several else BY_CHANCE.items():
            if re.search(pattern, case.name):
                row["kafka"], row["ottla"], row["reason"] = "excluded", "excluded", why
    return [table[key] for key in sorted(table)]


def _why(case: Case, *, kafka_failed: bool, several: bool) -> str:
    for pattern, why in OUT.items():
        if kafka_failed and re.search(pattern, case.name):
            return why
    many = (
        f"needs {case.brokers} brokers or controllers; " if case.brokers > 1 and case.result == "failed" and not several else ""
    )
    return many + " ".join(case.reason.split())[:200]


def save(rows: list[Row], path: Path = RESULTS) -> None:
    path.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


def keep(kind: str, cases: Iterable[Case], path: Path = RESULTS) -> list[Row]:
    """Merges what became of cases into the file, which other runs may write as well; the rows it has now."""
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        rows = merged(load(path), kind, cases, several=path.name == SEVERAL.name)
        whole = path.with_suffix(".partial")
        save(rows, whole)
        whole.replace(path)
        path.with_suffix(".run.json").write_text(json.dumps(stamp()) + "\n")
    finally:
        os.close(directory)
    return rows


def of_several(rows: list[Row]) -> list[Row]:
    """Returns which cases are worth several brokers: those that ask for them, and with one fail or cannot be run for that."""
    return [
        row
        for row in rows
        if row["brokers"] > 1 and (row["kafka"] == "failed" or re.search("second broker|brokers;", row["reason"]))
    ]


def wanted(row: Row) -> bool:
    """Returns whether the case is of the denominator."""
    return bool(row["kafka"] == "passed")

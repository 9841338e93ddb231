"""The command-line tools of Apache Kafka 4.3.1 (the Java client underneath), against ottla and against Apache Kafka.

Each call is a JVM of its own, so a test makes few of them and looks at all they say.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat_tests.brokers import Address
from compat_tests.reference import jvm
from compat_tests.reference.kafka import BrokerProcess
from compat_tests.waiting import wait_for
from compat_tests.wire import Wire

TOOL_TIMEOUT_S = 60
CLASSES = {
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "replica-verification": "org.apache.kafka.tools.ReplicaVerificationTool",
    "verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
}


def java(tool: str) -> list[str]:
    return [*jvm.java("kafka-tools", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"), CLASSES[tool]]


class Tools:
    """The tools pointed at one broker."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def command(self, tool: str, *arguments: str) -> list[str]:
        return [*java(tool), "--bootstrap-server", self.bootstrap, *arguments]

    def run(self, tool: str, *arguments: str, stdin: str = "", fails: bool = False) -> str:
        """Returns what the tool prints. Its exit code must say whether it failed."""
        done = subprocess.run(
            self.command(tool, *arguments), input=stdin, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False
        )
        assert (done.returncode != 0) == fails, f"{tool} {arguments}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr


@pytest.fixture
def tools(bootstrap: str) -> Tools:
    return Tools(bootstrap)


def test_topics(tools: Tools, unique: Callable[[str], str]) -> None:
    name = unique("at-topics")
    made = tools.run("topics", "--create", "--topic", name, "--partitions", "3", "--config", "retention.ms=60000")
    assert f"Created topic {name}" in made
    described = tools.run("topics", "--describe", "--topic", name)
    assert re.search(r"PartitionCount:\s*3\s+ReplicationFactor:\s*1\s+Configs:\s*.*retention\.ms=60000", described), described
    assert len(re.findall(r"Partition:\s*\d\s+Leader:\s*1\s+Replicas:\s*1\s+Isr:\s*1", described)) == 3, described
    assert "already exists" in tools.run("topics", "--create", "--topic", name, fails=True)
    tools.run("topics", "--alter", "--topic", name, "--partitions", "5")
    wait_for(lambda: "PartitionCount: 5" in tools.run("topics", "--describe", "--topic", name), "five partitions")
    tools.run("topics", "--delete", "--topic", name)
    wait_for(lambda: name not in tools.run("topics", "--list").split(), "the topic is gone")


def test_console_producer_and_consumer(tools: Tools, unique: Callable[[str], str]) -> None:
    """Keys, headers, null values and a codec; then a read from the beginning and one of a single partition from an offset."""
    name, lines = unique("at-console"), [f"h:{n}\tk{n % 3}\tvalue {n}" for n in range(50)] + ["h:x\tk0\tNULL"]
    tools.run("topics", "--create", "--topic", name, "--partitions", "2")
    properties = ["parse.headers=true", "parse.key=true", "null.marker=NULL"]
    sending = ["--topic", name, "--compression-codec", "zstd", "--producer-property", "linger.ms=50"]
    tools.run("console-producer", *sending, *(f"--property={p}" for p in properties), stdin="\n".join(lines) + "\n")
    shown = ["print.headers=true", "print.key=true", "null.literal=NULL"]
    reading = ["--topic", name, "--from-beginning", "--max-messages", str(len(lines)), "--timeout-ms", "30000"]
    output = tools.run("console-consumer", *reading, *(f"--property={p}" for p in shown))
    assert sorted(line for line in output.splitlines() if line.startswith("h:")) == sorted(lines)
    offsets = tools.run("get-offsets", "--topic", name)
    ends = {int(p): int(end) for p, end in re.findall(rf"{name}:(\d+):(\d+)", offsets)}
    assert sum(ends.values()) == len(lines)
    partition = max(ends, key=lambda p: ends[p])
    last = ["--topic", name, "--partition", str(partition), "--offset", str(ends[partition] - 2), "--max-messages", "2"]
    output = tools.run("console-consumer", *last, "--timeout-ms", "30000")
    assert "Processed a total of 2 messages" in output


@pytest.fixture
def member(tools: Tools, unique: Callable[[str], str]) -> Iterator[str]:
    """The group of a console consumer that reads a topic of twenty records."""
    topic, group = unique("at-groups"), unique("at-group")
    tools.run("topics", "--create", "--topic", topic, "--partitions", "2")
    tools.run("console-producer", "--topic", topic, stdin="".join(f"m{n}\n" for n in range(20)))
    reading = ["--topic", topic, "--group", group, "--from-beginning", "--consumer-property", "auto.commit.interval.ms=200"]
    classic = ["--consumer-property", "group.protocol=classic"]
    command = tools.command("console-consumer", *reading, *classic)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # it prints only when it ends
    try:
        yield group
    finally:
        process.terminate()
        process.wait(30)


def lags(text: str) -> dict[int, tuple[str, str, str]]:
    """Partition -> (current offset, end offset, lag) of a group's description."""
    rows = [line.split() for line in text.splitlines() if re.match(r"at-group-\S+\s+at-groups-\S+\s+\d", line)]
    return {int(row[2]): (row[3], row[4], row[5]) for row in rows}


def test_consumer_groups_of_a_living_member(tools: Tools, member: str) -> None:
    group = member

    def committed() -> bool:
        found = lags(tools.run("consumer-groups", "--describe", "--group", group))
        return len(found) == 2 and sum(int(end) for _, end, lag in found.values() if lag == "0") == 20

    wait_for(lambda: group in tools.run("consumer-groups", "--list"), "the member is there")
    wait_for(committed, "everything is committed")
    members = tools.run("consumer-groups", "--describe", "--group", group, "--members")
    assert re.search(rf"{group}\s+console-consumer-\S+\s+/127\.0\.0\.1\s+console-consumer\s+2", members), members
    state = tools.run("consumer-groups", "--describe", "--group", group, "--state")
    assert re.search(r"127\.0\.0\.1:\d+\s*\(1\)\s+range\s+Stable\s+1", state), state
    assert "GroupNotEmptyException" in tools.run("consumer-groups", "--delete", "--group", group)


def test_offsets_are_reset_and_the_group_deleted(tools: Tools, unique: Callable[[str], str]) -> None:
    topic, group = unique("at-groups"), unique("at-group")
    tools.run("topics", "--create", "--topic", topic, "--partitions", "2")
    tools.run("console-producer", "--topic", topic, "--producer-property", "partitioner.ignore.keys=true", stdin="a\nb\nc\nd\n")
    where = ["--reset-offsets", "--group", group, "--topic", topic]
    tools.run("consumer-groups", *where, "--to-latest", "--execute")
    found = lags(tools.run("consumer-groups", "--describe", "--group", group))
    assert sum(int(current) for current, _, _ in found.values()) == 4
    tools.run("consumer-groups", *where, "--shift-by", "-1", "--execute")
    tools.run("consumer-groups", *where, "--to-earliest", "--execute")
    found = lags(tools.run("consumer-groups", "--describe", "--group", group))
    assert {current for current, _, _ in found.values()} == {"0"}
    assert "successful" in tools.run("consumer-groups", "--delete", "--group", group)
    assert "GroupIdNotFoundException" in tools.run("consumer-groups", "--describe", "--group", group)  # with exit code 0


def test_verifiable_producer(tools: Tools, unique: Callable[[str], str]) -> None:
    """Sends the rest when its process is ended, so it needs a process of its own."""
    topic = unique("at-verifiable")
    tools.run("topics", "--create", "--topic", topic)
    said = tools.run("verifiable-producer", "--topic", topic, "--max-messages", "30", "--acks", "-1", "--value-prefix", "7")
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    sent = [(line["value"], line["offset"]) for line in lines if line["name"] == "producer_send_success"]
    assert sent == [(f"7.{n}", n) for n in range(30)]
    (summary,) = [line for line in lines if line["name"] == "tool_data"]
    assert (summary["sent"], summary["acked"]) == (30, 30)


def test_delete_records_and_broker_api_versions(tools: Tools, unique: Callable[[str], str], tmp_path: Path) -> None:
    name, request = unique("at-delete"), tmp_path / "delete.json"
    tools.run("topics", "--create", "--topic", name)
    tools.run("console-producer", "--topic", name, stdin="a\nb\nc\nd\n")
    request.write_text(json.dumps({"partitions": [{"topic": name, "partition": 0, "offset": 3}], "version": 1}))
    assert re.search(r"low_watermark:\s*3", tools.run("delete-records", "--offset-json-file", str(request)))
    output = tools.run("console-consumer", "--topic", name, "--from-beginning", "--timeout-ms", "30000", "--max-messages", "1")
    assert "d" in output.split()
    versions = tools.run("broker-api-versions")
    assert re.search(r"Fetch\(1\): 4 to 18", versions), versions
    assert re.search(r"Produce\(0\): 0 to 13", versions), versions


def test_a_transaction_that_hangs_is_found_and_aborted(fresh_broker: Callable[..., BrokerProcess], kind: str) -> None:
    """Written without a coordinator, which could end it; the tool sends the marker itself (KIP-664)."""
    broker = fresh_broker(transaction_partition_verification_enable="false")
    assert broker.process is not None
    wire = Wire(Address(kind, broker.port, broker.process.pid, str(broker.log_file)), "hanging")
    try:
        wire.warm_up()
        topic, producer_id = wire.leave_hanging()
        tools, where = Tools(broker.bootstrap), ("--topic", topic, "--partition", "0")

        def described() -> dict[str, str]:
            names, values = (line.split() for line in tools.run("transactions", "describe-producers", *where).splitlines()[-2:])
            return dict(zip(names, values, strict=True))

        before = described()
        assert (before["ProducerId"], before["ProducerEpoch"], before["LastSequence"]) == (str(producer_id), "4", "1")
        assert before["CurrentTransactionStartOffset"] == "1"
        assert wire.fetch(topic, isolation_level=1).responses[0].partitions[0].last_stable_offset == 1
        tools.run("transactions", "abort", *where, "--start-offset", "1")
        assert described()["CurrentTransactionStartOffset"] == "None"
        (data,) = wire.fetch(topic, isolation_level=1).responses[0].partitions
        assert (data.last_stable_offset, [each.first_offset for each in data.aborted_transactions]) == (4, [1])
    finally:
        wire.close()

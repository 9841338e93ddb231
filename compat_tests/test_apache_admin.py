"""The rest of Apache's command-line tools, 4.3.1, against ottla and against Apache Kafka.

test_apache_tools.py runs some as processes, as a user does; here one JVM (compat_tests/java/Tools.java) serves all calls, so that
they can be asked for all they can say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests.java_client import Java, running
from compat_tests.times import TODAY_MS
from compat_tests.waiting import wait_for

Unique = Callable[[str], str]
TOOLS = "org.apache.kafka.tools"
CLASSES = {
    "broker-api-versions": f"{TOOLS}.BrokerApiVersionsCommand",
    "cluster": f"{TOOLS}.ClusterTool",
    "configs": "kafka.admin.ConfigCommand",
    "console-consumer": f"{TOOLS}.consumer.ConsoleConsumer",
    "console-producer": f"{TOOLS}.ConsoleProducer",
    "consumer-groups": f"{TOOLS}.consumer.group.ConsumerGroupCommand",
    "consumer-perf-test": f"{TOOLS}.ConsumerPerformance",
    "delete-records": f"{TOOLS}.DeleteRecordsCommand",
    "get-offsets": f"{TOOLS}.GetOffsetShell",
    "leader-election": f"{TOOLS}.LeaderElectionCommand",
    "log-dirs": f"{TOOLS}.LogDirsCommand",
    "metadata-quorum": f"{TOOLS}.MetadataQuorumCommand",
    "producer-perf-test": f"{TOOLS}.ProducerPerformance",
    "reassign-partitions": f"{TOOLS}.reassign.ReassignPartitionsCommand",
    "topics": f"{TOOLS}.TopicCommand",
    "verifiable-consumer": f"{TOOLS}.VerifiableConsumer",
}


@pytest.fixture(scope="module")
def jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    with running(tmp_path_factory.mktemp("tools"), "Tools", "kafka-tools") as java:
        yield java


class Tools:
    """The tools pointed at one broker."""

    def __init__(self, jvm: Java, bootstrap: str) -> None:
        self.jvm, self.bootstrap = jvm, bootstrap

    def run(self, tool: str, *arguments: str, stdin: str = "", fails: bool = False) -> str:
        """Returns what the tool prints. Its exit code must say whether it failed."""
        where = ["--bootstrap-server", self.bootstrap]
        # The cluster tool wants the address behind its subcommand, the quorum's before it; the others do not mind.
        given = [*arguments, *where] if tool == "cluster" else [*where, *arguments]
        done = self.call(tool, given, stdin)
        assert (done["exit"] != 0) == fails, f"{tool} {arguments}: exit {done['exit']}\n{done['output']}"
        return str(done["output"])

    def call(self, tool: str, arguments: list[str], stdin: str = "") -> Any:
        """Returns the exit code and what the tool prints."""
        return self.jvm.call("tool", **{"class": CLASSES[tool]}, arguments=arguments, stdin=stdin)

    def topic(self, name: str, partitions: int = 2, values: int = 0) -> str:
        """A new topic whose partitions answer (what acks=0 sends before is lost), with `values` records by key `k<n>`. A broker
        of Kafka's may not know it yet when it is created; then the tool fails."""
        self.run("topics", "--create", "--topic", name, "--partitions", str(partitions))
        asked = ["--bootstrap-server", self.bootstrap, "--topic", name]
        wait_for(lambda: len(offsets(self.call("get-offsets", asked)["output"])) == partitions, "the partitions answer")
        lines = "".join(f"k{n}\tv{n}\n" for n in range(values))
        if values:
            self.run("console-producer", "--topic", name, "--reader-property", "parse.key=true", stdin=lines)
        return name

    def ends(self, topic: str) -> dict[int, int]:
        return offsets(self.run("get-offsets", "--topic", topic))


def offsets(text: str) -> dict[int, int]:
    """Partition -> offset of what get-offsets prints."""
    return {int(p): int(offset) for p, offset in re.findall(r"^\S+:(\d+):(-?\d+)$", text, re.MULTILINE)}


def rows(text: str, *starting: str) -> list[list[str]]:
    """The lines of a table whose first columns are these, as words."""
    return [line.split() for line in text.splitlines() if line.split()[: len(starting)] == list(starting)]


@pytest.fixture
def tools(jvm: Java, bootstrap: str) -> Tools:
    return Tools(jvm, bootstrap)


def test_configs_of_a_topic(tools: Tools, unique: Unique) -> None:
    topic = tools.topic(unique("aa-configs"))
    own = ["--entity-type", "topics", "--entity-name", topic]
    tools.run("configs", "--alter", *own, "--add-config", "retention.ms=1234567,cleanup.policy=[compact,delete]")
    wait_for(lambda: "retention.ms=1234567" in tools.run("configs", "--describe", *own), "the settings are there")
    described = tools.run("configs", "--describe", *own)
    assert (
        "cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, "
        in described
    )
    assert "DEFAULT_CONFIG:log.cleanup.policy=delete}" in described
    tools.run("configs", "--alter", *own, "--delete-config", "cleanup.policy")
    wait_for(lambda: "cleanup.policy" not in tools.run("configs", "--describe", *own), "one setting is back at its default")
    everything = tools.run("configs", "--describe", *own, "--all")
    assert "segment.bytes=1073741824 sensitive=false synonyms={DEFAULT_CONFIG:log.segment.bytes=1073741824}" in everything
    refused = tools.run("configs", "--alter", *own, "--add-config", "retention.ms=soon", fails=True)
    assert "InvalidConfigurationException" in refused
    assert "InvalidConfigurationException" in tools.run("configs", "--alter", *own, "--add-config", "no.such=1", fails=True)
    absent = ["--entity-type", "topics", "--entity-name", unique("aa-absent")]
    assert "UnknownTopicOrPartition" in tools.run("configs", "--alter", *absent, "--add-config", "retention.ms=1", fails=True)


def test_configs_of_brokers_and_groups(tools: Tools, unique: Unique) -> None:
    """Changed on the shared broker: so a setting that no topic shows, and a value that no other test can feel."""
    group, changed = unique("aa-group"), "producer.id.expiration.ms=86399999"
    for entity, level in ((["--broker", "1"], "BROKER"), (["--broker-defaults"], "DEFAULT_BROKER")):
        tools.run("configs", "--alter", *entity, "--add-config", changed)
        wanted = f"{changed} sensitive=false synonyms={{DYNAMIC_{level}_CONFIG:{changed}"
        wait_for(lambda: wanted in tools.run("configs", "--describe", *entity), f"{entity} has the setting")  # noqa: B023 - called within the round
        tools.run("configs", "--alter", *entity, "--delete-config", "producer.id.expiration.ms")
        wait_for(lambda: changed not in tools.run("configs", "--describe", *entity), f"{entity} has it no more")  # noqa: B023 - as above
    assert "node.id=1 " in tools.run("configs", "--describe", "--broker", "1", "--all")
    assert "InvalidRequestException" in tools.run("configs", "--alter", "--broker", "1", "--add-config", "node.id=2", fails=True)
    tools.run("configs", "--alter", "--group", group, "--add-config", "consumer.session.timeout.ms=50000")
    wait_for(lambda: "DYNAMIC_GROUP_CONFIG" in tools.run("configs", "--describe", "--group", group), "the group has the setting")
    for kind in ("users", "clients", "ips"):
        assert tools.run("configs", "--describe", "--entity-type", kind) == ""
    tools.run("configs", "--describe", "--entity-type", "client-metrics")  # other tests have some


def test_get_offsets(tools: Tools, unique: Unique, tmp_path: Path) -> None:
    topic = tools.topic(unique("aa-offsets"), 3, 30)
    ends = tools.ends(topic)
    assert sum(ends.values()) == 30
    asked = ["get-offsets", "--topic", topic, "--time"]
    assert offsets(tools.run(*asked, "earliest")) == offsets(tools.run(*asked, "-2")) == {0: 0, 1: 0, 2: 0}
    assert offsets(tools.run(*asked, "latest")) == ends
    assert offsets(tools.run(*asked, "earliest-local")) == {0: 0, 1: 0, 2: 0}
    newest = offsets(tools.run(*asked, "max-timestamp"))
    assert all(0 <= newest[p] < ends[p] for p in ends)
    assert offsets(tools.run(*asked, str(TODAY_MS))) == {0: 0, 1: 0, 2: 0}
    assert offsets(tools.run(*asked, str(TODAY_MS + 10 * 86_400_000))) in ({}, ends)
    some = tools.run("get-offsets", "--topic-partitions", f"{topic}:0-2,{unique('absent')}:1")
    assert offsets(some) == {0: ends[0], 1: ends[1]}
    request = tmp_path / "delete.json"
    where = [{"topic": topic, "partition": 0, "offset": ends[0]}, {"topic": topic, "partition": 1, "offset": 999}]
    request.write_text(json.dumps({"partitions": where, "version": 1}))
    deleted = tools.run("delete-records", "--offset-json-file", str(request))
    assert re.search(rf"partition: {topic}-0\s+low_watermark: {ends[0]}", deleted), deleted
    assert re.search(rf"partition: {topic}-1\s+error: \S*OffsetOutOfRangeException", deleted), deleted
    assert offsets(tools.run(*asked, "earliest")) == {0: ends[0], 1: 0, 2: 0}


def test_log_dirs(tools: Tools, unique: Unique) -> None:
    topic = tools.topic(unique("aa-dirs"), 2, 20)
    said = tools.run("log-dirs", "--describe", "--topic-list", topic, "--broker-list", "1")
    (broker,) = json.loads(next(line for line in said.splitlines() if line.startswith("{")))["brokers"]
    (directory,) = broker["logDirs"]
    assert (broker["broker"], directory["error"]) == (1, None)
    replicas = sorted(directory["partitions"], key=lambda p: str(p["partition"]))
    assert [(p["partition"], p["offsetLag"], p["isFuture"]) for p in replicas] == [(f"{topic}-{n}", 0, False) for n in range(2)]
    assert all(p["size"] > 68 for p in replicas)  # a batch with its header
    assert "do not exist" in tools.run("log-dirs", "--describe", "--broker-list", "1,7", fails=True)


def test_cluster_quorum_and_api_versions(tools: Tools, bootstrap: str) -> None:
    host, port = bootstrap.split(":")
    assert "Cluster ID: b3R0bGFDb21wYXRUZXN0cw" in tools.run("cluster", "cluster-id")
    endpoints = tools.run("cluster", "list-endpoints", "--include-fenced-brokers")
    assert rows(endpoints, "1") == [["1", host, port, "null", "unfenced", "broker"]]
    status = dict(re.findall(r"^(\w+):\s+(.*)$", tools.run("metadata-quorum", "describe", "--status"), re.MULTILINE))
    assert (status["LeaderId"], status["MaxFollowerLag"], status["CurrentObservers"]) == ("1", "0", "[]")
    (voter,) = json.loads(status["CurrentVoters"])
    assert (voter["id"], len(voter["directoryId"])) == (1, 22)
    assert int(status["HighWatermark"]) > 0
    (leader,) = rows(tools.run("metadata-quorum", "describe", "--replication"), "1")
    assert (leader[1], leader[3], leader[-1]) == (voter["directoryId"], "0", "Leader")
    versions = tools.run("broker-api-versions")
    assert f"{bootstrap} (id: 1 rack: null isFenced: false)" in versions
    for name in ("Produce(0): 0 to 13", "Fetch(1): 4 to 18", "OffsetFetch(9): 1 to 10", "DescribeCluster(60): 0 to 2"):
        assert name in versions


def test_leader_election_and_reassignments(tools: Tools, unique: Unique, tmp_path: Path) -> None:
    topic = tools.topic(unique("aa-leaders"))
    for kind in ("preferred", "unclean"):
        elected = tools.run("leader-election", "--election-type", kind, "--topic", topic, "--partition", "0")
        assert f"Valid replica already elected for partitions {topic}-0" in elected
    assert tools.run("leader-election", "--election-type", "preferred", "--all-topic-partitions") == ""
    absent = ["--election-type", "preferred", "--topic", unique("aa-absent"), "--partition", "0"]
    assert "UnknownTopicOrPartitionException" in tools.run("leader-election", *absent, fails=True)
    assert "No partition reassignments found." in tools.run("reassign-partitions", "--list")
    request = tmp_path / "topics.json"
    request.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    generated = tools.run("reassign-partitions", "--generate", "--topics-to-move-json-file", str(request), "--broker-list", "1")
    now, proposed = [json.loads(line) for line in generated.splitlines() if line.startswith("{")]
    assert [p["replicas"] for p in now["partitions"]] == [p["replicas"] for p in proposed["partitions"]] == [[1], [1]]
    request.write_text(json.dumps(proposed))
    verified = tools.run("reassign-partitions", "--verify", "--reassignment-json-file", str(request))
    assert f"Reassignment of partition {topic}-0 is completed." in verified


def test_performance_tools(tools: Tools, unique: Unique) -> None:
    topic, each = tools.topic(unique("aa-perf"), 2), ["--num-records", "2000", "--record-size", "100", "--throughput", "-1"]
    for n, properties in enumerate((["acks=0"], ["acks=1", "compression.type=lz4"], ["acks=all", "compression.type=zstd"])):
        said = tools.run("producer-perf-test", "--topic", topic, *each, "--command-property", *properties)
        assert re.search(r"^2000 records sent, .* records/sec", said, re.MULTILINE), said
        wait_for(lambda: sum(tools.ends(topic).values()) == 2000 * (n + 1), "all has arrived")  # noqa: B023 - called within the round
    said = tools.run("consumer-perf-test", "--topic", topic, "--num-records", "6000", "--timeout", "20000")
    fields = said.strip().splitlines()[-1].split(", ")
    assert fields[4] == "6000", said


def test_verifiable_consumer(tools: Tools, unique: Unique) -> None:
    topic, group = tools.topic(unique("aa-verifiable"), 2, 50), unique("aa-group")
    reading = ["--topic", topic, "--group-id", group, "--max-messages", "50", "--reset-policy", "earliest"]
    lines = [json.loads(line) for line in tools.run("verifiable-consumer", *reading).splitlines() if line.startswith("{")]

    def named(name: str) -> list[dict[str, Any]]:
        return [line for line in lines if line["name"] == name]

    assert [len(line["partitions"]) for line in named("partitions_assigned")] == [2]
    assert sum(line["count"] for line in named("records_consumed")) == 50
    assert all(line["success"] for line in named("offsets_committed"))
    assert named("shutdown_complete")
    lags = rows(tools.run("consumer-groups", "--describe", "--group", group), group, topic)
    assert sorted((row[2], row[5]) for row in lags) == [("0", "0"), ("1", "0")]


class Resets:
    """The offsets of a group without members on a topic of two partitions, reset in every way."""

    def __init__(self, tools: Tools, group: str, topic: str) -> None:
        self.tools, self.group, self.topic = tools, group, topic

    def reset(self, *how: str, execute: bool = True) -> dict[int, int]:
        done = "--execute" if execute else "--dry-run"
        asked = ["--reset-offsets", "--group", self.group, "--topic", self.topic, *how, done]
        return {int(row[2]): int(row[3]) for row in rows(self.tools.run("consumer-groups", *asked), self.group, self.topic)}

    def committed(self) -> dict[int, int]:
        said = self.tools.run("consumer-groups", "--describe", "--group", self.group, "--offsets")
        return {int(row[2]): int(row[3]) for row in rows(said, self.group, self.topic)}


def test_consumer_group_offsets_are_reset_exported_and_deleted(tools: Tools, unique: Unique, tmp_path: Path) -> None:
    topic = tools.topic(unique("aa-reset"), 2, 40)
    group, ends = unique("aa-group"), tools.ends(topic)
    resets = Resets(tools, group, topic)
    assert resets.reset("--to-latest", execute=False) == ends
    assert group not in tools.run("consumer-groups", "--list").split()  # a dry run leaves nothing behind
    assert resets.reset("--to-latest") == resets.committed() == ends
    assert resets.reset("--shift-by", "-2") == resets.committed() == {p: end - 2 for p, end in ends.items()}
    assert resets.reset("--to-offset", "3") == {0: 3, 1: 3}
    assert resets.reset("--to-offset", "1000000") == ends  # no further than there are records
    assert resets.reset("--by-duration", "P1D") == {0: 0, 1: 0}
    assert resets.reset("--to-datetime", "2100-01-01T00:00:00.000") == ends
    assert resets.reset("--to-earliest") == {0: 0, 1: 0}
    assert resets.reset("--to-current") == resets.committed() == {0: 0, 1: 0}
    only = ["--reset-offsets", "--group", group, "--topic", f"{topic}:1", "--to-offset", "5", "--execute"]
    tools.run("consumer-groups", *only)
    assert resets.committed() == {0: 0, 1: 5}
    plan = tmp_path / "plan.csv"
    plan.write_text(tools.run("consumer-groups", *only[:5], "--to-offset", "7", "--dry-run", "--export"))
    tools.run("consumer-groups", "--reset-offsets", "--group", group, "--from-file", str(plan), "--execute")
    assert resets.committed() == {0: 0, 1: 7}
    assert rows(tools.run("consumer-groups", "--list", "--state"), group) == [[group, "Empty"]]
    assert group in tools.run("consumer-groups", "--list", "--type", "classic")
    states = ("consumer-groups", "--all-groups", "--describe", "--state")
    wait_for(lambda: group in tools.run(*states), "the group is among all")  # it ends where one goes meanwhile
    deleted = tools.run("consumer-groups", "--delete-offsets", "--group", group, "--topic", f"{topic}:0")
    assert rows(deleted, topic) == [[topic, "0", "Successful"]]
    assert resets.committed() == {1: 7}
    assert "successful" in tools.run("consumer-groups", "--delete", "--group", group)


def test_topics_by_every_filter(tools: Tools, unique: Unique) -> None:
    topic = tools.topic(unique("aa-topics"), 3)
    for filters in (["--under-replicated-partitions"], ["--unavailable-partitions"], ["--under-min-isr-partitions"]):
        assert topic not in tools.run("topics", "--describe", "--topic", topic, *filters)  # of others, some go meanwhile
    fully = tools.run("topics", "--describe", "--topic", topic, "--at-min-isr-partitions")
    assert len(re.findall(rf"Topic: {topic}\s+Partition:", fully)) == 3
    tools.run("configs", "--alter", "--topic", topic, "--add-config", "retention.ms=999999")
    described = "topics", "--describe", "--topics-with-overrides", "--topic", topic
    wait_for(lambda: "retention.ms=999999" in tools.run(*described), "the setting is described")
    overridden = tools.run(*described)
    assert f"Topic: {topic}" in overridden
    identity = re.search(r"TopicId: (\S+)", overridden)
    assert identity is not None
    assert f"Topic: {topic}" in tools.run("topics", "--describe", "--topic-id", identity[1])
    listed = tools.run("topics", "--list", "--exclude-internal").split()
    assert topic in listed
    assert "__consumer_offsets" not in listed
    tools.run("topics", "--delete", "--topic", topic)
    tools.run("topics", "--create", "--topic", topic, "--if-not-exists")
    assert "does not exist" in tools.run("topics", "--delete", "--topic", unique("aa-absent"), fails=True)
    tools.run("topics", "--delete", "--topic", unique("aa-absent"), "--if-exists")

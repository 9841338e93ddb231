"""Snapshots of the metadata log, in one directory that Apache Kafka and ottla serve in turns.

Settings far below the usual ones make either broker write a snapshot every few topics and trim the log behind them at its next
start. Then the other one starts on a log that begins at a snapshot, and must know everything that was before it. All that lies
in the directory then is read by Kafka's own DumpLogSegments, which says so where it finds something wrong.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from compat_tests.brokers import CLASSES, KINDS
from compat_tests.reference import jvm
from compat_tests.reference.kafka import BrokerProcess
from compat_tests.waiting import wait_for

TINY = {
    "metadata.log.max.record.bytes.between.snapshots": "1200",
    "internal.metadata.log.segment.bytes": "10000",  # a batch larger than that stops Kafka, such as an election of 200 partitions
    "metadata.max.retention.bytes": "8000",
    "metadata.max.idle.interval.ms": "0",  # no records but those of a change
}
ROUNDS = (8, 2, 2)
"""Of new topics, by turn: the first must fill a segment."""
TOPICS_PER_ROUND = 6
METADATA = "__cluster_metadata-0"


def turns(tmp_path: Path, order: tuple[str, str]) -> dict[str, BrokerProcess]:
    """Both brokers on one directory and one port, those of the first."""
    made: dict[str, BrokerProcess] = {}
    for kind in order:
        first = next(iter(made.values()), None)
        settings = TINY if first is None else first.settings
        made[kind] = CLASSES[kind](tmp_path / kind, dict(settings), first.port if first else None)
        made[kind].data_dir = (first or made[kind]).data_dir
    return made


def checkpoints(broker: BrokerProcess) -> list[str]:
    return sorted(path.name for path in (broker.data_dir / METADATA).glob("*.checkpoint"))


def fill(broker: BrokerProcess, stem: str, rounds: int) -> None:
    """Rounds of new topics with settings, until each has brought a snapshot."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for number in range(rounds):
        before = checkpoints(broker)[-1]
        topics = [
            NewTopic(f"{stem}-{number}-{index}", 2, 1, config={"retention.ms": "86400000"}) for index in range(TOPICS_PER_ROUND)
        ]
        for done in admin.create_topics(topics).values():
            done.result(30)
        wait_for(lambda: checkpoints(broker)[-1] > before, "a new snapshot")  # noqa: B023 - called within the round


def known(broker: BrokerProcess) -> dict[str, Any]:
    """Topics with their ids, partitions and settings; and the cluster's id."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    listed = admin.list_topics(timeout=30)
    names = sorted(listed.topics)
    ids = {name: str(done.result(30).topic_id) for name, done in admin.describe_topics(TopicCollection(names)).items()}
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    configs = {
        resource.name: {key: entry.value for key, entry in done.result(30).items() if key == "retention.ms"}
        for resource, done in admin.describe_configs(resources).items()
    }
    partitions = {name: len(listed.topics[name].partitions) for name in names}
    return {"cluster": listed.cluster_id, "ids": ids, "partitions": partitions, "configs": configs}


def quorum(broker: BrokerProcess) -> dict[str, str]:
    """Returns what kafka-metadata-quorum describe --status says."""
    said = java("org.apache.kafka.tools.MetadataQuorumCommand", "--bootstrap-server", broker.bootstrap, "describe", "--status")
    return {name: value.strip() for name, _, value in (line.partition(":") for line in said.splitlines())}


def java(*command: str) -> str:
    done = subprocess.run(
        [*jvm.java("kafka-tools"), *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def dumped(broker: BrokerProcess) -> str:
    """Returns what DumpLogSegments says of every log and snapshot of the metadata."""
    names = (broker.data_dir / METADATA).iterdir()
    files = sorted(str(path) for path in names if path.suffix in (".log", ".checkpoint") and path.stat().st_size)
    options = ["--cluster-metadata-decoder", "--deep-iteration", "--files", ",".join(files)]
    return java("org.apache.kafka.tools.DumpLogSegments", *options)


def trimmed(broker: BrokerProcess) -> bool:
    """Returns whether the log begins at a snapshot, and nothing before it is left."""
    logs = sorted(path.name for path in (broker.data_dir / METADATA).glob("*.log"))
    return int(checkpoints(broker)[0][:20]) > 0 and int(logs[0][:20]) > 0


@pytest.mark.parametrize("order", [KINDS, KINDS[::-1]], ids=["ottla first", "kafka first"])
def test_each_starts_on_what_the_other_trimmed(order: tuple[str, str], tmp_path: Path) -> None:
    """One begins, the other goes on, the first comes back; each start trims what the one before it left."""
    brokers = turns(tmp_path, order)
    told: dict[str, Any] = {}
    for turn, rounds in enumerate(ROUNDS):
        broker = brokers[order[turn % 2]]
        broker.start()
        try:
            if told:
                wait_for(lambda: trimmed(broker), "the log begins at a snapshot")  # noqa: B023 - called within the round
                assert known(broker) == told
                assert quorum(broker)["LeaderId"] == "1"
            fill(broker, f"turn-{turn}", rounds)
            told = known(broker)
        finally:
            broker.stop()
    said = dumped(brokers[order[0]])
    assert len(told["ids"]) == sum(ROUNDS) * TOPICS_PER_ROUND
    assert "3" in re.findall(r"^Snapshot end offset: \d+, epoch: (\d+)", said, re.MULTILINE)  # the first, come back
    assert said.count("SnapshotHeader") == said.count("SnapshotFooter") == len(checkpoints(broker))
    assert "isvalid: false" not in said
    assert not re.search(r"could not|exception|mismatch", said, re.IGNORECASE)


@pytest.mark.parametrize("kind", KINDS)
def test_a_snapshot_alone_is_enough(kind: str, tmp_path: Path) -> None:
    """The log that lay behind it is gone."""
    (broker, *_) = turns(tmp_path, (kind, kind)).values()
    broker.start()
    try:
        fill(broker, "before", 1)
        told = known(broker)
        broker.stop()
        for path in (broker.data_dir / METADATA).iterdir():
            if path.suffix in (".log", ".index", ".timeindex", ".snapshot"):
                path.unlink()
        broker.start()
        assert known(broker) == told
        fill(broker, "after", 1)
        assert len(known(broker)["ids"]) == 2 * TOPICS_PER_ROUND
    finally:
        broker.stop()

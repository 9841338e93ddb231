"""Kafka's own classes read the same from a metadata log as we do: of Kafka's directories, and of ours after random histories."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random

import pytest

from ottla.server.metadata.configs import APPEND, DELETE, SET, SUBTRACT
from ottla.server.metadata.feature_levels import FORMATTED_FEATURES
from ottla.server.metadata.image import BROKER, GROUP, TOPIC, MetadataImage
from ottla.server.metadata.metadata_log import MetadataLog
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from tests.fakes import CALLER
from tests.kafka_directories import kafka_files
from tests.server.metadata.oracle import MetadataOracle, lines_of
from tests.server.metadata.support import METADATA, Node, write_kafka_directory

pytestmark = pytest.mark.oracle

LOG = "00000000000000000000.log"
BOOTSTRAP = "00000000000000000000-0000000000.checkpoint"


@pytest.fixture(scope="module")
def oracle() -> Iterator[MetadataOracle]:
    made = MetadataOracle()
    yield made
    made.close()


def log_of(node: Node) -> list[bytes]:
    """The segments, in order."""
    return [node.disk.read_bytes(f"{METADATA}/{name}") for name in node.disk.list(METADATA) if name.endswith(".log")]


def replayed(node: Node) -> MetadataImage:
    """Returns what is in the log, without what a start would add."""
    assert node.logs is not None
    log = node.logs.get("__cluster_metadata", 0)
    assert log is not None
    image = MetadataImage("x")
    MetadataLog(log, node.disk, 1, node.clock.now_ms).load(image)
    return image


@pytest.mark.parametrize(("name", "leaders"), [("static", 3), ("dynamic", 1)])
def test_kafkas_directories_before_and_after_us(oracle: MetadataOracle, name: str, leaders: int) -> None:
    node = Node()
    write_kafka_directory(node.disk, name)
    node.start()
    theirs = kafka_files(name)[f"__cluster_metadata-0/{LOG}"]
    controls, _, epoch = oracle.read(theirs)
    assert controls.count("control LEADER_CHANGE 1") == leaders
    assert epoch == leaders
    controls, lines, epoch = oracle.read(*log_of(node))
    assert controls.count("control LEADER_CHANGE 1") == leaders + 1
    assert epoch == leaders + 1
    assert lines == lines_of(node.image) == lines_of(replayed(node))


def test_a_new_directory(oracle: MetadataOracle) -> None:
    for settings in ({}, {"controller_quorum_bootstrap_servers": "h:9093", "listeners": "PLAINTEXT://:9092,CONTROLLER://h:9093"}):
        node = Node(**settings)
        node.start()
        controls, lines, epoch = oracle.read(node.disk.read_bytes(f"{METADATA}/{BOOTSTRAP}"))
        named = ["control KRAFT_VERSION", "control KRAFT_VOTERS"] if settings else []
        assert controls == ["control SNAPSHOT_HEADER", *named, "control SNAPSHOT_FOOTER"]
        levels = {"metadata.version": 33} | FORMATTED_FEATURES
        assert lines == {"producer ids 0", *(f"feature {name} {level}" for name, level in levels.items())}
        assert epoch == 0
        assert oracle.read(*log_of(node))[1] == lines_of(node.image)


@pytest.mark.parametrize("seed", range(3))
def test_random_histories(oracle: MetadataOracle, seed: int) -> None:
    random = Random(seed)
    node = Node(broker_rack="r1")
    node.start()
    for _ in range(60):
        _random_step(node, random)
    controls, lines, epoch = oracle.read(*log_of(node))
    assert lines == lines_of(node.image) == lines_of(replayed(node))
    assert epoch == node.cluster.epoch == len(controls)


def _random_step(node: Node, random: Random) -> None:
    controller = node.controller
    name = f"t{random.randrange(6)}"
    match random.randrange(9):
        case 0 | 1:
            configs = [CreatableTopicConfig("retention.ms", str(random.randrange(9)))] * random.randrange(2)
            topics = [CreatableTopic(name, random.randrange(1, 4), 1, configs=configs), CreatableTopic("also" + name, -1, -1)]
            asyncio.run(controller.create_topics(CreateTopicsRequest(topics), CALLER))
        case 2:
            asyncio.run(controller.delete_topics(DeleteTopicsRequest([DeleteTopicState(name)], timeout_ms=1000), CALLER))
        case 3:
            asyncio.run(
                controller.create_partitions(CreatePartitionsRequest([CreatePartitionsTopic(name, 5, None)], 1000), CALLER)
            )
        case 4 | 5:
            change = random.choice([("retention.ms", SET, "7"), ("retention.ms", DELETE, None), ("segment.ms", SET, "9")])
            policy = AlterableConfig("cleanup.policy", random.choice([APPEND, SUBTRACT]), "compact")
            resources = [
                AlterConfigsResource(TOPIC, name, [AlterableConfig(*change), policy]),
                AlterConfigsResource(BROKER, "", [AlterableConfig("message.max.bytes", SET, str(random.randrange(9)))]),
                AlterConfigsResource(GROUP, "g", [AlterableConfig("consumer.session.timeout.ms", change[1], "50000")]),
            ]
            asyncio.run(controller.incremental_alter_configs(IncrementalAlterConfigsRequest(resources), CALLER))
        case 6:
            asyncio.run(controller.allocate_producer_ids())
        case 7:
            controller.create_in_background(["__transaction_state", name], CALLER)
            node.clock.run()
        case 8:
            node.kill()
            node.start()

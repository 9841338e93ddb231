"""Directories that Apache Kafka 4.4.0 wrote: we read all of it, go on in a new epoch, and lead its partitions."""

from __future__ import annotations

import asyncio

import pytest

from ottla.server.metadata import snapshot
from ottla.server.metadata.image import BROKER, CLIENT_METRICS, GROUP, TOPIC, MetadataImage
from ottla.server.metadata.metadata_log import MetadataLog
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.internal.access_control_entry_record import AccessControlEntryRecord
from ottla.wire.messages.internal.user_scram_credential_record import UserScramCredentialRecord
from tests.fakes import CALLER
from tests.kafka_directories import kafka_files
from tests.server.metadata.support import METADATA, Node, dump, write_kafka_directory


def opened(name: str) -> Node:
    node = Node()
    write_kafka_directory(node.disk, name)
    node.start()
    return node


def test_what_a_busy_directory_says() -> None:
    image = opened("static").image
    assert sorted(image.topics) == ["__transaction_state", "orders"]
    assert len(image.topics["orders"].partitions) == 4
    assert image.configs == {
        (TOPIC, "orders"): {"cleanup.policy": "compact", "retention.ms": "99"},
        (TOPIC, "__transaction_state"): {
            "compression.type": "uncompressed",
            "cleanup.policy": "compact",
            "min.insync.replicas": "1",
            "segment.bytes": "104857600",
            "unclean.leader.election.enable": "false",
        },
        (BROKER, "1"): {"log.cleaner.threads": "2"},
        (BROKER, ""): {"min.insync.replicas": "1"},
        (GROUP, "g1"): {"consumer.session.timeout.ms": "50000"},
        (CLIENT_METRICS, "cm"): {"interval.ms": "5000"},
    }
    assert image.features["share.version"] == 1  # downgraded by hand
    assert image.features["transaction.version"] == 2
    assert image.next_producer_id == 1000
    kept = [record for key, record in image.kept.items() if key[0] in ("acl", "scram")]
    assert [type(record) for record in kept] == [UserScramCredentialRecord, AccessControlEntryRecord]
    assert [key[1:] for key in image.kept if key[0] == "quota"] == [
        ((("user", ""),), "producer_byte_rate"),
        ((("client-id", "c1"),), "consumer_byte_rate"),
    ]


def test_we_lead_what_kafka_led() -> None:
    """Kafka's last leader epochs were 4 and 0: elected at first, fenced twice and elected twice; and new."""
    image = opened("static").image
    assert {partition.leader_epoch for partition in image.topics["orders"].partitions.values()} == {5}
    assert {partition.leader_epoch for partition in image.topics["__transaction_state"].partitions.values()} == {1}
    for topic in image.topics.values():
        for partition in topic.partitions.values():
            assert (partition.leader, partition.isr, partition.elr, partition.last_known_elr) == (1, (1,), (), ())
            assert partition.leader_recovery_state == 0


def test_a_snapshot_stands_for_the_records_before_it() -> None:
    """The image is the same without the snapshot at 37, which says in its own words what the log's first records say."""
    with_snapshot, without = Node(), Node()
    write_kafka_directory(with_snapshot.disk, "static")
    write_kafka_directory(without.disk, "static")
    without.disk.remove(f"{METADATA}/00000000000000000037-0000000001.checkpoint")
    assert [found.end_offset for found in snapshot.find(with_snapshot.disk, METADATA)] == [37, 0]
    with_snapshot.start()
    without.start()
    assert dump(with_snapshot.image) == dump(without.image)


@pytest.mark.parametrize(("name", "epoch"), [("static", 4), ("dynamic", 2)])
def test_we_go_on_in_a_new_epoch_and_read_ourselves_again(name: str, epoch: int) -> None:
    node = opened(name)
    assert node.cluster.epoch == epoch
    before = node.disk.read_bytes(f"{METADATA}/00000000000000000000.log")
    assert before.startswith(kafka_files(name)["__cluster_metadata-0/00000000000000000000.log"])
    asyncio.run(node.controller.create_topics(CreateTopicsRequest([CreatableTopic("new", 2, 1)]), CALLER))
    last = dump(node.image)
    node.kill()
    node.start()
    now = dump(node.image)
    assert node.cluster.epoch == epoch + 1
    assert now["configs"] == last["configs"]
    assert now["kept"].keys() == last["kept"].keys()
    assert now["topics"].keys() == last["topics"].keys()
    assert now["topics"]["new"][0] == last["topics"]["new"][0]


def test_the_voters_that_the_log_names_are_respected() -> None:
    """`kraft.version` is 1 there: quorum-state has its newer form."""
    node = opened("dynamic")
    assert b'"data_version":1' in node.disk.read_bytes(f"{METADATA}/quorum-state")


def test_a_replay_alone_changes_nothing_on_disk() -> None:
    node = Node()
    write_kafka_directory(node.disk, "static")
    node.start()
    assert node.logs is not None
    log = node.logs.get("__cluster_metadata", 0)
    assert log is not None
    image, changes = MetadataImage("x"), node.disk.changes
    MetadataLog(log, node.disk, 1, node.clock.now_ms).load(image)
    assert node.disk.changes == changes
    assert dump(image) == dump(node.image)

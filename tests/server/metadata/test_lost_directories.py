"""Tests of what becomes of partitions whose log directory failed: as Kafka 4.4 wrote it down when it happened to it (KIP-858,
KIP-966)."""

from __future__ import annotations

from ottla.server.metadata.eligible import FEATURE as ELIGIBLE_REPLICAS
from ottla.server.metadata.image import MetadataImage, PartitionImage
from ottla.server.metadata.lost_directories import lose
from ottla.wire.messages.internal.feature_level_record import FeatureLevelRecord
from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord
from ottla.wire.messages.internal.partition_record import PartitionRecord
from ottla.wire.messages.internal.register_broker_record import RegisterBrokerRecord
from ottla.wire.messages.internal.topic_record import TopicRecord

GOOD, BAD = b"g" * 16, b"b" * 16
UNASSIGNED = bytes(16)


def cluster(*isr: int, level: int = 1, directory: bytes = BAD) -> MetadataImage:
    """Partition 0 lies on brokers 1 and 2 as far as they are in sync, partition 1 in the good directory of broker 1."""
    image = MetadataImage("cluster")
    replicas = list(isr)
    directories = [directory, *[UNASSIGNED] * (len(replicas) - 1)]
    image.apply_all(
        [
            FeatureLevelRecord(ELIGIBLE_REPLICAS, level),
            RegisterBrokerRecord(broker_id=1, broker_epoch=9, log_dirs=[GOOD, BAD]),
            TopicRecord("t", b"i" * 16),
            PartitionRecord(0, b"i" * 16, replicas, replicas, leader=1, leader_epoch=0, directories=directories),
            PartitionRecord(1, b"i" * 16, [1], [1], leader=1, directories=[GOOD]),
        ]
    )
    return image


def after(image: MetadataImage) -> PartitionImage:
    image.apply_all(lose(image, 1, [GOOD], {("t", 0): BAD}))
    return image.topics["t"].partitions[0]


def test_a_partition_without_another_replica_has_no_leader_and_its_last_one_stays_eligible() -> None:
    image = cluster(1)
    lost = after(image)
    assert (lost.leader, lost.leader_epoch, lost.isr, lost.elr, lost.last_known_elr) == (-1, 1, (), (1,), (1,))
    assert image.brokers[1].log_dirs == (GOOD,)
    assert image.topics["t"].partitions[1].leader == 1


def test_without_eligible_replicas_the_last_one_stays_in_sync() -> None:
    lost = after(cluster(1, level=0))
    assert (lost.leader, lost.isr, lost.elr) == (-1, (1,), ())


def test_others_stay_in_sync() -> None:
    for level in (0, 1):
        assert after(cluster(1, 2, level=level)).isr == (2,)


def test_a_follower_that_loses_its_directory_is_out_of_the_in_sync_replicas() -> None:
    image = cluster(1, 2)
    image.apply_all([PartitionChangeRecord(0, b"i" * 16, leader=2)])
    assert after(image).isr == (2,)


def test_a_replica_that_was_out_of_sync_changes_nothing() -> None:
    image = cluster(1, 2)
    image.apply_all([PartitionChangeRecord(0, b"i" * 16, leader=2, isr=[2])])
    before = image.topics["t"].partitions[0].partition_epoch
    assert after(image).partition_epoch == before


def test_a_directory_that_nobody_had_written_down_is() -> None:
    assert after(cluster(1, directory=UNASSIGNED)).directories == (BAD,)


def test_a_second_look_changes_nothing() -> None:
    image = cluster(1)
    after(image)
    assert lose(image, 1, [GOOD], {("t", 0): BAD, ("gone", 0): None}) == []

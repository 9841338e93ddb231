"""Tests of which directory a replica lies in, as its broker says: what is written down, and for whom."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ottla.server.metadata.directories import assign
from ottla.server.metadata.image import MetadataImage
from ottla.wire.messages.internal.feature_level_record import FeatureLevelRecord
from ottla.wire.messages.internal.partition_record import PartitionRecord
from ottla.wire.messages.internal.topic_record import TopicRecord

TOPIC = b"i" * 16
OLD, NEW, OTHER = b"o" * 16, b"n" * 16, b"x" * 16
SINCE = 17


def cluster(level: int = SINCE) -> MetadataImage:
    """A partition on the brokers 1 and 2."""
    image = MetadataImage("cluster")
    image.apply_all(
        [
            FeatureLevelRecord("metadata.version", level),
            TopicRecord("t", TOPIC),
            PartitionRecord(0, TOPIC, [1, 2], [1, 2], leader=1, leader_epoch=5, directories=[OLD, OTHER]),
        ]
    )
    return image


def directories_after(image: MetadataImage, broker_id: int, directory: bytes) -> Sequence[bytes]:
    image.apply_all(assign(image, broker_id, [(TOPIC, 0, directory)]))
    return image.topics["t"].partitions[0].directories


@pytest.mark.parametrize(("broker_id", "expected"), [(1, (NEW, OTHER)), (2, (OLD, NEW))])
def test_a_broker_speaks_for_its_own_replica(broker_id: int, expected: tuple[bytes, bytes]) -> None:
    image = cluster()
    assert directories_after(image, broker_id, NEW) == expected
    assert image.topics["t"].partitions[0].leader_epoch == 5


def test_what_is_so_already_is_not_written_again() -> None:
    assert assign(cluster(), 1, [(TOPIC, 0, OLD), (TOPIC, 0, NEW)]) == assign(cluster(), 1, [(TOPIC, 0, NEW)]) != []
    assert assign(cluster(), 1, [(TOPIC, 0, OLD)]) == []


@pytest.mark.parametrize(("broker_id", "topic_id", "index"), [(3, TOPIC, 0), (1, TOPIC, 1), (1, b"z" * 16, 0)])
def test_what_is_gone_or_not_the_brokers(broker_id: int, topic_id: bytes, index: int) -> None:
    assert assign(cluster(), broker_id, [(topic_id, index, NEW)]) == []


def test_metadata_versions_without_directories() -> None:
    assert assign(cluster(SINCE - 1), 1, [(TOPIC, 0, NEW)]) == []

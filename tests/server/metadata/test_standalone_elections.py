"""The election that the start of a standalone broker holds: who may lead, and what that does to a partition."""

from __future__ import annotations

import pytest

from ottla.server.metadata.image import MetadataImage
from ottla.server.metadata.standalone_elections import elect, resign
from ottla.wire.messages.internal.partition_record import PartitionRecord
from ottla.wire.messages.internal.topic_record import TopicRecord


def partition(**changes: object) -> MetadataImage:
    record = PartitionRecord(0, b"i" * 16, [1, 2], [1], leader=1, leader_epoch=3, partition_epoch=7, directories=[b"d" * 16] * 2)
    for name, value in changes.items():
        setattr(record, name, value)
    image = MetadataImage("cluster")
    image.apply_all([TopicRecord("t", b"i" * 16), record])
    return image


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="led by us until we crashed"),
        pytest.param({"leader": -1}, id="nobody leads"),
        pytest.param(
            {"leader": -1, "isr": [], "eligible_leader_replicas": [1], "last_known_elr": [1]}, id="Kafka stopped cleanly"
        ),
        pytest.param({"leader": -1, "isr": [], "last_known_elr": [1]}, id="Kafka crashed"),
        pytest.param({"leader": 2, "isr": [2], "eligible_leader_replicas": [1]}, id="eligible"),
        pytest.param({"leader_recovery_state": 1}, id="recovering"),
    ],
)
def test_a_start_elects_this_broker(changes: dict[str, object]) -> None:
    image = partition(**changes)
    image.apply_all(elect(image, 1))
    found = image.topics["t"].partitions[0]
    assert (found.leader, found.leader_epoch, found.partition_epoch) == (1, 4, 8)
    assert 1 in found.isr
    assert (found.elr, found.last_known_elr, found.leader_recovery_state) == ((), (), 0)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"leader": 2, "isr": [2]}, id="we fell behind"),
        pytest.param({"leader": 2, "isr": [2], "last_known_elr": [1]}, id="somebody is in sync"),
        pytest.param({"leader": -1, "isr": [], "eligible_leader_replicas": [2]}, id="another is eligible"),
    ],
)
def test_a_start_does_not_elect_who_may_lack_records(changes: dict[str, object]) -> None:
    image = partition(**changes)
    assert elect(image, 1) == []


def test_a_stop_leaves_what_this_broker_led_without_a_leader_and_in_sync() -> None:
    image = partition()
    image.apply_all(resign(image, 1))
    found = image.topics["t"].partitions[0]
    assert (found.leader, found.leader_epoch, found.isr) == (-1, 4, (1,))
    assert resign(image, 1) == []
    assert resign(partition(leader=2, isr=[2]), 1) == []

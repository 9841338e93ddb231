"""Unregistering brokers and controllers that a directory of a larger cluster names."""

from __future__ import annotations

import pytest

from ottla.server.metadata.image import MetadataImage
from ottla.server.metadata.membership import unregister_broker, unregister_controller
from ottla.server.metadata.operation import Refused
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.internal.feature_level_record import FeatureLevelRecord
from ottla.wire.messages.internal.partition_record import PartitionRecord
from ottla.wire.messages.internal.register_broker_record import RegisterBrokerRecord
from ottla.wire.messages.internal.register_controller_record import RegisterControllerRecord
from ottla.wire.messages.internal.topic_record import TopicRecord

ME, OTHER, THIRD = 1, 2, 3
TOPIC_ID = b"i" * 16


@pytest.fixture
def image() -> MetadataImage:
    made = MetadataImage("cluster")
    made.apply(FeatureLevelRecord("metadata.version", 33))
    for broker_id in (ME, OTHER):
        made.apply(RegisterBrokerRecord(broker_id=broker_id, broker_epoch=broker_id * 10))
        made.apply(RegisterControllerRecord(broker_id))
    made.apply(TopicRecord("t", TOPIC_ID))
    return made


def test_a_broker_goes(image: MetadataImage) -> None:
    partitions = [
        (0, [ME, OTHER], [ME, OTHER], ME, None),
        (1, [OTHER], [OTHER], OTHER, None),
        (2, [OTHER, ME], [OTHER, THIRD], OTHER, None),
        (3, [ME], [ME], ME, None),
        (4, [ME, OTHER], [ME], ME, [OTHER, THIRD]),
    ]
    for index, replicas, isr, leader, elr in partitions:
        image.apply(PartitionRecord(index, TOPIC_ID, replicas, isr, leader=leader, leader_epoch=4, eligible_leader_replicas=elr))
    outcome = unregister_broker(image, ME, OTHER)
    assert len(outcome.records) == 5, "partition 3 has nothing to do with it"
    image.apply_all(outcome.records)
    assert list(image.brokers) == [ME]
    found = {index: (each.leader, each.leader_epoch, each.isr, each.elr) for index, each in image.topics["t"].partitions.items()}
    assert found == {
        0: (ME, 4, (ME,), ()),
        1: (-1, 5, (OTHER,), ()),  # the last that was in sync stays the one that has everything
        2: (-1, 5, (THIRD,), ()),
        3: (ME, 4, (ME,), ()),
        4: (ME, 4, (ME,), (THIRD,)),
    }


@pytest.mark.parametrize(("broker_id", "code"), [(ME, ErrorCode.INVALID_REQUEST), (THIRD, ErrorCode.BROKER_ID_NOT_REGISTERED)])
def test_brokers_that_stay(image: MetadataImage, broker_id: int, code: ErrorCode) -> None:
    with pytest.raises(Refused) as refused:
        unregister_broker(image, ME, broker_id)
    assert refused.value.code is code


def test_a_controller_goes(image: MetadataImage) -> None:
    image.apply_all(unregister_controller(image, ME, OTHER).records)
    assert [key for key in image.kept if key[0] == "controller"] == [("controller", ME)]


@pytest.mark.parametrize(
    ("controller_id", "metadata_version", "code"),
    [
        (ME, 33, ErrorCode.INVALID_REQUEST),
        (ME, 32, ErrorCode.INVALID_REQUEST),
        (THIRD, 33, ErrorCode.CONTROLLER_ID_NOT_REGISTERED),
        (OTHER, 32, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_controllers_that_stay(image: MetadataImage, controller_id: int, metadata_version: int, code: ErrorCode) -> None:
    image.apply(FeatureLevelRecord("metadata.version", metadata_version))
    with pytest.raises(Refused) as refused:
        unregister_controller(image, ME, controller_id)
    assert refused.value.code is code

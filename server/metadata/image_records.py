"""Turns an image into the records of a snapshot, in Kafka's order: features (metadata.version first, because it says how the rest
is read), brokers, controllers, topics with their partitions, settings, quotas, producer ids, and finally access control.

The image goes on changing while its records are written, so `freeze` copies its dictionaries at once (their values never change
in place), and `Frozen.records` makes the records from the copy bit by bit. 100,000 partitions take a few milliseconds to copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.wire.messages.internal import register_broker_record as broker_record
from ottla.wire.messages.internal.config_record import ConfigRecord
from ottla.wire.messages.internal.feature_level_record import FeatureLevelRecord
from ottla.wire.messages.internal.partition_record import PartitionRecord
from ottla.wire.messages.internal.producer_ids_record import ProducerIdsRecord
from ottla.wire.messages.internal.topic_record import TopicRecord

if TYPE_CHECKING:
    from ottla.server.metadata.image import BrokerImage, MetadataImage, PartitionImage
    from ottla.wire.primitives import WireStruct

METADATA_VERSION_FEATURE: Final = "metadata.version"
_DIRECTORIES: Final = 17  # 3.7-IV2
_ELR: Final = 23  # 4.0-IV1
_NOBODY: Final = -1


class Frozen(NamedTuple):
    """A copy of an image that does not change. `topics` has (name, id, partitions by index)."""

    metadata_version: int
    features: Mapping[str, int]
    brokers: list[BrokerImage]
    topics: list[tuple[str, bytes, dict[int, PartitionImage]]]
    configs: dict[tuple[int, str], dict[str, str]]
    next_producer_id: int
    kept: dict[tuple[object, ...], WireStruct]

    def records(self) -> Iterator[WireStruct]:
        """Yields the records of the whole image. Applied to an empty image they make an equal one."""
        yield from self._features()
        for broker in self.brokers:
            yield _broker(broker, self.metadata_version)
        yield from self._kept("controller")
        for name, topic_id, partitions in self.topics:
            yield TopicRecord(name, topic_id)
            for index, partition in partitions.items():
                yield _partition(topic_id, index, partition, self.metadata_version)
        for (resource_type, resource_name), configs in self.configs.items():
            for name, value in configs.items():
                yield ConfigRecord(resource_type, resource_name, name, value)
        yield from self._kept("quota")
        if self.next_producer_id > 0:
            yield ProducerIdsRecord(_NOBODY, _NOBODY, self.next_producer_id)
        for kind in ("acl", "scram", "token"):
            yield from self._kept(kind)

    def _features(self) -> Iterator[WireStruct]:
        yield FeatureLevelRecord(METADATA_VERSION_FEATURE, self.metadata_version)
        for name, level in self.features.items():
            if name != METADATA_VERSION_FEATURE:
                yield FeatureLevelRecord(name, level)

    def _kept(self, kind: str) -> Iterator[WireStruct]:
        return (record for key, record in self.kept.items() if key[0] == kind)


def freeze(image: MetadataImage) -> Frozen:
    """Returns a copy of the image as it is now, which later changes do not affect."""
    return Frozen(
        image.metadata_version,
        dict(image.features),
        list(image.brokers.values()),
        [(topic.name, topic.topic_id, topic.partitions.copy()) for topic in image.topics.values()],
        image.configs.copy(),
        image.next_producer_id,
        image.kept.copy(),
    )


def _broker(broker: BrokerImage, metadata_version: int) -> WireStruct:
    return broker_record.RegisterBrokerRecord(
        broker_id=broker.broker_id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[broker_record.BrokerEndpoint(*endpoint) for endpoint in broker.endpoints.values()],
        features=[broker_record.BrokerFeature(name, *levels) for name, levels in broker.features.items()],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.log_dirs) if metadata_version >= _DIRECTORIES else [],
        cordoned_log_dirs=list(broker.cordoned_log_dirs) or None,
    )


def _partition(topic_id: bytes, index: int, partition: PartitionImage, metadata_version: int) -> WireStruct:
    record = PartitionRecord(
        index,
        topic_id,
        list(partition.replicas),
        list(partition.isr),
        list(partition.removing_replicas),
        list(partition.adding_replicas),
        partition.leader,
        partition.leader_recovery_state,
        partition.leader_epoch,
        partition.partition_epoch,
    )
    if metadata_version >= _DIRECTORIES:
        record.directories = list(partition.directories)
    if metadata_version >= _ELR:
        record.eligible_leader_replicas = list(partition.elr) or None
        record.last_known_elr = list(partition.last_known_elr) or None
    return record

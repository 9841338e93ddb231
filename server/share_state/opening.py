"""Opens the share coordinator of a broker over the broker's own partitions of `__share_group_state`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.server.coordination.internal_topic import InternalTopicLog
from ottla.server.metadata.names import SHARE_GROUP_STATE
from ottla.server.share_state.coordinator import ShareCoordinator, ShareCoordinatorSettings

if TYPE_CHECKING:
    from ottla.server.base.clock import Clock
    from ottla.server.metadata.controller import Controller
    from ottla.server.metadata.image import MetadataImage
    from ottla.server.partitions.replicas import Replicas
    from ottla.server.settings.broker_config import BrokerConfig


def open_share_coordinator(
    config: BrokerConfig, image: MetadataImage, replicas: Replicas, clock: Clock, controller: Controller
) -> ShareCoordinator:
    """Returns the coordinator. It loads a partition of `__share_group_state` with the first request for it, or by `refresh`."""
    values = config.values

    def exists(topic_id: bytes, partition: int) -> bool:
        topic = image.topics_by_id.get(topic_id)
        return topic is not None and partition in topic.partitions

    return ShareCoordinator(
        InternalTopicLog(replicas, image, SHARE_GROUP_STATE),
        clock,
        ShareCoordinatorSettings(
            values["share.coordinator.snapshot.update.records.per.snapshot"],
            values["share.coordinator.cold.partition.snapshot.interval.ms"],
            values["share.coordinator.state.topic.compression.codec"],
            values["share.coordinator.write.timeout.ms"],
        ),
        exists=exists,
        create_topic=lambda: controller.create_in_background((SHARE_GROUP_STATE,), None),
    )

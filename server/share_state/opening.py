"""The share coordinator of a broker, over its own partitions of `__share_group_state`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.server.coordination.internal_topic import InternalTopicLog
from ottla.server.metadata.names import SHARE_GROUP_STATE
from ottla.server.share_state.coordinator import ShareCoordinator, ShareCoordinatorSettings

if TYPE_CHECKING:
    from ottla.server.requests.context import BrokerContext


def open_share_coordinator(broker: BrokerContext) -> ShareCoordinator:
    """It loads a partition when it is asked for, or by `refresh`."""
    values, image = broker.config.values, broker.metadata

    def exists(topic_id: bytes, partition: int) -> bool:
        topic = image.topics_by_id.get(topic_id)
        return topic is not None and partition in topic.partitions

    return ShareCoordinator(
        InternalTopicLog(broker.replicas, image, SHARE_GROUP_STATE),
        broker.clock,
        ShareCoordinatorSettings(
            values["share.coordinator.snapshot.update.records.per.snapshot"],
            values["share.coordinator.cold.partition.snapshot.interval.ms"],
            values["share.coordinator.state.topic.compression.codec"],
        ),
        broker.config.node_id,
        exists=exists,
        create_topic=lambda: broker.controller.create_in_background((SHARE_GROUP_STATE,)),
    )

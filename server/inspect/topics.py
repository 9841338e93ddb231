"""Topics: their partitions, with all offsets, and the settings that are their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.server.metadata.image import TOPIC
from ottla.server.metadata.names import INTERNAL_TOPICS
from ottla.wire.primitives import uuid_to_text

if TYPE_CHECKING:
    from ottla.server.metadata.image import PartitionImage, TopicImage
    from ottla.server.requests.context import BrokerContext


def summarize_topic(context: BrokerContext, topic: TopicImage) -> dict[str, Any]:
    """Returns a topic in short. `records` are the offsets that its partitions have, those of markers included."""
    replicas = [context.replicas.get(topic.name, index) for index in topic.partitions]
    records = sum(each.log.high_watermark - each.log.log_start_offset for each in replicas if each is not None)
    return {
        "topic": topic.name,
        "partitions": len(topic.partitions),
        "records": records,
        "internal": topic.name in INTERNAL_TOPICS,
    }


def describe_topic(context: BrokerContext, topic: TopicImage) -> dict[str, Any]:
    """Returns all about a topic."""
    return {
        **summarize_topic(context, topic),
        "topic_id": uuid_to_text(topic.topic_id),
        "configs": dict(context.metadata.config_of(TOPIC, topic.name)),
        "partitions": [
            _describe_partition(context, topic.name, index, image) for index, image in sorted(topic.partitions.items())
        ],
    }


def _describe_partition(context: BrokerContext, topic: str, index: int, image: PartitionImage) -> dict[str, Any]:
    """Returns a partition. What only its log knows is left out if this broker does not have it."""
    described = {
        "partition": index,
        "leader": image.leader,
        "leader_epoch": image.leader_epoch,
        "replicas": list(image.replicas),
        "isr": list(image.isr),
    }
    replica = context.replicas.get(topic, index)
    if replica is None:
        return described
    log = replica.log
    return described | {
        "start_offset": log.log_start_offset,
        "end_offset": log.high_watermark,
        "last_stable_offset": log.last_stable_offset,
        "log_end_offset": log.log_end_offset,
        "size_bytes": log.size_bytes,
        "segments": len(log.segments),
    }

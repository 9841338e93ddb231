"""Tells the coordinators what they have to know about the cluster: which shards are theirs, and that a topic has changed.

A coordinator is loaded with its first request, or here, if its topic exists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.server.metadata.image import PartitionChanged, TopicCreated, TopicDeleted
from ottla.server.metadata.names import CONSUMER_OFFSETS, INTERNAL_TOPICS, SHARE_GROUP_STATE, TRANSACTION_STATE

if TYPE_CHECKING:
    from ottla.server.metadata.image import TopicImage
    from ottla.server.requests.context import BrokerContext


class CoordinatorUpdates:
    """Updates the coordinators of one broker.

    Call `start` once the replicas are there, and from then on `follow` with every event of the metadata image.
    """

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._new_topic: tuple[TopicImage, int] | None = None
        """The topic that was created last, and the offset in the metadata log with which it was."""

    def start(self) -> None:
        """Loads the shards that this broker leads."""
        topics = self._context.metadata.topics
        if CONSUMER_OFFSETS in topics or self._context.existing_groups is not None:
            self._context.groups.refresh()
        if TRANSACTION_STATE in topics:
            self._context.transaction_coordinator().refresh()
        if SHARE_GROUP_STATE in topics:
            self._context.share_coordinator().refresh()

    def follow(self, event: object) -> None:
        """Passes an event on to the coordinators that it concerns."""
        match event:
            case TopicDeleted(topic=topic):
                if self._context.existing_groups is not None:
                    self._context.existing_groups.topic_deleted(topic.name)
                    self._context.existing_groups.topic_changed(topic.name)
                if topic.name == TRANSACTION_STATE:
                    self._context.transaction_coordinator().refresh()
                if self._context.existing_share_coordinator is not None:
                    self._context.existing_share_coordinator.topic_deleted(topic.name)
            case TopicCreated():
                self._topic_changed(event)
            case PartitionChanged(topic=topic, partition=index):
                if topic.name in INTERNAL_TOPICS:
                    self._follow_internal(topic.name, index)
                self._topic_changed(event)

    def _follow_internal(self, topic: str, index: int) -> None:
        if topic == CONSUMER_OFFSETS:
            self._context.groups.follow(index)
        elif topic == TRANSACTION_STATE:
            self._context.transaction_coordinator().follow(index)
        elif topic == SHARE_GROUP_STATE:
            self._context.share_coordinator().follow(index)

    def _topic_changed(self, event: TopicCreated | PartitionChanged) -> None:
        """Tells the groups that a topic has changed; of a new topic only once, however many partitions it has."""
        seen = (event.topic, self._context.metadata.highest_offset)
        if isinstance(event, TopicCreated):
            self._new_topic = seen
        elif seen == self._new_topic or (event.previous is not None and event.previous.replicas == event.image.replicas):
            return
        if self._context.existing_groups is not None:
            self._context.existing_groups.topic_changed(event.topic.name, is_new=isinstance(event, TopicCreated))

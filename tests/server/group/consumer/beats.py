"""Drives members of consumer groups as a client would, against the handlers over an in-memory log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ottla.server.handlers import consumer_group_describe, consumer_group_heartbeat
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, RequestTopicPartitions
from tests.server.coordination.memory import NODE_ID
from tests.server.group.fakes import Driver, at_once


class Beating(Driver):
    """A Driver of classic members that can also send heartbeats."""

    def beat(self, member: str, epoch: int = 0, *, group: str = "g", version: int = 1, **fields: Any) -> Any:
        """Sends one heartbeat. With epoch 0 the member joins, and subscribes to the topic t unless `subscribed_topic_names` says
        otherwise.
        """
        if epoch == 0:
            joining = {"rebalance_timeout_ms": 10_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
            fields = joining | fields
        request = ConsumerGroupHeartbeatRequest(group, member, epoch, **fields)
        return consumer_group_heartbeat.handle(request, self.broker.context(version))

    def owning(self, member: str, epoch: int, owned: dict[bytes, list[int]], **fields: Any) -> Any:
        parts = [RequestTopicPartitions(topic, indexes) for topic, indexes in owned.items()]
        return self.beat(member, epoch, topic_partitions=parts, **fields)

    def described(self, group: str = "g") -> Any:
        (found,) = at_once(consumer_group_describe.handle(ConsumerGroupDescribeRequest([group]), self.broker.context(1))).groups
        return found

    def later(self, seconds: float = 2.0) -> None:
        self.clock.advance(seconds)

    def topic(self, name: str, number: int, partitions: int) -> bytes:
        """Creates a topic or adds partitions to it; 0 partitions delete it."""
        topic_id = bytes(15) + bytes([number])
        metadata = self.broker.metadata
        is_new = name not in metadata.topics
        metadata.topics.pop(name, None)
        metadata.topics_by_id.pop(topic_id, None)
        if partitions:
            parts = {index: SimpleNamespace(replicas=(NODE_ID,)) for index in range(partitions)}
            metadata.topics[name] = metadata.topics_by_id[topic_id] = SimpleNamespace(
                name=name, topic_id=topic_id, partitions=parts
            )
        metadata.highest_offset += 1
        self.broker.groups.topic_changed(name, is_new=is_new)
        return topic_id

    def restarted(self) -> Beating:
        return Beating(self.broker.restarted())


def parts(answer: Any) -> dict[bytes, list[int]] | None:
    """Returns what an answer assigns, or None if it contains no assignment."""
    if answer.assignment is None:
        return None
    return {part.topic_id: part.partitions for part in answer.assignment.topic_partitions}

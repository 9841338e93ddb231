"""A member of a consumer group (KIP-848) by hand: heartbeats as it wants them, each answer as it came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compat_tests.waiting import wait_for
from compat_tests.wire import Wire
from ottla.wire.messages import consumer_group_describe, consumer_group_heartbeat

Parts = consumer_group_heartbeat.RequestTopicPartitions


class Consumer:
    """One member. `epoch` and `assigned` ({topic id: partitions}) are what the last answer made them."""

    def __init__(self, wire: Wire, group: str, name: str, instance: str | None = None) -> None:
        self.wire, self.group, self.id, self.instance = wire, group, f"{group}-{name}", instance
        self.epoch = 0
        self.assigned: dict[bytes, list[int]] = {}

    def beat(self, version: int = 1, **changes: Any) -> Any:
        """A heartbeat that says nothing new; `changes` are fields of the request."""
        fields: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.id,
            "member_epoch": self.epoch,
            "instance_id": self.instance,
        }
        answer = self.wire.call(consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(**(fields | changes)), version)
        if not isinstance(answer, str) and answer.error_code == 0:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                for part in answer.assignment.topic_partitions:
                    part.partitions.sort()  # Kafka's are in the order of a hash table, which depends on how large it once was
                self.assigned = {part.topic_id: list(part.partitions) for part in answer.assignment.topic_partitions}
        return answer

    def join(self, topics: Sequence[str] | None = (), version: int = 1, **changes: Any) -> Any:
        """The first heartbeat."""
        fields: dict[str, Any] = {
            "member_epoch": 0,
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": None if topics is None else list(topics),
            "topic_partitions": [],
        }
        return self.beat(version, **(fields | changes))

    def owning(self, owned: Mapping[bytes, Sequence[int]] | None = None, **changes: Any) -> Any:
        """A heartbeat that says what the member has: by default, all that it was assigned."""
        given = self.assigned if owned is None else owned
        return self.beat(topic_partitions=[Parts(topic, list(indexes)) for topic, indexes in given.items()], **changes)

    def until(self, epoch: int, **changes: Any) -> Any:
        """Heartbeats until the member is in `epoch`; the answer that said so."""
        answers: list[Any] = []

        def reached() -> bool:
            answers.append(self.beat(**changes))
            return bool(answers[-1].member_epoch == epoch)

        wait_for(reached, f"{self.id} of {self.wire.kind} is in epoch {epoch}", 20)
        return answers[-1]

    def until_assigned(self, count: int, **changes: Any) -> Any:
        """Heartbeats until the member has `count` partitions; the answer that said so."""
        answers: list[Any] = []

        def reached() -> bool:
            answers.append(self.owning(**changes))
            return sum(map(len, self.assigned.values())) == count

        wait_for(reached, f"{self.id} of {self.wire.kind} has {count} partitions", 20)
        return answers[-1]

    def leave(self, **changes: Any) -> Any:
        return self.beat(**({"member_epoch": -1} | changes))


def described(wire: Wire, *groups: str, version: int = 1, **fields: Any) -> Any:
    return wire.call(consumer_group_describe.ConsumerGroupDescribeRequest(list(groups), **fields), version)


def topic_of_groups(wire: Wire, stem: str, partitions: int = 1) -> str:
    """A topic that the group coordinator knows, too, as it does all that was altered before: Kafka's metadata is ahead of it."""
    topic, probe = wire.create(stem, partitions), Consumer(wire, wire.name(f"knows-{stem}"), "m")
    probe.join([topic])
    probe.until_assigned(partitions)
    probe.leave()
    return topic

"""Random walks of a consumer group, the same on both brokers: members of both protocols, static and not, that come, go, lie about
their epochs and their partitions, and change what they read. Every answer is compared, and every record in the end.

The group has one topic, for which of several gets what depends on their ids, and makes its assignments at once.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from compat_tests.wire import Wire
from compat_tests.wire_diff.consumers import Consumer, described, topic_of_groups
from compat_tests.wire_diff.group_records import written
from compat_tests.wire_diff.offsets_of_members import committed
from compat_tests.wire_diff.same import check
from compat_tests.wire_diff.test_consumer_group_records import Classic
from ottla.wire.messages import incremental_alter_configs

STEPS = 60
GROUP = 32
PARTITIONS = 5


def assign_at_once(wire: Wire, group: str) -> None:
    setting = incremental_alter_configs.AlterableConfig("consumer.assignment.interval.ms", 0, "0")
    resource = incremental_alter_configs.AlterConfigsResource(GROUP, group, [setting])
    answer = wire.call(incremental_alter_configs.IncrementalAlterConfigsRequest([resource]), 1)
    assert answer.responses[0].error_code == 0, answer


class Walk:
    """`rng` decides alike for both brokers, as long as they answer alike."""

    def __init__(self, wire: Wire, seed: int) -> None:
        self.rng = random.Random(seed)
        self.wire, self.group = wire, wire.name("g")
        assign_at_once(wire, self.group)
        self.topic = topic_of_groups(wire, "t", PARTITIONS)
        self.members = [Consumer(wire, self.group, f"m{n}", f"i{n}" if n > 2 else None) for n in range(5)]
        self.members.append(Consumer(wire, self.group, "m5", "i3"))
        self.assignor = self.rng.choice(["range", "uniform"])  # one: a tie of two makes Kafka rebalance with every heartbeat
        self.classic = [Classic(wire, self.group, f"c{n}", self.topic) for n in range(2)]
        for member in self.classic:
            member.id = f"{self.group}-{member.name}"

    def topics(self) -> list[str]:
        return self.rng.choice([[self.topic], [self.topic], [self.topic, self.wire.name("nope")], [self.wire.name("nope")], []])

    def step(self) -> Any:
        rng = self.rng
        if rng.random() < 0.2:
            return self.classic_step(rng.choice(self.classic))
        member = rng.choice(self.members)
        what = rng.choice(["join", "beat", "beat", "own", "own", "own", "change", "epoch", "away", "leave", "commit", "describe"])
        match what:
            case "join":
                member.assigned = {}  # who joins with nothing while a target is due may take it from all, at Kafka
                return what, member.join(self.topics() or [self.topic], server_assignor=rng.choice([None, self.assignor]))
            case "beat":
                return what, member.beat()
            case "own":
                part = {topic: [p for p in held if rng.random() < 0.8] for topic, held in member.assigned.items()}
                return what, member.owning(rng.choice([None, None, part, {}]))
            case "change":
                return what, member.owning(subscribed_topic_names=self.topics())
            case "epoch":
                return what, member.owning(member_epoch=max(1, member.epoch + rng.choice([-2, -1, 1])))
            case "away":
                return what, member.leave(member_epoch=-2)
            case "leave":
                return what, member.leave()
            case "commit":
                index = rng.randrange(PARTITIONS)
                epoch = member.epoch - rng.choice([0, 0, 1, 2])
                return what, committed(self.wire, member, self.topic, epoch, partition=index)
            case _:
                return what, in_order(described(self.wire, self.group))

    def classic_step(self, member: Classic) -> Any:
        what = self.rng.choice(["join", "join", "sync", "beat", "leave"])
        group = described(self.wire, self.group).groups[0]
        if group.error_code or group.group_state == "Empty":
            # In a classic group they would wait for each other, and an empty group is forgotten by Kafka when one knocks.
            return "not now"
        match what:
            case "join":
                return what, member.rejoin()
            case "sync":
                return what, member.take()
            case "beat":
                return what, member.heartbeat()
            case _:
                return what, member.leave()


def in_order(answer: Any) -> Any:
    """Topics and partitions of members come in the order of hash tables."""
    for member in (member for group in answer.groups for member in group.members):
        member.subscribed_topic_names.sort()
        for part in [*member.assignment.topic_partitions, *member.target_assignment.topic_partitions]:
            part.partitions.sort()
    return answer


@pytest.mark.parametrize("seed", range(8))
def test_walks(wires: dict[str, Wire], seed: int) -> None:
    def scenario(wire: Wire) -> Any:
        walk = Walk(wire, seed)
        return [walk.step() for _ in range(STEPS)], written(wire, walk.group)

    check(wires, "random walks of a consumer group", scenario)

"""Attacks of the stall bench by members of groups: ids that nobody joins with, subscriptions, and metadata."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from compat_tests.wire import Connection
from ottla.wire.messages import consumer_group_describe, consumer_group_heartbeat, join_group, share_group_heartbeat
from scripts.bench.stall_attacks import GROUP, SETTLE_S, Attack, coordinated, created, framed, pipelined

TOPICS: Final = 2_000
MEMBERS: Final = 200
MANY: Final = 9_000
IDS: Final = 100_000
LARGE: Final = 95_000_000
INTERVAL_S: Final = 1.2
"""A little more than the time between two assignments of a group, `group.consumer.assignment.interval.ms`."""


def coordinating(connection: Connection) -> None:
    """Waits until the broker coordinates groups."""
    coordinated(connection, GROUP, "g")


def joining(member: str) -> consumer_group_heartbeat.ConsumerGroupHeartbeatRequest:
    names = [f"many-{number}" for number in range(TOPICS)]
    return consumer_group_heartbeat.ConsumerGroupHeartbeatRequest("g", member, 0, None, None, 60_000, names, None, None, [])


def joined(connection: Connection) -> None:
    """Makes a group whose members all read the same topics, and lets the interval until the next assignment pass."""
    created(TOPICS)(connection)
    coordinating(connection)
    for number in range(MEMBERS):
        answer = connection.call(joining(f"m{number}"), 1, SETTLE_S)
        assert not answer.error_code, answer
    time.sleep(INTERVAL_S)


def _many(connection: Connection) -> None:
    created(MANY)(connection)
    coordinating(connection)


def _memberships(connection: Connection) -> Iterator[bytes]:
    """Yields heartbeats of the only member of a consumer group and of a share group: it joins, and gets the partitions."""
    names = [f"many-{number}" for number in range(MANY)]
    for _ in range(3):
        yield framed(
            consumer_group_heartbeat.ConsumerGroupHeartbeatRequest("g", "m", 0, None, None, 60_000, names, None, None, []), 1
        )
        yield framed(share_group_heartbeat.ShareGroupHeartbeatRequest("s", "m", 0, None, names), 1)
        time.sleep(INTERVAL_S)


def classic_join(size: int) -> join_group.JoinGroupRequest:
    protocols = [join_group.JoinGroupRequestProtocol("range", b"\0" * size)]
    return join_group.JoinGroupRequest("g", 1_800_000, 60_000, "", None, "consumer", protocols)


def group_attacks() -> list[Attack]:
    held = f"a consumer group of {MEMBERS} members with {TOPICS:,} topics"
    described = consumer_group_describe.ConsumerGroupDescribeRequest(["g"], False)
    in_group: list[tuple[str, Callable[[], Any]]] = [
        (f"ConsumerGroupDescribe of {MEMBERS} members with {TOPICS:,} topics", lambda: described),
        (f"ConsumerGroupHeartbeat that joins {MEMBERS} members with {TOPICS:,} topics", partial(joining, "one-more")),
    ]
    return [
        *(Attack(name, pipelined(request, 1), joined, held=held) for name, request in in_group),
        Attack(
            f"ConsumerGroupHeartbeat and ShareGroupHeartbeat of members that get {MANY:,} topics",
            _memberships,
            _many,
            uses_up=True,
        ),
        Attack(
            f"JoinGroup {IDS:,} times, without joining",
            lambda _: iter([framed(classic_join(0), 5)] * IDS),
            coordinating,
        ),
        Attack("JoinGroup with 95 MB of metadata", pipelined(partial(classic_join, LARGE), 3), coordinating),
    ]

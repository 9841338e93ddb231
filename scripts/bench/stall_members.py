"""Attacks of the stall bench by ordinary producers and members: the end of a transaction with many partitions, heartbeats of a
streams group whose subtopology reads many topics, and a streams group with as many tasks as it may have."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Final

from compat_tests.wire import Connection
from ottla.wire.messages import (
    add_partitions_to_txn,
    end_txn,
    init_producer_id,
    streams_group_describe,
    streams_group_heartbeat,
)
from scripts.bench.stall_attacks import (
    GROUP,
    SETTLE_S,
    TRANSACTION,
    Attack,
    coordinated,
    create,
    created,
    framed,
    pipelined,
)

WIDE: Final = 9_900
"""Partitions of a topic, about as many as a broker has by default."""
NARROW: Final = 1_000
"""Topics of one partition."""
HEARTBEATS: Final = 10
EPOCH: Final = 2
"""That of a group's first assignment."""
SUBTOPOLOGIES: Final = 200
PARTITIONS: Final = 100
MEMBERS: Final = 200
MOST_PARTS: Final = 20_000
INTERVAL_S: Final = 1.2
"""A little more than the time between two assignments of a group, `group.streams.assignment.interval.ms`."""


def _begun(connection: Connection) -> Iterator[bytes]:
    """Yields the end of a transaction that has WIDE partitions."""
    coordinated(connection, TRANSACTION, "t")
    while (begun := connection.call(init_producer_id.InitProducerIdRequest("t", 60_000), 4, SETTLE_S)).error_code:
        """The coordinator is loading."""
    producer = begun.producer_id, begun.producer_epoch
    topics = [add_partitions_to_txn.AddPartitionsToTxnTopic("wide", list(range(WIDE)))]
    request = add_partitions_to_txn.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=begun.producer_id,
        v3_and_below_producer_epoch=begun.producer_epoch,
        v3_and_below_topics=topics,
    )
    added = connection.call(request, 3, SETTLE_S).results_by_topic_v3_and_below
    assert {each.partition_error_code for topic in added for each in topic.results_by_partition} == {0}
    yield framed(end_txn.EndTxnRequest("t", *producer, True), 3)


def _member(connection: Connection) -> None:
    """Makes topics, and a member that has all tasks of its group."""
    created(NARROW)(connection)
    create("wide", WIDE)(connection)
    coordinated(connection, GROUP, "g")
    while (answer := connection.call(_heartbeat(0), 0, SETTLE_S)).error_code:
        """The coordinator is loading."""
    while not answer.active_tasks:
        time.sleep(0.2)  # the first assignment waits for more members
        answer = connection.call(_heartbeat(answer.member_epoch), 0, SETTLE_S)
    assert (answer.error_code, answer.member_epoch) == (0, EPOCH), answer


def _heartbeat(epoch: int) -> streams_group_heartbeat.StreamsGroupHeartbeatRequest:
    """Returns a heartbeat of the only member, which does not know any endpoints."""
    joins = epoch == 0
    subtopology = streams_group_heartbeat.Subtopology("0", ["wide", *(f"many-{number}" for number in range(NARROW))])
    return streams_group_heartbeat.StreamsGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=epoch,
        endpoint_information_epoch=0,
        rebalance_timeout_ms=60_000 if joins else -1,
        topology=streams_group_heartbeat.Topology(1, [subtopology]) if joins else None,
        active_tasks=[] if joins else None,
        standby_tasks=[] if joins else None,
        warmup_tasks=[] if joins else None,
        process_id="p",
        user_endpoint=streams_group_heartbeat.RequestEndpoint("h", 1),
        client_tags=[] if joins else None,
    )


def _heartbeats(connection: Connection) -> Iterator[bytes]:
    for _ in range(HEARTBEATS):
        yield framed(_heartbeat(EPOCH), 0)


def _joining(member: str, subtopologies: int = SUBTOPOLOGIES) -> streams_group_heartbeat.StreamsGroupHeartbeatRequest:
    """Returns the first heartbeat of a member of an application with so many subtopologies, which all read one topic."""
    read = [streams_group_heartbeat.Subtopology(str(number), ["read"]) for number in range(subtopologies)]
    return streams_group_heartbeat.StreamsGroupHeartbeatRequest(
        group_id="g",
        member_id=member,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        topology=streams_group_heartbeat.Topology(1, read),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id=member,
        client_tags=[],
    )


def _members(connection: Connection) -> None:
    """Makes the group of MEMBERS, and lets it have its first assignment, and the interval until the next one pass."""
    create("read", PARTITIONS)(connection)
    coordinated(connection, GROUP, "g")
    epochs = {}
    for member in (f"m{number}" for number in range(MEMBERS)):
        while (answer := connection.call(_joining(member), 0, SETTLE_S)).error_code:
            """The coordinator is loading."""
        epochs[member] = answer.member_epoch
    time.sleep(4)  # the first assignment waits so long for more members
    for member, epoch in epochs.items():
        beat = streams_group_heartbeat.StreamsGroupHeartbeatRequest(group_id="g", member_id=member, member_epoch=epoch)
        assert not connection.call(beat, 0, SETTLE_S).error_code
    time.sleep(INTERVAL_S)


def member_attacks() -> list[Attack]:
    """Returns the attacks; some use up what was made for them."""
    held = f"a streams group of {MEMBERS} members with {SUBTOPOLOGIES * PARTITIONS:,} tasks"
    described = streams_group_describe.StreamsGroupDescribeRequest(["g"])
    large = partial(_joining, "large", MOST_PARTS)
    return [
        Attack(f"EndTxn of {WIDE:,} partitions", _begun, create("wide", WIDE), uses_up=True),
        Attack(
            f"StreamsGroupHeartbeat with {NARROW + 1:,} topics and {WIDE:,} tasks, {HEARTBEATS} times",
            _heartbeats,
            _member,
            uses_up=True,
        ),
        Attack(f"StreamsGroupDescribe of {held}", pipelined(lambda: described, 0), _members, held=held),
        Attack(
            f"StreamsGroupHeartbeat that joins {held}, and StreamsGroupDescribe",
            lambda _: iter([framed(_joining("one-more"), 0), framed(described, 0, 1)]),  # so that the new target is waited for
            _members,
            held=held,
        ),
        Attack(f"StreamsGroupHeartbeat with {MOST_PARTS:,} subtopologies to {held}", pipelined(large, 0), _members, held=held),
    ]

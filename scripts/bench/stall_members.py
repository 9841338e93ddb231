"""Attacks of the stall bench by ordinary producers and members: the end of a transaction with many partitions, and heartbeats of
a streams group whose subtopology reads many topics."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from compat_tests.wire import Connection
from ottla.wire.messages import (
    add_partitions_to_txn,
    end_txn,
    init_producer_id,
    streams_group_heartbeat,
)
from scripts.bench.stall_attacks import GROUP, SETTLE_S, TRANSACTION, Attack, coordinated, create, created, framed

WIDE: Final = 9_900
"""Partitions of a topic, about as many as a broker has by default."""
NARROW: Final = 1_000
"""Topics of one partition."""
HEARTBEATS: Final = 10
EPOCH: Final = 2
"""That of a group's first assignment."""


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


def member_attacks() -> list[Attack]:
    """Returns the attacks; each uses up what was made for it."""
    return [
        Attack(f"EndTxn of {WIDE:,} partitions", _begun, create("wide", WIDE), uses_up=True),
        Attack(
            f"StreamsGroupHeartbeat with {NARROW + 1:,} topics and {WIDE:,} tasks, {HEARTBEATS} times",
            _heartbeats,
            _member,
            uses_up=True,
        ),
    ]

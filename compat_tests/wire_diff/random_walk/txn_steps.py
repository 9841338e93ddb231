"""Steps of transactional producers, of the first protocol (an epoch per producer) and the second (KIP-890: one per transaction).

A role keeps to one protocol, as producers do: "x1" to the first, "x2" to the second. Kafka writes markers after it has answered,
so a step that may end a transaction waits for its end; the answer CONCURRENT_TRANSACTIONS, by which Kafka tells an
InitProducerId to come again meanwhile, is not the answer that is compared. Nor is NOT_ENOUGH_REPLICAS, by which it tells a
Produce that the coordinator cannot be asked now; there is one replica, and always enough.
"""

from __future__ import annotations

import random
from typing import Any

from compat_tests.wire import batch
from compat_tests.wire_diff.random_walk.log_steps import FIRST_MS, placed
from compat_tests.wire_diff.random_walk.session import Session, until
from compat_tests.wire_diff.random_walk.steps import draws, some, step
from ottla.wire.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_producers,
    describe_transactions,
    end_txn,
    init_producer_id,
    list_transactions,
    produce,
    txn_offset_commit,
)

NOT_ENOUGH_REPLICAS = 19
CONCURRENT_TRANSACTIONS = 51
UNKNOWN_PRODUCER = 77_000_001
LATE = 2**31 - 100
"""The sequence of batches of a wrong epoch: what the coordinator refuses leaves its sequence behind in Kafka, and later ones, of
the right epoch, may not be higher (T-leftover in differences.py).
"""
LONGEST_MS = 900_000
ROLE = some("x1", "x1", "x2", "x2", "x2")
TOPIC = some("t0", "t0", "t1")
EPOCH = some(0, 0, 0, 0, 0, 0, 0, 0, -1, 1)


def second(role: str) -> bool:
    return role == "x2"


def producer(session: Session, role: str, epoch: int) -> tuple[int, int]:
    producer_id, known = session.producers.get(role, (UNKNOWN_PRODUCER, 0))
    return producer_id, max(known + epoch, 0)


def ended(session: Session, role: str) -> None:
    request = describe_transactions.DescribeTransactionsRequest([session.name(role)])

    def complete() -> bool:
        return not session.call(request, 0).transaction_states[0].transaction_state.startswith("Prepare")

    until(complete, "a transaction has ended")


@step(
    "transactions",
    3,
    draws(role=ROLE, known=some(False, False, False, True), epoch=EPOCH, timeout_ms=some(*[LONGEST_MS] * 8, 0, 900_001)),
)
def begin(session: Session, role: str, known: bool, epoch: int, timeout_ms: int) -> Any:
    had = producer(session, role, epoch) if known else (-1, -1)
    request = init_producer_id.InitProducerIdRequest(session.name(role), timeout_ms, *had)
    answer = session.call(request, 5 if second(role) else 4)
    while answer.error_code == CONCURRENT_TRANSACTIONS:
        ended(session, role)
        answer = session.call(request, 5 if second(role) else 4)
    if not answer.error_code:
        session.producers[role] = (session.label_producer(answer.producer_id), answer.producer_epoch)
    return answer


@step(
    "transactions",
    4,
    draws(role=ROLE, topic=some("t0", "t0", "t1", "never"), partitions=some([0], [0], [1], [0, 1]), epoch=EPOCH),
)
def add(session: Session, role: str, topic: str, partitions: list[int], epoch: int) -> Any:
    """Of the first protocol; of the second, whether the partitions are in the transaction, as a broker asks."""
    used = producer(session, role, epoch)
    topics = [add_partitions_to_txn.AddPartitionsToTxnTopic(session.name(topic), partitions)]
    verified = [add_partitions_to_txn.AddPartitionsToTxnTransaction(session.name(role), *used, True, topics)]
    request = add_partitions_to_txn.AddPartitionsToTxnRequest(verified, session.name(role), *used, topics)
    return session.call(request, 5 if second(role) else 3)


@step(
    "transactions",
    9,
    draws(role=ROLE, topic=TOPIC, partition=some(0, 0, 1), count=some(1, 1, 2), sequence=some(*[0] * 8, -1, 1), epoch=EPOCH),
)
def write(session: Session, role: str, topic: str, partition: int, count: int, sequence: int, epoch: int) -> Any:
    producer_id, used_epoch = producer(session, role, epoch)
    place = (producer_id, used_epoch, session.topic_id(topic), partition)
    first = max(session.sequences.get(place, 0) + sequence, 0) if epoch == 0 else LATE
    identity: dict[str, Any] = {
        "producer_id": producer_id,
        "producer_epoch": used_epoch,
        "base_sequence": first,
        "transactional": True,
    }
    version = 13 if second(role) else 11
    data = placed(session.named(topic, version, 13), partition, batch(*[b"t"] * count, first_ms=FIRST_MS, **identity))
    request = produce.ProduceRequest(session.name(role), -1, 5000, [data])
    answer = session.call(request, version)
    while answer.responses[0].partition_responses[0].error_code == NOT_ENOUGH_REPLICAS:
        ended(session, role)
        answer = session.call(request, version)
    if not answer.responses[0].partition_responses[0].error_code and sequence >= 0:
        session.sequences[place] = first + count
    return answer


@step("transactions", 5, draws(role=ROLE, commit=some(True, False), epoch=EPOCH))
def end(session: Session, role: str, commit: bool, epoch: int) -> Any:
    used = producer(session, role, epoch)
    answer = session.call(end_txn.EndTxnRequest(session.name(role), *used, commit), 5 if second(role) else 4)
    ended(session, role)
    if not answer.error_code and second(role):
        session.producers[role] = (session.label_producer(answer.producer_id), answer.producer_epoch)
    return answer


@step("transactions", 2, draws(role=ROLE, group=some("g0", "g1"), epoch=EPOCH))
def add_group(session: Session, role: str, group: str, epoch: int) -> Any:
    used = producer(session, role, epoch)
    return session.call(add_offsets_to_txn.AddOffsetsToTxnRequest(session.name(role), *used, session.name(group)), 3)


def offset_commit(rng: random.Random) -> dict[str, Any]:
    return {
        "role": ROLE(rng),
        "group": rng.choice(("g0", "g1")),
        "topic": TOPIC(rng),
        "partition": rng.choice((0, 1)),
        "offset": rng.randint(0, 50),
        "member": rng.choice((None, None, None, "nobody")),
        "epoch": EPOCH(rng),
    }


@step("transactions", 3, offset_commit)
def commit_in(
    session: Session, role: str, group: str, topic: str, partition: int, offset: int, member: str | None, epoch: int
) -> Any:
    used = producer(session, role, epoch)
    parts = [txn_offset_commit.TxnOffsetCommitRequestPartition(partition, offset)]
    topics = [txn_offset_commit.TxnOffsetCommitRequestTopic(session.name(topic), session.topic_id(topic), parts)]
    who: dict[str, Any] = {} if member is None else {"generation_id_or_member_epoch": 3, "member_id": member}
    request = txn_offset_commit.TxnOffsetCommitRequest(session.name(role), session.name(group), *used, topics=topics, **who)
    return session.call(request, 5 if second(role) else 4)


@step("transactions", 3, draws(role=ROLE))
def state(session: Session, role: str) -> Any:
    answer = session.call(describe_transactions.DescribeTransactionsRequest([session.name(role)]), 0)
    for found in answer.transaction_states:
        found.transaction_start_time_ms = min(found.transaction_start_time_ms, 0)  # the broker's clock
        for topic in found.topics:
            topic.partitions.sort()  # from a hash table
    return answer


@step("transactions", 1, draws(states=some([], ["Ongoing"], ["Empty", "CompleteCommit"], ["Foo"])))
def states(session: Session, states: list[str]) -> Any:
    answer = session.call(list_transactions.ListTransactionsRequest(states), 1)
    names = {session.name("x1"), session.name("x2")}
    answer.transaction_states = [each for each in answer.transaction_states if each.transactional_id in names]
    return answer


@step("transactions", 2, draws(topic=TOPIC, partition=some(0, 1)))
def writers_of(session: Session, topic: str, partition: int) -> Any:
    """The producers of a partition; times and the coordinator epochs only whether there are any: a marker's time is the broker's,
    and a Kafka that gets no processor for some seconds is elected again, as the coordinator too.
    """
    topics = [describe_producers.TopicRequest(session.name(topic), [partition])]
    answer = session.call(describe_producers.DescribeProducersRequest(topics), 0)
    for each in answer.topics[0].partitions[0].active_producers:
        each.last_timestamp = min(each.last_timestamp, 0)
        each.coordinator_epoch = min(each.coordinator_epoch, 0)
    return answer

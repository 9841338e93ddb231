"""Transactions: which there are, what they hold back, and how they are ended; and the producers that partitions remember.

A transaction holds back its partitions' last stable offsets: who reads committed records only gets nothing behind them until it
ends. Which isolation a group reads with, no cluster tells, so a group that has come to such an offset may be waiting.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ottla.commands.clients.partition import Partition
from ottla.commands.groups import batched_requests, kinds, reset
from ottla.commands.output import Failure, counted
from ottla.commands.positions import spans
from ottla.commands.txn import TxnBrokers, partitions_of
from ottla.console.cluster.source import Source
from ottla.console.errors import Missing

OPEN: Final = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort"})
MOST_OPEN: Final = 2000
"""The most open transactions that are looked at, to sort them by age."""
MOST_GROUPS: Final = 200
MOST_PARTITIONS: Final = 200


class Transaction(NamedTuple):
    """A transactional id. `epoch`, `timeout_ms` and `partitions` are known only of those that are open; `started_ms` is when the
    transaction began, in ms since 1970."""

    name: str
    state: str
    producer_id: int
    coordinator: int
    epoch: int | None = None
    timeout_ms: int | None = None
    started_ms: int | None = None
    partitions: Sequence[Partition] = ()

    @property
    def is_open(self) -> bool:
        return self.state in OPEN

    def age_ms(self, now_ms: int) -> int | None:
        return None if self.started_ms is None else max(0, now_ms - self.started_ms)

    def is_late(self, now_ms: int) -> bool:
        """Returns whether it has been open for longer than its producer asked for."""
        age = self.age_ms(now_ms)
        return age is not None and self.timeout_ms is not None and age > self.timeout_ms


def brokers_of(source: Source) -> TxnBrokers:
    return TxnBrokers(source.cluster, source.summary().metadata)


def transactions(source: Source) -> list[Transaction]:
    """Returns all transactional ids: the open ones first, by age, then the others by name. Raises Failure."""
    with brokers_of(source) as brokers:
        there = brokers.transactions()
        opened = {name: broker for name, (broker, one) in there.items() if one.transaction_state in OPEN}
        described = brokers.describe_all(dict(list(opened.items())[:MOST_OPEN]))
    found = [
        _described(broker, described[name])
        if name in described
        else Transaction(name, one.transaction_state, one.producer_id, broker)
        for name, (broker, one) in there.items()
    ]
    return sorted(found, key=lambda one: (not one.is_open, one.started_ms or 0, one.name))


def transaction(source: Source, name: str) -> Transaction:
    """Returns one transactional id. Raises Missing, Failure."""
    with brokers_of(source) as brokers:
        there = brokers.transactions()
        if name not in there or (one := brokers.describe(name, there[name][0])) is None:
            raise Missing(f"There is no transactional id {name}.")
        return _described(there[name][0], one)


def _described(broker: int, one: Any) -> Transaction:
    is_open = one.transaction_state in OPEN
    return Transaction(
        one.transactional_id,
        one.transaction_state,
        one.producer_id,
        broker,
        one.producer_epoch,
        one.transaction_timeout_ms,
        one.transaction_start_time_ms if is_open and one.transaction_start_time_ms >= 0 else None,
        partitions_of(one),
    )


class HeldPartition(NamedTuple):
    """A partition of an open transaction. `since` is the transaction's first offset there, None before its first record; readers
    of committed records come to `last_stable`."""

    partition: Partition
    since: int | None
    last_write_ms: int | None
    last_stable: int
    end: int


def held_back(source: Source, one: Transaction) -> list[HeldPartition]:
    """Returns the first so many partitions of a transaction, and what it holds back. Raises Failure, KafkaException."""
    from confluent_kafka import IsolationLevel

    topics = source.summary().metadata.topics
    leaders = {
        Partition(topic, number): each.leader
        for topic in {where.topic for where in one.partitions} & topics.keys()
        for number, each in topics[topic].partitions.items()
    }
    there = [where for where in one.partitions[:MOST_PARTITIONS] if leaders.get(where, -1) >= 0]
    with brokers_of(source) as brokers:
        mine = {where: each for where, each in brokers.producers(there) if each.producer_id == one.producer_id}
    stable = spans(source.cluster, source.admin, there, IsolationLevel.READ_COMMITTED)
    whole = spans(source.cluster, source.admin, there, IsolationLevel.READ_UNCOMMITTED)
    return [
        HeldPartition(
            where,
            mine[where].current_txn_start_offset if where in mine else None,
            mine[where].last_timestamp if where in mine else None,
            stable[where].end,
            whole[where].end,
        )
        for where in there
    ]


class Waiting(NamedTuple):
    group: str
    partition: Partition
    committed: int


def groups_behind(source: Source, held: Sequence[HeldPartition]) -> tuple[list[Waiting], list[str]]:
    """Returns the groups that have come to a last stable offset that is held back, and notes of what is not known. Raises
    Failure."""
    stops = {one.partition: one.last_stable for one in held if one.last_stable < one.end}
    if not stops:
        return [], []
    groups = source.groups()
    names = [name for name, one in groups.by_name.items() if one.kind != kinds.SHARE and "\0" not in name]
    wanted = names[:MOST_GROUPS]
    with brokers_of(source) as brokers:
        committed, wrong = batched_requests.committed_of(brokers, [groups.by_name[name] for name in wanted])
    if left := [name for name in wanted if name not in committed and name not in wrong]:
        committed |= reset.committed_of(source.cluster, source.cluster.admin(), left)[0]
    found = [
        Waiting(name, where, at[where])
        for name, at in committed.items()
        for where, stop in stops.items()
        if at.get(where, -1) >= stop
    ]
    left_out = len(names) - MOST_GROUPS
    return found, [*groups.notes, *([f"{counted(left_out, 'more group')} not asked"] if left_out > 0 else [])]


def abort(source: Source, one: Transaction) -> None:
    """Aborts the transaction of this id and fences its producer. Raises Failure, also if none is open."""
    with brokers_of(source) as brokers:
        if not brokers.fence(one.name, one.coordinator):
            raise Failure("no transaction is open; nothing was aborted")


class Producer(NamedTuple):
    """A producer that a partition remembers, as the partition's leader tells it. `since` is where its transaction begins."""

    partition: Partition
    producer_id: int
    epoch: int
    last_sequence: int | None
    last_write_ms: int | None
    coordinator_epoch: int | None
    since: int | None


def producers(source: Source, topic: str, numbers: Sequence[int]) -> list[Producer]:
    """Returns the producers of these partitions that have a leader, those with an open transaction first. Raises Failure."""
    there = source.summary().metadata.topics[topic].partitions
    wanted = [Partition(topic, number) for number in numbers if there[number].leader >= 0]
    with brokers_of(source) as brokers:
        found = [_producer(where, one) for where, one in brokers.all_producers(wanted)]
    return sorted(found, key=lambda one: (one.partition.number, one.since is None, one.producer_id))


def hanging(source: Source, topics: Sequence[str], before_ms: int) -> list[Producer]:
    """Returns the producers whose transactions no coordinator knows and that wrote nothing since, in these topics. Raises
    Failure."""
    with brokers_of(source) as brokers:
        return [_producer(where, one) for where, one in brokers.hanging(topics, before_ms)]


def abort_hanging(source: Source, where: Partition, producer_id: int, epoch: int, offset: int) -> None:
    """Ends a transaction that no coordinator knows. Raises Failure if it is another one by now, or a coordinator knows it."""
    with brokers_of(source) as brokers:
        started = [
            (one.producer_id, one.producer_epoch)
            for at, one in brokers.hanging([where.topic], before_ms=2**63 - 1)
            if at == where and one.current_txn_start_offset == offset
        ]
        if (producer_id, epoch) not in started:
            raise Failure(f"no hanging transaction of producer {producer_id} epoch {epoch} begins there")
        brokers.write_abort(where, offset)


def _producer(where: Partition, one: Any) -> Producer:
    def known(number: int) -> int | None:
        return None if number < 0 else number

    return Producer(
        where,
        one.producer_id,
        one.producer_epoch,
        known(one.last_sequence),
        known(one.last_timestamp),
        known(one.coordinator_epoch),
        known(one.current_txn_start_offset),
    )

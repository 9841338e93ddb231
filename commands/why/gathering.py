"""Gathers what a client can know of a group, from any Kafka: two looks at it, with some seconds of watching in between.

What a broker's inside saw meanwhile is put to it by `inside.py`. What cannot be known is left out, with a note that says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.commands.clients import direct
from ottla.commands.clients.client import Cluster
from ottla.commands.clients.partition import Partition
from ottla.commands.consumer_protocol import PROTOCOL_TYPE, subscribed_topics
from ottla.commands.groups import kinds
from ottla.commands.groups import states as group_states
from ottla.commands.groups.kinds import Listed, as_listed
from ottla.commands.groups.rows import GroupState
from ottla.commands.output import Failure
from ottla.commands.txn import TxnBrokers, open_ms
from ottla.commands.why.facts import WATCH_S, Awaited, GroupFacts, OpenTransaction, PartitionFacts
from ottla.commands.why.inside import Asking, Watch, with_inside
from ottla.commands.why.reading import fetching, read_left
from ottla.commands.why.verdicts import REBALANCING, needs_longer
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import list_offsets
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.list_groups import ListGroupsRequest

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.admin._metadata import ClusterMetadata

PATIENCE_S: Final = 3.5
"""For how much longer it is watched before it is said that a member does not commit, or that a rebalance of a broker stays:
clients commit, and their heartbeats ask, every 5 s by default."""
MOST_READ: Final = 10
"""In how many partitions, those with the greatest lag, the records are counted."""
NEWEST_SINCE: Final = 7
"""The first version of ListOffsets that knows the newest timestamp."""
GROUPS: Final = "__consumer_offsets"
"""The topic of all groups."""
_NO_COORDINATOR: Final = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
"""Errors that say that there is no coordinator now; others say nothing of it, such as that this client has no right to ask."""


@dataclass(frozen=True)
class Asked:
    """The means of gathering: the cluster, a client of it, its metadata; how to wait, and what the time is. `inside` asks the
    broker that runs the console; None if there is none. `tell` is given what is known before the rest is waited for."""

    cluster: Cluster
    admin: AdminClient
    metadata: ClusterMetadata
    wait: Callable[[float], object]
    now_ms: Callable[[], int]
    inside: Asking | None = None
    patience_s: float = PATIENCE_S
    tell: Callable[[GroupFacts], object] = lambda _: None


def gather(asked: Asked, name: str, watch_s: float = WATCH_S) -> GroupFacts:
    """Returns what can be known of a group after watching it for so long; 0 takes one look only. Raises Failure, for one if this
    client has no right to see the group."""
    with TxnBrokers(asked.cluster, asked.metadata) as brokers:
        notes: dict[str, None] = {}
        try:
            listed = _find_group(brokers, name)
        except Failure as failure:
            if isinstance(failure, direct.Refused) and failure.code not in _NO_COORDINATOR:
                raise
            return GroupFacts(name, exists=None, coordinator_error=str(failure), now_ms=asked.now_ms())
        if listed is None:
            return GroupFacts(name, exists=False, now_ms=asked.now_ms())
        looking = _Looking(asked, brokers, listed, notes)
        watch = Watch(asked.inside, name, watch_s and watch_s + asked.patience_s)
        try:
            before = looking.look() if watch_s else None
            if before is not None:
                asked.tell(looking.seen_once(before))
                asked.wait(watch_s)
            facts = looking.facts(before, watch_s, watch.seen())
            if watch_s and needs_longer(facts):  # clients commit every 5 s
                asked.tell(facts)
                asked.wait(asked.patience_s)
                watched_s = watch_s + asked.patience_s
                facts = replace(looking.facts(before, watched_s, watch.seen()), is_patient=True)
        finally:
            watch.end()
        return replace(facts, notes=tuple(notes))


def _find_group(brokers: TxnBrokers, name: str) -> Listed | None:
    """Returns the group as its coordinator lists it; None if it does not. Raises Failure.

    If the cluster shows no topic of groups, it has none, or does not show it to this client. Then each broker is asked for the
    groups that it coordinates, since to ask who coordinates one would make the topic.
    """
    if GROUPS in brokers.metadata.topics:
        return _listed(brokers, _coordinator(brokers, name), name)
    found = (_listed(brokers, broker, name) for broker in sorted(brokers.metadata.brokers))
    return next((one for one in found if one is not None), None)


def _coordinator(brokers: TxnBrokers, name: str) -> int:
    """Returns the broker that coordinates the group. Raises Failure if there is none, or it does not answer."""
    answer = brokers.at(min(brokers.metadata.brokers)).call(FindCoordinatorRequest(name, 0, [name]))
    found: Any = answer.coordinators[0] if answer.coordinators else answer
    if found.error_code:
        why = direct.words(found.error_code, found.error_message)
        raise direct.Refused(found.error_code, f"asked who coordinates it, a broker says: {why}")
    return int(found.node_id)


def _listed(brokers: TxnBrokers, coordinator: int, name: str) -> Listed | None:
    answer = brokers.at(coordinator).call(ListGroupsRequest())
    if answer.error_code:
        why = direct.words(answer.error_code)
        raise direct.Refused(answer.error_code, f"broker {coordinator}, asked for its groups, says: {why}")
    return next((as_listed(one, coordinator) for one in answer.groups if one.group_id == name), None)


class _Span(NamedTuple):
    """The start and the end of a partition's log, as far as its leader says."""

    log_start: int | None = None
    last_stable: int | None = None
    end: int | None = None
    newest_ms: int | None = None


@dataclass(frozen=True)
class _Look:
    """One look at a group."""

    state: GroupState
    spans: Mapping[Partition, _Span]
    open: Mapping[Partition, OpenTransaction]


class _Looking:
    """Looks at a group that is listed."""

    def __init__(self, asked: Asked, brokers: TxnBrokers, listed: Listed, notes: dict[str, None]) -> None:
        self._asked = asked
        self._brokers = brokers
        self._listed = listed
        self._notes = notes

    def look(self) -> _Look:
        asked = self._asked
        states, errors = group_states.states_of(asked.cluster, asked.admin, self._brokers, [self._listed], self._notes)
        if not states:
            raise Failure("; ".join(errors.values()) or f"group {self._listed.name} has gone")
        spans = self._spans([one.partition for one in states[0].offsets])
        waiting = [
            where
            for where, span in spans.items()
            if span.last_stable is not None and span.end is not None and span.last_stable < span.end
        ]
        return _Look(states[0], spans, self._open(waiting))

    def facts(self, before: _Look | None, watched_s: float, seen: Mapping[str, Any] | None) -> GroupFacts:
        """Returns the facts of a look now, of the one before, and of what a broker has seen meanwhile."""
        facts = self._facts(self.look(), before, watched_s)
        if seen is not None:
            facts = with_inside(facts, seen)
        return _with_reading(self._brokers, facts, self._notes)

    def seen_once(self, now: _Look) -> GroupFacts:
        """Returns the facts of one look, before anything is read."""
        return self._facts(now, None, 0)

    def _facts(self, now: _Look, before: _Look | None, watched_s: float) -> GroupFacts:
        state, earlier = now.state, now if before is None else before
        committed = {one.partition: one.committed for one in earlier.state.offsets}
        partitions = []
        for one in state.offsets:
            span = now.spans.get(one.partition, _Span())
            metadata = self._asked.metadata.topics.get(one.partition.topic)
            place = None if metadata is None else metadata.partitions.get(one.partition.number)
            partitions.append(
                PartitionFacts(
                    one.partition,
                    leader=None if place is None or place.leader < 0 else place.leader,
                    replicas=() if place is None else tuple(place.replicas),
                    log_start=span.log_start,
                    last_stable=span.last_stable,
                    high_watermark=one.end_offset if span.end is None else span.end,
                    committed=one.committed,
                    committed_before=committed.get(one.partition),
                    end_before=earlier.spans.get(one.partition, _Span()).end,
                    broker_lag=one.broker_lag,
                    member=one.member,
                    newest_ms=span.newest_ms,
                    transaction=now.open.get(one.partition),
                    transaction_before=earlier.open.get(one.partition),
                )
            )
        return GroupFacts(
            state.name,
            kind=state.kind,
            state=state.state,
            missing_topics=self._missing_topics(state),
            members=state.members,
            state_before=earlier.state.state,
            is_same_rebalance=state.epoch == earlier.state.epoch and _member_ids(state) == _member_ids(earlier.state),
            awaited=tuple(_awaited(state)),
            partitions=tuple(partitions),
            watched_s=watched_s,
            now_ms=self._asked.now_ms(),
        )

    def _spans(self, wanted: Sequence[Partition]) -> dict[Partition, _Span]:
        found: dict[Partition, _Span] = {}
        for leader, topics in self._brokers.by_leader(wanted).items():
            try:
                connection = self._brokers.at(leader)
                start = direct.offsets(connection, topics, direct.EARLIEST)
                stable = direct.offsets(connection, topics, direct.LATEST, isolation_level=direct.READ_COMMITTED)
                end = direct.offsets(connection, topics, direct.LATEST)
                knows_newest = connection.versions.get(list_offsets.API_KEY, (0, 0))[1] >= NEWEST_SINCE
                newest = direct.offsets(connection, topics, direct.NEWEST) if knows_newest else {}
            except Failure as failure:
                self._notes[f"offsets of partitions that broker {leader} leads are not known: {failure}"] = None
                continue
            for where in start.keys() | end.keys():
                newest_ms = newest[where].timestamp_ms if where in newest and newest[where].timestamp_ms >= 0 else None
                found[where] = _Span(_offset(start, where), _offset(stable, where), _offset(end, where), newest_ms)
        return found

    def _open(self, wanted: Sequence[Partition]) -> dict[Partition, OpenTransaction]:
        """Returns the first open transaction of each partition."""
        try:
            first: dict[Partition, Any] = {}
            for where, one in self._brokers.producers(wanted):
                if where not in first or one.current_txn_start_offset < first[where].current_txn_start_offset:
                    first[where] = one
            names = self._names({one.producer_id for one in first.values()})
        except Failure as failure:
            self._notes[f"open transactions are not known: {failure}"] = None
            return {}
        return {where: _opened(one, names.get(one.producer_id)) for where, one in first.items()}

    def _names(self, producers: Iterable[int]) -> dict[int, Any]:
        """Returns what coordinators know of these producers."""
        if not (wanted := sorted(producers)):
            return {}
        listed = self._brokers.transactions(wanted)
        described = self._brokers.describe_all({name: broker for name, (broker, _) in listed.items()})
        return {one.producer_id: described[name] for name, (_, one) in listed.items() if name in described}

    def _missing_topics(self, state: GroupState) -> tuple[tuple[str, str], ...]:
        """Returns topics to which members subscribe, and which are not there."""
        try:
            subscribed = self._subscribed(state)
        except Failure:
            return ()
        there = self._asked.metadata.topics
        return tuple((topic, client_id) for topic, client_id in sorted(subscribed) if topic and topic not in there)

    def _subscribed(self, state: GroupState) -> set[tuple[str, str]]:
        assert self._listed.broker is not None
        connection = self._brokers.at(self._listed.broker)
        if state.kind == kinds.CONSUMER:
            (one,) = connection.call(ConsumerGroupDescribeRequest([state.name])).groups
            return {(topic, member.client_id) for member in one.members for topic in member.subscribed_topic_names}
        if state.kind == kinds.CLASSIC:
            (described,) = connection.call(DescribeGroupsRequest([state.name])).groups
            if described.protocol_type == PROTOCOL_TYPE:
                return {
                    (topic, member.client_id)
                    for member in described.members
                    for topic in subscribed_topics(member.member_metadata)
                }
        return set()


def _opened(producer: Any, known: Any) -> OpenTransaction:
    """Returns a producer's open transaction with what a coordinator knows of it; None for `known` if none does."""
    if known is None:
        return OpenTransaction(None, producer.producer_id, producer.current_txn_start_offset, None)
    started_ms = None if open_ms(known, 0) is None else int(known.transaction_start_time_ms)
    return OpenTransaction(
        known.transactional_id,
        producer.producer_id,
        producer.current_txn_start_offset,
        started_ms,
        int(known.transaction_timeout_ms),
    )


def _member_ids(state: GroupState) -> frozenset[str]:
    return frozenset(member.member_id for member in state.members)


def _awaited(state: GroupState) -> Iterable[Awaited]:
    """Yields the members that have yet to reach what the broker assigned to them."""
    if state.state not in REBALANCING:
        return
    for member in state.members:
        if member.target is None:
            continue
        has, shall = set(member.partitions), set(member.target)
        if has - shall:
            yield Awaited(member.client_id, member.address, member.member_id, "has yet to give partitions up", None)


def _offset(found: Mapping[Partition, direct.PlaceInLog], where: Partition) -> int | None:
    return found[where].offset if where in found else None


def _with_reading(brokers: TxnBrokers, facts: GroupFacts, notes: dict[str, None]) -> GroupFacts:
    """Returns the facts with what is left in the partitions that are the furthest behind."""
    wanted = sorted((one for one in facts.partitions if one.lag > 0 and one.leader is not None), key=lambda one: -one.lag)
    read: dict[Partition, PartitionFacts] = {}
    for one in wanted[:MOST_READ]:
        if one.begin is None or one.high_watermark is None:
            continue
        begin = max(one.begin, one.log_start or 0)
        assert one.leader is not None
        try:
            left, batch = read_left(fetching(brokers.at(one.leader), one.partition), begin, one.high_watermark)
        except Failure as failure:
            notes[f"records of {one.partition} could not be read: {failure}"] = None
            continue
        read[one.partition] = replace(one, left=left, next_batch=batch)
    return replace(facts, partitions=tuple(read.get(one.partition, one) for one in facts.partitions))

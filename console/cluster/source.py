"""Questions that the console asks of a cluster, by the functions of the everyday commands: one client for all pages, used by
their threads (groups have their own, see `admin`).

The cluster's metadata and its list of groups are kept for some seconds, for they are large and every page needs them; offsets are
asked anew each time. What is not known is left out, with a note that says why; only what a page cannot do without is a Failure.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from ottla.commands import admin, config
from ottla.commands.clients import direct
from ottla.commands.clients.brokers import Brokers
from ottla.commands.clients.client import Cluster
from ottla.commands.clients.partition import Partition
from ottla.commands.config_rows import Entry, Kind, Target
from ottla.commands.groups import batched_requests, kinds
from ottla.commands.groups import states as group_states
from ottla.commands.groups.rows import GroupState
from ottla.commands.output import Failure, counted
from ottla.commands.topic_rows import PartitionState, total
from ottla.commands.why.facts import GroupFacts
from ottla.commands.why.gathering import Asked, gather
from ottla.commands.why.inside import Asking
from ottla.console.cluster.gatherings import Gathering, Gatherings, Tell
from ottla.console.cluster.history import History, Rises
from ottla.console.cluster.lags import Furthest, commits_of, furthest
from ottla.console.errors import Missing
from ottla.console.running.cache import Cache

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.admin._metadata import ClusterMetadata, PartitionMetadata, TopicMetadata

T = TypeVar("T")

KEPT_S: Final = 3.0
"""For how long metadata and listings are kept: a page and the next look at the same ones."""
MOST_RISING: Final = 10_000
"""The number of partitions that are looked at each time for the chart of all that is produced."""
NO_ANSWER: Final = "its coordinator does not answer, or is too old to be asked for many groups"


class Node(NamedTuple):
    """A broker. `leads` and `holds` are how many partitions it leads, and of how many it has a replica."""

    number: int
    host: str
    port: int
    is_controller: bool
    leads: int
    holds: int


class TopicSummary(NamedTuple):
    """The facts about a topic in the metadata."""

    name: str
    partitions: int
    replicas: int
    under_replicated: int
    without_leader: int
    is_internal: bool

    @property
    def is_well(self) -> bool:
        return not (self.under_replicated or self.without_leader)


@dataclass(frozen=True)
class Summary:
    """The cluster by its metadata. `metadata` are librdkafka's."""

    cluster_id: str | None
    nodes: tuple[Node, ...]
    topics: Mapping[str, TopicSummary]
    metadata: ClusterMetadata

    @property
    def partitions(self) -> int:
        return sum(topic.partitions for topic in self.topics.values())


class Held(NamedTuple):
    """The number of offsets that a topic holds, and of bytes that the leaders' logs have; None if not known. `ends` are the end
    offsets that are known."""

    offsets: int | None
    size_bytes: int | None
    ends: Mapping[Partition, int] = MappingProxyType({})


class Groups(NamedTuple):
    """The groups by name; `notes` say what is not known."""

    by_name: Mapping[str, kinds.Listed]
    notes: tuple[str, ...]


class States(NamedTuple):
    """States of groups by name, with members and offsets; `notes` say what is not known."""

    by_name: Mapping[str, GroupState]
    notes: tuple[str, ...]


class Source:
    """A cluster. `clock` counts seconds."""

    def __init__(self, cluster: Cluster, clock: Callable[[], float] = time.monotonic) -> None:
        self.cluster = cluster
        self._clock = clock
        self._cache = Cache(KEPT_S, clock)
        self._admin = Cache(float("inf"), clock)
        self.gatherings = Gatherings(clock)
        self.history = History(clock, _now_ms)
        self.begun_ms = _now_ms()
        """Since when this console has looked at the cluster, in ms since 1970."""
        self._rises = Rises()

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    @property
    def admin(self) -> AdminClient:
        """The client that is kept for what every page asks. Groups have one of their own each time, which is let go
        after an answer that did not come (see `GROUP_TIMEOUT_S` in commands/admin.py)."""
        return self._admin.get("admin", self.cluster.admin)

    def kept(self, key: str, ask: Callable[[], T]) -> T:
        """Returns what `ask` returns, or has returned for this key within KEPT_S. Raises what it raises."""
        return self._cache.get(key, ask)

    def lost(self) -> None:
        """Lets go of the client that is kept, after something failed: the next page asks by a new one."""
        self._admin.clear()

    def changed(self) -> None:
        """Forgets what is kept, after a change."""
        self._cache.clear()

    # The cluster and its topics

    def summary(self) -> Summary:
        """Returns the cluster by its metadata. Raises Failure if nobody answers."""

        def ask() -> Summary:
            try:
                return summary_of(self.cluster.reach(self.admin))
            except Exception:
                self.lost()
                raise

        return self._cache.get("summary", ask)

    def topic(self, name: str) -> TopicSummary:
        """Returns what the metadata say of a topic, which may be newer than what is kept. Raises Missing, Failure."""
        if name not in self.summary().topics:
            self._cache.forget("summary")
        found = self.summary().topics.get(name)
        if found is None:
            raise no_topic(name)
        return found

    def held(self, names: Sequence[str]) -> tuple[dict[str, Held], list[str]]:
        """Returns what each of these topics holds, and notes of what is not known."""
        metadata = self.summary().metadata
        wanted = {name: list(metadata.topics[name].partitions.values()) for name in names if name in metadata.topics}
        states, notes = self._partition_states(wanted)
        return {name: _held(name, of) for name, of in states.items()}, notes

    def furthest(self, ends: Mapping[Partition, int]) -> tuple[dict[str, Furthest], list[str]]:
        """Returns which group is the furthest behind in each topic, in the partitions with these end offsets, and notes of what
        is not known. Topics that no group has committed in are left out."""
        try:
            known = self.groups()
        except Failure as failure:
            return {}, [f"groups are not known: {failure}"]
        with Brokers(self.cluster, self.summary().metadata) as brokers:
            ask = partial(batched_requests.committed_of, brokers, topics={where.topic for where in ends})
            commits = commits_of(known.by_name.values(), ask, self._clock)
        wrong = [f"what {name} has committed is not known: {why or NO_ANSWER}" for name, why in commits.unknown.items()]
        if commits.left_out:
            left_out = counted(commits.left_out, "more group")
            wrong.insert(0, f"{left_out} not asked how far behind they are; a topic's own page has its groups")
        return furthest(commits.by_group, ends), [*known.notes, *_few(wrong)]

    def partitions(self, name: str, numbers: Sequence[int]) -> tuple[list[PartitionState], list[str]]:
        """Returns these partitions of a topic with their offsets and sizes, and notes of what is not known. Raises Missing."""
        there = self._metadata_of(name)
        states, notes = self._partition_states({name: [there[number] for number in numbers if number in there]})
        return states[name], notes

    def last_stable(self, name: str, numbers: Sequence[int]) -> tuple[dict[int, int], list[str]]:
        """Returns the last stable offset of these partitions of a topic, up to which a consumer gets records that reads committed
        ones only, and notes of what is not known. Raises Missing."""
        there = self._metadata_of(name)
        led = [Partition(name, number) for number in numbers if number in there and there[number].leader >= 0]
        with Brokers(self.cluster, self.summary().metadata) as brokers:
            found = batched_requests.ends_of(brokers, led, direct.READ_COMMITTED)
        left = len(led) - len(found)
        notes = [f"how far committed records are to be read is not known of {counted(left, 'partition')}"] if left else []
        return {where.number: offset for where, offset in found.items()}, notes

    def risen(self) -> tuple[int | None, list[str]]:
        """Returns by how much the end offsets of all topics but Kafka's own have risen since the first call, and notes of what is
        not known. None if they are too many to be asked for each time. Raises Failure."""
        summary = self.summary()
        topics = {name: topic for name, topic in summary.metadata.topics.items() if name not in admin.INTERNAL_TOPICS}
        with Brokers(self.cluster, summary.metadata) as brokers:
            led = brokers.by_leader((name, number) for name, topic in topics.items() for number in topic.partitions)
            if sum(len(numbers) for of in led.values() for numbers in of.values()) > MOST_RISING:
                return None, [f"what is produced is drawn for up to {counted(MOST_RISING, 'partition')}, and there are more"]
            look = self._rises.look()
            for leader, of in led.items():
                with suppress(Failure):
                    self._rises.add(look, direct.ends(brokers.at(leader), of))
        self._rises.keep_only(topics.keys())
        return self._rises.total, []

    def end_offsets(self, name: str) -> tuple[dict[Partition, int], list[str]]:
        """Returns the end offset of each partition of a topic as far as they are known, and notes for the others. Raises
        Missing."""
        led = [Partition(name, one.id) for one in self._metadata_of(name).values() if one.leader >= 0]
        with Brokers(self.cluster, self.summary().metadata) as brokers:
            end = batched_requests.ends_of(brokers, led)
        _, more, notes = self._left([one for one in led if one not in end])
        return end | more, notes

    def _metadata_of(self, name: str) -> Mapping[int, PartitionMetadata]:
        self.topic(name)
        found = self.summary().metadata.topics.get(name)
        if found is None:  # it went meanwhile
            raise no_topic(name)
        return found.partitions

    def _partition_states(
        self, wanted: Mapping[str, Sequence[PartitionMetadata]]
    ) -> tuple[dict[str, list[PartitionState]], list[str]]:
        """Returns these partitions by topic, with their offsets and sizes, and notes of what is not known."""
        led = [Partition(name, one.id) for name, partitions in wanted.items() for one in partitions if one.leader >= 0]
        with Brokers(self.cluster, self.summary().metadata) as brokers:
            first, end, notes = self.offsets(brokers, led)
            sizes, more = _sizes(brokers, wanted)

        def state(where: Partition, one: PartitionMetadata) -> PartitionState:
            leader = one.leader if one.leader >= 0 else None
            replicas, in_sync = tuple(one.replicas), tuple(one.isrs)
            return PartitionState(one.id, leader, replicas, in_sync, first.get(where), end.get(where), sizes.get(where))

        states = {name: [state(Partition(name, one.id), one) for one in partitions] for name, partitions in wanted.items()}
        return states, [*notes, *more]

    def offsets(
        self, brokers: Brokers, partitions: Sequence[Partition]
    ) -> tuple[dict[Partition, int], dict[Partition, int], list[str]]:
        """Returns the first and the end offset of each partition as far as they are known, and notes for the others."""
        first, end = batched_requests.first_and_end_of(brokers, partitions)
        more, more_too, notes = self._left([one for one in partitions if one not in first or one not in end])
        return first | more, end | more_too, notes

    def _left(self, partitions: Sequence[Partition]) -> tuple[dict[Partition, int], dict[Partition, int], list[str]]:
        """Returns the same by librdkafka. That takes more time for each partition, but it finds leaders that have moved, knows
        more ways to log in, and has a reason for what is not known."""
        if not partitions:
            return {}, {}, []
        first, end, wrong = admin.first_and_end(self.cluster, self.admin, partitions)
        if wrong:
            self.lost()
        return first, end, _few([f"the offsets of {one} are not known: {why}" for one, why in wrong.items()])

    def sizes(self, wanted: Mapping[str, Sequence[PartitionMetadata]]) -> tuple[dict[Partition, int], list[str]]:
        """Returns the bytes of the leader's log of each partition as far as they are known, and notes for the others."""
        with Brokers(self.cluster, self.summary().metadata) as brokers:
            return _sizes(brokers, wanted)

    # Settings

    def settings(self, kind: Kind, name: str) -> list[Entry]:
        """Returns all settings of a topic, a broker, all brokers together or a group. Raises Failure."""
        errors: dict[str, str] = {}
        found = config.Settings(self.cluster, self.admin, self.summary().metadata).read([Target(kind, name)], errors, int)
        for why in errors.values():
            raise Failure(f"{Target(kind, name)}: {why}")
        return found[0][1]

    # Groups

    def groups(self) -> Groups:
        """Returns the groups of every kind. Raises Failure if nobody answers."""

        def ask() -> Groups:
            notes: dict[str, None] = {}
            with Brokers(self.cluster, self.summary().metadata) as brokers:
                found, errors = kinds.listing(self.cluster, self.cluster.admin(), brokers, notes)
            return Groups(found, (*notes, *_few([f"{what}: {why}" for what, why in errors.items()])))

        return self._cache.get("groups", ask)

    def states(self, names: Sequence[str], topic: str | None = None) -> States:
        """Returns the states of these groups, without those that have gone, with their offsets in all topics or in this one.
        Raises Failure."""
        known = self.groups().by_name
        notes: dict[str, None] = {}
        with Brokers(self.cluster, self.summary().metadata) as brokers:
            wanted = [known[name] for name in names if name in known]
            found, errors = group_states.states_of(self.cluster, self.cluster.admin(), brokers, wanted, notes, topic)
        return States({state.name: state for state in found}, (*notes, *_few([f"{name}: {why}" for name, why in errors.items()])))

    def state(self, name: str) -> tuple[GroupState, tuple[str, ...]]:
        """Returns the state of one group, and notes. Raises Missing, Failure."""
        if name not in self.groups().by_name:
            self._cache.forget("groups")
        if name not in self.groups().by_name:
            raise Missing(f"There is no group {name or '(empty name)'}.")
        states = self.states([name])
        if name not in states.by_name:
            raise Failure("; ".join(states.notes) or f"group {name} has gone")
        return states.by_name[name], states.notes

    def why(self, name: str, watch_s: float, inside: Asking | None, number: int = 0) -> Gathering:
        """Returns what is being found out of why a group is stuck, by watching it for so long: that with the number, if it is
        still known, or a new one. `inside` asks the broker that runs this console, if one does. Raises Failure."""

        def find_out(tell: Tell) -> GroupFacts:
            metadata, wait = self.summary().metadata, threading.Event().wait
            asked = Asked(self.cluster, self.cluster.admin(), metadata, wait, _now_ms, inside)
            return gather(replace(asked, tell=tell), name, watch_s)

        return self.gatherings.find_or_begin((name, watch_s), find_out, number)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _sizes(brokers: Brokers, wanted: Mapping[str, Iterable[PartitionMetadata]]) -> tuple[dict[Partition, int], list[str]]:
    sizes: dict[Partition, int] = {}
    notes: list[str] = []
    for leader, topics in brokers.by_leader((name, one.id) for name, partitions in wanted.items() for one in partitions).items():
        try:
            sizes |= direct.log_sizes(brokers.at(leader), topics)
        except Failure as failure:
            notes.append(f"sizes are not known: {failure}")
    return sizes, notes


def _held(name: str, partitions: Sequence[PartitionState]) -> Held:
    ends = {Partition(name, one.number): one.end_offset for one in partitions if one.end_offset is not None}
    return Held(total(one.offsets_held for one in partitions), total(one.size_bytes for one in partitions), ends)


def no_topic(name: str) -> Missing:
    return Missing(f"There is no topic {name}.")


def summary_of(metadata: ClusterMetadata) -> Summary:
    """Makes the summary of librdkafka's metadata."""
    leads: dict[int, int] = {}
    holds: dict[int, int] = {}
    topics = {}
    for name, topic in sorted(metadata.topics.items()):
        topics[name] = _topic_summary(name, topic)
        for one in topic.partitions.values():
            leads[one.leader] = leads.get(one.leader, 0) + 1
            for replica in one.replicas:
                holds[replica] = holds.get(replica, 0) + 1
    nodes = tuple(
        Node(number, str(one.host), one.port, number == metadata.controller_id, leads.get(number, 0), holds.get(number, 0))
        for number, one in sorted(metadata.brokers.items())
    )
    return Summary(metadata.cluster_id, nodes, topics, metadata)


def _topic_summary(name: str, topic: TopicMetadata) -> TopicSummary:
    partitions = topic.partitions.values()
    return TopicSummary(
        name,
        len(partitions),
        max((len(one.replicas) for one in partitions), default=0),
        sum(len(one.isrs) < len(one.replicas) for one in partitions),
        sum(one.leader < 0 for one in partitions),
        name in admin.INTERNAL_TOPICS,
    )


def _few(notes: Sequence[str]) -> list[str]:
    """Returns the first few notes, and one for the rest."""
    return [*notes[:3], f"and {len(notes) - 3} more"] if len(notes) > 3 else [*notes]

"""What the console asks of a cluster, by the functions of the everyday commands: one client for all pages, used by their threads.

The cluster's metadata and its list of groups are kept for some seconds, for they are large and every page needs them; offsets are
asked anew each time. What is not known is left out, with a note that says why; only what a page cannot do without is a Failure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.commands import admin, config, direct, group, group_kinds
from ottla.commands.brokers import Brokers
from ottla.commands.client import Cluster
from ottla.commands.config_rows import Entry, Kind, Target
from ottla.commands.group_rows import GroupState
from ottla.commands.output import Failure
from ottla.commands.positions import Partition
from ottla.commands.topic_rows import PartitionState
from ottla.console.cache import Cache
from ottla.console.missing import Missing

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.admin._metadata import ClusterMetadata, PartitionMetadata, TopicMetadata

KEPT_S: Final = 3.0
"""For how long metadata and listings are kept: a page and the next look at the same ones."""


class Node(NamedTuple):
    """A broker. `leads` and `holds` are how many partitions it leads, and of how many it has a replica."""

    number: int
    host: str
    port: int
    is_controller: bool
    leads: int
    holds: int


class TopicSummary(NamedTuple):
    """What the metadata say of a topic."""

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
    """How many offsets a topic holds, and how many bytes the leaders' logs have; None if not known."""

    offsets: int | None
    size_bytes: int | None


class Groups(NamedTuple):
    """The groups by name; `notes` say what is not known."""

    by_name: Mapping[str, group_kinds.Listed]
    notes: tuple[str, ...]


class States(NamedTuple):
    """States of groups by name, with members and offsets; `notes` say what is not known."""

    by_name: Mapping[str, GroupState]
    notes: tuple[str, ...]


class Source:
    """A cluster. `clock` counts seconds."""

    def __init__(self, cluster: Cluster, clock: Callable[[], float] = time.monotonic) -> None:
        self.cluster = cluster
        self._cache = Cache(KEPT_S, clock)
        self._admin = Cache(float("inf"), clock)

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    @property
    def admin(self) -> AdminClient:
        """The client that is kept for what every page asks. Groups have one of their own each time: librdkafka (2.15) ends the
        process if a broker goes away while a request for a group waits, and the same client asks about groups again."""
        return self._admin.get("admin", self.cluster.admin)

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
            raise Missing(f"There is no topic {name}.")
        return found

    def held(self, names: Sequence[str]) -> tuple[dict[str, Held], list[str]]:
        """Returns what each of these topics holds, and notes of what is not known."""
        metadata = self.summary().metadata
        found = {name: metadata.topics[name].partitions for name in names if name in metadata.topics}
        led = [Partition(name, number) for name, of in found.items() for number, one in of.items() if one.leader >= 0]
        first, end, notes = self.offsets(led)
        sizes, more = self.sizes({name: of.values() for name, of in found.items()})
        held: dict[str, Held] = {}
        for name, of in found.items():
            partitions = [Partition(name, number) for number in of]
            offsets = [end[one] - first[one] for one in partitions if one in end and one in first]
            bytes_of = [sizes[one] for one in partitions if one in sizes]
            held[name] = Held(
                sum(offsets) if len(offsets) == len(partitions) else None,
                sum(bytes_of) if len(bytes_of) == len(partitions) else None,
            )
        return held, [*notes, *more]

    def partitions(self, name: str, numbers: Sequence[int]) -> tuple[list[PartitionState], list[str]]:
        """Returns these partitions of a topic with their offsets and sizes, and notes of what is not known. Raises Missing."""
        self.topic(name)
        there = self.summary().metadata.topics[name].partitions
        wanted = {number: there[number] for number in numbers if number in there}
        first, end, notes = self.offsets([Partition(name, number) for number, one in wanted.items() if one.leader >= 0])
        sizes, more = self.sizes({name: wanted.values()})
        return [
            PartitionState(
                number,
                one.leader if one.leader >= 0 else None,
                tuple(one.replicas),
                tuple(one.isrs),
                first.get(Partition(name, number)),
                end.get(Partition(name, number)),
                sizes.get(Partition(name, number)),
            )
            for number, one in wanted.items()
        ], [*notes, *more]

    def offsets(self, partitions: Sequence[Partition]) -> tuple[dict[Partition, int], dict[Partition, int], list[str]]:
        """Returns the first and the end offset of each partition as far as they are known, and notes for the others."""
        specs = admin.offset_specs()
        first, wrong = admin.list_offsets(self.cluster, self.admin, dict.fromkeys(partitions, specs.earliest()))
        end, wrong_too = admin.list_offsets(self.cluster, self.admin, dict.fromkeys(partitions, specs.latest()))
        if wrong or wrong_too:
            self.lost()
        return first, end, _notes("the offsets of {} are not known: {}", {**wrong, **wrong_too})

    def sizes(self, wanted: Mapping[str, Iterable[PartitionMetadata]]) -> tuple[dict[Partition, int], list[str]]:
        """Returns the bytes of the leader's log of each partition as far as they are known, and notes for the others."""
        by_leader: dict[int, dict[str, list[int]]] = {}
        for name, partitions in wanted.items():
            for one in partitions:
                if one.leader >= 0:
                    by_leader.setdefault(one.leader, {}).setdefault(name, []).append(one.id)
        sizes: dict[Partition, int] = {}
        notes: list[str] = []
        with Brokers(self.cluster, self.summary().metadata) as brokers:
            for leader, partitions_of in by_leader.items():
                try:
                    sizes |= direct.log_sizes(brokers.at(leader), partitions_of)
                except Failure as failure:
                    notes.append(f"sizes are not known: {failure}")
        return sizes, notes

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
                found, errors = group_kinds.listing(self.cluster, self.cluster.admin(), brokers, notes)
            return Groups(found, (*notes, *(f"{what}: {why}" for what, why in errors.items())))

        return self._cache.get("groups", ask)

    def states(self, names: Sequence[str]) -> States:
        """Returns the states of these groups, without those that have gone. Raises Failure."""
        known = self.groups().by_name
        notes: dict[str, None] = {}
        with Brokers(self.cluster, self.summary().metadata) as brokers:
            found, errors = group.states_of(
                self.cluster, self.cluster.admin(), brokers, [known[name] for name in names if name in known], notes
            )
        return States({state.name: state for state in found}, (*notes, *(f"{name}: {why}" for name, why in errors.items())))

    def state(self, name: str) -> tuple[GroupState, tuple[str, ...]]:
        """Returns the state of one group, and notes. Raises Missing, Failure."""
        if name not in self.groups().by_name:
            self._cache.forget("groups")
        if name not in self.groups().by_name:
            raise Missing(f"There is no group {name}.")
        states = self.states([name])
        if name not in states.by_name:
            raise Failure("; ".join(states.notes) or f"group {name} has gone")
        return states.by_name[name], states.notes


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


def _notes(form: str, wrong: Mapping[Any, str]) -> list[str]:
    """Returns a note for each of the first few errors, and one for the rest."""
    notes = [form.format(what, why) for what, why in list(wrong.items())[:3]]
    return [*notes, f"and {len(wrong) - 3} more"] if len(wrong) > 3 else notes

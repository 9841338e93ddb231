"""Works out what an application's topology needs of the cluster: its topics, the partition counts of its internal topics, and
its tasks.

A topology comes with the first member and is kept as it came. `configure` compares it with the topics that exist:

1. Every source topic must exist (MISSING_SOURCE_TOPICS). 2. A repartition topic without a partition count gets the largest count
of the topics that are read by the subtopology writing to it. These may be repartition topics themselves, so this is repeated
until nothing changes. 3. Topics that are read together (a copartition group) must have the same count: that of the application's
external topics, if there are any, which repartition topics without a fixed count then take (INCORRECTLY_PARTITIONED_TOPICS). 4. A
changelog topic has the largest count of the topics that its subtopology reads, and the subtopology has that many tasks; all
subtopologies may have MOST_TASKS. 5. Internal topics that exist must have these counts (INCORRECTLY_PARTITIONED_TOPICS); the
others have to be created (MISSING_INTERNAL_TOPICS). Nothing is assigned before all of them exist.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from heapq import heappop, heappush
from typing import Final, NamedTuple, Protocol

from ottla.server.base.turns import Steps
from ottla.server.group.cluster import Topic
from ottla.server.group.errors import GroupError
from ottla.server.group.streams.assignor import SubtopologySpec
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.internal.streams_group_topology_value import StreamsGroupTopologyValue, Subtopology, TopicInfo

MOST_TASKS: Final = 20_000
"""The most tasks of one group. A large application has some thousands, but a few bytes of a request can ask for billions."""
MOST_NAMED: Final = 5_000
"""The most subtopologies, topics, settings of internal topics, and copartition groups with their members, in one topology, each
counted where it is named. A large application has some hundreds."""
_SHOWN = 3  # how many names a message contains


class Status(enum.IntEnum):
    """The statuses of a group that a member's answers contain, with the codes of StreamsGroupHeartbeatResponse."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


class Problem(NamedTuple):
    """A status and its explanation for people."""

    status: Status
    detail: str


class InternalTopic(NamedTuple):
    """A topic that belongs to the application. `replication_factor` is 0 for the cluster's default."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


class ConfiguredSubtopology(NamedTuple):
    """A subtopology whose partition counts are known."""

    tasks: int
    source_topics: Collection[str]
    repartition_sources: Mapping[str, InternalTopic]
    repartition_sinks: Collection[str]
    changelogs: Mapping[str, InternalTopic]

    @property
    def inputs(self) -> list[str]:
        return list(dict.fromkeys([*self.source_topics, *self.repartition_sources]))


class ConfiguredTopology(NamedTuple):
    """A topology in the present cluster. `subtopologies` is None if not even the partition counts could be determined."""

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    missing: Mapping[str, InternalTopic]
    problem: Problem | None

    @property
    def is_ready(self) -> bool:
        return self.problem is None

    def specs(self) -> dict[str, SubtopologySpec]:
        """Returns the subtopologies as the assignor takes them. The topology must be ready."""
        assert self.subtopologies is not None
        return {name: SubtopologySpec(known.tasks, bool(known.changelogs)) for name, known in self.subtopologies.items()}


class _Topics(Protocol):
    def get(self, name: str) -> Topic | None: ...


class _Misfit(Exception):
    """The topology does not fit the topics of the cluster."""

    def __init__(self, status: Status, detail: str) -> None:
        super().__init__(detail)
        self.problem = Problem(status, detail)


def required_topics(topology: StreamsGroupTopologyValue) -> set[str]:
    """Returns the names of all topics that the application reads or keeps its state in."""
    return {
        name
        for subtopology in topology.subtopologies
        for name in (*_inputs(subtopology), *(topic.name for topic in subtopology.state_changelog_topics))
    }


def subtopologies_by_source(topology: StreamsGroupTopologyValue) -> dict[str, str]:
    """Returns the subtopology that reads each topic, by topic name."""
    return {name: subtopology.subtopology_id for subtopology in topology.subtopologies for name in _inputs(subtopology)}


def configure(topology: StreamsGroupTopologyValue, topics: _Topics) -> Steps[ConfiguredTopology]:
    """Makes steps that compare a topology with the topics that exist (see the module's docstring). They raise GroupError
    STREAMS_INVALID_TOPOLOGY if no set of topics could make it work, or if it has too many tasks.
    """
    try:
        return (yield from _configure(topology, topics))
    except _Misfit as misfit:
        return ConfiguredTopology(topology.epoch, None, {}, misfit.problem)


def _configure(topology: StreamsGroupTopologyValue, topics: _Topics) -> Steps[ConfiguredTopology]:
    subtopologies = topology.subtopologies
    absent = sorted({name for subtopology in subtopologies for name in subtopology.source_topics if topics.get(name) is None})
    if absent:
        raise _Misfit(Status.MISSING_SOURCE_TOPICS, f"These source topics do not exist: {first_few(absent)}.")
    counts = _Counts(topics)
    counts.decided.update((yield from _repartition_counts(subtopologies, counts)))
    yield from _copartition(subtopologies, counts)
    tasks = 0
    for subtopology in subtopologies:
        most = _largest(subtopology, counts)
        tasks += most
        counts.decided.update({topic.name: most for topic in subtopology.state_changelog_topics})
        yield None
    if tasks > MOST_TASKS:
        raise _invalid(f"The topology would have {tasks} tasks with its topics, and a group may have {MOST_TASKS} at most.")
    configured: dict[str, ConfiguredSubtopology] = {}
    missing: dict[str, InternalTopic] = {}
    for subtopology in sorted(subtopologies, key=_by_id):
        known = configured[subtopology.subtopology_id] = _subtopology(subtopology, counts)
        missing |= known.repartition_sources
        missing |= known.changelogs
        yield None
    for name in sorted(required_topics(topology)):
        existing = topics.get(name)
        wanted = missing.pop(name, None) if existing is not None else None
        if existing is not None and wanted is not None and len(existing.partitions) != wanted.partitions:
            raise _Misfit(
                Status.INCORRECTLY_PARTITIONED_TOPICS,
                f"Topic {name} has {len(existing.partitions)} partitions, but the topology needs {wanted.partitions}.",
            )
        yield None
    problem = None
    if missing:
        problem = Problem(
            Status.MISSING_INTERNAL_TOPICS, f"These internal topics do not exist yet: {first_few(sorted(missing))}."
        )
    return ConfiguredTopology(topology.epoch, configured, missing, problem)


def first_few(names: Sequence[str]) -> str:
    """Returns the first few names as text for a message."""
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


class _Counts:
    """The partition counts of topics: the actual count of a topic that exists, otherwise the one that was decided."""

    def __init__(self, topics: _Topics) -> None:
        self._topics = topics
        self.decided: dict[str, int] = {}

    def get(self, name: str) -> int | None:
        topic = self._topics.get(name)
        return self.decided.get(name) if topic is None else len(topic.partitions)

    def __getitem__(self, name: str) -> int:
        count = self.get(name)
        if count is None:
            raise _invalid(f"The topology does not determine the number of partitions of topic {name}.")
        return count


def _repartition_counts(subtopologies: Sequence[Subtopology], counts: _Counts) -> Steps[dict[str, int]]:
    """Makes steps that return the partition counts of the repartition topics.

    Kafka goes over the subtopologies again and again. When it comes to one some of whose sources have a count by then, the topics
    that this one writes to, and that have none yet, get the largest of these. Here the subtopologies are visited in the order in
    which they would find a source with a count, each once (`turn` counts Kafka's rounds), because a chain of thousands that is
    listed backwards would take as many rounds.
    """
    known = {
        topic.name: topic.partitions
        for subtopology in subtopologies
        for topic in subtopology.repartition_source_topics
        if topic.partitions
    }
    readers: dict[str, list[int]] = {}
    for index, subtopology in enumerate(subtopologies):
        for topic in subtopology.repartition_source_topics:
            readers.setdefault(topic.name, []).append(index)
    turns = [(0, index) for index in range(len(subtopologies))]
    visited: set[int] = set()
    while turns:
        turn, index = heappop(turns)
        if index in visited:
            continue
        most = _largest_known(subtopologies[index], known, counts)
        yield None
        if most is None:
            continue
        visited.add(index)
        for sink in subtopologies[index].repartition_sink_topics:
            if sink not in known:
                known[sink] = most
                for reader in readers.get(sink, ()):
                    heappush(turns, (turn if reader > index else turn + 1, reader))
    unknown = {sink for subtopology in subtopologies for sink in subtopology.repartition_sink_topics} - known.keys()
    if unknown:
        raise _invalid(f"The partition counts of these repartition topics depend on each other: {first_few(sorted(unknown))}.")
    for subtopology in subtopologies:
        for topic in subtopology.repartition_source_topics:
            if topic.name not in known:
                raise _invalid(f"Nothing writes to the repartition topic {topic.name}, so its number of partitions is unknown.")
    return known


def _largest_known(subtopology: Subtopology, known: Mapping[str, int], counts: _Counts) -> int | None:
    """Returns the largest partition count of the topics that a subtopology reads; None if none of them has one yet."""
    found = [known.get(topic.name) for topic in subtopology.repartition_source_topics]
    found += [counts.get(name) for name in subtopology.source_topics]
    return max((count for count in found if count is not None), default=None)


def _copartition(subtopologies: Sequence[Subtopology], counts: _Counts) -> Steps[None]:
    fixed: set[str] = set()
    flexible: set[str] = set()
    for subtopology in subtopologies:
        for topic in subtopology.repartition_source_topics:
            (fixed if topic.partitions else flexible).add(topic.name)
    of_fixed = cache(lambda: _common_count({name: counts[name] for name in fixed}))
    for subtopology in subtopologies:
        for group in subtopology.copartition_groups:
            try:
                names = {subtopology.source_topics[index] for index in group.source_topics}
                names |= {subtopology.repartition_source_topics[index].name for index in group.repartition_source_topics}
            except IndexError:
                raise _invalid(
                    f"A copartition group of subtopology {subtopology.subtopology_id} names topics that it does not have."
                ) from None
            if names:
                counts.decided.update(_agree(names, fixed, flexible, counts, of_fixed))
            yield None


def _agree(names: set[str], fixed: set[str], flexible: set[str], counts: _Counts, of_fixed: Callable[[], int]) -> dict[str, int]:
    """Returns the partition counts of the repartition topics among topics that are read together. `of_fixed` returns the count
    that all `fixed` topics have, and raises _Misfit if they have different ones.
    """
    ours = {name: counts[name] for name in names if name in fixed or name in flexible}
    others = {name: counts[name] for name in names - ours.keys()}
    if others:
        agreed = _common_count(others)
    elif fixed:
        agreed = of_fixed()
    else:
        agreed = max(ours.values())
    for name in sorted(fixed & ours.keys()):
        if ours[name] != agreed:
            raise _Misfit(  # Kafka's KStreamRepartitionIntegrationTest looks for these words, under either protocol
                Status.INCORRECTLY_PARTITIONED_TOPICS,
                f"Number of partitions [{ours[name]}] of repartition topic [{name}] doesn't match "
                f"number of partitions [{agreed}] of the source topic.",
            )
    return dict.fromkeys(ours, agreed)


def _common_count(counts: Mapping[str, int]) -> int:
    different = set(counts.values())
    if len(different) > 1:
        listed = ", ".join(f"{name}: {counts[name]}" for name in sorted(counts))
        raise _Misfit(
            Status.INCORRECTLY_PARTITIONED_TOPICS, f"Topics that are read together have different partition counts: {listed}."
        )
    return different.pop()


def _subtopology(subtopology: Subtopology, counts: _Counts) -> ConfiguredSubtopology:
    return ConfiguredSubtopology(
        _largest(subtopology, counts),
        sorted(set(subtopology.source_topics)),
        {topic.name: _internal(topic, counts) for topic in subtopology.repartition_source_topics},
        sorted(set(subtopology.repartition_sink_topics)),
        {topic.name: _internal(topic, counts) for topic in subtopology.state_changelog_topics},
    )


def _internal(topic: TopicInfo, counts: _Counts) -> InternalTopic:
    partitions = topic.partitions or counts.decided[topic.name]
    return InternalTopic(
        topic.name, partitions, topic.replication_factor, {config.key: config.value for config in topic.topic_configs}
    )


def _largest(subtopology: Subtopology, counts: _Counts) -> int:
    inputs = _inputs(subtopology)
    if not inputs:
        raise _invalid(f"Subtopology {subtopology.subtopology_id} reads nothing.")
    return max(counts[name] for name in inputs)


def _inputs(subtopology: Subtopology) -> list[str]:
    return [*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics)]


def _by_id(subtopology: Subtopology) -> str:
    return subtopology.subtopology_id


def _invalid(detail: str) -> GroupError:
    return GroupError(ErrorCode.STREAMS_INVALID_TOPOLOGY, detail)

"""A cluster that says whatever a test wants it to say, also what no broker would."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.commands.clients.partition import Partition
from ottla.commands.config_rows import Entry, Kind
from ottla.commands.groups.kinds import Listed
from ottla.commands.groups.rows import Coordinator, GroupState
from ottla.commands.topic_rows import PartitionState
from ottla.commands.why.facts import GroupFacts
from ottla.console.cluster.gatherings import Gathering
from ottla.console.cluster.history import History
from ottla.console.cluster.lags import Furthest
from ottla.console.cluster.source import Groups, Held, Node, States, Summary, TopicSummary
from ottla.console.errors import Missing
from ottla.console.subjects.storage import Directory

NO_METADATA: Any = None


def topic_summary(name: str, partitions: int = 1, under: int = 0, offline: int = 0, *, internal: bool = False) -> TopicSummary:
    return TopicSummary(name, partitions, 1, under, offline, internal)


def group_state(name: str, kind: str = "classic", state: str = "Empty", **more: Any) -> GroupState:
    return GroupState(name, state, kind, "range", Coordinator(1, "host", 9092), (), (), **more)


@dataclass
class FakeInside:
    """Answers each question with what a test says, or what a function of its arguments returns, an error by raising it; `asked`
    are the questions."""

    answers: dict[str, Any] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    waited: list[tuple[str, int, float]] = field(default_factory=list)
    """The waits that were asked for; `when_waited` makes them come true."""
    when_waited: Callable[[], object] = lambda: None

    def ask(self, question: str, **arguments: Any) -> Any:
        self.asked.append((question, arguments))
        answer = self.answers[question]
        if callable(answer):
            answer = answer(**arguments)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def wait_for(self, news: str, number: int, within_s: float) -> None:
        self.waited.append((news, number, within_s))
        self.when_waited()


@dataclass
class FakeSource:
    """Has the methods of a Source that pages call."""

    topics: Sequence[TopicSummary] = ()
    states_of: Sequence[GroupState] = ()
    entries: Sequence[Entry] = ()
    held_of: dict[str, Held] = field(default_factory=dict)
    furthest_of: dict[str, Furthest] = field(default_factory=dict)
    asked_ends: list[dict[Partition, int]] = field(default_factory=list)
    stable_of: dict[int, int] = field(default_factory=dict)
    rising: Iterator[int | None] = field(default_factory=lambda: itertools.count(0, 10))
    directories_of: Sequence[Directory] | Exception = ()
    begun_ms: int = 0
    notes: tuple[str, ...] = ()
    cluster_id: str = "the-cluster"
    host: str = "host"
    bootstrap: str = "host:9092"
    asked: list[object] = field(default_factory=list)
    history: History = field(default_factory=lambda: History(itertools.count(0, 2).__next__, itertools.count(0, 2000).__next__))
    facts: GroupFacts | None = None
    brokers: Sequence[int] = (1,)
    controller: int = 1
    metadata: Any = NO_METADATA
    gathering: Gathering = field(default_factory=lambda: Gathering(1, "a group"))

    def summary(self) -> Summary:
        nodes = tuple(Node(number, self.host, 9092, number == self.controller, 3, 3) for number in self.brokers)
        return Summary(self.cluster_id, nodes, {topic.name: topic for topic in self.topics}, self.metadata)

    def topic(self, name: str) -> TopicSummary:
        found = self.summary().topics.get(name)
        if found is None:
            raise Missing(f"There is no topic {name}.")
        return found

    def held(self, names: Sequence[str]) -> tuple[dict[str, Held], list[str]]:
        self.asked.append(list(names))
        return self.held_of, list(self.notes)

    def furthest(self, ends: Mapping[Partition, int]) -> tuple[dict[str, Furthest], list[str]]:
        self.asked_ends.append(dict(ends))
        return self.furthest_of, []

    def last_stable(self, name: str, numbers: Sequence[int]) -> tuple[dict[int, int], list[str]]:
        return {number: self.stable_of[number] for number in numbers if number in self.stable_of}, []

    def risen(self) -> tuple[int | None, list[str]]:
        return next(self.rising), []

    def kept(self, key: str, ask: Callable[[], Any]) -> Any:
        assert key == "directories"
        if isinstance(self.directories_of, Exception):
            raise self.directories_of
        return self.directories_of, [*self.notes]

    def partitions(self, name: str, numbers: Sequence[int]) -> tuple[list[PartitionState], list[str]]:
        self.asked.append(list(numbers))
        return [PartitionState(number, None if number == 1 else 1, (1, 2), (1,), 5, 12, 2048) for number in numbers], [
            *self.notes
        ]

    def end_offsets(self, name: str) -> tuple[dict[Partition, int], list[str]]:
        return {Partition(name, number): 12 for number in range(self.topic(name).partitions)}, [*self.notes]

    def settings(self, kind: Kind, name: str) -> list[Entry]:
        self.asked.append((kind, name))
        return list(self.entries)

    def groups(self) -> Groups:
        return Groups({one.name: Listed(one.name, one.state, one.kind, 1) for one in self.states_of}, self.notes)

    def states(self, names: Sequence[str], topic: str | None = None) -> States:
        self.asked.append(list(names) if topic is None else (topic, list(names)))
        return States({one.name: one for one in self.states_of if one.name in names}, ())

    def state(self, name: str) -> tuple[GroupState, tuple[str, ...]]:
        for one in self.states_of:
            if one.name == name:
                return one, self.notes
        raise Missing(f"There is no group {name}.")

    def why(self, name: str, watch_s: float, inside: object, number: int) -> Gathering:
        self.asked.append((name, watch_s, inside is not None))
        self.gathering.facts = self.facts or GroupFacts(name, exists=False)
        self.gathering.end(0)
        return self.gathering

    def lost(self) -> None:
        self.asked.append("lost")

    def changed(self) -> None:
        self.asked.append("changed")

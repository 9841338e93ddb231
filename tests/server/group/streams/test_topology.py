"""These tests compare topologies with topics: partition counts that depend on each other, and topics that do not fit."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ottla.server.base.turns import at_once
from ottla.server.group.errors import GroupError
from ottla.server.group.streams import topology as module
from ottla.server.group.streams.topology import (
    ConfiguredTopology,
    Status,
    _Counts,
    _repartition_counts,
    configure,
    required_topics,
    subtopologies_by_source,
)
from ottla.wire.errors import ErrorCode
from tests.noted import noted
from tests.server.group.streams.support import subtopology, topic, value

TOPICS = {name: topic(name, count) for name, count in {"t2": 2, "t3": 3, "u3": 3}.items()}


def configured(*subtopologies: Any, **more: int) -> ConfiguredTopology:
    return at_once(configure(value(*subtopologies, epoch=4), TOPICS | {name: topic(name, count) for name, count in more.items()}))


def counts(topology: ConfiguredTopology) -> dict[str, int]:
    """Returns the partition counts of the internal topics."""
    return {
        name: internal.partitions
        for each in (topology.subtopologies or {}).values()
        for name, internal in {**each.repartition_sources, **each.changelogs}.items()
    }


def problem(topology: ConfiguredTopology) -> Status | None:
    return None if topology.problem is None else topology.problem.status


def test_statuses_have_the_codes_that_clients_know() -> None:
    assert {status.value: status.name for status in Status} == {
        0: "STALE_TOPOLOGY",
        1: "MISSING_SOURCE_TOPICS",
        2: "INCORRECTLY_PARTITIONED_TOPICS",
        3: "MISSING_INTERNAL_TOPICS",
        4: "SHUTDOWN_APPLICATION",
        5: "ASSIGNMENT_DELAYED",
        6: "MISSING_CLIENT_TAGS",
    }


def test_without_internal_topics_the_sources_say_it_all() -> None:
    topology = configured(subtopology("1", "t2", "t3"), subtopology("0", "t2"))
    assert topology.is_ready
    assert topology.epoch == 4
    assert {name: each.tasks for name, each in (topology.subtopologies or {}).items()} == {"0": 2, "1": 3}
    assert {name: spec.stateful for name, spec in topology.specs().items()} == {"0": False, "1": False}


def test_counts_go_down_the_topology() -> None:
    """Counts pass from the sources to a repartition topic, from there to the next, and to the changelog behind it,
    in any order.
    """
    topology = configured(
        subtopology("2", repartition={"b": 0}, changelogs=["log"]),
        subtopology("1", repartition={"a": 0}, sinks=["b"]),
        subtopology("0", "t2", "t3", sinks=["a"]),
    )
    assert counts(topology) == {"a": 3, "b": 3, "log": 3}
    assert problem(topology) is Status.MISSING_INTERNAL_TOPICS
    assert sorted(topology.missing) == ["a", "b", "log"]
    assert list(topology.subtopologies or {}) == ["0", "1", "2"]


def test_what_is_there_is_not_missing() -> None:
    members = [subtopology("0", "t3", sinks=["a"]), subtopology("1", repartition={"a": 0}, changelogs=["log"])]
    assert list(configured(*members, a=3).missing) == ["log"]
    assert configured(*members, a=3, log=3).is_ready


@pytest.mark.parametrize("count", [2, 4])
def test_an_internal_topic_with_another_count(count: int) -> None:
    members = [subtopology("0", "t3", sinks=["a"]), subtopology("1", repartition={"a": 0}, changelogs=["log"])]
    topology = configured(*members, a=3, log=count)
    assert problem(topology) is Status.INCORRECTLY_PARTITIONED_TOPICS
    assert topology.subtopologies is None


def test_missing_sources_are_named() -> None:
    topology = configured(subtopology("0", "t2", "y", "x"), subtopology("1", *"vwz"))
    assert topology.problem == (Status.MISSING_SOURCE_TOPICS, "These source topics do not exist: v, w, x and 2 more.")


def test_a_given_count_stays() -> None:
    assert counts(configured(subtopology("0", "t3", sinks=["a"]), subtopology("1", repartition={"a": 7}))) == {"a": 7}


@pytest.mark.parametrize(
    ("repartition", "together", "agreed"),
    [
        ({"a": 0}, ([0], [0]), 2),  # follows the other topic, though its sources have three
        ({"a": 2}, ([0], [0]), 2),
        ({"a": 5}, ([0], [0]), None),
        ({"a": 0, "b": 0}, ([], [0, 1]), 3),  # nobody but ours: the most
        ({"a": 0, "b": 2}, ([], [0, 1]), 2),  # unless one is fixed
        ({"a": 5, "b": 4}, ([], [0, 1]), None),
    ],
)
def test_topics_that_are_read_together(
    repartition: dict[str, int], together: tuple[list[int], list[int]], agreed: int | None
) -> None:
    topology = configured(
        subtopology("0", "t3", sinks=list(repartition)), subtopology("1", "t2", repartition=repartition, together=[together])
    )
    assert problem(topology) is (Status.MISSING_INTERNAL_TOPICS if agreed else Status.INCORRECTLY_PARTITIONED_TOPICS)
    assert set(counts(topology).values()) == ({agreed} if agreed else set())


def test_sources_that_are_read_together_must_be_alike() -> None:
    assert configured(subtopology("0", "t3", "u3", together=[([0, 1], [])])).is_ready
    topology = configured(subtopology("0", "t3", "t2", together=[([0, 1], [])]))
    assert problem(topology) is Status.INCORRECTLY_PARTITIONED_TOPICS


@pytest.mark.parametrize(
    "subtopologies",
    [
        [subtopology("0")],
        [subtopology("0", "t2"), subtopology("1", repartition={"a": 0})],
        [subtopology("0", repartition={"a": 0}, sinks=["b"]), subtopology("1", repartition={"b": 0}, sinks=["a"])],
        [subtopology("0", "t2", together=[([1], [])])],
        [subtopology("0", "t2", together=[([], [0])])],
    ],
    ids=["reads nothing", "nobody writes", "a circle", "no such source", "no such repartition topic"],
)
def test_topologies_that_no_topics_can_help(subtopologies: list[Any]) -> None:
    with pytest.raises(GroupError) as refusal:
        configured(*subtopologies)
    assert refusal.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY


@pytest.mark.parametrize("by", ["a repartition topic's count", "sources"])
def test_a_group_has_so_many_tasks_and_no_more(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_TASKS", 9)

    def tasks_of(more: int) -> int | None:
        first = subtopology("0", "t3", "t2", changelogs=["log"])
        if by == "sources":
            other = subtopology("1", *(["six"] if more == 6 else ["six", "more"]))
        else:
            other = subtopology("1", repartition={"between": more})
        found = configured(first, other, six=6, more=more).subtopologies
        assert found is not None
        return sum(each.tasks for each in found.values())

    assert tasks_of(6) == 9
    with pytest.raises(GroupError, match="would have 10 tasks") as refused:
        tasks_of(7)
    assert refused.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_billions_of_tasks_take_nothing() -> None:
    """A repartition topic of 2**31 - 1 partitions takes a few bytes of a request."""
    with pytest.raises(GroupError, match="2147483647 tasks"):
        configured(subtopology("0", repartition={"between": 2**31 - 1}))


def test_no_step_of_a_topology_is_about_more_than_one_of_its_parts() -> None:
    parts = [subtopology(f"{number}", "t2", changelogs=[f"log{number}"]) for number in range(50)]
    assert sum(1 for _ in configure(value(*parts), TOPICS)) >= 100


def test_what_an_application_needs() -> None:
    topology = value(subtopology("0", "t2", sinks=["a"]), subtopology("1", repartition={"a": 0}, changelogs=["log"]))
    assert required_topics(topology) == {"t2", "a", "log"}
    assert subtopologies_by_source(topology) == {"t2": "0", "a": "1"}


def test_a_repartition_topic_that_does_not_match_is_reported_in_the_words_of_streams() -> None:
    topology = configured(
        subtopology("0", "t3", sinks=["a"]), subtopology("1", "t2", repartition={"a": 5}, together=[([0], [0])])
    )
    assert topology.problem == (
        Status.INCORRECTLY_PARTITIONED_TOPICS,
        "Number of partitions [5] of repartition topic [a] doesn't match number of partitions [2] of the source topic.",
    )


def counts_by_rounds(subtopologies: Any, topics: Any) -> dict[str, int] | None:
    """Returns what Kafka's rounds over all subtopologies give the repartition topics; None if some get nothing."""
    known = {each.name: each.partitions for one in subtopologies for each in one.repartition_source_topics if each.partitions}
    progress = True
    while progress:
        progress = False
        for one in subtopologies:
            for sink in one.repartition_sink_topics:
                found = [known[each.name] for each in one.repartition_source_topics if each.name in known]
                found += [len(topics[name].partitions) for name in one.source_topics]
                if sink not in known and found:
                    known[sink] = max(found)
                    progress = True
    names = {name for one in subtopologies for name in one.repartition_sink_topics}
    names |= {each.name for one in subtopologies for each in one.repartition_source_topics}
    return known if names <= known.keys() else None


def test_each_subtopology_is_visited_when_kafkas_rounds_would_find_it_ready() -> None:
    source = random.Random("rounds")
    settled = 0
    for _ in range(2000):
        names = [f"r{number}" for number in range(source.randint(1, 6))]
        drawn = [
            subtopology(
                f"{number}",
                *source.sample(sorted(TOPICS), source.choice((0, 0, 0, 1, 2))),
                sinks=source.choices(names, k=source.randint(0, 3)),
                repartition={name: source.choice((0, 0, 0, 5)) for name in source.sample(names, source.randint(0, len(names)))},
            )
            for number in range(source.randint(1, 6))
        ]
        wanted = counts_by_rounds(drawn, TOPICS)
        recorded = value(*drawn).subtopologies
        if wanted is None:
            with pytest.raises(GroupError):
                at_once(_repartition_counts(recorded, _Counts(TOPICS)))
            continue
        settled += 1
        assert at_once(_repartition_counts(recorded, _Counts(TOPICS))) == wanted, drawn
    assert settled > 300


class CountedTopics(dict[str, Any]):
    """Counts how often it is asked for a topic."""

    asked = 0

    def get(self, name: str, default: Any = None) -> Any:
        self.asked += 1
        return super().get(name, default)


def test_the_work_for_a_topology_grows_with_its_size_only() -> None:
    """A topology of 50,000 names in a request of less than a megabyte took minutes, in which nobody else was served."""
    many = range(400)
    topics = CountedTopics({f"t{number}": topic(f"t{number}", 3) for number in many})
    wide = subtopology("wide", *topics, sinks=[f"s{number}" for number in many])
    reader = subtopology(
        "reader",
        repartition={f"s{number}": 0 for number in many} | {f"f{number}": 3 for number in many},
        together=[((), (number,)) for number in many],
    )
    found = at_once(configure(value(wide, reader), topics))
    assert set(counts(found).values()) == {3}
    assert topics.asked < 30 * len(many)


def test_a_chain_that_is_listed_backwards_takes_no_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Any] = []
    monkeypatch.setattr(module, "_largest_known", noted(looked, module._largest_known))
    chain = [subtopology(f"{number}", repartition={f"r{number}": 0}, sinks=[f"r{number + 1}"]) for number in range(300)]
    found = configured(*reversed(chain), subtopology("first", "t2", sinks=["r0"]))
    assert counts(found)["r299"] == 2
    assert len(looked) < 3 * len(chain)

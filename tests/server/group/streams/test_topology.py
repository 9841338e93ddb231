"""These tests compare topologies with topics: partition counts that depend on each other, and topics that do not fit."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.server.group.errors import GroupError
from ottla.server.group.streams.topology import ConfiguredTopology, Status, configure, required_topics, subtopologies_by_source
from ottla.wire.errors import ErrorCode
from tests.server.group.streams.support import subtopology, topic, value

TOPICS = {name: topic(name, count) for name, count in {"t2": 2, "t3": 3, "u3": 3}.items()}


def configured(*subtopologies: Any, **more: int) -> ConfiguredTopology:
    return configure(value(*subtopologies, epoch=4), TOPICS | {name: topic(name, count) for name, count in more.items()})


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

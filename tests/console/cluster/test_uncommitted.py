"""Tests of what a group's lag leaves out."""

from __future__ import annotations

from ottla.commands.clients.partition import Partition
from ottla.console.cluster.uncommitted import MOST, uncommitted
from tests.console.fakes import topic_summary


def test_a_sentence_for_each_topic_with_partitions_that_are_not_listed() -> None:
    topics = {"all": topic_summary("all", 1), "some": topic_summary("some", 3), "other": topic_summary("other", 9)}
    listed = [Partition("all", 0), Partition("some", 0), Partition("some", 1), Partition("some", 1), Partition("gone", 0)]
    (said,) = uncommitted(topics, listed)
    assert said.startswith("The lag leaves out 1 partition of some without")


def test_only_the_first_topics_are_named() -> None:
    topics = {f"t{number}": topic_summary(f"t{number}", 2) for number in range(MOST + 2)}
    said = uncommitted(topics, [Partition(name, 0) for name in reversed(topics)])
    assert [line.split()[7] for line in said] == ["t0", "t1", "t2"]

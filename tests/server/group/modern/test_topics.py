"""These tests cover the topics as groups see them: hashes are cached until a topic changes, and changes are reported together."""

from __future__ import annotations

from collections.abc import Set
from types import SimpleNamespace

import pytest

from ottla.server.base.turns import at_once
from ottla.server.group.modern import topics as module
from ottla.server.group.modern.topics import MANY_CHANGES, Topics
from tests.server.coordination.memory import NODE_ID, TOPICS
from tests.server.group.fakes import Broker


def test_topics_that_exist() -> None:
    topics = Topics(Broker().metadata, lambda changed: None)
    (t, count), (u, _) = TOPICS["t"], TOPICS["u"]
    assert topics.ids(["u", "none", "t"]) == [u, t]
    assert topics.partition_counts([t, bytes(16)]) == {t: count}
    assert topics.hash_of(["none"]) == 0
    assert topics.hash_of(["t", "none"]) == topics.hash_of(["t"]) != topics.hash_of(["u"])


def test_a_hash_is_another_after_a_change() -> None:
    broker = Broker()
    topics = Topics(broker.metadata, lambda changed: None)
    before = topics.hash_of(["t"])
    broker.metadata.topics["t"].partitions[3] = SimpleNamespace(replicas=(NODE_ID,))
    assert topics.hash_of(["t"]) == before, "it is kept"
    topics.changed("t")
    assert topics.hash_of(["t"]) != before


def test_a_topic_may_change_between_two_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NAMES_A_STEP", 1)
    topics = Topics(Broker().metadata, lambda changed: None)
    undisturbed = at_once(topics.ids_in_hash_order(["t", "u"]))
    steps = topics.ids_in_hash_order(["t", "u"])
    for name in ("t", "u"):
        next(steps)
        topics.changed(name)
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value == undisturbed


def test_changes_are_reported_once_and_together() -> None:
    told: list[Set[str]] = []
    topics = Topics(Broker().metadata, told.append)
    topics.report_changes()
    for name in ("a", "b", "a"):
        topics.changed(name)
    assert told == []
    topics.report_changes()
    topics.report_changes()
    assert told == [{"a", "b"}]


def test_many_changes_do_not_wait() -> None:
    """A shard whose groups never send a heartbeat again must not keep a list of all topics that ever existed."""
    told: list[Set[str]] = []
    topics = Topics(Broker().metadata, told.append)
    for number in range(MANY_CHANGES):
        topics.changed(f"topic-{number}")
    assert [len(names) for names in told] == [MANY_CHANGES]

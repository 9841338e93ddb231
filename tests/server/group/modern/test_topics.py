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
    topics = Topics(Broker().metadata)
    (t, count), (u, _) = TOPICS["t"], TOPICS["u"]
    assert topics.ids(["u", "none", "t"]) == [u, t]
    assert topics.partition_counts([t, bytes(16)]) == {t: count}
    assert topics.hash_of(["none"]) == 0
    assert topics.hash_of(["t", "none"]) == topics.hash_of(["t"]) != topics.hash_of(["u"])


def test_a_hash_is_another_after_a_change() -> None:
    broker = Broker()
    topics = Topics(broker.metadata)
    before = topics.hash_of(["t"])
    broker.metadata.topics["t"].partitions[3] = SimpleNamespace(replicas=(NODE_ID,))
    assert topics.hash_of(["t"]) == before, "it is kept"
    topics.changed("t")
    assert topics.hash_of(["t"]) != before


def test_a_topic_may_change_between_two_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NAMES_A_STEP", 1)
    topics = Topics(Broker().metadata)
    undisturbed = at_once(topics.ids_in_hash_order(["t", "u"]))
    steps = topics.ids_in_hash_order(["t", "u"])
    for name in ("t", "u"):
        next(steps)
        topics.changed(name)
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value == undisturbed


def asked(topics: Topics, group: SimpleNamespace) -> list[Set[str]]:
    """The changed topics that a group is asked about."""
    names: list[Set[str]] = []

    def note(changed: Set[str]) -> bool:
        names.append(changed)
        return False

    topics.have_changed(group, note)
    return names


def test_a_group_looks_once_at_what_it_has_missed_and_at_all_of_it_together() -> None:
    topics, one, other = Topics(Broker().metadata), SimpleNamespace(topics_seen=0), SimpleNamespace(topics_seen=0)
    assert asked(topics, one) == []
    for name in ("a", "b", "a"):
        topics.changed(name)
    assert asked(topics, one) == [{"a", "b"}]
    assert asked(topics, one) == []
    topics.changed("c")
    assert asked(topics, one) == [{"c"}]
    assert asked(topics, other) == [{"a", "b", "c"}]


def test_who_reads_one_of_them_looks_anew() -> None:
    topics = Topics(Broker().metadata)
    topics.changed("a")
    assert topics.have_changed(SimpleNamespace(topics_seen=0), {"a", "b"}.issuperset)
    assert not topics.have_changed(SimpleNamespace(topics_seen=0), {"b"}.issuperset)


def test_who_has_missed_more_changes_than_are_kept_looks_anew() -> None:
    """A shard whose groups never send a heartbeat again must not keep a list of all topics that ever existed."""
    topics, group = Topics(Broker().metadata), SimpleNamespace(topics_seen=0)
    for number in range(MANY_CHANGES):
        topics.changed(f"topic-{number}")
    assert not topics.have_changed(SimpleNamespace(topics_seen=0), lambda changed: False)
    topics.changed("one more")
    assert topics.have_changed(group, lambda changed: False)
    assert not topics.have_changed(group, lambda changed: True), "it has seen them now"

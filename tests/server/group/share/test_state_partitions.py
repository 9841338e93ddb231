"""The steps by which the state partitions of a share group come and go, each as a value."""

from __future__ import annotations

import pytest

from ottla.server.group.share.state_partitions import NOTHING, StatePartitions, TopicPartitions, from_value
from ottla.wire.messages.internal.share_group_state_partition_metadata_value import ShareGroupStatePartitionMetadataValue

T, U, V = (bytes(15) + bytes([number]) for number in (1, 2, 3))


def of(name: str, *partitions: int, since_ms: int = 0) -> TopicPartitions:
    return TopicPartitions(name, frozenset(partitions), since_ms)


def shown(state: StatePartitions) -> tuple[dict[str, list[int]], dict[str, list[int]], list[str]]:
    """The initializing, initialized and deleting topics by name."""
    begun, done = (
        {topic.name: sorted(topic.partitions) for topic in topics.values()} for topics in (state.initializing, state.initialized)
    )
    return begun, done, list(state.deleting.values())


def test_partitions_that_have_been_initializing_for_too_long_do_not_count() -> None:
    state = StatePartitions({T: of("t", 1, 2, since_ms=1000), U: of("u", 5, since_ms=1000)}, {T: of("t", 0)})
    assert [sorted(state.partitions_of(T, since_ms)) for since_ms in (999, 1000, 1001)] == [[0, 1, 2], [0], [0]]
    assert [sorted(state.partitions_of(topic_id, 999)) for topic_id in (U, V)] == [[5], []]
    assert state.all_partitions == {T: ("t", frozenset({0, 1, 2})), U: ("u", frozenset({5}))}


@pytest.mark.parametrize(("topic_id", "count", "has_all"), [(T, 2, True), (T, 3, False), (U, 1, False), (V, 0, False)])
def test_only_initialized_partitions_are_complete(topic_id: bytes, count: int, has_all: bool) -> None:
    state = StatePartitions({U: of("u", 0, since_ms=1)}, {T: of("t", 0, 1)})
    assert state.has_all(topic_id, count) is has_all


def test_a_topic_that_grows_is_begun_and_done_in_pieces() -> None:
    state = NOTHING.begun({T: of("t", 0, 1, since_ms=5)}).done({T: of("t", 0)})
    assert shown(state) == ({"t": [1]}, {"t": [0]}, [])
    state = state.begun({T: of("t", 2, since_ms=9)})
    assert state.initializing[T] == of("t", 1, 2, since_ms=9)
    assert shown(state.failed({T: of("t", 1)})) == ({"t": [2]}, {"t": [0]}, [])
    assert shown(state.done({T: of("t", 1, 2)})) == ({}, {"t": [0, 1, 2]}, [])


def test_a_topic_that_is_begun_again_is_not_deleting_any_more() -> None:
    state = StatePartitions({}, {T: of("t", 0), U: of("u", 0)}).deleting_topics({T: "t"}).deleting_topics({V: "v"})
    assert shown(state) == ({}, {"u": [0]}, ["t", "v"])
    assert shown(state.begun({T: of("t", 0, since_ms=1)})) == ({"t": [0]}, {"u": [0]}, ["v"])
    assert shown(state.deleted([T])) == ({}, {"u": [0]}, ["v"])
    assert shown(state.begun({V: of("v", 3, since_ms=1)}).without_topics([U, V])) == ({}, {}, ["t"])


def test_what_is_deleted_while_it_initializes_is_not_initialized_by_the_end_of_that() -> None:
    begun = StatePartitions({}, {T: of("t", 0)}).begun({T: of("t", 0, 1, since_ms=1), U: of("u", 0, since_ms=1)})
    deleting = begun.deleting_topics({T: "t"})
    assert shown(deleting) == ({"u": [0]}, {}, ["t"])
    for state, left in ((deleting, ["t"]), (deleting.deleted([T]), [])):
        assert shown(state.done({T: of("t", 0, 1), U: of("u", 0)})) == ({}, {"u": [0]}, left)


def test_what_a_record_says_begins_to_initialize_when_it_is_read() -> None:
    state = StatePartitions({T: of("t", 1, 0, since_ms=5)}, {U: of("u", 2)}, {V: "v"})
    value = state.record("g").value
    assert isinstance(value, ShareGroupStatePartitionMetadataValue)
    read = from_value(value, 77)
    assert read == state._replace(initializing={T: of("t", 0, 1, since_ms=77)})

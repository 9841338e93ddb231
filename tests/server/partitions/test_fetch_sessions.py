"""These tests cover fetch sessions: their life, what an incremental answer leaves out, and which session is evicted (KIP-227)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ottla.server.partitions.fetch_answers import answer
from ottla.server.partitions.fetch_sessions import (
    EVICTION_MS,
    PARTITION_BYTES,
    UNKNOWN_KEPT,
    FetchContext,
    FetchSession,
    FetchSessions,
)
from ottla.server.requests.session import Session
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from ottla.wire.primitives import ZERO_UUID
from tests.fakes import ManualClock

BY_NAME, BY_ID = 12, 13


def ask(
    session_id: int = 0,
    epoch: int = 0,
    topics: dict[str | bytes, list[int]] | None = None,
    forget: dict[str, list[int]] | None = None,
) -> FetchRequest:
    named = []
    for topic, indexes in (topics or {}).items():
        partitions = [FetchPartition(index, fetch_offset=10) for index in indexes]
        name, topic_id = (topic, ZERO_UUID) if isinstance(topic, str) else ("", topic)
        named.append(FetchTopic(name, topic_id, partitions))
    forgotten = [ForgottenTopic(topic, partitions=indexes) for topic, indexes in (forget or {}).items()]
    return FetchRequest(session_id=session_id, session_epoch=epoch, topics=named, forgotten_topics_data=forgotten)


def data(index: int = 0, records: bytes = b"", high_watermark: int = 10, **fields: Any) -> PartitionData:
    return PartitionData(index, high_watermark=high_watermark, log_start_offset=0, records=records, **fields)


class Client:
    """Fetches; `results` decides what each partition returns."""

    def __init__(self, slots: int = 10, partitions: int = 1_000_000) -> None:
        self.clock = ManualClock()
        self.connection = Session("PLAINTEXT", "10.0.0.1")
        self.sessions = FetchSessions(slots, self.clock.now_ms, random.Random(1), partitions * PARTITION_BYTES)

    def fetch(
        self, request: FetchRequest, results: dict[int, PartitionData] | None = None, version: int = BY_NAME
    ) -> FetchResponse:
        fetching = self.sessions.begin(request, version, connection=self.connection)
        if isinstance(fetching, ErrorCode):
            return FetchResponse(error_code=fetching)
        return self.answer(fetching, results)

    def answer(self, fetching: FetchContext, results: dict[int, PartitionData] | None = None) -> FetchResponse:
        found = results or {}
        return answer(fetching, [(each, found.get(each.index) or data(each.index)) for each in fetching.partitions.values()])

    def open(self, *indexes: int) -> int:
        response = self.fetch(ask(topics={"t": list(indexes)}))
        assert response.error_code == ErrorCode.NONE
        return response.session_id


def indexes(response: FetchResponse) -> list[int]:
    return [partition.partition_index for topic in response.responses for partition in topic.partitions]


def test_the_life_of_a_session() -> None:
    client = Client()
    full = client.fetch(ask(topics={"t": [0, 1]}))
    assert full.session_id > 0
    assert indexes(full) == [0, 1]
    quiet = client.fetch(ask(full.session_id, 1))
    assert (quiet.session_id, indexes(quiet)) == (full.session_id, [])
    news = client.fetch(ask(full.session_id, 2), {1: data(1, b"records", high_watermark=11)})
    assert indexes(news) == [1]
    wrong = client.fetch(ask(full.session_id, 9))
    assert (wrong.error_code, wrong.session_id, wrong.responses) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0, [])
    closed = client.fetch(ask(full.session_id, -1))
    assert (closed.error_code, closed.session_id, indexes(closed)) == (ErrorCode.NONE, 0, [])
    gone = client.fetch(ask(full.session_id, 3))
    assert (gone.error_code, gone.session_id) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)


def test_sessionless_and_empty() -> None:
    client = Client()
    assert client.fetch(ask(0, -1, {"t": [0]})).session_id == 0
    assert client.fetch(ask()).session_id > 0  # row F30: nothing in it yet
    assert client.fetch(ask(12345, 1)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_full_fetch_replaces_the_session_it_names() -> None:
    client = Client()
    first = client.open(0)
    second = client.fetch(ask(first, 0, {"t": [1]})).session_id
    assert second != first
    assert len(client.sessions) == 1


@pytest.mark.parametrize(
    "found",
    [
        data(records=b"x"),
        data(high_watermark=11),
        PartitionData(0, high_watermark=10, log_start_offset=3),
        PartitionData(0, ErrorCode.OFFSET_OUT_OF_RANGE, -1),
        data(diverging_epoch=EpochEndOffset(0, 5)),
        data(preferred_read_replica=2),
    ],
)
def test_what_counts_as_news(found: PartitionData) -> None:
    client = Client()
    session = client.open(0)
    assert indexes(client.fetch(ask(session, 1), {0: found})) == [0]


@pytest.mark.parametrize(
    "answer", [PartitionData(0, ErrorCode.KAFKA_STORAGE_ERROR, -1), data(diverging_epoch=EpochEndOffset(0, 5))]
)
def test_what_a_client_takes_no_offsets_from_is_answered_each_time_and_its_end_too(answer: PartitionData) -> None:
    client = Client()
    session = client.open(0)
    assert indexes(client.fetch(ask(session, 1), {0: answer})) == [0]
    assert indexes(client.fetch(ask(session, 2), {0: answer})) == [0]
    assert indexes(client.fetch(ask(session, 3))) == [0]
    assert indexes(client.fetch(ask(session, 4))) == []


def test_partitions_are_added_changed_and_forgotten() -> None:
    client = Client()
    session = client.open(0, 1)
    assert indexes(client.fetch(ask(session, 1, {"t": [2]}))) == [2]  # the others have nothing new
    moved = ask(session, 2, {"t": [1]}, {"t": [0, 7]})
    moved.topics[0].partitions[0].fetch_offset = 99
    fetching = client.sessions.begin(moved, BY_NAME)
    assert isinstance(fetching, FetchContext)
    assert [(each.index, each.request.fetch_offset) for each in fetching.partitions.values()] == [(1, 99), (2, 10)]


def test_forgetting_everything_ends_the_session() -> None:
    client = Client()
    session = client.open(0, 1)
    response = client.fetch(ask(session, 1, forget={"t": [0, 1]}))
    assert (response.error_code, response.session_id, indexes(response)) == (ErrorCode.NONE, 0, [])
    assert len(client.sessions) == 0


def test_partitions_with_records_go_to_the_end() -> None:
    client = Client()
    session = client.open(0, 1, 2)
    client.fetch(ask(session, 1), {0: data(0, b"x")})
    fetching = client.sessions.begin(ask(session, 2), BY_NAME)
    assert isinstance(fetching, FetchContext)
    assert [each.index for each in fetching.partitions.values()] == [1, 2, 0]


def test_names_and_ids_do_not_mix() -> None:
    client = Client()
    by_id = client.fetch(ask(topics={bytes(16): [0]}), version=BY_ID)
    assert by_id.responses[0].topic_id == bytes(16)
    assert client.fetch(ask(by_id.session_id, 1), version=BY_NAME).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert client.fetch(ask(by_id.session_id, 1), version=BY_ID).error_code == ErrorCode.NONE
    by_name = client.open(0)
    assert client.fetch(ask(by_name, 1), version=BY_ID).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_partition_named_twice_is_one_and_the_later_counts() -> None:
    request = ask(topics={"t": [0, 1]})
    request.topics[0].partitions.append(FetchPartition(0, fetch_offset=77))
    fetching = Client().sessions.begin(request, BY_NAME)
    assert isinstance(fetching, FetchContext)
    assert [(each.index, each.request.fetch_offset) for each in fetching.partitions.values()] == [(0, 77), (1, 10)]


def test_an_answer_that_was_overtaken_is_refused() -> None:
    client = Client()
    session = client.open(0)
    slow = client.sessions.begin(ask(session, 1), BY_NAME)
    client.fetch(ask(session, 2))
    assert isinstance(slow, FetchContext)
    response = client.answer(slow, {0: data(0, b"x")})
    assert (response.error_code, response.responses) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, [])


def test_epochs_wrap_past_the_greatest() -> None:
    client = Client()
    session_id = client.open(0)
    session: FetchSession = client.sessions._sessions[session_id]
    session.epoch = 2**31 - 1
    assert client.fetch(ask(session_id, 2**31 - 1)).error_code == ErrorCode.NONE
    assert client.fetch(ask(session_id, 1)).error_code == ErrorCode.NONE


def test_neighbours_share_a_topic_entry() -> None:
    response = Client().fetch(ask(topics={"t": [0, 1], "u": [0]}))
    assert [(topic.topic, len(topic.partitions)) for topic in response.responses] == [("t", 2), ("u", 1)]


# Eviction


def test_no_room_no_session() -> None:
    client = Client(slots=2)
    client.open(0, 1)
    client.open(0)
    assert client.open(0, 1, 2) == 0  # nobody is two minutes old
    assert len(client.sessions) == 2


def test_the_longest_unused_goes_after_two_minutes() -> None:
    client = Client(slots=2)
    first, second = client.open(0, 1), client.open(0)
    client.clock.advance(EVICTION_MS / 1000)
    client.fetch(ask(first, 1))
    client.clock.advance(0.001)
    third = client.open(0)
    assert third > 0
    assert client.fetch(ask(second, 1)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert client.fetch(ask(first, 2)).error_code == ErrorCode.NONE


def test_of_old_ones_in_use_the_smallest_goes_to_a_larger() -> None:
    client = Client(slots=2)
    large, small = client.open(0, 1), client.open(0)
    client.clock.advance(EVICTION_MS / 1000 + 1)
    for session in (large, small):
        client.fetch(ask(session, 1))
    assert client.open(0) == 0  # not larger
    assert client.open(0, 1) > 0
    assert client.fetch(ask(small, 2)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert client.sessions.evictions == 1


def test_a_follower_evicts_a_consumer() -> None:
    client = Client(slots=1)
    consumer = client.open(0, 1, 2)
    fetching = client.sessions.begin(ask(topics={"t": [0]}), BY_NAME, privileged=True)
    assert isinstance(fetching, FetchContext)
    assert client.answer(fetching).session_id > 0
    assert client.fetch(ask(consumer, 1)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_no_slots_no_sessions() -> None:
    assert Client(slots=0).open(0) == 0


# Memory


def unknown(count: int) -> dict[int, PartitionData]:
    return {index: PartitionData(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1) for index in range(count)}


def test_sessions_are_bounded_by_the_partitions_in_them() -> None:
    client = Client(partitions=10)
    first = client.open(*range(6))
    assert first > 0
    assert client.open(*range(5)) == 0, "nobody is two minutes old"
    assert client.open(*range(4)) > 0
    assert (client.sessions.partition_count, client.sessions.held_bytes) == (10, 10 * PARTITION_BYTES)
    assert client.open(0) == 0
    assert client.fetch(ask(first, 1)).error_code == ErrorCode.NONE, "who has a session keeps it"
    client.clock.advance(EVICTION_MS / 1000 + 1)
    assert client.open(*range(11)) == 0
    assert client.sessions.evictions == 0, "it would not fit if it were alone"
    assert client.open(*range(4)) > 0
    assert (client.sessions.partition_count, client.sessions.evictions) == (10, 1)


def test_what_others_hold_is_taken_from_them_at_once() -> None:
    client = Client(partitions=10)
    first, second = client.open(0, 1, 2), client.open(*range(5))
    client.sessions.lend(2 * PARTITION_BYTES)
    assert client.sessions.partition_count == 8
    client.sessions.lend(5 * PARTITION_BYTES)
    assert client.sessions.find(first) is None, "the one that was used the least recently"
    assert client.open(5) == 0
    client.sessions.lend(4 * PARTITION_BYTES)
    assert client.open(5) > 0
    assert (client.sessions.partition_count, client.sessions.evictions) == (6, 1)
    client.sessions.lend(10 * PARTITION_BYTES)
    assert (client.sessions.find(second), client.sessions.partition_count) == (None, 0)


def test_partitions_that_come_and_go_are_counted() -> None:
    client = Client(partitions=10)
    session = client.open(0, 1, 2)
    client.fetch(ask(session, 1, {"t": [2, 3, 4]}, {"t": [0]}))
    assert client.sessions.partition_count == 4
    client.fetch(ask(session, 2, forget={"t": [1, 2]}))
    assert client.sessions.partition_count == 2
    client.fetch(ask(session, -1))
    assert client.sessions.partition_count == 0


def test_a_session_that_finds_no_room_to_grow_ends_and_its_client_names_everything_again() -> None:
    client = Client(partitions=10)
    session, other = client.open(*range(5)), client.open(*range(5))
    assert client.fetch(ask(session, 1, {"t": [5]})).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert client.sessions.partition_count == 5
    assert client.fetch(ask(other, 1)).error_code == ErrorCode.NONE
    full = client.fetch(ask(session, 0, {"t": list(range(6))}))
    assert (full.error_code, full.session_id, indexes(full)) == (ErrorCode.NONE, 0, list(range(6)))


def test_a_session_that_grows_evicts_one_that_is_worth_less() -> None:
    client = Client(partitions=10)
    other = client.open(*range(5))
    client.clock.advance(EVICTION_MS / 1000 + 1)
    session = client.open(*range(5))
    assert client.fetch(ask(session, 1, {"t": [5]})).error_code == ErrorCode.NONE
    assert client.fetch(ask(other, 1)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID])
def test_nobody_gets_a_session_for_many_partitions_that_do_not_exist(code: ErrorCode) -> None:
    client = Client()
    found = {index: PartitionData(index, code, -1) for index in range(UNKNOWN_KEPT + 1)}
    some = client.fetch(ask(topics={"t": list(range(UNKNOWN_KEPT))}), found)
    assert some.session_id > 0
    many = client.fetch(ask(topics={"t": list(range(UNKNOWN_KEPT + 1))}), found)
    assert (many.error_code, many.session_id, len(indexes(many))) == (ErrorCode.NONE, 0, UNKNOWN_KEPT + 1)
    assert len(client.sessions) == 1


def test_nor_for_a_name_that_no_topic_can_have() -> None:
    client = Client()
    assert client.fetch(ask(topics={"t" * 249: [0]}), unknown(1)).session_id > 0
    assert client.fetch(ask(topics={"t" * 250: [0]}), unknown(1)).session_id == 0


def test_a_session_to_which_many_are_added_that_do_not_exist_ends_after_its_answer() -> None:
    client = Client()
    session = client.open(0)
    added = client.fetch(ask(session, 1, {"t": list(range(1, UNKNOWN_KEPT + 2))}), unknown(UNKNOWN_KEPT + 2))
    assert (added.error_code, added.session_id) == (ErrorCode.NONE, session)
    assert client.fetch(ask(session, 2)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert client.sessions.partition_count == 0


def test_a_session_outlives_its_connection_but_is_the_first_to_go() -> None:
    client = Client(slots=2)
    first, second = client.open(0), client.open(0, 1, 2)
    there, client.connection = client.connection, Session("PLAINTEXT", "10.0.0.1")
    assert client.fetch(ask(second, 1)).error_code == ErrorCode.NONE, "on another connection"
    there.close()
    assert client.fetch(ask(first, 1)).error_code == ErrorCode.NONE, "as in Kafka"
    client.connection.close()
    client.connection = Session("PLAINTEXT", "10.0.0.1")
    assert client.fetch(ask(second, 2)).error_code == ErrorCode.NONE
    assert client.open(0) > 0, "however young the other is"
    assert client.fetch(ask(first, 2)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert client.fetch(ask(second, 3)).error_code == ErrorCode.NONE

"""FetchSession: what each request names, and what follows from each answer."""

from __future__ import annotations

import pytest

from ottla.server.replication import fetch_session
from ottla.server.replication.fetch_session import FetchSession
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse

A, B, C = (b"a" * 16, 0), (b"a" * 16, 1), (b"c" * 16, 0)
Named = tuple[int, int, list[tuple[bytes, int]], list[tuple[bytes, int]]]


waits: list[bool] = []
"""For each request, True if the leader might wait with its answer."""


def named(session: FetchSession) -> Named:
    """The session, its epoch, and what the next request names and forgets."""
    request = FetchRequest(max_wait_ms=500)
    session.fill(request)
    waits.append(request.max_wait_ms > 0)
    topics = [(topic.topic_id, each.partition) for topic in request.topics for each in topic.partitions]
    forgotten = [(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions]
    return request.session_id, request.session_epoch, topics, forgotten


def session(*keys: tuple[bytes, int]) -> FetchSession:
    found = FetchSession()
    for key in keys:
        found.want(key, FetchPartition(key[1]))
    return found


def test_the_first_request_names_everything_and_the_next_ones_what_changed() -> None:
    it = session(A, B, C)
    assert named(it) == (0, 0, [A, B, C], [])
    assert it.accept(FetchResponse(session_id=9))
    assert named(it) == (9, 1, [], [])
    it.want(B, FetchPartition(1, fetch_offset=5))
    it.forget(C)
    assert len(it) == 2
    assert it.accept(FetchResponse(session_id=9))
    assert named(it) == (9, 2, [B], [C])
    assert it.accept(FetchResponse(session_id=9))
    assert named(it) == (9, 3, [], [])


def test_what_is_forgotten_and_wanted_again_before_a_request_is_only_named() -> None:
    it = session(A)
    named(it)
    it.accept(FetchResponse(session_id=9))
    it.forget(A)
    it.forget(A)
    it.want(A, FetchPartition(0))
    assert named(it) == (9, 1, [A], [])
    it.want(A, FetchPartition(0, fetch_offset=1))
    it.forget(A)
    assert it.accept(FetchResponse(session_id=9))
    assert named(it) == (9, 2, [], [A])


def test_a_leader_without_a_place_for_a_session_is_told_everything_each_time() -> None:
    it = session(A)
    named(it)
    assert it.accept(FetchResponse())
    assert named(it) == (0, 0, [A], [])


def test_a_session_begins_with_some_of_many_and_the_others_follow_without_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_session, "MOST_ADDED", 2)
    keys = [(b"t" * 16, index) for index in range(5)]
    it = session(*keys)
    assert (named(it), waits[-1]) == ((0, 0, keys[:2], []), False)
    assert it.accept(FetchResponse(session_id=9))
    it.forget(keys[0])
    it.forget(keys[3])
    it.want(keys[1], FetchPartition(1, fetch_offset=5))
    assert (named(it), waits[-1]) == ((9, 1, [keys[1], keys[2], keys[4]], [keys[0]]), True)
    assert it.accept(FetchResponse(session_id=9))
    assert (named(it), waits[-1]) == ((9, 2, [], []), True)
    it.lose()
    assert (named(it), waits[-1]) == ((9, 0, keys[1:3], []), False)


def test_what_the_leader_knows_of_is_named_at_once_however_much_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answers go by what it was told last."""
    monkeypatch.setattr(fetch_session, "MOST_ADDED", 2)
    keys = [(b"t" * 16, index) for index in range(7)]
    it = session(*keys)
    for _ in range(3):
        named(it)
        assert it.accept(FetchResponse(session_id=9))
    for key in keys[:6]:
        it.want(key, FetchPartition(key[1], fetch_offset=5))
    it.forget(keys[2])
    it.forget(keys[3])
    it.want(keys[2], FetchPartition(2, fetch_offset=6))
    it.want(keys[6], FetchPartition(6, fetch_offset=7))
    _, _, found, forgotten = named(it)
    assert sorted(found) == [keys[0], keys[1], keys[2], keys[4], keys[5], keys[6]]
    assert forgotten == [keys[3]]


def test_a_leader_that_makes_no_session_is_asked_for_all_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_session, "MOST_ADDED", 2)
    keys = [(b"t" * 16, index) for index in range(5)]
    it = session(*keys)
    named(it)
    assert it.accept(FetchResponse())
    assert (named(it), waits[-1]) == ((0, 0, keys, []), True)
    assert it.accept(FetchResponse(session_id=9))
    it.lose()
    assert named(it) == (9, 0, keys[:2], [])


@pytest.mark.parametrize(
    ("code", "session_id"), [(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0), (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 9)]
)
def test_after_an_error_of_the_session_everything_is_named_again(code: ErrorCode, session_id: int) -> None:
    it = session(A, B)
    named(it)
    it.accept(FetchResponse(session_id=9))
    it.forget(B)
    assert not it.accept(FetchResponse(error_code=code))
    assert named(it) == (session_id, 0, [A], [])


def test_after_no_answer_everything_is_named_again_with_the_old_session() -> None:
    it = session(A, B)
    named(it)
    it.accept(FetchResponse(session_id=9))
    named(it)
    it.lose()
    assert named(it) == (9, 0, [A, B], [])
    it.accept(FetchResponse(session_id=10))
    assert named(it)[:2] == (10, 1)


def test_the_epoch_of_a_session_begins_again_at_one() -> None:
    it = session(A)
    it.accept(FetchResponse(session_id=9))
    it._epoch = 2**31 - 2
    it.accept(FetchResponse(session_id=9))
    assert named(it)[1] == 2**31 - 1
    it.accept(FetchResponse(session_id=9))
    assert named(it)[1] == 1

"""Tests of what is noted of fetches, by real fetch sessions: offsets, how often, what is out of range, and at what cost."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.server.inspect import fetch_notes
from ottla.server.inspect.fetch_notes import FetchNotes
from ottla.server.inspect.group_watch import GroupWatch
from ottla.server.partitions.fetch_sessions import CachedPartition, FetchContext, FetchSessions, Key
from ottla.server.requests.request import Request
from ottla.server.requests.session import Session
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

CLIENT = ("app", "host")
BY_NAME = 12


class Unwalked(dict[Key, CachedPartition]):
    """The partitions of a session, in which one may be looked up."""

    def values(self) -> Any:
        raise AssertionError("walked in a client's request")


class Rig:
    """A client with a session, whose requests are noted and then handled."""

    def __init__(self, *partitions: int) -> None:
        self.sessions = FetchSessions(10, lambda: 0, random.Random(1))
        context: Any = SimpleNamespace(fetch_sessions=self.sessions, metadata=SimpleNamespace(topics_by_id={}))
        self.context = context
        self.session_id, self.epoch = 0, 0
        self.handle(self.request(dict.fromkeys(partitions, 5)))
        self.notes = FetchNotes(self.context, frozenset(("orders",)))

    def request(self, named: dict[int, int] | None = None, forget: tuple[int, ...] = (), topic: str = "orders") -> FetchRequest:
        partitions = [
            FetchPartition(index, fetch_offset=offset, partition_max_bytes=7) for index, offset in (named or {}).items()
        ]
        return FetchRequest(
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=[FetchTopic(topic, partitions=partitions)] if partitions else [],
            forgotten_topics_data=[ForgottenTopic("orders", partitions=list(forget))] if forget else [],
        )

    def handle(self, body: FetchRequest) -> None:
        fetching = self.sessions.begin(body, BY_NAME)
        assert isinstance(fetching, FetchContext)
        self.session_id = fetching.decide([])[1]
        self.epoch += 1

    def fetch(self, named: dict[int, int] | None = None, forget: tuple[int, ...] = (), topic: str = "orders") -> bool:
        body = self.request(named, forget, topic)
        concerns = self.notes.note(CLIENT, body, by_id=False)
        self.handle(body)
        return concerns

    def answer(self, index: int, code: int) -> None:
        topics = [FetchableTopicResponse("orders", partitions=[PartitionData(index, code)])]
        self.notes.note_answer(CLIENT, FetchResponse(session_id=self.session_id, responses=topics))

    @property
    def seen(self) -> dict[int, tuple[int, int, int]]:
        """By partition how often it was fetched, and the first and last offset."""
        return {
            place[1]: (noted.times, noted.first_offset, noted.last_offset)
            for client, place, noted in self.notes.notes_of({CLIENT})
            if client == CLIENT
        }


def test_a_session_is_not_walked_in_a_request_of_its_client() -> None:
    rig = Rig(*range(50))
    session = rig.sessions.find(rig.session_id)
    assert session is not None
    session.partitions = Unwalked(session.partitions)
    watch = GroupWatch(rig.context, "billing", frozenset(("orders",)))
    no_broker: Any = None
    watch.note_fetch(rig.request({3: 9}), Request(no_broker, Session("L", "host", 7), 1, BY_NAME, 3, "app"))


def test_offsets_and_times_are_those_of_the_session_s_fetches() -> None:
    rig = Rig(0, 1, 2)
    assert rig.seen == {}, "nothing was fetched since the watch began"
    assert rig.fetch({1: 8})
    assert rig.fetch({3: 1})
    assert rig.fetch({1: 9}, forget=(2,))
    assert rig.seen == {0: (3, 5, 5), 1: (3, 5, 9), 2: (2, 5, 5), 3: (2, 1, 1)}
    assert rig.seen == {0: (3, 5, 5), 1: (3, 5, 9), 2: (2, 5, 5), 3: (2, 1, 1)}, "asking changes nothing"
    rig.fetch({2: 6}, forget=(3,))
    assert rig.seen == {0: (4, 5, 5), 1: (4, 5, 9), 2: (3, 5, 6), 3: (2, 1, 1)}


def test_a_client_without_a_session_names_all() -> None:
    rig = Rig(0)
    for offset in (4, 6):
        rig.notes.note(
            CLIENT, FetchRequest(topics=[FetchTopic("orders", partitions=[FetchPartition(0, fetch_offset=offset)])]), by_id=False
        )
    assert rig.seen == {0: (2, 4, 6)}
    assert not rig.notes.note(CLIENT, FetchRequest(topics=[FetchTopic("other", partitions=[FetchPartition(0)])]), by_id=False)


def test_a_partition_that_no_request_names_is_out_of_range_until_an_answer_says_otherwise() -> None:
    rig = Rig(0, 1)
    rig.fetch()
    rig.answer(1, ErrorCode.OFFSET_OUT_OF_RANGE)
    rig.answer(0, ErrorCode.NONE)
    assert [(place[1], noted.is_out_of_range, noted.max_bytes) for _, place, noted in rig.notes.notes_of({CLIENT})] == [
        (1, True, 7),
        (0, False, 7),
    ]
    rig.answer(1, ErrorCode.NONE)
    assert not any(noted.is_out_of_range for _, _, noted in rig.notes.notes_of({CLIENT}))


def test_other_topics_other_clients_and_requests_that_will_be_refused_are_not_noted() -> None:
    rig = Rig(0)
    assert rig.fetch({0: 3}, topic="other"), "its session may have the topics"
    refused = FetchRequest(session_id=rig.session_id, session_epoch=rig.epoch + 1)
    assert not rig.notes.note(CLIENT, refused, by_id=False)
    assert rig.seen == {0: (1, 5, 5)}
    assert list(rig.notes.notes_of({("another", "host")})) == []


def test_only_so_much_is_noted_and_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_notes, "MOST_NOTED", 3)
    rig = Rig(*range(5))
    rig.fetch()
    assert set(rig.seen) == {0, 1, 2}
    rig.fetch({4: 9})
    assert set(rig.seen) == {0, 1, 2}

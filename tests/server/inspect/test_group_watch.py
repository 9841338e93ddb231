"""The link of the watches of groups: what it notes of commits and fetches of share groups, and how much of it."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.server.base.promise import Promise
from ottla.server.inspect import group_watch
from ottla.server.inspect.group_watch import GroupLink, GroupWatch
from ottla.server.requests.link import Steps
from ottla.server.requests.request import Request
from ottla.server.requests.session import Session
from ottla.wire.api import APIS
from ottla.wire.messages import offset_commit, share_fetch

NO_BROKER: Any = None
COMMIT, SHARE_FETCH = 8, 78


class Rig:
    def __init__(self, key: int) -> None:
        context: Any = None
        self.watch = GroupWatch(context, "billing", frozenset())
        self.answer: Any = None
        self.key = key
        traits: Any = None
        steps = Steps(self._unused, lambda body, request: self.answer, self._unused)
        self.watches = {1: self.watch, 2: GroupWatch(context, "billing", frozenset())}
        self.failed: list[int] = []
        self.steps = GroupLink(self.watches, self.failed.append).around(APIS[key], traits, steps)

    def _unused(self, *_: Any) -> Any:
        raise AssertionError

    def serve(self, body: Any, answer: Any, client_id: str = "app") -> None:
        self.answer = answer
        assert self.steps.handle(body, Request(NO_BROKER, Session("L", "host", 7), self.key, 0, 3, client_id)) is answer


def committed(*codes: int) -> Any:
    partitions = [offset_commit.OffsetCommitResponsePartition(number, code) for number, code in enumerate(codes)]
    return offset_commit.OffsetCommitResponse(topics=[offset_commit.OffsetCommitResponseTopic("orders", partitions=partitions)])


def test_only_commits_that_were_taken_count_and_only_those_of_the_group() -> None:
    rig = Rig(COMMIT)
    rig.serve(offset_commit.OffsetCommitRequest("billing"), committed(0, 25))
    rig.serve(offset_commit.OffsetCommitRequest("other"), committed(0))
    later: Promise[Any] = Promise()
    rig.serve(offset_commit.OffsetCommitRequest("billing"), later)
    assert rig.watch.commits == {("orders", 0): 1}
    later.set_result(committed(0))
    assert rig.watch.commits == {("orders", 0): 2}


@pytest.mark.parametrize("note", ["note_commit", "_note_committed"])
def test_a_watch_that_fails_ends_and_fails_no_request(
    note: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> Any:
        raise KeyError("a bug")

    monkeypatch.setitem(group_watch._NOTES, "offset_commit", lambda watch, *request: watch.note_commit(*request))
    rig = Rig(COMMIT)
    monkeypatch.setattr(rig.watch, note, fail)
    later: Promise[Any] = Promise()
    rig.serve(offset_commit.OffsetCommitRequest("billing"), later)
    later.set_result(committed(0))
    rig.serve(offset_commit.OffsetCommitRequest("billing"), committed(0))
    assert (rig.failed, list(rig.watches)) == ([1], [2])
    assert rig.watches[2].commits == {("orders", 0): 2}, "the other watch goes on"
    assert [record.getMessage() for record in caplog.records] == ["the watch of the group 'billing' failed, and ends"]


def test_only_so_many_clients_of_a_share_group_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_watch, "MOST_NOTED", 3)
    rig = Rig(SHARE_FETCH)
    for number in range(5):
        rig.serve(share_fetch.ShareFetchRequest("billing"), share_fetch.ShareFetchResponse(), f"app-{number}")
    assert rig.watch.sharers == {(f"app-{number}", "host") for number in range(3)}

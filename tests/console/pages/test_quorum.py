"""The quorum and the features, or why there are none."""

from __future__ import annotations

import pytest

from ottla.commands.clients.direct import Refused, Unsupported
from ottla.console.subjects import quorum as subject
from ottla.wire.errors import ErrorCode
from tests.console.browser import Browser, browsing, cells
from tests.console.fakes import FakeSource


def test_the_leader_and_the_features(browser: Browser) -> None:
    found = cells(browser.get("/broker/quorum").text)
    assert [found[7], found[8], found[10]] == ["1", "● leader", "0"]
    at = found.index("metadata.version")
    assert found[at + 1] == found[at + 3]


def test_voters_and_observers_with_their_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    replicas = [
        subject.Replica(1, True, True, 90, 0, None, None, ("host:1",)),
        subject.Replica(2, True, False, 80, 10, None, None, ()),
        subject.Replica(7, False, False, None, None, None, None, ()),
    ]
    monkeypatch.setattr(subject, "quorum", lambda _: subject.Quorum(1, 4, 79, replicas))
    monkeypatch.setattr(subject, "features", lambda _: [subject.Feature("f", None, 0, 2)])
    with browsing(FakeSource()) as browser:
        found = cells(browser.get("/broker/quorum").text)
    assert found[7:28] == [
        *("1", "● leader", "90", "0", "–", "–", "host:1"),
        *("2", "voter", "80", "10", "–", "–", "–"),
        *("7", "observer", "–", "–", "–", "–", "–"),
    ]
    assert found[-4:] == ["f", "–", "0", "2"]


def test_a_cluster_without_is_told_in_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(_: object) -> None:
        raise Unsupported("host:1: the broker does not support DescribeQuorum")

    def refused(_: object) -> None:
        raise Refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no")

    monkeypatch.setattr(subject, "quorum", unsupported)
    monkeypatch.setattr(subject, "features", refused)
    with browsing(FakeSource()) as browser:
        answer = browser.get("/broker/quorum")
    assert answer.status == 200
    assert "does not support DescribeQuorum" in answer.text
    assert "does not show this to the principal" in answer.text

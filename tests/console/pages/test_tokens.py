"""Delegation tokens without their secrets, or why none is shown."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from ottla.console.source import Source
from ottla.console.subjects import access
from ottla.wire.messages import describe_delegation_token as message
from tests.console.browser import Browser, cells


def test_a_cluster_that_shows_none_says_why(browser: Browser) -> None:
    answer = browser.get("/access/tokens")
    assert (answer.status, "shows delegation tokens only to who has logged in" in answer.text) == (200, True)


def test_tokens_are_shown_without_their_secrets(browser: Browser, source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    renewers = [message.DescribedDelegationTokenRenewer("User", "r")]
    one = message.DescribedDelegationToken("User", "alice", "", "", 0, 1000, 2000, "the-token", b"hunter2", renewers)
    answer = message.DescribeDelegationTokenResponse(0, [one])
    monkeypatch.setattr(access, "any_broker", lambda _: nullcontext(SimpleNamespace(call=lambda _: answer)))
    (found,) = access.tokens(source)
    assert found == access.Token("the-token", "User:alice", None, ("User:r",), 0, 1000, 2000)
    monkeypatch.undo()
    monkeypatch.setattr(access, "tokens", lambda _: [found])
    page = browser.get("/access/tokens").text
    assert cells(page)[7:11] == ["the-token", "User:alice", "–", "User:r"]
    assert "hunter2" not in page

"""What goes wrong in a page becomes a page that says so."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from ottla.commands.output import Failure
from tests.console.browser import browsing
from tests.console.fakes import FakeSource


@pytest.mark.parametrize(
    ("error", "status", "why"),
    [
        (Failure("nobody there"), 502, "nobody there"),
        (KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)), 502, "not allowed for this user (topic)"),
        (KeyError("a bug"), 500, "The page failed; the console&#39;s log says where."),
    ],
)
def test_what_goes_wrong_in_a_page(
    error: Exception, status: int, why: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> Any:
        raise error

    source = FakeSource()
    monkeypatch.setattr(source, "topic", broken)
    with browsing(source) as browser, caplog.at_level(logging.ERROR, "ottla.console"):
        answer = browser.get("/topics/t")
    assert (answer.status, source.asked) == (status, ["lost"] if status == 502 else [])
    assert why in answer.text
    assert [record.exc_info is not None for record in caplog.records] == ([True] if status == 500 else [])

"""Lines about clients that are not let in are limited."""

from __future__ import annotations

import logging

import pytest

from ottla.server.network.limited_log import LINES, LOG_SPAN_S, LimitedLog
from tests.fakes import ManualClock


def test_many_lines_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock = ManualClock()
    log = LimitedLog("SECURE", clock, "were refused")
    for _ in range(LINES + 5):
        log.write("100% refused", logging.INFO)
    assert {record.levelno for record in caplog.records} == {logging.INFO}
    assert caplog.messages == ["100% refused"] * LINES
    clock.advance(LOG_SPAN_S)
    log.write("later")
    more = "5 more clients of listener SECURE were refused"
    assert caplog.messages == ["100% refused"] * LINES + [more, "later"]


def test_no_more_than_these_is_no_line(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    log = LimitedLog("SECURE", clock, "were refused")
    for _ in range(LINES):
        log.write("failed")
    clock.advance(LOG_SPAN_S)
    assert (caplog.messages, clock.waiting) == (["failed"] * LINES, 0)

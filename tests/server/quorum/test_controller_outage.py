"""ControllerOutage: a line after some seconds without an answer, then one every half minute, and one when it is over."""

from __future__ import annotations

import logging

import pytest

from ottla.server.peers.outcomes import Disconnected
from ottla.server.quorum.controller_outage import FIRST_SECONDS, REMIND_SECONDS, ControllerOutage
from tests.fakes import ManualClock


def test_it_is_said_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock = ManualClock()
    outage = ControllerOutage(clock)
    outage.go_on(Disconnected("refused"))
    outage.end()
    assert caplog.messages == []
    for _ in range(3):
        clock.advance(FIRST_SECONDS)
        outage.go_on(Disconnected("refused"))
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith(
        "no controller has answered for 5 s; it goes on trying (controller.quorum.bootstrap.servers"
    )
    assert caplog.messages[0].endswith(": refused")
    clock.advance(REMIND_SECONDS)
    outage.go_on(Disconnected("refused"))
    assert "for 45 s" in caplog.messages[1]
    outage.end()
    assert caplog.messages[2:] == ["a controller answers again"]
    clock.advance(FIRST_SECONDS - 1)
    outage.go_on(Disconnected("refused"))
    outage.end()
    assert len(caplog.messages) == 3

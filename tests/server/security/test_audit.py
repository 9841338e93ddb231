"""The lines of the audit log: their form, their levels, and their bound."""

from __future__ import annotations

import logging

import pytest

from ottla.server.security import audit as module
from ottla.server.security.audit import Audit
from ottla.server.security.authorizer import Authorizer
from ottla.server.security.rights import Operation, Resource

LOGGER = "kafka.authorizer.logger"


def note(audit: Audit, name: str = "t", *, allowed: bool = False) -> None:
    rights = Authorizer().rights("User:a", "10.0.0.1")
    audit.note(rights, "Fetch", Operation.READ, Resource.TOPIC, name, allowed=allowed)


def test_a_denial(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    audit = Audit(lambda: 0.0)
    note(audit)
    note(audit, allowed=True)
    (line,) = caplog.messages
    assert line == (
        "Principal = User:a is Denied operation = READ from host = 10.0.0.1 on resource = Topic:LITERAL:t "
        "for request = Fetch with resourceRefCount = 1 based on rule DefaultDeny"
    )
    assert audit.denied == {"Fetch": 1}
    assert not audit.notes_allowed


def test_what_is_allowed_is_for_debugging(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, LOGGER)
    audit = Audit(lambda: 0.0)
    assert audit.notes_allowed
    note(audit, allowed=True)
    assert "is Allowed" in caplog.messages[0]
    assert audit.denied == {}


def test_names_are_escaped_and_cut(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    audit = Audit(lambda: 0.0)
    note(audit, "a\nPrincipal = User:b")
    note(audit, "x" * 10_000)
    assert "a\\nPrincipal" in caplog.messages[0]
    assert "\n" not in caplog.messages[0]
    assert len(caplog.messages[1]) < 1000


def test_lines_are_bounded(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    monkeypatch.setattr(module, "LINES_A_SECOND", 3)
    now = 10.0
    audit = Audit(lambda: now)
    for _ in range(8):
        note(audit)
    assert len(caplog.messages) == 3
    now = 11.5
    note(audit)
    assert caplog.messages[3].startswith("5 more decisions are not listed")
    assert len(caplog.messages) == 5
    assert audit.denied == {"Fetch": 9}

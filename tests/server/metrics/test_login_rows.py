"""Tests of what the rows about logins, handshakes and rights say. A broker without any of them has no such rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ottla.server.metrics.login_rows import LOGIN_ROWS
from ottla.server.security.audit import Audit
from ottla.server.security.authorizer import Authorizer
from ottla.server.security.rights import Operation
from tests.server.network.test_tls_listener import Principals, Rig
from tests.server.security.logging_in import ALICE, BOB, Door
from tests.server.security.test_authorizer import READ, rule

SOCKETS = "kafka_server_socketservermetrics_"


def rows(*listeners: Any, authorizer: Authorizer | None = None) -> dict[tuple[str, ...], float]:
    """Names with the values of their labels -> numbers."""
    sources: Any = SimpleNamespace(listeners=listeners, context=SimpleNamespace(authorizer=authorizer))
    found = {}
    for name, _, labels, _, make in LOGIN_ROWS:
        for values, number in make(sources):
            assert len(values) == len(labels)
            found[name.removeprefix(SOCKETS), *values] = number
    return found


def test_off_means_no_rows() -> None:
    door = Door()
    door.listener.logins = None
    assert rows(door.listener) == {}


def test_logins() -> None:
    door = Door(max_reauth_ms=5000)
    client = door.connect()
    client.choose()
    client.prove()
    for token in (ALICE, b"\0alice\0wrong"):
        door.clock.advance(2)
        client.choose()
        door.clock.advance(0.25)
        client.prove(token)
    refused, late = door.connect(), door.connect()
    refused.choose()
    refused.prove(BOB + b"!")
    staying = door.connect()
    staying.choose()
    staying.prove()
    door.clock.advance(10)
    assert late.closed
    staying.send(b"\0\3\0\0")
    assert {name: number for (name, _), number in rows(door.listener).items()} == {
        "successful_authentication_total": 2,
        "failed_authentication_total": 1,
        "successful_reauthentication_total": 1,
        "failed_reauthentication_total": 1,
        "reauthentication_latency_avg": 250,
        "reauthentication_latency_max": 250,
        "expired_connections_killed_count": 1,
        "ottla_login_timeouts_total": 1,
    }


def test_handshakes() -> None:
    listener = Rig(Principals(), {}, {}).listener
    listener.handshakes, listener.failed_handshakes = 7, 3
    waiting: Any = "a client"
    listener.turns.line_up("source", waiting)
    handshakes = {"ottla_tls_handshakes_total": 7, "ottla_tls_failed_handshakes_total": 3, "ottla_tls_waiting_handshakes": 1}
    as_logins = {"successful_authentication_total": 7, "failed_authentication_total": 3}
    assert {name: number for (name, _), number in rows(listener).items()} == handshakes | as_logins
    listener.logins = Door().logins
    found = rows(listener)
    assert found["successful_authentication_total", "SECURE"] == 0, "those that have logged in count"
    assert found["ottla_tls_handshakes_total", "SECURE"] == 7


def test_decisions() -> None:
    authorizer = Authorizer(["User:admin"], rules=[rule(READ), rule(READ, "u")], audit=Audit(lambda: 0.0))
    ask = authorizer.ask("User:a", "h", "Fetch")
    assert [ask.topic(READ, name) for name in ("t", "u", "x")] == [True, True, False]
    assert not authorizer.ask("User:a", "h", "Produce").topic(Operation.WRITE, "t")
    assert not ask.topic(READ, "y", quiet=True)
    authorizer.change([(rule(READ, "u"), None)])
    assert rows(authorizer=authorizer) == {
        ("kafka_server_plugins_acls_total_count", "authorizer.class.name", "StandardAuthorizer", "broker"): 1,
        ("ottla_authorizer_decisions_total", "allowed"): 2,
        ("ottla_authorizer_decisions_total", "denied"): 2,
        ("ottla_authorizer_denials_total", "Fetch"): 1,
        ("ottla_authorizer_denials_total", "Produce"): 1,
    }

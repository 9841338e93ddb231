"""Logging in: each state with each request, what is refused and when, and that a login costs nothing once it is done."""

from __future__ import annotations

import gc
import logging
import re
from typing import Any

import pytest

from ottla.server.network.limited_log import LOG_SPAN_S
from ottla.server.security.login import ADMITS, LONGEST_REASON, MAX_FRAMES, NEXT, SASL_AUTHENTICATE, Event, Login, State
from ottla.server.security.mechanism import Challenge, Failed
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.server.security.logging_in import ALICE, BOB, DELAY, MAX_LOGIN, SCRIPTED, Client, Door, Scripted

NAMED = ApiVersionsRequest("lib", "1.0")


def at(door: Door, state: State) -> Client:
    """A client whose login is in this state."""
    client = door.connect()
    if state is State.AGAIN:
        door.logins.begin(client.connection, client.session, None)
        login: Any = client.session.login
        login.state = State.AGAIN
    if state is State.VERSIONS_KNOWN:
        assert client.ask("api_versions", NAMED, 3).error_code == 0
    if state in (State.TOKENS, State.RAW):
        assert client.choose(version=0 if state is State.RAW else 1).error_code == 0
    if state is State.FAILED:
        assert client.choose("NONE") is None
    assert client.session.login is not None
    assert client.session.login.state is state
    return client


REQUESTS = {
    "versions": ("api_versions", NAMED, 4),
    "handshake": ("sasl_handshake", SaslHandshakeRequest("PLAIN"), 1),
    "handshake v0": ("sasl_handshake", SaslHandshakeRequest("PLAIN"), 0),
    "token": ("sasl_authenticate", SaslAuthenticateRequest(ALICE), 2),
    "token v0": ("sasl_authenticate", SaslAuthenticateRequest(ALICE), 0),
    "metadata": ("metadata", MetadataRequest([]), 12),
}
OPEN = {  # every other pair closes the connection, without a word
    (State.START, "versions"): State.VERSIONS_KNOWN,
    (State.START, "handshake"): State.TOKENS,
    (State.START, "handshake v0"): State.RAW,
    (State.VERSIONS_KNOWN, "handshake"): State.TOKENS,
    (State.VERSIONS_KNOWN, "handshake v0"): State.RAW,
    (State.TOKENS, "token"): State.DONE,
    (State.TOKENS, "token v0"): State.DONE,
    (State.AGAIN, "handshake"): State.TOKENS,
    (State.AGAIN, "handshake v0"): State.RAW,
}


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("state", [State.START, State.VERSIONS_KNOWN, State.TOKENS, State.AGAIN])
def test_each_request_in_each_state(state: State, name: str) -> None:
    door = Door()
    client = at(door, state)
    login = client.session.login
    answer = client.ask(*REQUESTS[name])
    expected = OPEN.get((state, name))
    if expected is not None:
        assert login is not None
        assert (answer.error_code, login.state, client.closed) == (0, expected, False)
    elif state is State.TOKENS and name.startswith("handshake"):
        assert (answer, client.closed) == (None, False)
        door.clock.advance(DELAY)
        assert client.closed
        assert client.answer("sasl_handshake", REQUESTS[name][2]).error_code == ErrorCode.ILLEGAL_SASL_STATE
    else:
        assert (answer, client.closed) == (None, True)


def test_the_table_leads_from_every_state_to_an_end() -> None:
    ends = {State.DONE, State.FAILED, State.MISTAKEN}
    assert {state for state, _ in NEXT} == set(State) - ends == {*ADMITS, State.RAW}
    ends.discard(State.MISTAKEN)
    for state in set(State) - ends - {State.MISTAKEN}:
        seen, reached = {state}, [state]
        while reached:
            here = reached.pop()
            found = {after for (before, _), after in NEXT.items() if before is here} - seen
            seen |= found
            reached += found
        assert ends <= seen
    assert {event for _, event in NEXT} == set(Event)
    assert SASL_AUTHENTICATE not in ADMITS[State.START]


def test_a_login_ends_in_the_dispatch() -> None:
    door = Door()
    client = door.connect()
    assert client.session.principal == "User:ANONYMOUS"
    answer = client.choose()
    assert (answer.error_code, answer.mechanisms) == (0, ["PLAIN", "SCRIPTED"])
    answer = client.prove()
    assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms, answer.error_message) == (0, b"", 0, None)
    assert client.session.principal == "User:alice"
    assert client.session.login is None
    assert client.connection.serve == door.listener.dispatch.serve
    assert [topic.name for topic in client.ask("metadata", MetadataRequest(None), 12).topics] == ["t"]
    assert (door.logins.successful, door.logins.failed, door.clock.waiting) == (1, 0, 1)
    door.clock.advance(11)
    assert (client.closed, door.clock.waiting) == (False, 0)


def test_nothing_is_left_of_a_login_that_is_done() -> None:
    def living() -> int:
        return sum(isinstance(each, Login) for each in gc.get_objects())

    gc.collect()
    before = living()
    client = Door().connect()
    assert living() == before + 1
    client.choose()
    client.prove()
    assert living() == before


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_other_requests_go_on_after_it(version: int) -> None:
    client = Door().connect()
    client.choose()
    assert client.prove(version=version).error_code == 0
    answer = client.prove(version=version)
    assert (answer.error_code, bool(answer.error_message)) == (ErrorCode.ILLEGAL_SASL_STATE, True)
    assert client.choose().error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.ask("api_versions", NAMED, 3).error_code == 0
    assert not client.closed


def test_what_is_pipelined_behind_the_last_token_is_served() -> None:
    client = Door().connect()
    client.send(
        client.request("api_versions", NAMED, 3),
        client.request("sasl_handshake", SaslHandshakeRequest("PLAIN"), 1),
        client.request("sasl_authenticate", SaslAuthenticateRequest(ALICE), 2),
        client.request("metadata", MetadataRequest(None), 12),
        client.request("metadata", MetadataRequest(None), 12),
    )
    assert len(client.frames()) == 5
    assert not client.closed


def test_challenges_and_their_answers() -> None:
    client = Door().connect()
    client.choose("SCRIPTED")
    for _ in range(2):
        answer = client.prove(b"more")
        assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (0, b"go on", 0)
    assert client.prove(b"alice").auth_bytes == b"welcome"
    assert client.session.principal == "User:alice"


def test_raw_tokens() -> None:
    client = Door().connect()
    client.choose("SCRIPTED", version=0)
    client.send(b"more")
    assert client.frames() == [b"go on"]
    client.send(b"alice")
    assert client.frames() == [b"welcome"]
    assert client.ask("metadata", MetadataRequest(None), 12).topics
    client = Door().connect()
    client.choose(version=0)
    client.send(ALICE)
    assert client.frames() == [b""]
    assert client.session.principal == "User:alice"


def test_a_long_client_id_is_not_kept() -> None:
    client = Door().connect()
    request = client.request("api_versions", NAMED, 3)
    long = request[:8] + (30_000).to_bytes(2, "big") + b"x" * 30_000 + request[10 + len("client") :]
    client.connection.max_request_bytes = len(long)
    client.send(long)
    assert len(client.frames()) == 1
    assert client.session.client_id == "x" * LONGEST_REASON


@pytest.mark.parametrize("mechanism", ["NONE", "plain", "", "GSSAPI"])
@pytest.mark.parametrize("version", [0, 1])
def test_a_mechanism_that_is_not_offered(mechanism: str, version: int) -> None:
    door = Door()
    client = door.connect()
    assert client.choose(mechanism, version) is None
    assert not client.transport.reading
    door.clock.advance(DELAY)
    answer = client.answer("sasl_handshake", version)
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, ["PLAIN", "SCRIPTED"])
    assert client.closed
    assert door.logins.failed == 1


def test_a_refusal_is_held_back_and_then_closes() -> None:
    door = Door()
    client = door.connect()
    client.choose()
    assert client.prove(b"\0alice\0wrong") is None
    assert not client.transport.reading
    door.clock.advance(DELAY / 2)
    assert not client.frames()
    door.clock.advance(DELAY / 2)
    answer = client.answer("sasl_authenticate", 2)
    assert (answer.error_code, answer.error_message) == (58, "The user name or the password is wrong.")
    assert (answer.auth_bytes, answer.session_lifetime_ms) == (b"", 0)
    assert client.closed
    assert client.session.principal == "User:ANONYMOUS"


def test_without_a_delay_it_closes_at_once() -> None:
    door = Door(delay_ms=0)
    client = door.connect()
    client.choose()
    client.prove(b"\0alice\0wrong")
    door.clock.advance()
    assert client.answer("sasl_authenticate", 2).error_code == 58
    assert client.closed


def test_what_goes_wrong_inside_a_mechanism_is_not_told() -> None:
    texts = []
    for token in (b"silent", b"told"):
        door = Door()
        client = door.connect()
        client.choose("SCRIPTED")
        client.prove(token)
        door.clock.advance(DELAY)
        texts.append(client.answer("sasl_authenticate", 2).error_message)
    assert texts == ["The login by SCRIPTED failed, because its credentials are not valid.", "Only for the client."]


@pytest.mark.parametrize("version", [0, 1])
def test_a_mechanism_that_is_turned_off_meanwhile(version: int) -> None:
    """The settings change between the client's choice and its token."""
    door = Door()
    client = door.connect()
    client.choose(version=version)
    left, settings = {"SCRIPTED": SCRIPTED}, door.logins.settings._replace(max_reauth_ms={"SCRIPTED": 0})
    door.logins.mechanisms, door.logins.settings = left, settings
    client.send(ALICE if version == 0 else client.request("sasl_authenticate", SaslAuthenticateRequest(ALICE), 2))
    assert not client.frames()
    door.clock.advance(DELAY)
    if version:
        answer = client.answer("sasl_authenticate", 2)
        assert (answer.error_code, answer.error_message) == (58, "Logins by PLAIN have just been turned off here.")
    assert (client.closed, client.session.principal, door.logins.failed) == (True, "User:ANONYMOUS", 1)


def test_nothing_behind_a_refusal_is_heard() -> None:
    door = Door()
    client = door.connect()
    client.choose()
    client.send(
        client.request("sasl_authenticate", SaslAuthenticateRequest(b"\0alice\0wrong"), 2),
        client.request("sasl_authenticate", SaslAuthenticateRequest(ALICE), 2),
        client.request("metadata", MetadataRequest(None), 12),
    )
    door.clock.advance(DELAY)
    assert len(client.frames()) == 1
    assert client.closed
    assert client.session.principal == "User:ANONYMOUS"


def test_a_raw_refusal_is_silent() -> None:
    door = Door()
    client = door.connect()
    client.choose(version=0)
    client.send(b"\0alice\0wrong", ALICE)
    assert (client.frames(), client.closed, client.transport.reading) == ([], False, False)
    door.clock.advance(DELAY)
    assert (client.frames(), client.closed) == ([], True)


@pytest.mark.parametrize("version", [0, 1])
def test_a_client_that_goes_during_the_delay_leaves_nothing(version: int) -> None:
    door = Door()
    client = door.connect()
    client.choose(version=version)
    client.send(b"\0alice\0wrong" if version == 0 else client.request("sasl_authenticate", SaslAuthenticateRequest(b""), 2))
    assert door.clock.waiting == 2
    client.leave()
    assert door.clock.waiting == 1  # the watch over logins, which finds nothing any more
    door.clock.advance(11)
    assert door.clock.waiting == 0


class Refusing(Scripted):
    """A mechanism that tells of a refusal before the login fails."""

    refused = True


def test_who_does_not_listen_to_a_refusal_has_failed_all_the_same() -> None:
    door = Door(delay_ms=0, free_failures=1, mechanisms={"SCRIPTED": Refusing(no=Challenge(b"no"), x=Failed(None, "no"))})
    for failed in (1, 2):
        client = door.connect()
        client.choose("SCRIPTED")
        assert client.prove(b"no").error_code == 0
        client.leave()
        assert door.logins.failed == failed
    client = door.connect()
    client.choose("SCRIPTED")
    client.prove(b"no")
    client.prove(b"x")
    assert door.logins.failed == 3
    door.clock.advance(0.3)
    assert not client.closed, "the address waits longer, as it has failed before"
    door.clock.advance(2)
    assert client.closed
    client.leave()
    assert door.logins.failed == 3


def test_versions_that_are_too_new_change_nothing() -> None:
    client = Door().connect()
    for _ in range(2):
        client.send(client.request("api_versions", NAMED, 3)[:2] + b"\0\x63" + client.request("api_versions", NAMED, 3)[4:])
        (frame,) = client.frames()
        assert frame[4:6] == b"\0\x23"
    assert client.ask("api_versions", NAMED, 3).error_code == 0
    assert client.choose().error_code == 0


def test_a_bad_question_for_versions_changes_nothing() -> None:
    client = Door().connect()
    assert client.ask("api_versions", ApiVersionsRequest(" ", "1"), 3).error_code == ErrorCode.INVALID_REQUEST
    assert client.ask("api_versions", NAMED, 3).error_code == 0


@pytest.mark.parametrize("frame", [b"\0", b"\0\x11", b"\0\x11\0\2\0\0\0\1\0\0", b"\xff\xff", b"GET / HTTP/1.1\r\n\r\n"])
def test_bytes_that_are_no_request(frame: bytes) -> None:
    client = Door().connect()
    client.send(frame)
    assert (client.frames(), client.closed) == ([], True)


def test_a_long_frame_closes_before_it_has_come() -> None:
    client = Door().connect()
    client.send(client.request("sasl_authenticate", SaslAuthenticateRequest(bytes(MAX_LOGIN)), 2)[:10] + bytes(MAX_LOGIN))
    assert client.closed
    client = Door().connect()
    client.choose()
    client.prove()
    assert client.ask("metadata", MetadataRequest([]), 12) is not None
    client.send(bytes(MAX_LOGIN + 1))
    assert client.closed  # as a request that is none, not for its length
    assert client.frames() == []


def test_a_login_takes_a_bounded_number_of_frames() -> None:
    client = Door().connect()
    client.choose("SCRIPTED")
    for _ in range(MAX_FRAMES - 1):
        assert client.prove(b"more").error_code == 0
    assert (client.prove(b"more"), client.closed) == (None, True)


def test_a_byte_a_second_is_no_life() -> None:
    door = Door()
    client = door.connect()
    client.choose()
    request = client.request("sasl_authenticate", SaslAuthenticateRequest(ALICE), 2)
    frame = len(request).to_bytes(4, "big") + request
    for number in range(10):
        assert not client.closed
        client.connection.get_buffer(-1)[:1] = frame[number : number + 1]
        client.connection.buffer_updated(1)
        door.clock.advance(1)
    assert client.closed
    assert (client.session.principal, door.logins.timed_out) == ("User:ANONYMOUS", 1)


def test_a_login_takes_a_bounded_time(caplog: pytest.LogCaptureFixture) -> None:
    door = Door()
    clients = [door.connect()]
    door.clock.advance(4)
    clients.append(door.connect())
    clients[1].choose()
    clients.append(door.connect())
    clients[2].choose()
    clients[2].prove()
    with caplog.at_level(logging.INFO):
        door.clock.advance(6)
    assert [client.closed for client in clients] == [True, False, False]
    assert "it did not log in within ottla.login.timeout.ms (10000)" in caplog.text
    door.clock.advance(4)
    assert [client.closed for client in clients] == [True, True, False]
    door.clock.advance(LOG_SPAN_S)
    assert door.clock.waiting == 0
    assert door.connect().choose().error_code == 0
    door.logins.close()
    assert door.clock.waiting == 0


def test_who_came_by_a_delegation_token_is_known() -> None:
    client = Door().connect()
    client.choose("SCRIPTED")
    assert not client.session.by_delegation_token
    client.prove(b"token")
    assert (client.session.principal, client.session.by_delegation_token) == ("User:owner", True)


def test_users_do_not_see_each_other() -> None:
    door = Door()
    clients = [door.connect(), door.connect()]
    for client in clients:
        client.choose()
    for client, token in zip(clients, (ALICE, BOB), strict=True):
        client.prove(token)
    assert [client.session.principal for client in clients] == ["User:alice", "User:bob"]


def test_what_is_logged_of_a_stranger_is_short(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    door = Door(delay_ms=0)
    client = door.connect()
    client.choose()
    client.prove(b"\0" + b"x" * 900 + b"\0wrong")
    door.clock.advance()
    client = door.connect()
    client.choose("y" * 900)
    door.clock.advance()
    assert len(caplog.messages) == 2
    assert all(len(line) < 400 for line in caplog.messages)


def test_no_secret_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for token in (ALICE, ALICE + b"x", b"\0carol\0hunter2", b"alice\0hunter2", b"x\0alice\0hunter2", b"\0alice\0hunter2\0"):
        door = Door()
        client = door.connect("10.9.8.7")
        client.choose()
        client.prove(token)
        door.clock.advance(DELAY)
    assert len(re.findall("its login failed", caplog.text)) == 5
    assert "10.9.8.7" in caplog.text
    assert "hunter" not in caplog.text

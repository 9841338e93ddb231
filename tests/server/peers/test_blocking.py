"""BlockingConnection: a thread's requests over a real socket, with a node at the other end that does what it should not."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from ottla.log.config_def import Secret
from ottla.server.peers.blocking import MAX_ANSWER_BYTES, BlockingConnection
from ottla.server.peers.outcomes import Disconnected, PeerError, TimedOut, UnsupportedVersion
from ottla.server.security.client import SaslLogin
from ottla.wire.header import RequestHeader, decode_request_header
from ottla.wire.messages import api_versions, broker_heartbeat, sasl_authenticate, sasl_handshake
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tests.server.peers.node import frame

Answer = Callable[[RequestHeader], bytes]
VERSIONS = ApiVersionsResponse(0, [ApiVersion(api_versions.API_KEY, 0, 4), ApiVersion(broker_heartbeat.API_KEY, 0, 1)])
LONG_S = 60.0


def fine(header: RequestHeader) -> bytes:
    """Returns what a node answers as it should."""
    response = VERSIONS if header.api_key == api_versions.API_KEY else BrokerHeartbeatResponse(is_fenced=False)
    return frame(header, response)


def once_known(heartbeat: Answer) -> Answer:
    """A node that is fine until the heartbeat."""
    return lambda header: fine(header) if header.api_key == api_versions.API_KEY else heartbeat(header)


@contextmanager
def node(
    answer: Answer, login: SaslLogin | None = None, monotonic: Callable[[], float] = time.monotonic
) -> Iterator[tuple[BlockingConnection, list[RequestHeader]]]:
    """A node that answers each request with these bytes, none to end the connection."""
    ours, theirs = socket.socketpair()
    asked: list[RequestHeader] = []

    def serve() -> None:
        with theirs, theirs.makefile("rb") as stream, suppress(ConnectionResetError):  # by which we end with an answer unread
            while size := int.from_bytes(stream.read(4), "big"):
                header, _ = decode_request_header(stream.read(size), 0)
                asked.append(header)
                said = answer(header)
                if not said:
                    return
                with suppress(OSError):  # we may have hung up
                    theirs.sendall(said)

    thread = threading.Thread(target=serve)
    thread.start()
    connection = BlockingConnection(ours, "other:9093", "broker-4-heartbeat", monotonic, login)
    try:
        yield connection, asked
    finally:
        connection.close()
        thread.join(30)
        assert not thread.is_alive()


def test_it_asks_for_the_versions_once_and_then_in_the_newest_that_both_have() -> None:
    with node(fine) as (connection, asked):
        for _ in range(2):
            answer = connection.ask(BrokerHeartbeatRequest(4), LONG_S)
            assert (answer.error_code, answer.is_fenced) == (0, False)
    assert asked == [
        (api_versions.API_KEY, 0, 0, "broker-4-heartbeat"),
        (broker_heartbeat.API_KEY, 1, 1, "broker-4-heartbeat"),
        (broker_heartbeat.API_KEY, 1, 2, "broker-4-heartbeat"),
    ]


def test_no_common_version() -> None:
    with node(fine) as (connection, _), pytest.raises(UnsupportedVersion, match="other:9093 has versions 0 to 1 of"):
        connection.ask(BrokerHeartbeatRequest(4), LONG_S, min_version=2)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (lambda header: b"", "closed the connection"),
        (lambda header: (MAX_ANSWER_BYTES + 1).to_bytes(4, "big"), "announces an answer of 1048577 bytes"),
        (lambda header: b"\xff\xff\xff\xff", "announces an answer of -1 bytes"),
        (lambda header: frame(header, BrokerHeartbeatResponse(), correlation_id=9), "it has the correlation id 9, and 1 is due"),
        (lambda header: b"\0\0\0\7" + fine(header)[4:11], "no answer to BrokerHeartbeat"),
    ],
)
def test_what_is_no_answer_ends_it(bad: Answer, said: str) -> None:
    with node(once_known(bad)) as (connection, _), pytest.raises(Disconnected, match=said):
        connection.ask(BrokerHeartbeatRequest(4), LONG_S)


def test_an_error_of_the_first_exchange() -> None:
    with node(lambda header: frame(header, ApiVersionsResponse(35))) as (connection, _):
        with pytest.raises(Disconnected, match="UNSUPPORTED_VERSION"):
            connection.ask(BrokerHeartbeatRequest(4), LONG_S)


def test_a_node_that_is_silent_is_not_waited_for_longer_than_it_may_take() -> None:
    held = threading.Event()
    heartbeats: list[RequestHeader] = []

    def silent(header: RequestHeader) -> bytes:
        heartbeats.append(header)
        if len(heartbeats) > 1:
            held.wait(30)
        return fine(header)

    with node(once_known(silent)) as (connection, _):
        connection.ask(BrokerHeartbeatRequest(4), LONG_S)
        with pytest.raises(TimedOut, match="did not answer BrokerHeartbeat in time"):
            connection.ask(BrokerHeartbeatRequest(4), 0.05)
        held.set()


def test_a_time_that_is_over_already() -> None:
    with node(fine) as (connection, asked), pytest.raises(TimedOut):
        connection.ask(BrokerHeartbeatRequest(4), 0)
    assert asked == []


def test_another_thread_may_close_it_while_it_waits() -> None:
    asked, held = threading.Event(), threading.Event()

    def silent(header: RequestHeader) -> bytes:
        asked.set()
        held.wait(30)
        return b""

    ended: list[PeerError] = []
    with node(once_known(silent)) as (connection, _):

        def ask() -> None:
            with pytest.raises(Disconnected) as caught:
                connection.ask(BrokerHeartbeatRequest(4), LONG_S)
            ended.append(caught.value)

        thread = threading.Thread(target=ask)
        thread.start()
        assert asked.wait(30)
        connection.close()
        thread.join(30)
        held.set()
    assert len(ended) == 1


def test_it_logs_in_first_and_again_before_the_login_ends() -> None:
    now = [100.0]
    has = [*VERSIONS.api_keys, ApiVersion(sasl_handshake.API_KEY, 0, 1), ApiVersion(sasl_authenticate.API_KEY, 0, 2)]

    def answer(header: RequestHeader) -> bytes:
        if header.api_key == api_versions.API_KEY:
            return frame(header, ApiVersionsResponse(0, has))
        if header.api_key == sasl_handshake.API_KEY:
            return frame(header, sasl_handshake.SaslHandshakeResponse())
        if header.api_key == sasl_authenticate.API_KEY:
            return frame(header, sasl_authenticate.SaslAuthenticateResponse(session_lifetime_ms=10_000))
        return fine(header)

    login = SaslLogin("PLAIN", "me", Secret("s3cret"), lambda: "nonce")
    with node(answer, login, lambda: now[0]) as (connection, asked):
        for pause_s in (0, 8, 1, 0):
            now[0] += pause_s
            assert connection.ask(BrokerHeartbeatRequest(4), LONG_S).error_code == 0
    beat, logged_in = broker_heartbeat.API_KEY, [sasl_handshake.API_KEY, sasl_authenticate.API_KEY]
    assert [each.api_key for each in asked] == [api_versions.API_KEY, *logged_in, beat, beat, *logged_in, beat, beat]

"""Fetching a document: what a server may answer, and that neither time nor bytes run away."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable

import pytest

from ottla.server.security.jwks import FetchFailed
from ottla.server.security.jwks_fetch import MAX_BYTES, MAX_SECONDS, Fetcher
from tests.fakes import ManualClock

HEAD = b"HTTP/1.1 200 OK\r\n"


class Wire:
    """A connection to a server that says `answers`, one at each read, and what it was asked."""

    def __init__(self, *answers: bytes | Exception, each_read: Callable[[], None] = lambda: None) -> None:
        self.answers = list(answers)
        self.each_read = each_read
        self.asked = b""
        self.timeouts: list[float] = []
        self.ended = self.closed = False

    def sendall(self, data: bytes) -> None:
        self.asked += data

    def recv(self, size: int) -> bytes:
        self.each_read()
        answer = self.answers.pop(0) if self.answers else b""
        if isinstance(answer, Exception):
            raise answer
        return answer

    def settimeout(self, seconds: float) -> None:
        self.timeouts.append(seconds)

    def shutdown(self, how: int) -> None:
        self.ended = True

    def close(self) -> None:
        self.closed = True


def fetcher(wire: Wire, url: str = "http://issuer/keys", clock: ManualClock | None = None) -> Fetcher:
    return Fetcher(url, None, lambda host, port, seconds: wire, clock or ManualClock())


def failed(wire: Wire) -> str:
    with pytest.raises(FetchFailed) as failure:
        fetcher(wire).fetch()
    assert wire.closed
    return str(failure.value)


def test_a_document() -> None:
    wire = Wire(HEAD + b"Content-Length: 4\r\n\r\nab", b"cd")
    assert fetcher(wire, "http://issuer:8080/keys?v=1").fetch() == b"abcd"
    assert wire.asked.startswith(b"GET /keys?v=1 HTTP/1.1\r\n")
    assert b"Host: issuer:8080\r\n" in wire.asked
    assert wire.closed
    chunked = Wire(HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", b"2\r\ncd\r\n0\r\n\r\n")
    assert fetcher(chunked, "http://issuer").fetch() == b"abcd"
    assert chunked.asked.startswith(b"GET / HTTP/1.1\r\nHost: issuer\r\n")
    assert fetcher(Wire(HEAD + b"\r\nab", b"cd", b"")).fetch() == b"abcd"


def test_where_it_is() -> None:
    asked: list[tuple[str, int, float]] = []

    def dial(host: str, port: int, seconds: float) -> Wire:
        asked.append((host, port, seconds))
        return Wire(HEAD + b"Content-Length: 0\r\n\r\n")

    for url in ("http://issuer/", "http://issuer:81/", "http://[::1]/"):
        Fetcher(url, None, dial, ManualClock()).fetch()
    assert asked == [("issuer", 80, MAX_SECONDS), ("issuer", 81, MAX_SECONDS), ("::1", 80, MAX_SECONDS)]
    for url in ("http:///keys", "http://issuer:port/"):
        with pytest.raises(ValueError):
            Fetcher(url, None, dial, ManualClock())


def test_what_a_server_may_not_answer() -> None:
    assert failed(Wire(b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\n\r\n")) == "it was answered with status 302"
    assert failed(Wire(b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n")) == "it was answered with status 500"
    assert failed(Wire(b"SSH-2.0-x\r\n\r\n")).startswith("its answer is not HTTP")
    assert failed(Wire(b"")).startswith(("its answer is not HTTP", "the connection was closed"))
    assert failed(Wire(HEAD + b"Content-Length: 4\r\n\r\nab", b"")).startswith("its answer is not HTTP")
    assert failed(Wire(HEAD + b"\r\n", *[b"x" * 65536] * 17)) == f"it is longer than {MAX_BYTES} bytes"
    assert failed(Wire(HEAD + b"X: " + b"x" * 200_000)).startswith("its answer is not HTTP")
    assert failed(Wire(ConnectionResetError(104, "Connection reset by peer"))) == "Connection reset by peer"
    assert failed(Wire(TimeoutError())) == "it took longer than 10 s"


def test_a_server_that_takes_its_time_has_no_more_of_it() -> None:
    clock = ManualClock()
    wire = Wire(HEAD + b"\r\n", *[b"x"] * 100, each_read=lambda: clock.advance(1))
    with pytest.raises(FetchFailed, match="longer than 10 s"):
        fetcher(wire, clock=clock).fetch()
    assert len(wire.answers) == 91
    assert wire.timeouts[:3] == [10, 10, 9]


def test_who_cannot_be_reached() -> None:
    def dial(host: str, port: int, seconds: float) -> Wire:
        raise ConnectionRefusedError(111, "Connection refused")

    with pytest.raises(FetchFailed, match=r"^Connection refused$"):
        Fetcher("http://issuer", None, dial, ManualClock()).fetch()


def test_a_certificate_that_is_not_trusted_is_one() -> None:
    class Distrust(ssl.SSLContext):
        def wrap_socket(self, *_: object, **__: object) -> ssl.SSLSocket:
            error = ssl.SSLCertVerificationError(1, "failed")
            error.verify_message = "self-signed certificate"
            raise error

    wire = Wire()
    with pytest.raises(FetchFailed, match=r"^its certificate is not trusted: self-signed certificate$"):
        Fetcher("https://issuer", Distrust(ssl.PROTOCOL_TLS_CLIENT), lambda *_: wire, ManualClock()).fetch()
    assert wire.closed


def test_an_end_while_it_connects() -> None:
    wire = Wire()

    def dial(host: str, port: int, seconds: float) -> Wire:
        found.abort()
        return wire

    found = Fetcher("http://issuer", None, dial, ManualClock())
    with pytest.raises(FetchFailed, match=r"^the broker stops$"):
        found.fetch()
    assert (wire.closed, wire.asked) == (True, b"")


def test_an_end_in_the_handshake_of_tls() -> None:
    here, there = socket.socketpair()
    waits = threading.Event()

    class Waits(ssl.SSLSocket):
        def do_handshake(self, block: bool = False) -> None:
            waits.set()
            super().do_handshake(block)

    context = ssl.create_default_context()
    context.sslsocket_class = Waits
    found = Fetcher("https://issuer", context, lambda *_: here, ManualClock())
    failures: list[FetchFailed] = []

    def fetch() -> None:
        try:
            found.fetch()
        except FetchFailed as failure:
            failures.append(failure)

    with there:
        thread = threading.Thread(target=fetch)
        thread.start()
        waits.wait(30)
        found.abort()
        thread.join(5)
        assert not thread.is_alive(), "it does not wait for the server"
    thread.join()
    assert len(failures) == 1


def test_an_end_in_between() -> None:
    wire = Wire(HEAD + b"Content-Length: 0\r\n\r\n")
    found = fetcher(wire)
    wire.each_read = found.abort
    found.fetch()
    assert wire.ended
    wire.ended = False
    found.abort()
    assert not wire.ended

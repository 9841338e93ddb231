"""The process: where it listens, what it says, how it ends."""

from __future__ import annotations

import http.client
import os
import re
import select
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from compat_tests.certificates import issue
from compat_tests.password_files import PASSWORD, line, write
from compat_tests.security.tls_files import BROKER, ROOT
from ottla.commands.clients.client import Cluster
from ottla.commands.output import Failure
from ottla.console.web import serving
from ottla.console.web.attempts import TOKENS_IN_LOG
from ottla.console.web.connection import MAX_CONNECTIONS
from ottla.console.web.serving import listen, serve
from ottla.console.web.sessions import Sessions
from ottla.console.web.tls import context_of

TOKEN = "0123&56=789#ab%c+"
Connect = Callable[[http.client.HTTPConnection], http.client.HTTPConnection]


@contextmanager
def console(*words: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Runs `ottla console` for a cluster that is not there, and yields the process with its first line."""
    command = [sys.executable, "-m", "ottla", "console", "--bootstrap", "127.0.0.1:1", "--port", "0", *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    process = subprocess.Popen(command, text=True, env={**os.environ, **environment}, **pipes)  # type: ignore[call-overload]  # three pipes
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline()
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def connect() -> Iterator[Connect]:
    """`connect(connection)` closes it after the test."""
    with ExitStack() as stack:
        yield lambda connection: stack.enter_context(closing(connection))


def place(line: str) -> tuple[int, str | None]:
    found = re.fullmatch(r"ottla console ready: http://127\.0\.0\.1:(\d+)/(?:\?token=(\S+))? cluster 127\.0\.0\.1:1\n", line)
    assert found is not None, line
    return int(found[1]), found[2]


def test_the_line_leads_in_and_sigterm_ends_it(connect: Connect) -> None:
    with console() as (process, line):
        port, token = place(line)
        assert token is not None
        assert len(token) >= 32
        connection = connect(http.client.HTTPConnection("127.0.0.1", port, timeout=30))
        connection.request("GET", "/")
        answer = connection.getresponse()
        assert (answer.status, answer.headers["Server"]) == (401, None)
        answer.read()
        connection.request("GET", f"/?token={token}")
        answer = connection.getresponse()
        cookie = answer.headers["Set-Cookie"].partition(";")[0]
        assert cookie.startswith(f"ottla-console-{port}=")
        answer.read()
        connection.request("GET", "/new-topic", headers={"Cookie": cookie})
        answer = connection.getresponse()
        assert answer.status == 200
        assert b"127.0.0.1:1" in answer.read()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert process.stderr is not None
        assert re.fullmatch(
            r"\S+ \S+ INFO ottla\.console\.audit: session opened \(session \w{8}, from 127\.0\.0\.1\)\n", process.stderr.read()
        )


def test_a_stranger_does_not_fill_the_log(connect: Connect) -> None:
    with console() as (process, line):
        port, _ = place(line)
        own = {"Origin": f"http://127.0.0.1:{port}", "Content-Type": "application/x-www-form-urlencoded"}
        connection = connect(http.client.HTTPConnection("127.0.0.1", port, timeout=30))
        for _ in range(100):
            connection.request("POST", "/login", "token=x", own)
            assert connection.getresponse().read()
            connection.request("GET", "/", headers={"Connection": "upgrade", "Upgrade": "x"})
            assert connection.getresponse().read()
        for _ in range(10):
            with socket.create_connection(("127.0.0.1", port)) as nonsense:
                nonsense.sendall(b"nonsense\r\n\r\n")
                assert nonsense.recv(100).startswith(b"HTTP/1.1 400")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert process.stderr is not None
        lines = process.stderr.read().splitlines()
    assert len(lines) == TOKENS_IN_LOG
    assert all("wrong token" in line for line in lines)


def test_connections_wait_outside_before_they_cost_descriptors(connect: Connect) -> None:
    with console() as (process, line), ExitStack() as stack:
        port, _ = place(line)
        connection = connect(http.client.HTTPConnection("127.0.0.1", port, timeout=30))
        connection.request("GET", "/")
        assert connection.getresponse().read()  # it serves
        process.send_signal(signal.SIGSTOP)  # it accepts none, and a kernel lets so many in by itself as it was told
        many = [stack.enter_context(socket.socket()) for _ in range(3 * MAX_CONNECTIONS)]
        for each in many:
            each.setblocking(False)
            with suppress(BlockingIOError):
                each.connect(("127.0.0.1", port))
        let_in: list[socket.socket] = []
        until = time.monotonic() + 30
        while len(let_in) < MAX_CONNECTIONS and time.monotonic() < until:  # the kernel lets in one after the other
            _, let_in, _ = select.select([], many, [], 30)
        process.send_signal(signal.SIGCONT)
        assert MAX_CONNECTIONS <= len(let_in) <= MAX_CONNECTIONS + 2


def test_a_token_of_the_environment_and_read_only(connect: Connect) -> None:
    with console("--read-only", OTTLA_CONSOLE_TOKEN=TOKEN) as (process, line):
        port, token = place(line)
        assert token is None  # whoever chose it knows it
        connection = connect(http.client.HTTPConnection("127.0.0.1", port, timeout=30))
        connection.request("GET", f"/?{urlencode({'token': TOKEN})}")
        answer = connection.getresponse()
        cookie = answer.headers["Set-Cookie"].partition(";")[0]
        answer.read()
        connection.request("GET", "/new-topic", headers={"Cookie": cookie})
        assert connection.getresponse().status == 403
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


def test_a_browser_is_opened_with_an_address_that_lets_in_once(tmp_path: Path, connect: Connect) -> None:
    pipe, program = tmp_path / "pipe", tmp_path / "browser"
    os.mkfifo(pipe)
    program.write_text(f'#!/bin/sh\necho "$1" > {pipe}\n')
    program.chmod(0o700)
    with console("--open", OTTLA_CONSOLE_TOKEN=TOKEN, BROWSER=f"{program} %s") as (_, ready):
        port, _ = place(ready)
        url = pipe.read_text().rstrip()
        assert url.startswith(f"http://127.0.0.1:{port}/?token=")
        assert TOKEN not in url
        connection = connect(http.client.HTTPConnection("127.0.0.1", port, timeout=30))
        for status in (303, 401):
            connection.request("GET", url.partition(str(port))[2])
            answer = connection.getresponse()
            assert answer.status == status
            answer.read()


def own_tls() -> ssl.SSLContext:
    return context_of(BROKER.pem().encode())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_other_machines_need_tls_and_users(host: str) -> None:
    for tls, has_users, missing in (
        (None, True, "--keystore"),
        (None, False, "--keystore and --users"),
        (own_tls, False, "--users"),
    ):
        with pytest.raises(Failure, match=rf"needs TLS and users of its own; add {missing} \(docs/console.md\), or listen on"):
            listen(host, 0, tls, ("a.test",), has_users=has_users)


@pytest.mark.parametrize("host", ["example.com", "", "127.0.0.1:80"])
def test_what_is_no_address_is_said(host: str) -> None:
    with pytest.raises(Failure, match=r"is not an address"):
        listen(host, 0)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1"])
def test_a_certificate_without_a_name_is_for_no_browser(host: str) -> None:
    with pytest.raises(Failure, match=rf"^--host {host}: the certificate names no host"):
        listen(host, 0, own_tls, (), has_users=True)


def test_with_tls_and_users_other_machines_are_let_in_by_a_name_of_the_certificate(tmp_path: Path, connect: Connect) -> None:
    """Python's own client checks the certificate against the name, as a browser does."""
    keystore, users = tmp_path / "console.pem", tmp_path / "users"
    keystore.write_text(BROKER.pem())
    write(users, line("alice"))
    words = ("--host", "0.0.0.0", "--keystore", str(keystore), "--users", str(users))
    with console(*words) as (process, ready):
        found = re.fullmatch(r"ottla console ready: https://localhost:(\d+)/ cluster 127\.0\.0\.1:1\n", ready)
        assert found is not None, ready
        port = int(found[1])
        context = ssl.create_default_context(cadata=ROOT.chain_pem())
        connection = connect(http.client.HTTPSConnection("localhost", port, timeout=30, context=context))
        connection.request("GET", "/")
        answer = connection.getresponse()
        assert answer.status == 401
        assert b'name="password"' in answer.read()
        own = {"Origin": f"https://localhost:{port}", "Content-Type": "application/x-www-form-urlencoded"}
        connection.request("POST", "/login", urlencode({"name": "alice", "password": PASSWORD}), own)
        answer = connection.getresponse()
        cookie = answer.headers["Set-Cookie"]
        assert (answer.status, cookie.startswith(f"__Host-ottla-console-{port}=")) == (303, True)
        answer.read()
        connection.request("GET", "/new-topic", headers={"Cookie": cookie.partition(";")[0]})
        answer = connection.getresponse()
        assert answer.status == 200
        assert b"Log out alice" in answer.read()
        renewed = issue("console", ROOT, hosts=("localhost",))
        write(keystore, renewed.pem())
        with context.wrap_socket(socket.create_connection(("localhost", port), 30), server_hostname="localhost") as shown:
            assert shown.getpeercert(binary_form=True) == renewed.certificate.public_bytes(Encoding.DER)
        plain = connect(http.client.HTTPConnection("127.0.0.1", port, timeout=30))
        plain.request("GET", "/")
        with pytest.raises((http.client.HTTPException, OSError)):
            plain.getresponse()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_a_port_that_is_taken_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Failure, match=f"127.0.0.1:{port}: .*--port 0 picks a free port"):
            listen("127.0.0.1", port)


@pytest.mark.parametrize(("host", "url"), [("localhost", "http://127.0.0.1:{}/"), ("::1", "http://[::1]:{}/")])
def test_addresses(host: str, url: str) -> None:
    at = listen(host, 0)
    with at.socket:
        assert at.url == url.format(at.port)
        assert at.socket.proto == socket.IPPROTO_TCP  # or asyncio does not turn Nagle's algorithm off


def test_the_collector_runs_less_often_before_the_port_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    came: list[str] = []

    def run(main: Coroutine[Any, Any, None]) -> None:
        main.close()
        came.append("serves")

    monkeypatch.setattr(serving, "run_less_often", lambda: came.append("less often"))
    monkeypatch.setattr("asyncio.run", run)
    at = listen("127.0.0.1", 0)
    with at.socket:
        assert not serve(Cluster({}), at, Sessions(None, os.urandom, lambda: 0.0), read_only=False)
    assert came == ["less often", "serves"]

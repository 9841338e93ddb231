"""Opening sets of keys: files, and servers that have to be trusted; once for all listeners, never for a client's question."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from compat_tests.certificates import authority, issue
from ottla.log.config_def import ConfigError, Secret
from ottla.server.base.clock import LoopClock, sleep
from ottla.server.base.network import OsNetwork
from ottla.server.security.jwks import FileKeys, NoKeys
from ottla.server.security.key_sets import KeySets, Source
from tests.fakes import ManualClock
from tests.server.security.listener import Files
from tests.server.security.signing import jwk, key_set, rsa_key

SETTING, JAAS = "sasl.oauthbearer.jwks.endpoint.url", "listener.name.a.oauthbearer.sasl.jaas.config"
TIMES = (3_600_000, 100, 10_000)
SET = key_set(jwk(rsa_key(), kid="one"))


def source(url: str, **trust: str) -> Source:
    options = tuple(sorted((f"ssl.truststore.{name}", Secret(text)) for name, text in trust.items()))
    return Source(url, TIMES, options, SETTING, JAAS)


def of_files(**files: bytes) -> KeySets:
    read = Files({f"/{name.replace('_', '.')}": data for name, data in files.items()}).read
    return KeySets(read, OsNetwork().dial, ManualClock())


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(ConfigError) as refusal:
        call()
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


@pytest.mark.parametrize("url", ["file:///jwks.json", "file:/jwks.json", "file://localhost/jwks.json", "FILE:///jwks%2Ejson"])
def test_a_file(url: str) -> None:
    sets = of_files(jwks_json=SET)
    keys = sets.open_now(source(url))
    assert isinstance(keys, FileKeys)
    assert keys.find("one", "RS256") is not None
    assert sets.open_later(source(url)) is keys
    assert sets.peek(source(url)) is keys
    sets.close()


def test_files_that_are_refused() -> None:
    sets = of_files(bad=b"{}")
    text = refused(lambda: sets.open_now(source("file:///none")))
    assert text == f"{SETTING}: /none cannot be read (No such file or directory); name a file with a JWKS"
    assert refused(lambda: sets.open_later(source("file:///bad"))).startswith(f"{SETTING}: /bad is no JWKS: it is not a JSON")
    assert refused(lambda: sets.open_now(source("file://host/x"))).startswith(f"{SETTING}: file://host/x does not name a file")


def test_a_client_s_question_opens_nothing() -> None:
    sets = of_files(jwks_json=SET)
    assert isinstance(sets.peek(source("https://issuer")), NoKeys)
    text = refused(lambda: sets.peek(source("https://issuer", location="/etc/passwd")))
    assert text == f"{JAAS}: a client cannot change ssl.truststore.location; write it into server.properties"


class Server:
    """Answers every connection with a set of keys, over TLS."""

    def __init__(self, directory: Path) -> None:
        identity = directory / "identity.pem"
        identity.write_text(issue("issuer", authority()).pem())
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(identity)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://localhost:{self._socket.getsockname()[1]}/"
        self.asked = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                plain, _ = self._socket.accept()
            except OSError:
                return
            try:
                with self._context.wrap_socket(plain, server_side=True) as connection:
                    connection.recv(1000)
                    self.asked += 1
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(SET), SET))
            except OSError:
                plain.close()

    def close(self) -> None:
        with suppress(OSError):  # it may be closed
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    found = Server(tmp_path)
    yield found
    found.close()


def test_a_server_that_the_truststore_vouches_for(server: Server) -> None:
    async def scenario() -> None:
        trust = {"/trust.pem": authority().chain_pem().encode(), "/other.pem": authority("other").chain_pem().encode()}
        sets = KeySets(Files(trust).read, OsNetwork().dial, LoopClock())
        found = source(server.url, location="/trust.pem", type="PEM")
        keys = sets.open_now(found)
        assert keys.find("one", "RS256") is not None
        assert sets.open_now(found) is keys
        assert server.asked == 1
        for other in (source(server.url), source(server.url, location="/other.pem", type="PEM")):
            text = refused(partial(sets.open_now, other))
            assert text.startswith(f"{SETTING}: {server.url} cannot be fetched (its certificate is not trusted: ")
        clock = LoopClock()
        later = sets.open_later(found._replace(times_ms=(1000, 1, 1)))
        while later.find("one", "RS256") is None:
            await sleep(clock, 0.01)
        sets.close()

    asyncio.run(scenario())


def test_a_server_that_is_not_there(server: Server) -> None:
    server.close()
    sets = of_files()
    text = refused(lambda: sets.open_now(source(server.url)))
    remedy = "correct it, or start the broker when the server is there"
    assert text == f"{SETTING}: {server.url} cannot be fetched (Connection refused); {remedy}"
    assert refused(lambda: sets.open_now(source("https:///x"))).startswith(f"{SETTING}: https:///x is no URL (it names no host)")


def test_truststores_that_are_refused() -> None:
    sets = of_files(pem=b"x")
    text = refused(lambda: sets.open_now(source("https://issuer", location="/none", type="PEM")))
    assert text.startswith(f"{JAAS}: ssl.truststore.location: /none: No such file")
    assert refused(lambda: sets.open_now(source("https://issuer", type="PEM"))).startswith(f"{JAAS}: it has no ssl.truststore")
    assert refused(lambda: sets.open_now(source("https://issuer", type="ABC"))).startswith(f"{JAAS}: ssl.truststore.type: 'ABC'")

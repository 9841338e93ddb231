"""Sets of keys: which keys count, and how often strangers and failures have a set fetched again."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from ottla.server.security.jwks import BadKeySet, FetchedKeys, FetchFailed, FileKeys, Key, NoKeys, parse_keys
from tests.fakes import ManualClock
from tests.server.security.signing import ec_key, ed_key, jwk, key_set, rsa_key

ONE, TWO = jwk(rsa_key(), kid="one"), jwk(rsa_key("two"), kid="two")


def test_what_each_kind_of_key_is_good_for() -> None:
    keys = parse_keys(key_set(ONE, {**TWO, "alg": "PS384"}, jwk(ec_key()), jwk(ed_key(), use="sig")))
    assert [sorted(key.algorithms) for key in keys] == [
        ["PS256", "PS384", "PS512", "RS256", "RS384", "RS512"],
        ["PS384"],
        ["ES256"],
        ["EdDSA"],
    ]
    assert [key.id for key in keys] == ["one", "two", None, None]


@pytest.mark.parametrize(
    "unusable",
    [
        {"kty": "oct", "k": "c2VjcmV0", "kid": "one", "alg": "HS256"},
        {**ONE, "use": "enc"},
        {**ONE, "key_ops": ["encrypt"]},
        {**ONE, "key_ops": "verify"},
        {**ONE, "alg": "RSA-OAEP"},
        {**ONE, "alg": "HS256"},
        {**ONE, "n": "?"},
        {**ONE, "kid": 5},
        {**ONE, "kty": ["RSA"]},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kty": "EC", "crv": "secp256k1"},
        {"kty": "RSA"},
        {},
        "key",
        jwk(rsa_key("small", 1024)),
    ],
    ids=count(),  # in place of what was drawn for the keys: all processes have to collect the same tests
)
def test_keys_that_do_not_count(unusable: Any) -> None:
    assert [key.id for key in parse_keys(key_set(unusable, TWO))] == ["two"]
    with pytest.raises(BadKeySet, match="no public key for signatures"):
        parse_keys(key_set(unusable))


@pytest.mark.parametrize("data", [b"", b"\xff", b"[]", b'{"keys": {}}', b"[" * 10_000])
def test_what_is_no_set(data: bytes) -> None:
    with pytest.raises(BadKeySet):
        parse_keys(data)


def test_only_what_is_public_of_a_private_key() -> None:
    private = {**ONE, **dict.fromkeys(("d", "p", "q", "dp", "dq", "qi"), "AQAB")}
    (key,) = parse_keys(key_set(private))
    assert not hasattr(key.key_for("RS256").key, "sign")


def test_a_file_is_read_again_when_it_changes_and_once_a_second() -> None:
    clock, content, reads = ManualClock(), [key_set(ONE)], []

    def read() -> bytes:
        reads.append(1)
        if not content:
            raise FileNotFoundError(2, "No such file or directory")
        return content[0]

    keys = FileKeys(read, clock, "jwks.json")
    content[:] = [key_set(TWO)]
    assert keys.find("two", "RS256") is None
    clock.advance(0.9)
    assert keys.find("two", "RS256") is None
    assert len(reads) == 1
    clock.advance(0.1)
    assert keys.find("two", "RS256") is not None
    assert keys.find("one", "RS256") is None
    assert keys.find(None, "RS256") is keys.find("two", "RS256")
    assert len(reads) == 2
    for broken in ([b"x"], []):
        content[:] = broken
        clock.advance(1)
        assert keys.find("two", "RS256") is not None
    keys.close()


class Fetches:
    """FetchedKeys whose fetches a test ends."""

    def __init__(self, refresh_ms: int = 3_600_000) -> None:
        self.clock = ManualClock()
        self.answers: list[bytes | Exception] = []
        self.waiting: list[tuple[Callable[[], tuple[Key, ...]], Callable[[Future[tuple[Key, ...]]], object]]] = []
        self.aborted = False
        self.fetches = 0
        run = lambda job, done: self.waiting.append((job, done))  # noqa: E731
        self.keys = FetchedKeys(self.fetch, self.abort, self.clock, run, "https://issuer", (refresh_ms, 100, 1000))

    def fetch(self) -> bytes:
        self.fetches += 1
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def abort(self) -> None:
        self.aborted = True

    def end(self, answer: bytes | Exception) -> None:
        """Has the fetch under way end like this."""
        self.answers.append(answer)
        ((job, done),) = self.waiting
        self.waiting.clear()
        future: Any = _Ended()
        try:
            future.value = job()
        except Exception as error:  # noqa: BLE001 - it is what the fetch raised
            future.error = error
        done(future)


class _Ended:
    """A future that is done; asyncio's need a loop."""

    value: Any = None
    error: Exception | None = None

    def cancelled(self) -> bool:
        return False

    def exception(self) -> Exception | None:
        return self.error

    def result(self) -> Any:
        return self.value


def test_a_set_is_fetched_again_and_again() -> None:
    world = Fetches()
    world.answers.append(key_set(ONE))
    world.keys.load()
    world.clock.advance(3599)
    assert not world.waiting
    world.clock.advance(1)
    world.end(key_set(TWO))
    assert world.keys.find("two", "RS256") is not None
    world.clock.advance(3600)
    assert len(world.waiting) == 1


def test_strangers_have_it_fetched_once_a_minute() -> None:
    world = Fetches()
    world.answers.append(key_set(ONE))
    world.keys.load()
    assert world.keys.find(None, "ES256") is None
    assert world.keys.find("x" * 1001, "RS256") is None
    assert not world.waiting
    assert world.keys.find("two", "RS256") is None
    assert world.keys.find("three", "RS256") is None
    world.end(key_set(ONE, TWO))
    assert world.keys.find("two", "RS256") is not None
    for number in range(1000):
        assert world.keys.find(f"unknown {number}", "RS256") is None
    assert not world.waiting
    world.clock.advance(59.9)
    world.keys.find("unknown", "RS256")
    assert not world.waiting
    world.clock.advance(0.1)
    world.keys.find("unknown", "RS256")
    world.end(key_set(ONE))
    assert world.fetches == 3


def test_a_failure_is_tried_again_later_and_later(caplog: pytest.LogCaptureFixture) -> None:
    world = Fetches()
    world.keys.begin()
    assert world.keys.find(None, "RS256") is None
    world.clock.advance(0)
    for seconds in (0.1, 0.2, 0.4, 0.8, 1.0, 1.0):
        world.end(FetchFailed("refused"))
        world.clock.advance(seconds - 0.01)
        assert not world.waiting
        world.clock.advance(0.011)
    world.end(key_set(ONE))
    assert world.keys.find("one", "RS256") is not None
    assert len([each for each in caplog.records if each.levelname == "ERROR"]) == 1
    world.clock.advance(3600)
    world.end(b"no set")
    assert world.keys.find("one", "RS256") is not None
    world.clock.advance(0.11)
    assert len(world.waiting) == 1


def test_a_bug_is_not_swallowed_and_ends_nothing() -> None:
    world = Fetches()
    world.keys.begin()
    world.clock.advance(0)
    with pytest.raises(ZeroDivisionError):
        world.end(ZeroDivisionError())
    world.clock.advance(1)
    assert len(world.waiting) == 1


def test_nothing_is_fetched_after_the_end() -> None:
    world = Fetches()
    world.answers.append(key_set(ONE))
    world.keys.load()
    world.keys.find("two", "RS256")
    world.keys.close()
    assert world.aborted
    world.end(FetchFailed("aborted"))
    world.clock.advance(100_000)
    world.keys.find("three", "RS256")
    assert not world.waiting


def test_no_hurry_however_the_settings_are() -> None:
    world = Fetches(refresh_ms=0)
    world.answers.append(key_set(ONE))
    world.keys.load()
    world.clock.advance(0.9)
    assert not world.waiting
    world.clock.advance(0.1)
    assert len(world.waiting) == 1


def test_none() -> None:
    assert NoKeys().find(None, "RS256") is None

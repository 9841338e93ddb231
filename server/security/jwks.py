"""JWKS: the keys with which signed tokens are checked (RFC 7517), read from a file or fetched from a URL, and kept up to date.

    {"keys": [{"kty": "RSA", "kid": "2026-11", "alg": "RS256", "n": "...", "e": "AQAB"}, ...]}

Which algorithms a key is good for is the key's to say, by its type and its `alg`, and never the token's. None of them uses a
shared secret: whoever could check such a token could also write one.

A file is looked at with a login, but no more often than once a second. What a URL has is fetched in a thread, again and again
(`refresh`), and besides when a token names a key that is not there, which strangers can do: that is at most one fetch a minute.
A set that cannot be read or fetched leaves the old one in place. No login waits for a fetch: a token whose key is not there yet
is refused.
"""

from __future__ import annotations

import json
import logging
from asyncio import Future
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

import jwt

from ottla.server.base.clock import Cancellable, Clock

LEAST_SECONDS_BETWEEN_LOOKS: Final = 1.0
LEAST_SECONDS_BETWEEN_REQUESTED_FETCHES: Final = 60.0
LEAST_SECONDS_BETWEEN_FETCHES: Final = 1.0
LEAST_SECONDS_BEFORE_RETRY: Final = 0.1
LEAST_RSA_BITS: Final = 2048
LONGEST_KEY_ID: Final = 1000
"""A key with a longer id is not worth a fetch."""

_ALGORITHMS: Final = {
    ("RSA", None): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
"""The algorithms whose signatures a key can check, by its type and curve."""
_PRIVATE: Final = frozenset(("d", "p", "q", "dp", "dq", "qi", "oth"))

logger = logging.getLogger("ottla.server.logins")


class BadKeySet(Exception):
    """Bytes are no set of keys that can check tokens. The text says what is wrong with them."""


class Key:
    """A public key: its `id`, which may be None, and the `algorithms` for which it is good."""

    __slots__ = ("_data", "_made", "algorithms", "id")

    def __init__(self, data: Mapping[str, Any], algorithms: Iterable[str]) -> None:
        self.id: str | None = data.get("kid")
        self.algorithms = frozenset(algorithms)
        self._data = {name: value for name, value in data.items() if name not in _PRIVATE}
        self._made: dict[str, jwt.PyJWK] = {}

    def key_for(self, algorithm: str) -> jwt.PyJWK:
        """Returns the key as one of this algorithm, which is among `algorithms`. Raises jwt.PyJWTError if it is no such key."""
        made = self._made.get(algorithm)
        if made is None:
            made = self._made[algorithm] = jwt.PyJWK(self._data, algorithm)
        return made


class Keys(Protocol):
    """Declares the keys that check tokens, as those see them who check."""

    def find(self, key_id: str | None, algorithm: str, /) -> Key | None:
        """Returns the key with this id for this algorithm, or any for the algorithm where a token names none; None if there is
        no such key."""
        ...


def parse_keys(data: bytes) -> tuple[Key, ...]:
    """Returns the keys of a set that are public keys for signatures; others are left out. Raises BadKeySet if none is left."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise BadKeySet("it is not JSON") from None
    listed = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(listed, list):
        raise BadKeySet("it is not a JSON object with a list of keys")
    keys = tuple(key for each in listed if isinstance(each, dict) and (key := _usable(each)) is not None)
    if not keys:
        raise BadKeySet("there is no public key for signatures in it")
    return keys


def _usable(data: Mapping[str, Any]) -> Key | None:
    kind, curve, algorithm, uses = data.get("kty"), data.get("crv"), data.get("alg"), data.get("key_ops")
    if not all(value is None or isinstance(value, str) for value in (kind, curve, algorithm, data.get("kid"))):
        return None
    if data.get("use") not in (None, "sig") or (uses is not None and not (isinstance(uses, list) and "verify" in uses)):
        return None
    able = _ALGORITHMS.get((kind or "", None if kind == "RSA" else curve), ())
    algorithms = [each for each in able if algorithm in (None, each)]
    if not algorithms:
        return None
    key = Key(data, algorithms)
    try:
        made = key.key_for(algorithms[0])
    except (jwt.PyJWTError, ValueError):
        return None
    return None if kind == "RSA" and made.key.key_size < LEAST_RSA_BITS else key


def _find(keys: Iterable[Key], key_id: str | None, algorithm: str) -> Key | None:
    return next((key for key in keys if key_id in (None, key.id) and algorithm in key.algorithms), None)


class FileKeys:
    """The keys in a file, which `read` reads. Raises what `read` raises, and BadKeySet, if they cannot be read at first."""

    def __init__(self, read: Callable[[], bytes], clock: Clock, name: str) -> None:
        self._read = read
        self._clock = clock
        self._name = name
        self._data = read()
        self._keys = parse_keys(self._data)
        self._looked = clock.monotonic()

    def find(self, key_id: str | None, algorithm: str) -> Key | None:
        """See Keys."""
        now = self._clock.monotonic()
        if now - self._looked >= LEAST_SECONDS_BETWEEN_LOOKS:
            self._looked = now
            self._look()
        return _find(self._keys, key_id, algorithm)

    def _look(self) -> None:
        try:
            data = self._read()
            if data == self._data:
                return
            self._data = data
            self._keys = parse_keys(data)
        except (OSError, BadKeySet) as error:
            logger.error("the keys for tokens stay as they were, because %s cannot be used: %s", self._name, error)
        else:
            logger.info("%s has new keys for tokens", self._name)

    def close(self) -> None:
        """Has nothing to end."""


class FetchFailed(Exception):
    """A set of keys could not be fetched. The text says why."""


Job = Callable[[], tuple[Key, ...]]
RunInThread = Callable[[Job, Callable[["Future[tuple[Key, ...]]"], object]], None]


class FetchedKeys:
    """The keys that `fetch` fetches, which may take long and raise FetchFailed: every `refresh_ms`, and after a failure from
    `retry_ms` up to `retry_max_ms` later. `abort` has a fetch under way fail. `name` is theirs in the log.

    There are none until `load` or `begin` is called, and nothing is fetched after `close`.
    """

    def __init__(
        self,
        fetch: Callable[[], bytes],
        abort: Callable[[], None],
        clock: Clock,
        run_in_thread: RunInThread,
        name: str,
        times_ms: tuple[int, int, int],
    ) -> None:
        self._fetch = fetch
        self._abort = abort
        self._clock = clock
        self._run_in_thread = run_in_thread
        self._name = name
        refresh, retry, retry_max = (each / 1000 for each in times_ms)
        self._refresh_s = max(refresh, LEAST_SECONDS_BETWEEN_FETCHES)
        self._retry_s = max(retry, LEAST_SECONDS_BEFORE_RETRY)
        self._retry_max_s = max(retry_max, self._retry_s)
        self._keys: tuple[Key, ...] = ()
        self._wait_s = 0.0  # how long the last failure was waited for; 0 if the last fetch succeeded
        self._requested = -LEAST_SECONDS_BETWEEN_REQUESTED_FETCHES
        self._timer: Cancellable | None = None
        self._busy = False
        self._closed = False

    def load(self) -> None:
        """Fetches the keys at once, and waits for them. Raises FetchFailed and BadKeySet."""
        self._keys = self._job()
        self._watch(self._refresh_s)

    def begin(self) -> None:
        """Has the keys fetched soon."""
        self._watch(0.0)

    def close(self) -> None:
        """Ends the fetches, and makes one under way fail."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._abort()

    def find(self, key_id: str | None, algorithm: str) -> Key | None:
        """See Keys."""
        key = _find(self._keys, key_id, algorithm)
        if key is None and key_id is not None and len(key_id) <= LONGEST_KEY_ID:
            now = self._clock.monotonic()
            if now - self._requested >= LEAST_SECONDS_BETWEEN_REQUESTED_FETCHES:
                self._requested = now
                self._refresh()
        return key

    def _job(self) -> tuple[Key, ...]:
        return parse_keys(self._fetch())

    def _watch(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.call_later(seconds, self._refresh)

    def _refresh(self) -> None:
        if self._busy or self._closed:
            return
        self._busy = True
        self._run_in_thread(self._job, self._take)

    def _take(self, fetched: Future[tuple[Key, ...]]) -> None:
        """Takes what a fetch brought, and sets the time of the next."""
        self._busy = False
        error = None if fetched.cancelled() else fetched.exception()
        if self._closed or fetched.cancelled():
            return
        if error is None:
            if self._wait_s:
                logger.info("%s can be fetched again", self._name)
            self._keys, self._wait_s = fetched.result(), 0.0
            self._watch(self._refresh_s)
            return
        if not self._wait_s:
            logger.error("the keys for tokens stay as they were, because %s cannot be fetched: %s", self._name, error)
        self._wait_s = min(self._wait_s * 2 or self._retry_s, self._retry_max_s)
        self._watch(self._wait_s)
        if not isinstance(error, FetchFailed | BadKeySet):
            raise error


class NoKeys:
    """The keys of a set that has not been fetched: none."""

    def find(self, key_id: str | None, algorithm: str) -> Key | None:
        """See Keys."""
        return None

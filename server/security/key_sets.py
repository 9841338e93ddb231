"""The sets of keys that check the tokens of one broker: each is opened once, however many listeners go by it, and kept up to date
until the broker stops.

At the start of a broker a set has to be there, otherwise the broker does not start. While it runs, a set is fetched in the
background; and to check a client's change of settings, nothing is fetched and no file read that was not before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from ottla.log.config_def import ConfigError, Secret
from ottla.server.base.clock import Clock
from ottla.server.base.turns import run_in_thread
from ottla.server.security.settings import ListenerSecurity
from ottla.server.settings.broker_settings import BROKER_SETTINGS

ALLOWED_URLS: Final = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
"""The setting with the URLs from which keys may be taken; in Kafka a property of Java's."""

if TYPE_CHECKING:
    import ssl

    from ottla.server.base.network import BlockingSocket
    from ottla.server.security.jwks import FetchedKeys, FileKeys, Keys

TRUST: Final = tuple(f"ssl.truststore.{what}" for what in ("certificates", "location", "password", "type"))
"""The options of a login module that say which certificates of an https server count; without any, those that the system
trusts."""


class Source(NamedTuple):
    """The URL of a set of keys, and how often it is fetched: `refresh`, `retry` and the longest `retry`, in ms. `setting` is the
    name of the setting with the URL. `trust` has the options about certificates, of the login module that `module` names."""

    url: str
    times_ms: tuple[int, int, int]
    trust: tuple[tuple[str, Secret], ...]
    setting: str
    module: str


class KeySets:
    """The sets of one broker. `read` reads a file, `dial` opens connections for threads."""

    def __init__(self, read: Callable[[str], bytes], dial: Callable[[str, int, float], BlockingSocket], clock: Clock) -> None:
        self._read = read
        self._dial = dial
        self._clock = clock
        self._open: dict[Source, FileKeys | FetchedKeys] = {}

    def open_now(self, source: Source) -> Keys:
        """Returns the keys, which are there. Raises ConfigError if they cannot be read or fetched."""
        return self._keys_of(source, wait=True)

    def open_later(self, source: Source) -> Keys:
        """Returns the keys, which may come later. Raises ConfigError if they never can."""
        return self._keys_of(source, wait=False)

    def peek(self, source: Source) -> Keys:
        """Returns the keys of a set that is open, and none for another. Raises ConfigError for one that only a restart can
        open."""
        from ottla.server.security.jwks import NoKeys

        found = self._open.get(source)
        if found is None and source.trust:
            raise ConfigError(f"{source.module}: a client cannot change {source.trust[0][0]}; write it into server.properties")
        return found or NoKeys()

    def close(self) -> None:
        """Ends all fetches."""
        for keys in self._open.values():
            keys.close()
        self._open.clear()

    def _keys_of(self, source: Source, wait: bool) -> Keys:
        found = self._open.get(source)
        if found is None:
            local = urlsplit(source.url).scheme.lower() == "file"
            found = self._open[source] = self._file(source) if local else self._fetched(source, wait)
        return found

    def _file(self, source: Source) -> FileKeys:
        from ottla.server.security.jwks import BadKeySet, FileKeys

        parts = urlsplit(source.url)
        path = unquote(parts.path)
        if parts.netloc not in ("", "localhost") or not path.startswith("/"):
            raise ConfigError(f"{source.setting}: {source.url} does not name a file; write file:///path/to/jwks.json")
        try:
            return FileKeys(lambda: self._read(path), self._clock, path)
        except OSError as error:
            why = error.strerror or str(error)
            raise ConfigError(f"{source.setting}: {path} cannot be read ({why}); name a file with a JWKS") from None
        except BadKeySet as error:
            raise ConfigError(f"{source.setting}: {path} is no JWKS: {error}; name a file with public keys") from None

    def _fetched(self, source: Source, wait: bool) -> FetchedKeys:
        from ottla.server.security.jwks import BadKeySet, FetchedKeys, FetchFailed
        from ottla.server.security.jwks_fetch import Fetcher

        trust = self._context(source)
        try:
            fetcher = Fetcher(source.url, trust, self._dial, self._clock)
        except ValueError as error:
            raise ConfigError(f"{source.setting}: {source.url} is no URL ({error}); write https://host/path") from None
        keys = FetchedKeys(fetcher.fetch, fetcher.abort, self._clock, run_in_thread, source.url, source.times_ms)
        if not wait:
            keys.begin()
            return keys
        try:
            keys.load()
        except FetchFailed as error:
            remedy = "correct it, or start the broker when the server is there"
            raise ConfigError(f"{source.setting}: {source.url} cannot be fetched ({error}); {remedy}") from None
        except BadKeySet as error:
            raise ConfigError(f"{source.setting}: {source.url} has no JWKS: {error}; name a URL with public keys") from None
        return keys

    def _context(self, source: Source) -> ssl.SSLContext | None:
        if urlsplit(source.url).scheme.lower() != "https":
            return None
        import ssl

        if not source.trust:
            return ssl.create_default_context()
        from ottla.server.security.tls import trust

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        values = {name: setting.default for name, setting in BROKER_SETTINGS.items() if name.startswith("ssl.")}
        try:
            values |= {name: BROKER_SETTINGS[name].parse(text.reveal()) for name, text in source.trust}
            trusts = trust(context, ListenerSecurity("", "SSL", {}, values), self._read)
        except ConfigError as error:
            raise ConfigError(f"{source.module}: {error}") from None
        if not trusts:
            raise ConfigError(f"{source.module}: it has no ssl.truststore.location; name the truststore")
        return context

"""The objects that check the signed tokens of a listener, made from its settings.

Kafka 4.4 wants an expected audience and issuer unless it is told that any will do, and takes keys only from a URL that a system
property allows. Both are so here; the property is a setting as well, and is taken from KAFKA_OPTS.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from ottla.log.config_def import ConfigError
from ottla.server.security.key_sets import ALLOWED_URLS, TRUST, Source
from ottla.server.security.signed_tokens import Expected, Signed

if TYPE_CHECKING:
    from ottla.log.config_def import Secret
    from ottla.security.jaas import Module
    from ottla.server.security.jwks import Keys
    from ottla.server.security.settings import ListenerSecurity

_MECHANISM: Final = "OAUTHBEARER"
_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
_VALIDATOR: Final = "sasl.oauthbearer.jwt.validator.class"
_SKEW: Final = "sasl.oauthbearer.clock.skew.seconds"
_AUDIENCE: Final = ("sasl.oauthbearer.expected.audience", "sasl.oauthbearer.allow.unverified.audience")
_ISSUER: Final = ("sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.allow.unverified.issuer")
_CLAIMS: Final = ("sasl.oauthbearer.scope.claim.name", "sasl.oauthbearer.sub.claim.name")
_TIMES: Final = (
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
)
_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer"
_VALIDATORS: Final = (f"{_PACKAGE}.DefaultJwtValidator", f"{_PACKAGE}.BrokerJwtValidator")

logger = logging.getLogger("ottla.server.logins")


class _Settings:
    """The settings of a listener for tokens."""

    def __init__(self, security: ListenerSecurity) -> None:
        self._security = security

    def name(self, setting: str) -> str:
        """Returns the name under which a setting is written."""
        return self._security.written_name(setting, _MECHANISM)

    def __getitem__(self, setting: str) -> Any:
        return self._security.of_mechanism(_MECHANISM, setting)

    def text(self, setting: str) -> str:
        """Returns a text without blanks around it, empty if it is not set."""
        return (self[setting] or "").strip()

    def number(self, setting: str) -> int:
        """Returns a number. Raises ConfigError if it is less than 0."""
        found: int = self[setting]
        if found < 0:
            raise ConfigError(f"{self.name(setting)}: {found} is less than 0; give 0 or more")
        return found


def load_signed(
    module: Module,
    module_setting: str,
    security: ListenerSecurity,
    allowed_urls: Collection[str],
    open_keys: Callable[[Source], Keys],
    now_ms: Callable[[], int],
) -> Signed:
    """Returns what checks the tokens of this listener. `module` is its login module for them, which `module_setting` names. Keys
    are taken from no other URL than those that are allowed. Raises ConfigError."""
    settings = _Settings(security)
    if (validator := settings[_VALIDATOR]) not in _VALIDATORS:
        why = "is not available, because there is no JVM to load it in; remove it"
        raise ConfigError(f"{settings.name(_VALIDATOR)}: {validator} {why}")
    expected = _expected(settings, security.name)
    setting, url = settings.name(_URL), _url(settings, allowed_urls)
    refresh_ms, retry_ms, retry_max_ms = (settings.number(each) for each in _TIMES)
    source = Source(url, (refresh_ms, retry_ms, retry_max_ms), _trust(module, module_setting), setting, module_setting)
    return Signed(open_keys(source), expected, now_ms)


def _expected(settings: _Settings, listener: str) -> Expected:
    audiences, issuer = frozenset(settings[_AUDIENCE[0]]), settings.text(_ISSUER[0]) or None
    for (wanted, free), what, given in ((_AUDIENCE, "audience", audiences), (_ISSUER, "issuer", issuer)):
        if given:
            continue
        permission = settings.name(free)
        if not settings[free]:
            raise ConfigError(
                f"{settings.name(wanted)}: it is not set, and a token of any {what} would do; set it, or {permission}=true if "
                "that is meant"
            )
        logger.warning("%s: tokens of any %s count on listener %s", permission, what, listener)
    claims = [settings.text(each) for each in _CLAIMS]
    if "" in claims:
        raise ConfigError(f"{settings.name(_CLAIMS[claims.index('')])}: it is blank; name a claim")
    return Expected(audiences, issuer, settings.number(_SKEW) * 1000, *claims)


def _url(settings: _Settings, allowed: Collection[str]) -> str:
    setting, url = settings.name(_URL), settings.text(_URL)
    example = "write file:///path/to/jwks.json, or an https URL"
    if not url:
        raise ConfigError(f"{setting}: it is not set, and signed tokens need keys; {example}")
    try:
        scheme = urlsplit(url).scheme.lower()
    except ValueError:
        scheme = ""
    if scheme not in ("file", "http", "https"):
        raise ConfigError(f"{setting}: {url} is not a URL of file, https or http; {example}")
    if url not in allowed:
        raise ConfigError(
            f"{setting}: {url} is not allowed by {ALLOWED_URLS}; name it there, or by KAFKA_OPTS=-D{ALLOWED_URLS}={url}"
        )
    if scheme == "http":
        logger.warning("%s: whoever is on the way to %s can replace the keys; use https", setting, url)
    return url


def _trust(module: Module, module_setting: str) -> tuple[tuple[str, Secret], ...]:
    options = {name: text for name, text in module.options.items() if name.startswith("ssl.")}
    if unknown := [name for name in options if name not in TRUST]:
        raise ConfigError(f"{module_setting}: the option {unknown[0]} does nothing here; remove it, or use {', '.join(TRUST)}")
    return tuple(sorted(options.items()))

"""The SASL mechanisms that a listener offers: from its settings to objects that check logins.

A mechanism needs a login module (JAAS), even where that says nothing. It is looked for in these places:

1. the setting `listener.name.<listener>.<mechanism>.sasl.jaas.config`; shorter forms of the name do not count on a broker;
2. section `<listener>.KafkaServer`, and else section `KafkaServer`, of the file that `java.security.auth.login.config` names.

Classes of Java are names here: those of Kafka's own stand for what ottla has in their place, any other is refused. A mechanism's
code is loaded with the first listener that offers it. Whatever is wrong is a ConfigError that begins with the setting to change.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Mapping
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.log.config_def import ConfigError, Secret
from ottla.security.jaas import LOGIN_MODULES, Module, parse_file, parse_modules
from ottla.server.security.credentials import Credentials
from ottla.server.security.mechanism import Mechanism
from ottla.server.security.settings import ListenerSecurity
from ottla.wire.scram import DIGESTS

if TYPE_CHECKING:
    from ottla.server.security.jwks import Keys
    from ottla.server.security.kerberos_config import KerberosConfig
    from ottla.server.security.key_sets import Source

JAAS: Final = "sasl.jaas.config"
JAAS_FILE: Final = "java.security.auth.login.config"
ENABLED: Final = "sasl.enabled.mechanisms"
HANDLER: Final = "sasl.server.callback.handler.class"
_PACKAGE: Final = "org.apache.kafka.common.security"

_OWN_HANDLERS: Final = {
    "PLAIN": f"{_PACKAGE}.plain.internals.PlainServerCallbackHandler",
    "SCRAM-SHA-256": f"{_PACKAGE}.scram.internals.ScramServerCallbackHandler",
    "SCRAM-SHA-512": f"{_PACKAGE}.scram.internals.ScramServerCallbackHandler",
    "OAUTHBEARER": f"{_PACKAGE}.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler",
    "GSSAPI": f"{_PACKAGE}.authenticator.SaslServerCallbackHandler",
}
"""The Java classes that check logins as ottla does without being told."""
SIGNED_HANDLERS: Final = frozenset(
    f"{_PACKAGE}.oauthbearer.{each}OAuthBearerValidatorCallbackHandler" for each in ("", "secured.")
)
"""The names, of today and of before Kafka 4.0, of the Java class that checks signed tokens."""


class Parts(NamedTuple):
    """The parts that mechanisms check with: the credentials in the metadata, the sections of the JAAS file, randomness, the wall
    time in ms; for signed tokens the URLs from which keys may be taken, and how keys are opened, which raises ConfigError; and
    Kerberos's configuration."""

    credentials: Credentials
    sections: Mapping[str, tuple[Module, ...]]
    random: Random
    now_ms: Callable[[], int]
    allowed_urls: Collection[str]
    open_keys: Callable[[Source], Keys]
    kerberos: KerberosConfig


def read_jaas_file(path: str, read_bytes: Callable[[str], bytes]) -> dict[str, tuple[Module, ...]]:
    """Returns the sections of the JAAS file at `path`, none if the path is empty. Raises ConfigError."""
    if not path:
        return {}
    try:
        return parse_file(read_bytes(path).decode())
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"{JAAS_FILE}: {path} cannot be read ({why}); name a JAAS file") from None
    except ConfigError as error:
        raise ConfigError(f"{JAAS_FILE}: {path} does not parse: {error}") from None


def load_mechanisms(security: ListenerSecurity, parts: Parts) -> dict[str, Mechanism]:
    """Returns the mechanisms of a listener, by name, in the order of its settings. Raises ConfigError."""
    names: tuple[str, ...] = security[ENABLED]
    key = security.written_name(ENABLED)
    if not names:
        raise ConfigError(
            f"{key}: no mechanism is enabled, but clients of {security.name} have to log in; enable PLAIN or another"
        )
    for name in names:
        if name not in LOGIN_MODULES:
            known = ", ".join(LOGIN_MODULES)
            raise ConfigError(f"{key}: {name} is not a mechanism (listener {security.name}); use {known}")
    return {name: _load(name, security, parts) for name in names}


def nonces(random: Random) -> Callable[[], str]:
    """Returns what makes the nonces of SCRAM, of 24 random bytes each."""
    return lambda: base64.b64encode(random.randbytes(24)).decode()


def _load(name: str, security: ListenerSecurity, parts: Parts) -> Mechanism:
    module, place = login_module(name, security, parts.sections)
    handler = _handler_of(name, security)
    if name in DIGESTS:
        from ottla.server.security.scram import Scram

        find, find_token = parts.credentials.users(name), parts.credentials.tokens(name)
        return Scram(name, DIGESTS[name], find, find_token, nonces(parts.random))
    if name == "GSSAPI":
        from ottla.server.security.kerberos import load_gssapi

        return load_gssapi(module, place, security, parts.kerberos)
    if name == "OAUTHBEARER":
        from ottla.server.security.oauth import OAuthBearer, Unsecured

        if handler in SIGNED_HANDLERS:
            from ottla.server.security.token_checks import load_signed

            return OAuthBearer(load_signed(module, place, security, parts.allowed_urls, parts.open_keys, parts.now_ms))
        try:
            return OAuthBearer(Unsecured(module, parts.now_ms))
        except ConfigError as error:
            raise ConfigError(f"{place}: {error}") from None
    from ottla.server.security.plain import Plain, users_of

    return Plain(users_of(module))


def login_module(mechanism: str, security: ListenerSecurity, sections: Mapping[str, tuple[Module, ...]]) -> tuple[Module, str]:
    """Returns the login module of a mechanism, and where it is written, for messages. Raises ConfigError if there is none, or
    another."""
    wanted = LOGIN_MODULES[mechanism]
    key = security.names_of(JAAS, mechanism)[0]
    written: Secret | None = security.at(key)
    if written is not None:
        try:
            modules = parse_modules(written)
        except ConfigError as error:
            raise ConfigError(f"{key}: {error}") from None
        if len(modules) != 1:
            raise ConfigError(f"{key}: it has {len(modules)} login modules; write one, {wanted} required ...;")
        place = key
    else:
        own = f"{security.name.lower()}.KafkaServer"
        section = own if own in sections else "KafkaServer"
        if section not in sections:
            raise ConfigError(
                f"{key}: {mechanism} has no login module; set it to `{wanted} required ...;`, or write that into section "
                f"KafkaServer of a file that {JAAS_FILE} names"
            )
        modules, place = sections[section], f"{JAAS_FILE}: section {section}"
    module = next((each for each in modules if each.name == wanted), None)
    if module is None:
        found = ", ".join(each.name for each in modules)
        raise ConfigError(f"{place}: {found} is not the login module of {mechanism}; use {wanted}")
    return module, place


def _handler_of(mechanism: str, security: ListenerSecurity) -> str | None:
    """Returns the class that checks the logins of a mechanism, None if none is named. Raises ConfigError for one that ottla has
    nothing in place of, and for one under a shorter name."""
    key, *others = security.names_of(HANDLER, mechanism)
    for name in others:  # as with login modules, only the longest name counts; but who writes it wants logins to be checked
        if security.at(name) is not None:
            raise ConfigError(f"{name}: it does not count under this name, so nothing would check by it; write {key}")
    handler: str | None = security.at(key)
    known = {None, _OWN_HANDLERS[mechanism]} | (SIGNED_HANDLERS if mechanism == "OAUTHBEARER" else frozenset())
    if handler not in known:
        raise ConfigError(f"{key}: {handler} is not available, because there is no JVM to load it in; remove it")
    return handler

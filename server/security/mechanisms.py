"""Which SASL mechanisms a listener offers, and with what: from its settings to objects that check logins.

A mechanism needs a login module (JAAS), even where that says nothing. It is looked for in these places:

1. the setting `listener.name.<listener>.<mechanism>.sasl.jaas.config`; shorter forms of the name do not count on a broker;
2. section `<listener>.KafkaServer`, and else section `KafkaServer`, of the file that `java.security.auth.login.config` names.

Classes of Java are names here: those of Kafka's own stand for what ottla has in their place, any other is refused. A mechanism's
code is loaded with the first listener that offers it. Whatever is wrong is a ConfigError that begins with the setting to change.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from random import Random
from typing import Final, NamedTuple

from ottla.log.config_def import ConfigError, Secret
from ottla.security.jaas import Module, parse_file, parse_modules
from ottla.server.security.credentials import Credentials
from ottla.server.security.mechanism import Mechanism
from ottla.server.security.settings import ListenerSecurity
from ottla.wire.scram import DIGESTS

JAAS: Final = "sasl.jaas.config"
JAAS_FILE: Final = "java.security.auth.login.config"
ENABLED: Final = "sasl.enabled.mechanisms"
HANDLER: Final = "sasl.server.callback.handler.class"
_PACKAGE: Final = "org.apache.kafka.common.security"

MODULES: Final = {
    "PLAIN": f"{_PACKAGE}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_PACKAGE}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_PACKAGE}.scram.ScramLoginModule",
    "OAUTHBEARER": f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule",
}
"""The mechanisms, each with the login module that it needs."""
_OWN_HANDLERS: Final = {
    "PLAIN": f"{_PACKAGE}.plain.internals.PlainServerCallbackHandler",
    "SCRAM-SHA-256": f"{_PACKAGE}.scram.internals.ScramServerCallbackHandler",
    "SCRAM-SHA-512": f"{_PACKAGE}.scram.internals.ScramServerCallbackHandler",
    "OAUTHBEARER": f"{_PACKAGE}.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler",
}
"""The Java classes that may be named as what checks logins, since they do what ottla does."""


class Parts(NamedTuple):
    """What mechanisms check with: the credentials in the metadata, the sections of the JAAS file, randomness, and the wall time
    in ms."""

    credentials: Credentials
    sections: Mapping[str, tuple[Module, ...]]
    random: Random
    now_ms: Callable[[], int]


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
        if name not in MODULES:
            known = ", ".join(MODULES)
            what = "is not supported" if name == "GSSAPI" else "is not a mechanism"
            raise ConfigError(f"{key}: {name} {what} (listener {security.name}); use {known}")
    return {name: _load(name, security, parts) for name in names}


def _load(name: str, security: ListenerSecurity, parts: Parts) -> Mechanism:
    module = _module_of(name, security, parts.sections)
    _check_handler(name, security)
    if name in DIGESTS:
        from ottla.server.security.scram import Scram

        find, find_token = parts.credentials.users(name), parts.credentials.tokens(name)
        return Scram(name, DIGESTS[name], find, find_token, lambda: base64.b64encode(parts.random.randbytes(24)).decode())
    if name == "OAUTHBEARER":
        from ottla.server.security.oauth import OAuthBearer, Unsecured

        try:
            return OAuthBearer(Unsecured(module, parts.now_ms))
        except ConfigError as error:
            raise ConfigError(f"{security.names_of(JAAS, name)[0]}: {error}") from None
    from ottla.server.security.plain import Plain, users_of

    return Plain(users_of(module))


def _module_of(mechanism: str, security: ListenerSecurity, sections: Mapping[str, tuple[Module, ...]]) -> Module:
    """Returns the login module of a mechanism. Raises ConfigError if there is none, or another."""
    wanted = MODULES[mechanism]
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
    return module


def _check_handler(mechanism: str, security: ListenerSecurity) -> None:
    key = security.names_of(HANDLER, mechanism)[0]
    handler = security.at(key)
    if handler not in (None, _OWN_HANDLERS[mechanism]):
        why = "signed tokens are not checked yet" if mechanism == "OAUTHBEARER" else "there is no JVM to load it in"
        raise ConfigError(f"{key}: {handler} is not available, because {why}; remove it")

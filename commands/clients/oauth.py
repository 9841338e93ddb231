"""OAUTHBEARER in a client.properties of Java, for librdkafka.

A token comes from a server of tokens by client id and secret (`sasl.oauthbearer.token.endpoint.url`), or the client makes one
itself that nobody has signed (options `unsecuredLogin...` of the login module), which is for trying things out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ottla.log.config_def import ConfigError
from ottla.security.jaas import UNSECURED_OPTIONS

if TYPE_CHECKING:
    from ottla.security.jaas import Module

_JAAS: Final = "sasl.jaas.config"
_URL: Final = "sasl.oauthbearer.token.endpoint.url"
_HANDLERS: Final = frozenset(
    {
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
        "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
    }
)
"""The callback handlers that get a token from a server; any other is a class that cannot be run here."""
_BUILT_IN: Final = {
    "sasl.oauthbearer.jwt.retriever.class": (
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        "org.apache.kafka.common.security.oauthbearer.ClientCredentialsJwtRetriever",
    ),
    "sasl.oauthbearer.jwt.validator.class": (
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
        "org.apache.kafka.common.security.oauthbearer.ClientJwtValidator",
    ),
}
_OF_SERVERS: Final = frozenset(
    {
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.sub.claim.name",
        "sasl.oauthbearer.scope.claim.name",
    }
)
"""The settings that only a checker of tokens needs; librdkafka sends them as they are."""
_NAMES: Final = {
    "sasl.oauthbearer.client.id": ("sasl.oauthbearer.client.credentials.client.id", "clientId"),
    "sasl.oauthbearer.client.secret": ("sasl.oauthbearer.client.credentials.client.secret", "clientSecret"),
    "sasl.oauthbearer.scope": ("sasl.oauthbearer.scope", "scope"),
}
"""librdkafka's property, Java's, and the option of the login module that had its place before Kafka 4.1."""
_UNSECURED: Final = {option: word for word, option in UNSECURED_OPTIONS.items()}
"""Options of the login module and the words of librdkafka's `sasl.oauthbearer.config`."""
_EXTENSION: Final = "unsecuredLoginExtension_"


def translate_oauth(properties: dict[str, str], module: Module | None) -> None:
    """Replaces Java's properties of OAUTHBEARER by librdkafka's. Raises ConfigError."""
    handler = properties.pop("sasl.login.callback.handler.class", "")
    if handler and handler not in _HANDLERS:
        raise ConfigError(
            f"sasl.login.callback.handler.class: '{handler}' is a class of Java, and there is no Java here; remove it"
        )
    for name, classes in _BUILT_IN.items():
        if (text := properties.pop(name, "")) and text not in classes:
            raise ConfigError(f"{name}: '{text}' cannot be translated for librdkafka; use {classes[0]}")
    if properties.pop("sasl.oauthbearer.header.urlencode", "false").lower() == "true":
        raise ConfigError("sasl.oauthbearer.header.urlencode: librdkafka does not encode the client's id and secret; remove it")
    for name in _OF_SERVERS & properties.keys():
        del properties[name]
    if module is None:
        return  # librdkafka's own names are in the file
    if _URL in properties:
        _from_server(properties, module)
    elif handler:
        raise ConfigError(f"{_URL}: it is missing, although {handler.rpartition('.')[2]} gets tokens from there; set it")
    else:
        properties["enable.sasl.oauthbearer.unsecure.jwt"] = "true"
        properties["sasl.oauthbearer.config"] = _unsecured({name: value.reveal() for name, value in module.options.items()})


def _from_server(properties: dict[str, str], module: Module) -> None:
    url = properties[_URL]
    if not url.startswith(("https://", "http://")):
        raise ConfigError(
            f"{_URL}: '{url}' is not an address of a server, and librdkafka reads no token from a file; give https://..."
        )
    properties["sasl.oauthbearer.method"] = "oidc"
    for name, (java, option) in _NAMES.items():
        value = properties.pop(java, None) or module.option(option)
        if value:
            properties[name] = value
        elif name != "sasl.oauthbearer.scope":
            raise ConfigError(f"{java}: it is missing; set it")
    extensions = [(name, value) for name, value in module.options.items() if name.startswith("extension_")]
    if extensions:
        words = [f"{name.removeprefix('extension_')}={value.reveal()}" for name, value in extensions]
        properties["sasl.oauthbearer.extensions"] = ",".join(words)


def _unsecured(options: Mapping[str, str]) -> str:
    """Returns what librdkafka needs to make a token that nobody signs. Raises ConfigError."""
    if "unsecuredLoginStringClaim_sub" not in options:
        raise ConfigError(
            f'{_JAAS}: the login module says neither who logs in (unsecuredLoginStringClaim_sub="...") nor is {_URL} set'
        )
    scope = f"unsecuredLoginListClaim_{options.get('unsecuredLoginScopeClaimName', 'scope')}"
    words = []
    for name, value in options.items():
        if name in _UNSECURED:
            words.append((_UNSECURED[name], value))
        elif name == scope and value:
            words.append(("scope", ",".join(value[1:].split(value[0]))))  # its first character separates the others
        elif name.startswith(_EXTENSION):
            words.append((f"extension_{name.removeprefix(_EXTENSION)}", value))
        elif name.startswith("unsecuredLogin"):
            raise ConfigError(f"{_JAAS}: librdkafka has no option {name}; remove it")
    for name, value in words:
        if " " in value or '"' in value:
            raise ConfigError(f"{_JAAS}: librdkafka cannot have a blank or a quote in {name}; choose another value")
    return " ".join(f"{name}={value}" for name, value in words)

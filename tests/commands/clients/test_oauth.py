"""commands/clients/oauth.py: Java's properties of OAUTHBEARER become librdkafka's."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient

from ottla.commands.clients.oauth import translate_oauth
from ottla.log.config_def import ConfigError, Secret
from ottla.security.jaas import LOGIN_MODULES, Module

LOGIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
URL = {"sasl.oauthbearer.token.endpoint.url": "https://tokens.example/token"}
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"


def translated(properties: dict[str, str], /, **options: str) -> dict[str, str]:
    found = {**properties}
    translate_oauth(found, Module(LOGIN_MODULES["OAUTHBEARER"], {name: Secret(value) for name, value in options.items()}))
    AdminClient({"bootstrap.servers": "127.0.0.1:1", "log_level": 0, **LOGIN, **found})
    return found


def test_a_token_that_nobody_signs() -> None:
    found = translated(
        {"sasl.oauthbearer.clock.skew.seconds": "30"},
        unsecuredLoginStringClaim_sub="alice",
        unsecuredLoginListClaim_scope="|a|b",
        unsecuredLoginLifetimeSeconds="60",
        unsecuredLoginExtension_tenant="7",
    )
    assert found == {
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": "principal=alice scope=a,b lifeSeconds=60 extension_tenant=7",
    }


@pytest.mark.parametrize("handler", [{}, {"sasl.login.callback.handler.class": HANDLER}])
def test_a_token_from_a_server(handler: dict[str, str]) -> None:
    expected = {
        **URL,
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": "s",
    }
    old = translated({**URL, **handler}, clientId="me", clientSecret="s", extension_a="1")
    assert old == {**expected, "sasl.oauthbearer.extensions": "a=1"}
    named = {"sasl.oauthbearer.client.credentials.client.id": "me", "sasl.oauthbearer.client.credentials.client.secret": "s"}
    assert translated({**URL, **handler, **named, "sasl.oauthbearer.scope": "all"}) == {
        **expected,
        "sasl.oauthbearer.scope": "all",
    }


@pytest.mark.parametrize(
    ("properties", "options", "words"),
    [
        ({}, {}, "sasl.jaas.config: the login module says neither who logs in"),
        (
            {},
            {"unsecuredLoginStringClaim_sub": "a b"},
            "sasl.jaas.config: librdkafka cannot have a blank or a quote in principal",
        ),
        (
            {},
            {"unsecuredLoginStringClaim_sub": "a", "unsecuredLoginNumberClaim_n": "1"},
            "sasl.jaas.config: librdkafka has no option unsecuredLoginNumberClaim_n",
        ),
        (URL, {"clientId": "me"}, "sasl.oauthbearer.client.credentials.client.secret: it is missing"),
        (URL, {"clientSecret": "me"}, "sasl.oauthbearer.client.credentials.client.id: it is missing"),
        (
            {"sasl.oauthbearer.token.endpoint.url": "file:///token"},
            {},
            "sasl.oauthbearer.token.endpoint.url: 'file:///token' is not an address",
        ),
        ({"sasl.login.callback.handler.class": HANDLER}, {}, "sasl.oauthbearer.token.endpoint.url: it is missing"),
        ({"sasl.login.callback.handler.class": "my.Own"}, {}, "sasl.login.callback.handler.class: 'my.Own' is a class of Java"),
        ({"sasl.oauthbearer.jwt.retriever.class": "my.Own"}, {}, "sasl.oauthbearer.jwt.retriever.class: 'my.Own' cannot"),
        ({"sasl.oauthbearer.header.urlencode": "true"}, {}, "sasl.oauthbearer.header.urlencode: librdkafka does not encode"),
    ],
)
def test_what_has_no_counterpart(properties: dict[str, str], options: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as error:
        translated({**properties}, **options)
    assert str(error.value).startswith(words)


def test_librdkafkas_own_names_stay() -> None:
    own = {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": "principal=a"}
    found = {**own, "sasl.oauthbearer.header.urlencode": "false"}
    translate_oauth(found, None)
    assert found == own

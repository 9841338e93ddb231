"""From the settings of a listener to what checks its tokens; and each setting that keeps a broker from starting, by its name."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.log.config_def import ConfigError, Secret
from ottla.security.jaas import Module
from ottla.server.security.jwks import Key, NoKeys, parse_keys
from ottla.server.security.key_sets import Source
from ottla.server.security.oauth import InvalidToken
from ottla.server.security.signed_tokens import Signed
from ottla.server.security.token_checks import load_signed
from tests.fakes import NOW_MS
from tests.server.security.listener import OWN, security
from tests.server.security.signing import NOW, jwk, key_set, rsa_key, signed

URL = "https://issuer/keys"
JAAS = f"{OWN}oauthbearer.sasl.jaas.config"
PREFIX = "sasl.oauthbearer."
SETTINGS = {
    f"{PREFIX}jwks.endpoint.url": URL,
    f"{PREFIX}expected.audience": "kafka,other",
    f"{PREFIX}expected.issuer": "https://issuer",
}


class OneKey(NoKeys):
    """Has the key of the tokens."""

    def find(self, key_id: str | None, algorithm: str) -> Key | None:
        return parse_keys(key_set(jwk(rsa_key())))[0]


def loaded(texts: dict[str, str], opened: list[Source] | None = None, **options: str) -> Signed:
    found = [] if opened is None else opened
    texts = {name: text for name, text in {**SETTINGS, **texts}.items() if text != "-"}
    module = Module("x", {name.replace("_", "."): Secret(text) for name, text in options.items()})

    def open_keys(source: Source) -> OneKey:
        found.append(source)
        return OneKey()

    return load_signed(module, JAAS, security(texts, "SASL_SSL"), (URL, "http://issuer", "file:/x"), open_keys, lambda: NOW_MS)


def test_what_a_source_is() -> None:
    opened: list[Source] = []
    loaded({}, opened)
    loaded(
        {
            f"{OWN}oauthbearer.{PREFIX}jwks.endpoint.url": "file:/x",
            f"{OWN}{PREFIX}jwks.endpoint.refresh.ms": "5",
            f"{PREFIX}jwks.endpoint.retry.backoff.ms": "6",
            f"{PREFIX}jwks.endpoint.retry.backoff.max.ms": "7",
        },
        opened,
        ssl_truststore_location="trust.pem",
        unsecuredLoginStringClaim_sub="me",
    )
    assert opened == [
        Source(URL, (3_600_000, 100, 10_000), (), f"{PREFIX}jwks.endpoint.url", JAAS),
        Source(
            "file:/x",
            (5, 6, 7),
            (("ssl.truststore.location", Secret("trust.pem")),),
            f"{OWN}oauthbearer.{PREFIX}jwks.endpoint.url",
            JAAS,
        ),
    ]


def test_what_is_expected() -> None:
    checks = loaded({})
    assert checks.check(signed(rsa_key(), exp=NOW - 29, iat=NOW - 90, aud="other")).name == "alice"
    with pytest.raises(InvalidToken):
        checks.check(signed(rsa_key(), aud="nobody"))
    with pytest.raises(InvalidToken):
        checks.check(signed(rsa_key(), iss="nobody"))
    own = {f"{PREFIX}clock.skew.seconds": "5", f"{PREFIX}sub.claim.name": "client", f"{PREFIX}scope.claim.name": "rights"}
    assert loaded(own).check(signed(rsa_key(), client="bob", scope="")).name == "bob"
    wrong: tuple[dict[str, Any], ...] = ({"exp": NOW - 5, "iat": NOW - 90}, {"rights": ""}, {"client": None})
    for claims in wrong:
        with pytest.raises(InvalidToken):
            loaded(own).check(signed(rsa_key(), **{"client": "bob", **claims}))


def test_any_audience_and_issuer_only_if_that_is_said(caplog: pytest.LogCaptureFixture) -> None:
    texts = {
        f"{PREFIX}expected.audience": "-",
        f"{PREFIX}expected.issuer": "-",
        f"{PREFIX}allow.unverified.audience": "true",
        f"{PREFIX}allow.unverified.issuer": "true",
    }
    assert loaded(texts).check(signed(rsa_key(), aud=None, iss=None)).name == "alice"
    assert [each.getMessage() for each in caplog.records] == [
        f"{PREFIX}allow.unverified.audience: tokens of any audience count on listener SECURE",
        f"{PREFIX}allow.unverified.issuer: tokens of any issuer count on listener SECURE",
    ]


def test_keys_in_plain_text_are_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    loaded({f"{PREFIX}jwks.endpoint.url": "http://issuer"})
    assert "use https" in caplog.text


@pytest.mark.parametrize(
    ("texts", "text"),
    [
        ({"expected.audience": "-"}, "expected.audience: it is not set, and a token of any audience would do"),
        ({"expected.issuer": " "}, "expected.issuer: it is not set, and a token of any issuer would do"),
        ({"jwks.endpoint.url": "-"}, "jwks.endpoint.url: it is not set"),
        ({"jwks.endpoint.url": "ftp://issuer"}, "jwks.endpoint.url: ftp://issuer is not a URL of file, https or http"),
        ({"jwks.endpoint.url": "https://[x"}, "jwks.endpoint.url: https://[x is not a URL"),
        ({"jwks.endpoint.url": f"{URL}/"}, f"jwks.endpoint.url: {URL}/ is not allowed by org.apache.kafka.sasl.oauthbearer"),
        ({"jwks.endpoint.refresh.ms": "-1"}, "jwks.endpoint.refresh.ms: -1 is less than 0"),
        ({"jwks.endpoint.retry.backoff.ms": "-1"}, "jwks.endpoint.retry.backoff.ms: -1 is less than 0"),
        ({"clock.skew.seconds": "-1"}, "clock.skew.seconds: -1 is less than 0"),
        ({"sub.claim.name": " "}, "sub.claim.name: it is blank"),
        ({"scope.claim.name": " "}, "scope.claim.name: it is blank"),
        ({"jwt.validator.class": "com.example.Mine"}, "jwt.validator.class: com.example.Mine is not available"),
    ],
)
def test_settings_that_are_refused(texts: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        loaded({PREFIX + name: value for name, value in texts.items()})
    assert str(refusal.value).startswith(PREFIX + text)
    assert "\n" not in str(refusal.value)


def test_an_option_that_would_do_nothing() -> None:
    with pytest.raises(ConfigError, match=f"^{JAAS}: the option ssl.keystore.location does nothing here"):
        loaded({}, ssl_keystore_location="x")

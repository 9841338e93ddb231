"""Signed tokens: whose they are, and each way in which one does not count."""

from __future__ import annotations

import base64
import json
from typing import Any

import jwt
import pytest

from ottla.server.security.jwks import FileKeys
from ottla.server.security.oauth import Holder, InvalidToken
from ottla.server.security.signed_tokens import LONGEST_TOKEN, Expected, Signed
from tests.fakes import NOW_MS, ManualClock
from tests.server.security.signing import NOW, ec_key, ed_key, jwk, key_set, rsa_key, signed

EXPECTED = Expected(frozenset(("kafka", "other")), "https://issuer", 30_000, "scope", "sub")
SET = key_set(
    jwk(rsa_key(), kid="one"),
    jwk(ec_key(), kid="curve"),
    jwk(ed_key(), kid="edwards"),
    jwk(rsa_key("two"), kid="ps", alg="PS256"),
)


def checks(expected: Expected = EXPECTED) -> Signed:
    return Signed(FileKeys(lambda: SET, ManualClock(), "jwks.json"), expected, lambda: NOW_MS)


def refused(token: str, expected: Expected = EXPECTED) -> str:
    with pytest.raises(InvalidToken) as refusal:
        checks(expected).check(token)
    return str(refusal.value)


def test_a_token_by_each_kind_of_key() -> None:
    alice = Holder("alice", NOW_MS + 60_000)
    for algorithm in ("RS256", "RS384", "RS512", "PS256"):
        assert checks().check(signed(rsa_key(), algorithm)) == alice
    assert checks().check(signed(ec_key(), "ES256", "curve")) == alice
    assert checks().check(signed(ed_key(), "EdDSA", "edwards")) == alice
    assert checks().check(signed(rsa_key("two"), "PS256", "ps")) == alice
    assert checks().check(signed(rsa_key(), kid=None)) == alice


def test_a_signature_of_somebody_else() -> None:
    assert refused(signed(rsa_key("two"))) == "it does not verify: Signature verification failed"
    assert "no key of the set" in refused(signed(rsa_key(), kid="unknown"))
    assert "no key of the set" in refused(signed(rsa_key("two"), "RS256", "ps"))  # the key is one of PS256
    assert "no key of the set" in refused(signed(rsa_key(), "RS256", "curve"))
    head, body, signature = signed(rsa_key()).split(".")
    other = base64.urlsafe_b64encode(base64.urlsafe_b64decode(body + "==").replace(b"alice", b"admin")).decode().rstrip("=")
    assert "it does not verify" in refused(f"{head}.{other}.{signature}")
    assert refused(f"{head}.{body}.") == "it is not header.claims.signature"
    assert refused(f"{head}.{body}") == "it is not header.claims.signature"


def test_no_algorithm_but_those_of_the_keys() -> None:
    """None at all, and a public key that is taken for a shared secret."""
    public = json.dumps(jwk(rsa_key())).encode()
    pem = base64.b64encode(public)
    assert "no key of the set" in refused(signed(pem, "HS256"))
    assert "no key of the set" in refused(signed(pem, "HS256", None))
    unsigned = jwt.encode({"sub": "alice", "exp": NOW + 60, "iat": NOW}, "", "none", {"kid": "one"})
    assert "no key of the set" in refused(f"{unsigned}AAAA")
    assert refused(unsigned) == "it is not header.claims.signature"


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"exp": None}, "it has no exp or no iat"),
        ({"iat": None}, "it has no exp or no iat"),
        ({"exp": NOW - 30, "iat": NOW - 60}, "it has expired"),
        ({"exp": "tomorrow"}, "its exp is not a time"),
        ({"exp": NOW + 10, "iat": NOW + 11}, "its exp is before its iat or nbf"),
        ({"nbf": NOW + 61}, "its exp is before its iat or nbf"),
        ({"nbf": NOW + 31}, "it is not valid yet"),
        ({"aud": None}, "it has no aud"),
        ({"aud": ["kafka", 1]}, "it has no aud"),
        ({"aud": "Kafka"}, "its aud is none of those expected"),
        ({"aud": []}, "its aud is none of those expected"),
        ({"iss": None}, "its iss is not the expected one"),
        ({"iss": "https://issuer/"}, "its iss is not the expected one"),
        ({"sub": None}, "it has no sub"),
        ({"sub": 5}, "it has no sub"),
        ({"sub": " \t"}, "its sub is blank"),
        ({"sub": "a" * 1001}, "its sub is longer than 1000 characters"),
        ({"scope": ""}, "a part of its scope is blank"),
        ({"scope": ["a", "a"]}, "a part of its scope is blank, or there twice"),
        ({"scope": ["a", 1]}, "a part of its scope is no text"),
    ],
)
def test_claims_that_do_not_count(claims: dict[str, Any], why: str) -> None:
    found = {"sub": "alice", "exp": NOW + 60, "iat": NOW, "aud": "kafka", "iss": "https://issuer", **claims}
    payload = json.dumps({name: value for name, value in found.items() if value is not None}).encode()
    token = jwt.PyJWS().encode(payload, rsa_key(), "RS256", {"kid": "one"})
    assert refused(token).startswith(why)


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": NOW - 29, "iat": NOW - 60},
        {"exp": NOW + 20, "iat": NOW + 20},  # whoever issues tokens may have a clock that is ahead
        {"nbf": NOW + 30},
        {"aud": ["x", "other"]},
        {"scope": "a b"},
        {"scope": ["a", "b"]},
        {"scope": {}},
        {"sub": " alice "},
    ],
)
def test_claims_that_count(claims: dict[str, Any]) -> None:
    assert checks().check(signed(rsa_key(), **claims)).name == "alice"


def test_other_claims_may_have_the_name() -> None:
    expected = EXPECTED._replace(name_claim="client", audiences=frozenset(), issuer=None)
    assert checks(expected).check(signed(rsa_key(), aud=None, iss=None, sub=None, client="bob")).name == "bob"
    assert refused(signed(rsa_key()), expected) == "it has no client"


def test_what_is_no_token() -> None:
    token = jwt.PyJWS().encode(b'{"sub":"a","sub":"b"}', rsa_key(), "RS256", {"kid": "one"})
    assert refused(token) == "a part of it is not JSON"
    assert refused(jwt.PyJWS().encode(b"[1]", rsa_key(), "RS256", {"kid": "one"})) == "its claims are not a JSON object"
    assert refused(jwt.PyJWS().encode(b"[" * 10_000, rsa_key(), "RS256", {"kid": "one"})) == "a part of it is not JSON"
    assert refused("a.b.c").startswith("it does not verify")
    assert refused("a.b." + "c" * LONGEST_TOKEN) == f"it is longer than {LONGEST_TOKEN} characters"
    assert refused(signed(rsa_key(), header={"crit": ["exp"], "exp": 1})).startswith("it does not verify")

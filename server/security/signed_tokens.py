"""Checks the signed tokens of OAUTHBEARER (RFC 7519): by the keys of a set, and by what they claim.

| claim | has to be |
|---|---|
| `exp` | later than now, but for the skew |
| `iat` | there, and not after `exp` |
| `nbf` | if there: not later than now, but for the skew, and not after `exp` |
| `aud` | one of the expected audiences, or a list with one of them |
| `iss` | the expected issuer |
| `sub`, or as the setting says | the name of the holder |
| `scope`, or as the setting says | if there: a text or a list of different texts, none of them blank |

A token has to be signed by a public key of the set, with an algorithm for which that key is good (jwks.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import jwt

from ottla.server.security.jwks import Keys
from ottla.server.security.oauth import Holder, InvalidToken, name_among, time_ms

LONGEST_TOKEN: Final = 32 * 1024
"""So many characters a token may have, because anybody may have it checked."""
_JAVA_BLANKS: Final = "".join(map(chr, range(33)))


class Expected(NamedTuple):
    """The claims that a token has to make. No audience, or None as the issuer, means that any will do."""

    audiences: frozenset[str]
    issuer: str | None
    skew_ms: int
    scope_claim: str
    name_claim: str


class Signed:
    """Takes tokens that a key of `keys` has signed and that claim what is expected."""

    def __init__(self, keys: Keys, expected: Expected, now_ms: Callable[[], int]) -> None:
        self._keys = keys
        self._expected = expected
        self._now_ms = now_ms
        self._jws = jwt.PyJWS()

    def check(self, token: str) -> Holder:
        """Returns whom the token stands for. Raises InvalidToken."""
        claims = self._claims_of(token)
        expires_ms = self._check_times(claims)
        self._check_origin(claims)
        _check_scopes(claims.get(self._expected.scope_claim), self._expected.scope_claim)
        name = name_among(claims, self._expected.name_claim).strip(_JAVA_BLANKS)
        if not name:
            raise InvalidToken(f"its {self._expected.name_claim} is blank")
        return Holder(name, expires_ms)

    def _claims_of(self, token: str) -> Mapping[str, Any]:
        """Returns what a token claims, once its signature is checked."""
        if len(token) > LONGEST_TOKEN:
            raise InvalidToken(f"it is longer than {LONGEST_TOKEN} characters")
        if token.count(".") != 2 or not all(token.split(".")):
            raise InvalidToken("it is not header.claims.signature")
        try:
            header = self._jws.get_unverified_header(token)
            algorithm, key_id = header.get("alg"), header.get("kid")
            key = self._keys.find(key_id, algorithm) if isinstance(algorithm, str) else None
            if key is None:
                raise InvalidToken("no key of the set has its kid and is good for its alg")
            payload = self._jws.decode(token, key.key_for(str(algorithm)))
            claims = json.loads(payload, object_pairs_hook=_unique)
        except jwt.PyJWTError as error:
            raise InvalidToken(f"it does not verify: {error}") from None
        except (ValueError, RecursionError):
            raise InvalidToken("a part of it is not JSON") from None
        if not isinstance(claims, dict):
            raise InvalidToken("its claims are not a JSON object")
        return claims

    def _check_times(self, claims: Mapping[str, Any]) -> int:
        """Returns when the token ends."""
        now_ms, skew_ms = self._now_ms(), self._expected.skew_ms
        expires, issued, begins = (time_ms(claims, name) for name in ("exp", "iat", "nbf"))
        if expires is None or issued is None:
            raise InvalidToken("it has no exp or no iat")
        if now_ms - skew_ms >= expires:
            raise InvalidToken("it has expired")
        if expires < max(issued, issued if begins is None else begins):
            raise InvalidToken("its exp is before its iat or nbf")
        if begins is not None and now_ms + skew_ms < begins:
            raise InvalidToken("it is not valid yet")
        return expires

    def _check_origin(self, claims: Mapping[str, Any]) -> None:
        expected = self._expected
        if expected.audiences:
            audiences = claims.get("aud")
            listed = [audiences] if isinstance(audiences, str) else audiences
            if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
                raise InvalidToken("it has no aud")
            if not expected.audiences.intersection(listed):
                raise InvalidToken("its aud is none of those expected")
        if expected.issuer is not None and claims.get("iss") != expected.issuer:
            raise InvalidToken("its iss is not the expected one")


def _check_scopes(scopes: Any, claim: str) -> None:
    """Raises InvalidToken for scopes that nobody can mean, although nothing here goes by them."""
    listed = [scopes] if isinstance(scopes, str) else scopes
    if not isinstance(listed, list):
        return
    if not all(isinstance(each, str) for each in listed):
        raise InvalidToken(f"a part of its {claim} is no text")
    texts = [each.strip(_JAVA_BLANKS) for each in listed]
    if not all(texts) or len(set(texts)) < len(texts):
        raise InvalidToken(f"a part of its {claim} is blank, or there twice")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is there twice")
    return found

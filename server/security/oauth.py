"""The SASL mechanism OAUTHBEARER (RFC 7628): a client shows a token that somebody else has given it.

    n,,^Aauth=Bearer TOKEN^A^A                    nothing, or {"status":"invalid_token"}
    ^A                                            the failure

A refused token is answered with a status first, which the client acknowledges with one byte; then comes the failure, with the
same text. The login ends with the token (`exp`).

A token is a JWS (RFC 7515) of claims. Who checks it is a parameter. `Unsecured` takes tokens that nobody signed, which is for
trying things out, and what Kafka does unless it is told otherwise; signed_tokens.py checks signed ones.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from ottla.log.config_def import ConfigError
from ottla.security.jaas import Module
from ottla.server.security.mechanism import Challenge, Done, Failed, Outcome
from ottla.wire.scram import unescape_name

NAME: Final = "OAUTHBEARER"
LONGEST_NAME: Final = 1000
"""So many characters the name of a token's holder may have. It is in quotas, rights and log lines as long as the login lasts."""
_FIRST: Final = re.compile(r"n,(?:a=(?P<wanted>[^,\x00\x01]+))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]*\x01)*)\x01")
_BEARER: Final = re.compile(r"bearer +(?P<token>[-_.a-z0-9]+)", re.IGNORECASE | re.ASCII)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
"""The characters that JSON can express and UTF-8 cannot: no record or answer could hold such a name."""
_ACKNOWLEDGED: Final = b"\x01"
_AUTH: Final = "auth"


class Holder(NamedTuple):
    """Whom a token stands for, and the wall time in ms at which it ends."""

    name: str
    expires_ms: int


class InvalidToken(Exception):
    """A token does not count. The text is for the broker's log; `scope` is the scope that it lacks, empty for another reason."""

    def __init__(self, text: str, scope: str = "") -> None:
        super().__init__(text)
        self.scope = scope


class Checks(Protocol):
    """Checks tokens."""

    def check(self, token: str, /) -> Holder:
        """Returns whom the token stands for. Raises InvalidToken."""
        ...


class OAuthBearer:
    """Logs in those with a token that `checks` takes."""

    name = NAME
    longest_blocking = 0

    def __init__(self, checks: Checks) -> None:
        self._checks = checks

    def begin(self) -> OAuthExchange:
        """Returns the exchange of a new login."""
        return OAuthExchange(self._checks)


class OAuthExchange:
    """The one or two messages of a client's login."""

    __slots__ = ("_checks", "_refused")

    def __init__(self, checks: Checks) -> None:
        self._checks = checks
        self._refused: Failed | None = None  # after the first message, if its token was refused

    @property
    def refused(self) -> bool:
        """See Exchange."""
        return self._refused is not None

    def step(self, token: bytes) -> Outcome:
        """Takes the client's next message."""
        if self._refused is not None:
            return self._refused if token == _ACKNOWLEDGED else Failed(None, "it did not acknowledge that its token is refused")
        found = _FIRST.fullmatch(token.decode("latin-1"))
        pairs = dict(pair.split("=", 1) for pair in found["pairs"].split("\x01")[:-1]) if found else {}
        bearer = _BEARER.fullmatch(pairs.get(_AUTH, ""))
        if found is None or bearer is None:
            return Failed(None, "its first message is not one of OAUTHBEARER")
        try:
            wanted = unescape_name(found["wanted"] or "")
            holder = self._checks.check(bearer["token"])
        except ValueError as error:
            return Failed(None, str(error))
        except InvalidToken as error:
            status = {"status": "insufficient_scope", "scope": error.scope} if error.scope else {"status": "invalid_token"}
            text = json.dumps(status, separators=(",", ":"))
            self._refused = Failed(text, f"its token does not count: {error}")
            return Challenge(text.encode())
        if wanted not in ("", holder.name):
            return Failed("A token can log in only the user it was issued for.", f"{holder.name!r} wants to be {wanted!r}")
        return Done(f"User:{holder.name}", expires_ms=holder.expires_ms)


class Unsecured:
    """Takes tokens without a signature (`alg` none), of anybody who writes one. The options are those of Kafka's login module.

    A token needs `exp` and the claim with the name of its holder. Raises ConfigError for an option that does not parse.
    """

    def __init__(self, module: Module, now_ms: Callable[[], int]) -> None:
        def option(name: str, default: str) -> str:
            return module.option(f"unsecuredValidator{name}") or default

        self._name_claim = option("PrincipalClaimName", "sub")
        self._scope_claim = option("ScopeClaimName", "scope")
        self._scopes = option("RequiredScope", "").split()
        skew = option("AllowableClockSkewMs", "0")
        if not skew.isdecimal():
            raise ConfigError("unsecuredValidatorAllowableClockSkewMs is not a number of milliseconds; write 0 or more")
        self._skew_ms = int(skew)
        self._now_ms = now_ms

    def check(self, token: str) -> Holder:
        """Returns whom the token stands for. Raises InvalidToken."""
        parts = token.split(".")
        if len(parts) != 3 or parts[2]:
            raise InvalidToken("it is not header.claims. without a signature")
        header, claims = (_json_of(part) for part in parts[:2])
        if header.get("alg") != "none":
            raise InvalidToken("it says that it is signed (alg)")
        expires_ms, now_ms = time_ms(claims, "exp"), self._now_ms()
        if expires_ms is None:
            raise InvalidToken("it has no exp")
        name = name_among(claims, self._name_claim)
        issued_ms = time_ms(claims, "iat")
        if issued_ms is not None and (issued_ms >= expires_ms or issued_ms > now_ms + self._skew_ms):
            raise InvalidToken("its iat is in the future, or not before its exp")
        if now_ms - self._skew_ms >= expires_ms:
            raise InvalidToken("it has expired")
        scopes = claims.get(self._scope_claim, ())
        scopes = scopes.split() if isinstance(scopes, str) else scopes
        if not isinstance(scopes, list | tuple) or not set(self._scopes) <= {each for each in scopes if isinstance(each, str)}:
            raise InvalidToken("it lacks a scope", " ".join(self._scopes) or "none")
        return Holder(name, expires_ms)


def _json_of(part: str) -> Mapping[str, Any]:
    """Returns the JSON object that a part of a token is. Raises InvalidToken."""
    try:
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        raise InvalidToken("a part of it is not base64 of JSON") from None
    if not isinstance(found, dict):
        raise InvalidToken("a part of it is not a JSON object")
    return found


def name_among(claims: Mapping[str, Any], claim: str) -> str:
    """Returns the name of a token's holder. Raises InvalidToken if there is none that can be written down."""
    name = claims.get(claim)
    if not isinstance(name, str) or not name:
        raise InvalidToken(f"it has no {claim}")
    if len(name) > LONGEST_NAME or _SURROGATE.search(name):
        raise InvalidToken(f"its {claim} is longer than {LONGEST_NAME} characters, or is no text")
    return name


def time_ms(claims: Mapping[str, Any], name: str) -> int | None:
    """Returns a time among the claims, which is in seconds there, in ms; None if there is none. Raises InvalidToken."""
    value = claims.get(name)
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not -1e15 < value < 1e15:
        raise InvalidToken(f"its {name} is not a time")
    return round(value * 1000)

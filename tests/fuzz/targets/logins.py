"""The words and files with which clients log in: an input is a kind and the bytes of tokens, keys or texts.

- A step of PLAIN, SCRAM or OAUTHBEARER raises nothing. It ends a login with success only if the message says who that is, and
  proves it: by the password, by SCRAM's proof over both messages, or by a token that is valid now and claims what is expected.
  The principal can be written down. What is challenged or refused stays short, however long the token is.
- A client of PLAIN or SCRAM believes a broker's answers or raises NotTrusted, and believes none without the broker's proof.
- A set of keys (JWKS) is refused with BadKeySet, or each of its keys is a public one of every algorithm that it names.
- A text of JAAS is refused with a ConfigError that shows nothing of it, or means the same when its modules are written anew. A
  file of users is refused with BadPasswordFile, or its users are the same when their lines are written anew.
- Rules that make users of the names in certificates and tickets are refused with a ConfigError, or make a name, or none, of any.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from ottla.log.config_def import ConfigError, Secret
from ottla.security import jaas
from ottla.security.password_file import BadPasswordFile, parse
from ottla.security.sasl_client import NotTrusted, log_in
from ottla.server.security.certificate_names import PrincipalRules
from ottla.server.security.jwks import BadKeySet, Key, parse_keys
from ottla.server.security.kerberos_names import LocalNames
from ottla.server.security.mechanism import Challenge, Done, Exchange, Failed, Outcome
from ottla.server.security.oauth import LONGEST_NAME, Checks, OAuthBearer, Unsecured
from ottla.server.security.plain import Plain
from ottla.server.security.scram import LONGEST_MESSAGE, Credential, Scram, TokenCredential
from ottla.server.security.signed_tokens import Expected, Signed
from ottla.wire.scram import DIGESTS, client_proof, make_keys, salt_password, server_signature, unescape_name
from tests.fuzz.draw import Draw, block

_NOW_MS: Final = 1_700_000_000_000
_SKEW_MS: Final = 5_000
_NAME: Final = "alice"
_PASSWORD: Final = "secret"
_TOKEN_ID: Final = "token-id"
_SALT: Final = b"12345678"
_ITERATIONS: Final = 4096
_NONCE: Final = "server"
_LONGEST_ANSWER: Final = 2 * LONGEST_MESSAGE
_LONGEST_NAME: Final = 24
"""Longer ones would only show that an operator can write a pattern that takes for ever."""
_SECRET_WORD: Final = re.compile(r"\S{20,}")
"""No message has a word of its own that is so long."""


def _ends_well(outcome: Outcome) -> Done | None:
    """Checks what any outcome promises, and returns it if it is a success."""
    if isinstance(outcome, Failed):
        assert len(outcome.text or "") < _LONGEST_ANSWER
        outcome.reason.encode("utf-8", "replace")
        return None
    assert len(outcome.token) < _LONGEST_ANSWER
    if isinstance(outcome, Challenge):
        return None
    assert len(outcome.principal.encode()) > len("User:")
    return outcome


def _is_line(error: Exception) -> None:
    assert "\n" not in str(error)


def _plain(data: bytes) -> None:
    done = _ends_well(Plain({_NAME: Secret(_PASSWORD)}).begin().step(data))
    right = {f"{wanted}\0{_NAME}\0{_PASSWORD}".encode() for wanted in ("", _NAME)}
    assert (done is not None) == (data in right), "a login by PLAIN is taken that is not right, or refused although it is"


# SCRAM


@cache
def _salted(digest: str) -> bytes:
    return salt_password(digest, _PASSWORD, _SALT, _ITERATIONS)


def _scram_of(mechanism: str) -> Scram:
    digest = DIGESTS[mechanism]
    credential = Credential(_SALT, _ITERATIONS, make_keys(digest, _salted(digest)))
    token = TokenCredential(credential, "User:owner", _NOW_MS + 60_000)
    return Scram(mechanism, digest, {_NAME: credential}.get, {_TOKEN_ID: token}.get, lambda: _NONCE)


def _scram(data: bytes) -> None:
    draw = Draw(data)
    mechanism = _scram_of(draw.one_of(sorted(DIGESTS)))
    proved = draw.byte() & 1  # no fuzzer guesses a proof
    first, final = draw.block(), draw.block()
    exchange = mechanism.begin()
    challenge = exchange.step(first)
    assert _ends_well(challenge) is None, "one message is enough for a login by SCRAM"
    if not isinstance(challenge, Challenge):
        return
    _, _, bare = first.decode().split(",", 2)
    signed = b",".join((bare.encode(), challenge.token, final))
    if proved:
        proof = client_proof(mechanism.digest, _salted(mechanism.digest), signed)
        final += b",p=" + base64.b64encode(proof)
    done = _ends_well(exchange.step(final))
    if done is not None:
        _check_proof(mechanism.digest, first.decode(), challenge.token, final.decode(), done)
    else:
        assert not proved or final[: final.rindex(b",p=")] != _unproved(first, challenge.token), "a right proof is refused"


def _unproved(first: bytes, challenge: bytes) -> bytes:
    """Returns the last message as it has to be, without its proof."""
    header = ",".join(first.decode().split(",", 2)[:2]) + ","
    return b"c=" + base64.b64encode(header.encode()) + b"," + challenge.split(b",")[0]


def _check_proof(digest: str, first: str, challenge: bytes, final: str, done: Done) -> None:
    """Checks that a login was won by the right name and the right proof."""
    _, wanted, bare = first.split(",", 2)
    unproved, _, proof = final.rpartition(",p=")
    signed = b",".join((bare.encode(), challenge, unproved.encode()))
    assert base64.b64decode(proof) == client_proof(digest, _salted(digest), signed), "a wrong proof is taken"
    assert unproved.encode().startswith(_unproved(first.encode(), challenge))
    name = unescape_name(bare.split(",")[0].removeprefix("n="))
    assert wanted in ("", f"a={name}") or unescape_name(wanted.removeprefix("a=")) == name
    assert (name, done.principal) in ((_NAME, f"User:{_NAME}"), (_TOKEN_ID, "User:owner")), "somebody else is logged in"
    keys = make_keys(digest, _salted(digest))
    assert done.token == b"v=" + base64.b64encode(server_signature(digest, keys.server, signed))


def _scram_client(data: bytes) -> None:
    draw = Draw(data)
    mechanism = draw.one_of(sorted(DIGESTS))
    challenge, answer = draw.block(), draw.block()
    messages = log_in(mechanism, _NAME, _PASSWORD, "client", _ITERATIONS + 1)
    next(messages)
    try:
        messages.send(challenge)
        messages.send(answer)
    except NotTrusted as error:
        _is_line(error)
    except StopIteration:
        assert re.search(rb"v=[A-Za-z0-9+/]{43,86}=", answer), "an answer is believed that has no proof"


# OAUTHBEARER


@cache
def _signer() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


def _jwk() -> dict[str, Any]:
    public = _signer().public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return {"kty": "OKP", "crv": "Ed25519", "kid": "one", "x": _base64(public).decode()}


class _OneKey:
    """A set with one key."""

    def __init__(self) -> None:
        (self._key,) = parse_keys(json.dumps({"keys": [_jwk()]}).encode())

    def find(self, key_id: str | None, algorithm: str) -> Key | None:
        return self._key if key_id in (None, self._key.id) and algorithm in self._key.algorithms else None


@cache
def _signed_checks() -> Signed:
    expected = Expected(frozenset({"kafka"}), "https://issuer", _SKEW_MS, "scope", "sub")
    return Signed(_OneKey(), expected, lambda: _NOW_MS)


@cache
def _unsecured_checks() -> Unsecured:
    options = {"unsecuredValidatorRequiredScope": "read", "unsecuredValidatorAllowableClockSkewMs": str(_SKEW_MS)}
    module = jaas.Module("", {name: Secret(text) for name, text in options.items()})
    return Unsecured(module, lambda: _NOW_MS)


def _base64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _bearer(token: bytes, header: bytes = b"n,,") -> bytes:
    return header + b"\x01auth=Bearer " + token + b"\x01\x01"


def _log_in_with(checks: Checks, first: bytes) -> Done | None:
    """Returns what a first message leads to; the client acknowledges a refusal."""
    exchange: Exchange = OAuthBearer(checks).begin()
    outcome = exchange.step(first)
    assert exchange.refused == isinstance(outcome, Challenge)
    if isinstance(outcome, Challenge):
        assert json.loads(outcome.token)["status"] in ("invalid_token", "insufficient_scope")
        assert isinstance(exchange.step(b"\x01"), Failed), "a refused token is good enough after all"
    return _ends_well(outcome)


def _oauth(data: bytes) -> None:
    assert _log_in_with(_signed_checks(), data) is None or b"." in data
    _log_in_with(_unsecured_checks(), data)


def _unsecured(data: bytes) -> None:
    draw = Draw(data)
    header, claims = draw.block(), draw.rest()
    done = _log_in_with(_unsecured_checks(), _bearer(_base64(header) + b"." + _base64(claims) + b"."))
    if done is not None:
        assert json.loads(header)["alg"] == "none"
        found = json.loads(claims)
        _check_claims(found, done)
        assert "read" in (found["scope"].split() if isinstance(found["scope"], str) else found["scope"])


def _signed(data: bytes) -> None:
    draw = Draw(data)
    header, claims = draw.block(), draw.rest()
    unsigned = _base64(header) + b"." + _base64(claims)
    done = _log_in_with(_signed_checks(), _bearer(unsigned + b"." + _base64(_signer().sign(unsigned))))
    if done is not None:
        assert json.loads(header)["alg"] == "EdDSA"
        found = json.loads(claims)
        _check_claims(found, done)
        assert found["iss"] == "https://issuer"
        assert "kafka" in (found["aud"], *found["aud"])


def _check_claims(claims: dict[str, Any], done: Done) -> None:
    assert claims["sub"].strip("".join(map(chr, range(33)))) == done.principal.removeprefix("User:").strip()
    assert len(claims["sub"]) <= LONGEST_NAME
    assert done.expires_ms is not None
    assert _NOW_MS - _SKEW_MS < done.expires_ms == round(claims["exp"] * 1000), "a login lasts for another time than its token"


def _jwks(data: bytes) -> None:
    try:
        keys = parse_keys(data)
    except BadKeySet:
        return
    assert keys
    for key in keys:
        assert key.algorithms
        for algorithm in key.algorithms:
            made = key.key_for(algorithm)
            assert not hasattr(made.key, "sign"), "a private key checks tokens"
            try:
                jwt.PyJWS().decode(f"{_base64(b'{}').decode()}..AAAA", made, [algorithm])
            except jwt.PyJWTError:
                continue
            raise AssertionError("a token without a signature verifies")


# Texts of operators


def _jaas(data: bytes) -> None:
    text = data.decode(errors="replace")
    try:
        modules = jaas.parse_modules(Secret(text))
    except ConfigError as error:
        _shows_nothing(text, error)
    else:
        assert jaas.parse_modules(Secret(" ".join(map(_written, modules)))) == modules
    try:
        sections = jaas.parse_file(text)
    except ConfigError as error:
        _shows_nothing(text, error)
        return
    again = (f'"{_escaped(name)}" {{{" ".join(map(_written, modules))}}};' for name, modules in sections.items())
    assert jaas.parse_file("\n".join(again)) == sections


def _shows_nothing(text: str, error: ConfigError) -> None:
    _is_line(error)
    assert not any(word in str(error) for word in _SECRET_WORD.findall(text)), "a message shows what may be a password"


def _written(module: jaas.Module) -> str:
    options = (f'"{_escaped(name)}"="{_escaped(value.reveal())}"' for name, value in module.options.items())
    return f'"{_escaped(module.name)}" required {" ".join(options)};'


def _escaped(text: str) -> str:
    return "".join(f"\\{ord(c):03o}" if c in '\\"\r\n' else c for c in text)


def _users(data: bytes) -> None:
    try:
        users = parse(data.decode(errors="replace"))
    except BadPasswordFile as error:
        _is_line(error)
        return
    assert parse("\n".join(credential.line(name) for name, credential in users.items())) == users


def _rules(data: bytes) -> None:
    draw = Draw(data)
    kerberos, name, text = (
        draw.byte() & 1,
        draw.block().decode(errors="replace")[:_LONGEST_NAME],
        draw.rest().decode(errors="replace"),
    )
    try:
        make = LocalNames([text], "REALM").name_of if kerberos else PrincipalRules(text).user_of
    except ConfigError:
        return
    user = make(name)
    assert user is None or isinstance(user, str)
    assert not (kerberos and user) or not {"/", "@"} & set(user or "")


_READERS: Final[tuple[Callable[[bytes], None], ...]] = (
    _plain,
    _scram,
    _scram_client,
    _oauth,
    _unsecured,
    _signed,
    _jwks,
    _jaas,
    _users,
    _rules,
)


def check(data: bytes) -> None:
    draw = Draw(data)
    draw.one_of(_READERS)(draw.rest())


def seeds() -> Iterator[bytes]:
    claims = {"sub": _NAME, "exp": _NOW_MS // 1000 + 60, "iat": _NOW_MS // 1000, "scope": ["read"]}
    more = claims | {"aud": ["kafka"], "iss": "https://issuer", "nbf": claims["iat"], "scope": "read write"}
    unsigned = _base64(b'{"alg":"EdDSA"}') + b"." + _base64(json.dumps(more).encode())
    samples: dict[Callable[[bytes], None], list[bytes]] = {
        _plain: [b"\0alice\0secret", b"alice\0alice\0secret", b"bob\0alice\0secret", b"\0alice\0wrong"],
        _scram: [*_scram_seeds()],
        _scram_client: [*_client_seeds()],
        _oauth: [
            _bearer(unsigned + b"." + _base64(_signer().sign(unsigned)), b"n,a=alice,"),
            _bearer(_base64(b'{"alg":"none"}') + b"." + _base64(json.dumps(claims).encode()) + b"."),
        ],
        _unsecured: [block(b'{"alg":"none"}') + json.dumps(claims).encode(), block(b'{"alg":"none"}') + b'{"scope":"read"}'],
        _signed: [block(b'{"alg":"EdDSA","kid":"one"}') + json.dumps(each).encode() for each in (more, claims)],
        _jwks: [*_key_set_seeds()],
        _jaas: [
            jaas.login_module("PLAIN", [("username", "a"), ("password", 'p"\\\n'), ("user_a", "$x y")]).encode(),
            b"KafkaServer {\n  // what\n  a.B required x=y 'z'=\"\\101\\n\"; /* and */ C$ OPTIONAL;\n};\nOther {};",
            b"a.B required x=-1.5;",
            b"KafkaServer {\n  a.B required;\n};",
        ],
        _rules: [
            b"\0" + block(b"CN=alice,OU=x") + b"RULE:^CN=(.*?),OU=(.*)$/$1@$2/L, RULE:(?=C).*/a\\/b/U,DEFAULT",
            b"\1" + block(b"kafka/host@REALM") + b"RULE:[2:$1.$2;$0](k.*)s/^(k)(a)/$2$12/gL",
            b"\1" + block(b"alice@REALM") + b"DEFAULT",
            b"\1" + block(b"alice@OTHER") + b"RULE:[1:$1]/U",
        ],
        _users: [f"# who\n{_user_line('SCRAM-SHA-256', 32)}\n{_user_line('SCRAM-SHA-512', 64)}\n".encode()],
    }
    for read, contents in samples.items():
        for content in contents:
            yield bytes([_READERS.index(read)]) + content


def _scram_seeds() -> Iterator[bytes]:
    final = b"c=biws,r=clientserver"
    for number in range(len(DIGESTS)):
        yield bytes((number, 1)) + block(b"n,,n=alice,r=client") + block(final)
        yield bytes((number, 0)) + block(b"n,,n=alice,r=client") + block(final + b",p=" + base64.b64encode(bytes(32)))
    bound = b"c=" + base64.b64encode(b"n,a=token-id,") + b",r=clientserver,x=y"
    yield b"\0\1" + block(b"n,a=token-id,n=token-id,r=client,tokenauth=true") + block(bound)
    yield b"\0\1" + block(b"n,,n=ali=2Cce,r=client") + block(final)


def _client_seeds() -> Iterator[bytes]:
    for number, mechanism in enumerate(sorted(DIGESTS)):
        exchange = _scram_of(mechanism).begin()
        messages = log_in(mechanism, _NAME, _PASSWORD, "client")
        challenge = exchange.step(next(messages))
        assert isinstance(challenge, Challenge)
        done = exchange.step(messages.send(challenge.token))
        assert isinstance(done, Done)
        yield bytes([number]) + block(challenge.token) + block(done.token)


def _key_set_seeds() -> Iterator[bytes]:
    # A modulus of 2,048 bits, and the base point of each curve.
    rsa = {"kty": "RSA", "kid": "two", "n": _base64(b"\xff" * 256).decode(), "e": "AQAB", "use": "sig", "key_ops": ["verify"]}
    point = {
        "x": "axfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpY",
        "y": "T-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU",
    }
    keys = [_jwk(), rsa, rsa | {"alg": "PS384"}, {"kty": "EC", "crv": "P-256", **point}]
    for key in keys:
        yield json.dumps({"keys": [key]}).encode()
    yield json.dumps({"keys": keys}).encode()


def _user_line(mechanism: str, size: int) -> str:
    salt, key = base64.b64encode(bytes(16)).decode(), base64.b64encode(bytes(size)).decode()
    return f"user{size}:{mechanism}$4096:{salt}${key}:{key}"

"""Signed tokens at ottla and at Apache Kafka: which count, message by message; four clients that show them; keys that change; and
starts that are refused. One server.properties starts both brokers.
"""

from __future__ import annotations

import base64
import hmac
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from aiokafka.abc import AbstractTokenProvider
from confluent_kafka import Consumer, Producer
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from kafka.net.sasl.oauth import AbstractTokenProvider as PythonTokenProvider

from compat_tests.java_client import Java, JavaError, running
from compat_tests.reference.kafka import HOST, BrokerFailed
from compat_tests.security.python_clients import by_aiokafka, by_kafka_python
from compat_tests.security.signed_tokens import ALLOWED, PACKAGE, Issuer, KeyServer, TokenBroker
from compat_tests.waiting import wait_for
from compat_tests.wire import CLOSED, Connection
from ottla.wire.messages import metadata, sasl_authenticate, sasl_handshake

Unique = Callable[[str], str]
INVALID: Final = b'{"status":"invalid_token"}'
IN: Final = ("in", True)
OUT: Final = ("invalid", 58, INVALID.decode())
HMAC_HEADER: Final = b'{"alg":"HS256","kid":"one"}'
NO_HEADER: Final = b'{"alg":"none","kid":"one"}'


def part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def hmac_token(by: Issuer) -> str:
    """The public key, which everybody has, as a shared secret."""
    secret = by.keys["one"].public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    signed = f"{part(HMAC_HEADER)}.{by.token().split('.')[1]}"
    return f"{signed}.{part(hmac.digest(secret, signed.encode(), 'sha256'))}"


def unsigned(by: Issuer) -> str:
    return f"{part(NO_HEADER)}.{by.token().split('.')[1]}."


def swapped(by: Issuer) -> str:
    head, _, signature = by.token().split(".")
    return f"{head}.{by.token(sub='bob').split('.')[1]}.{signature}"


TOKENS: Final[dict[str, tuple[Callable[[Issuer], str], Any]]] = {
    "as it should be": (lambda by: by.token(), IN),
    "of a curve": (lambda by: by.token("curve", "ES256"), IN),
    "of another hash": (lambda by: by.token(algorithm="RS512"), IN),
    "of another padding": (lambda by: by.token(algorithm="PS256"), IN),
    "no kid": (lambda by: by.token(kid=None), IN),
    "another audience of those expected": (lambda by: by.token(aud=["x", "other"]), IN),
    "issued in the future": (lambda by: by.token(iat=200), IN),
    "valid soon": (lambda by: by.token(nbf=20), IN),
    "a name with blanks around it": (lambda by: by.token(sub=" alice "), IN),
    "a scope": (lambda by: by.token(scope="a b"), IN),
    "scopes": (lambda by: by.token(scope=["a", "b"]), IN),
    "a scope that is none": (lambda by: by.token(scope={"a": 1}), IN),
    "an unknown kid": (lambda by: by.token(kid="unknown"), OUT),
    "the kid of another key": (lambda by: by.token("two", kid="one"), OUT),
    "a key that is not in the set": (lambda by: by.token("two"), OUT),
    "a kid of another kind": (lambda by: by.token(kid="curve"), OUT),
    "a shared secret that is the public key": (hmac_token, OUT),
    "no signature": (unsigned, OUT),
    "a signature that is empty": (lambda by: by.token().rpartition(".")[0] + ".", OUT),
    "half a signature": (lambda by: by.token()[:-20], OUT),
    "other claims": (swapped, OUT),
    "two parts": (lambda by: "a.b", OUT),
    "no JSON": (lambda by: "a.b.c", OUT),
    "past its end": (lambda by: by.token(exp=-60, iat=-90), OUT),
    "no end": (lambda by: by.token(exp=None), OUT),
    "not issued": (lambda by: by.token(iat=None), OUT),
    "issued after its end": (lambda by: by.token(iat=400), OUT),
    "valid later": (lambda by: by.token(nbf=100), OUT),
    "valid after its end": (lambda by: by.token(nbf=400), OUT),
    "no audience": (lambda by: by.token(aud=None), OUT),
    "a wrong audience": (lambda by: by.token(aud="Kafka"), OUT),
    "no audience in the list": (lambda by: by.token(aud=[]), OUT),
    "an audience that is a number": (lambda by: by.token(aud=[5]), OUT),
    "no issuer": (lambda by: by.token(iss=None), OUT),
    "a wrong issuer": (lambda by: by.token(iss="https://issuer/"), OUT),
    "no name": (lambda by: by.token(sub=None), OUT),
    "a name that is a number": (lambda by: by.token(sub=5), OUT),
    "a name that is empty": (lambda by: by.token(sub=""), OUT),
    "a name that is blank": (lambda by: by.token(sub="  "), OUT),
    "a scope that is empty": (lambda by: by.token(scope=""), OUT),
    "a scope twice": (lambda by: by.token(scope=["a", "a"]), OUT),
}
"""Tokens, and how a login by each ends, at both brokers."""


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    return Issuer(tmp_path_factory.mktemp("issuer"))


@pytest.fixture(scope="module")
def key_server(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeyServer]:
    server = KeyServer(issuer, tmp_path_factory.mktemp("key-server"))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def door(kind: str, issuer: Issuer, key_server: KeyServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenBroker]:
    issuer.publish("one", "curve")
    broker = TokenBroker(kind, tmp_path_factory.mktemp(f"oauth-{kind}"), issuer, key_server)
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


def said(door: TokenBroker, token: str, port: int | None = None, header: str = "n,,") -> Any:
    """Logs in by a token, and returns the outcome."""
    connection = Connection(door.address(port or door.login_port))
    with closing(connection.socket):
        connection.send(sasl_handshake.SaslHandshakeRequest("OAUTHBEARER"), 1)
        assert connection.answer(sasl_handshake, 1).error_code == 0
        connection.send(sasl_authenticate.SaslAuthenticateRequest(f"{header}\x01auth=Bearer {token}\x01\x01".encode()), 2)
        answer = connection.answer(sasl_authenticate, 2)
        if answer.error_code:
            return ("refused", answer.error_code, answer.auth_bytes)
        if not answer.auth_bytes:
            connection.send(metadata.MetadataRequest([]), 9)
            assert not isinstance(connection.answer(metadata, 9), str)
            return ("in", answer.session_lifetime_ms > 0)
        assert answer.auth_bytes == INVALID
        connection.send(sasl_authenticate.SaslAuthenticateRequest(b"\x01"), 2)
        answer = connection.answer(sasl_authenticate, 2)
        return ("invalid", answer.error_code, answer.error_message)


@pytest.mark.parametrize("case", TOKENS)
def test_tokens(door: TokenBroker, issuer: Issuer, case: str) -> None:
    make, expected = TOKENS[case]
    assert said(door, make(issuer)) == expected


def test_whom_a_token_is_for(door: TokenBroker, issuer: Issuer) -> None:
    assert said(door, issuer.token(), header="n,a=alice,") == IN
    assert said(door, issuer.token(), header="n,a=bob,")[:2] == ("refused", 58)
    assert said(door, issuer.token(sub=" alice "), header="n,a=alice,") == IN


def test_a_token_within_the_skew_lets_nobody_do_anything(door: TokenBroker, issuer: Issuer) -> None:
    """The token is taken, and the login that it makes is over at once."""
    connection = Connection(door.address(door.login_port))
    with closing(connection.socket):
        connection.send(sasl_handshake.SaslHandshakeRequest("OAUTHBEARER"), 1)
        connection.answer(sasl_handshake, 1)
        first = f"n,,\x01auth=Bearer {issuer.token(exp=-10, iat=-60)}\x01\x01".encode()
        connection.send(sasl_authenticate.SaslAuthenticateRequest(first), 2)
        answer = connection.answer(sasl_authenticate, 2)
        assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (0, b"", 0)
        connection.send(metadata.MetadataRequest([]), 9)
        assert connection.answer(metadata, 9) == CLOSED


def test_keys_in_a_file_that_change(door: TokenBroker, issuer: Issuer) -> None:
    try:
        assert said(door, issuer.token("new")) == OUT
        issuer.publish("new")
        wait_for(lambda: said(door, issuer.token("new")) == IN, "the new key counts")
        assert said(door, issuer.token("one")) == OUT
    finally:
        issuer.publish("one", "curve")
    wait_for(lambda: said(door, issuer.token("one")) == IN, "the old key counts again")


def test_keys_by_https_that_change(door: TokenBroker, issuer: Issuer) -> None:
    """An unknown kid has them fetched; another one, a moment later, does not."""
    assert said(door, issuer.token(), door.fetched_port) == IN
    before = issuer.fetches
    issuer.publish("one", "two")
    try:
        assert said(door, issuer.token("two"), door.fetched_port) == OUT
        wait_for(lambda: said(door, issuer.token("two"), door.fetched_port) == IN, "the new key counts")
        assert issuer.fetches > before
        if door.kind == "ottla":  # Kafka fetches once a minute for each kid that it is shown
            fetched = issuer.fetches
            for number in range(20):
                assert said(door, issuer.token("new", kid=f"unknown {number}"), door.fetched_port) == OUT
            assert issuer.fetches == fetched
    finally:
        issuer.publish("one", "curve")


# Clients


def shown(issuer: Issuer, right: bool) -> str:
    return issuer.token(aud="kafka" if right else "nobody")


def confluent(door: TokenBroker, issuer: Issuer, topic: str, right: bool) -> str:
    told: list[str] = []

    def oauth(_: str) -> tuple[str, float]:
        return shown(issuer, right), time.time() + 300

    settings: dict[str, Any] = {
        "bootstrap.servers": f"{HOST}:{door.login_port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": oauth,
        "log_level": 0,
    }
    with_errors: dict[str, Any] = {**settings, "error_cb": lambda error: told.append(error.name())}
    producer = Producer(with_errors)
    if not right:

        def refused() -> bool:
            producer.poll(0.1)
            return "_AUTHENTICATION" in told

        wait_for(refused, "the login is refused")
        return "refused"
    producer.produce(topic, b"secured")
    assert producer.flush(30) == 0
    with closing(Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})) as consumer:
        consumer.subscribe([topic])
        message = consumer.poll(30)
        assert message is not None
        assert message.value() == b"secured"
    return "works"


def login_of(door: TokenBroker, provider: object) -> dict[str, Any]:
    return {
        "bootstrap_servers": f"{HOST}:{door.login_port}",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": provider,
    }


def kafka_python(door: TokenBroker, issuer: Issuer, topic: str, right: bool) -> str:
    class Provider(PythonTokenProvider):  # type: ignore[misc]  # the library has no types
        def token(self) -> str:
            return shown(issuer, right)

    brief = {} if right else {"max_block_ms": 2000, "bootstrap_timeout_ms": 2000}
    return by_kafka_python(topic, **login_of(door, Provider()), **brief)


def aiokafka(door: TokenBroker, issuer: Issuer, topic: str, right: bool) -> str:
    class Provider(AbstractTokenProvider):  # type: ignore[misc]  # the library has no types
        async def token(self) -> str:
            return shown(issuer, right)

    return by_aiokafka(topic, **login_of(door, Provider()), request_timeout_ms=40_000 if right else 5_000)


@pytest.mark.parametrize("client", [confluent, kafka_python, aiokafka], ids=lambda client: client.__name__)
def test_clients(door: TokenBroker, issuer: Issuer, unique: Unique, client: Callable[..., str]) -> None:
    assert client(door, issuer, unique("oauth"), True) == "works"
    assert client(door, issuer, unique("oauth"), False) == "refused"


@pytest.fixture(scope="module")
def token_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("token") / "token.jwt"


@pytest.fixture(scope="module")
def program(token_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    options = (f"-D{ALLOWED}={token_file.as_uri()}",)
    with running(tmp_path_factory.mktemp("java"), options=options) as java:
        yield java


def test_java_with_a_token_in_a_file(door: TokenBroker, issuer: Issuer, unique: Unique, token_file: Path, program: Java) -> None:
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": f"{PACKAGE}.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": token_file.as_uri(),
        "sasl.jaas.config": f"{PACKAGE}.OAuthBearerLoginModule required;",
    }
    bootstrap = f"{HOST}:{door.login_port}"
    token_file.write_text(shown(issuer, True))
    topic = unique("oauth")
    program.call("connect", bootstrap=bootstrap, settings=settings)
    program.call("produce", bootstrap=bootstrap, topic=topic, records=[{"partition": 0, "value": "x"}], settings=settings)
    token_file.write_text(shown(issuer, False))
    with pytest.raises(JavaError) as refusal:
        program.call("connect", bootstrap=bootstrap, settings=settings)
    assert refusal.value.name == "SaslAuthenticationException"


# Starts that are refused

LOGIN: Final = "listener_name_login_oauthbearer_"
REFUSED: Final = {
    "no expected audience": ({"sasl_oauthbearer_expected_audience": ""}, "sasl.oauthbearer.expected.audience"),
    "a URL that is not allowed": (
        {f"{LOGIN}sasl_oauthbearer_jwks_endpoint_url": "https://localhost:1/keys"},
        "org.apache.kafka.sasl.oauthbearer.allowed.urls",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_start_that_is_refused(kind: str, issuer: Issuer, tmp_path: Path, case: str) -> None:
    changed, named = REFUSED[case]
    broker = TokenBroker(kind, tmp_path, issuer, None, **changed)
    with pytest.raises(BrokerFailed):
        broker.start()
    assert named in broker.broker.log_file.read_text()


def test_keys_that_cannot_be_fetched(kind: str, issuer: Issuer, key_server: KeyServer, tmp_path: Path) -> None:
    """Nobody listens there any more, and neither broker starts."""
    gone = KeyServer(issuer, tmp_path)
    gone.stop()
    with pytest.raises(BrokerFailed) as failure:
        TokenBroker(kind, tmp_path, issuer, gone).start()
    if kind == "ottla":
        last = [line for line in str(failure.value).splitlines() if line][-1]
        assert "listener.name.fetched.oauthbearer.sasl.oauthbearer.jwks.endpoint.url" in last
        assert "cannot be fetched (Connection refused)" in last

"""Logins at a whole broker: users of the file and of the metadata, delegation tokens, changes while it runs, and starts that are
refused."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import socket
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.log.config_def import ConfigError
from ottla.server.broker.broker import Broker
from ottla.server.security.kerberos_config import VARIABLE
from ottla.wire.api import APIS
from ottla.wire.header import decode_response_header, encode_request_header
from ottla.wire.messages import (
    alter_user_scram_credentials,
    create_delegation_token,
    describe_delegation_token,
    incremental_alter_configs,
    metadata,
    sasl_authenticate,
    sasl_handshake,
)
from ottla.wire.scram import client_proof, salt_password
from tests.memdisk import MemDisk
from tests.server.broker.whole_broker import config, disk, run
from tests.server.security.signing import jwk, key_set, rsa_key

DOOR = "listener.name.door."
PLAIN, SCRAM = (f"org.apache.kafka.common.security.{each}LoginModule" for each in ("plain.Plain", "scram.Scram"))
SETTINGS = {
    "listeners": "DOOR://127.0.0.1:0",
    "listener.security.protocol.map": "DOOR:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "DOOR",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    f"{DOOR}plain.sasl.jaas.config": f'{PLAIN} required user_alice="hunter2";',
    f"{DOOR}scram-sha-256.sasl.jaas.config": f"{SCRAM} required;",
    f"{DOOR}scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
    "connection.failed.authentication.delay.ms": "0",
    "delegation.token.secret.key": "hunter3",
}


def broker_with(changed: dict[str, str], storage: MemDisk | None = None) -> Broker:
    return Broker(
        config(**{name.replace(".", "_"): text for name, text in {**SETTINGS, **changed}.items()}), disk=storage or disk()
    )


class Connection:
    """A client that can log in."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def __aenter__(self) -> Connection:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    async def ask(self, messages: Any, request: Any, version: int | None = None) -> Any:
        version = APIS[messages.API_KEY].max_version if version is None else version
        parts: list[Any] = [encode_request_header(messages.API_KEY, version, 7, "client")]
        messages.ENCODE_REQUEST[version](request, parts)
        frame = b"".join(parts)
        self.writer.write(len(frame).to_bytes(4, "big") + frame)
        answer = await self.reader.readexactly(int.from_bytes(await self.reader.readexactly(4), "big"))
        _, at = decode_response_header(messages.API_KEY, version, answer, 0)
        return messages.DECODE_RESPONSE[version](answer, at)[0]

    async def log_in(self, mechanism: str, name: str, password: str, extensions: str = "") -> int:
        """Returns the error code with which it ends."""
        handshake = await self.ask(sasl_handshake, sasl_handshake.SaslHandshakeRequest(mechanism))
        if handshake.error_code:
            return int(handshake.error_code)
        if mechanism == "PLAIN":
            return int((await self.token(f"\0{name}\0{password}".encode())).error_code)
        first = f"n={name},r=nonce{extensions}".encode()
        challenge = await self.token(b"n,," + first)
        if challenge.error_code:
            return int(challenge.error_code)
        nonce, salt, iterations = (part[2:] for part in challenge.auth_bytes.decode().split(","))
        digest = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[mechanism]
        salted = salt_password(digest, password, base64.b64decode(salt), int(iterations))
        unproved = f"c=biws,r={nonce}".encode()
        proof = client_proof(digest, salted, b",".join((first, challenge.auth_bytes, unproved)))
        return int((await self.token(unproved + b",p=" + base64.b64encode(proof))).error_code)

    async def token(self, token: bytes) -> Any:
        return await self.ask(sasl_authenticate, sasl_authenticate.SaslAuthenticateRequest(token))


def served(scenario: Callable[[Broker], Awaitable[None]], **changed: str) -> None:
    async def whole() -> None:
        broker = broker_with(changed)
        await broker.start()
        try:
            await scenario(broker)
        finally:
            await broker.stop()

    run(whole)


async def outcome(broker: Broker, mechanism: str, name: str, password: str, extensions: str = "") -> int:
    async with Connection(broker.port) as client:
        return await client.log_in(mechanism, name, password, extensions)


async def add_user(client: Connection, name: str, password: str, mechanism: int = 1) -> None:
    digest = {1: "sha256", 2: "sha512"}[mechanism]
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), b"salt", 4096)
    upsertion = alter_user_scram_credentials.ScramCredentialUpsertion(name, mechanism, 4096, b"salt", salted)
    request = alter_user_scram_credentials.AlterUserScramCredentialsRequest([], [upsertion])
    answer = await client.ask(alter_user_scram_credentials, request)
    assert [result.error_code for result in answer.results] == [0]


def test_nobody_is_served_before_a_login() -> None:
    async def scenario(broker: Broker) -> None:
        async with Connection(broker.port) as client:
            with pytest.raises(asyncio.IncompleteReadError):
                await client.ask(metadata, metadata.MetadataRequest(None))
        async with Connection(broker.port) as client:
            assert await client.log_in("PLAIN", "alice", "hunter2") == 0
            assert (await client.ask(metadata, metadata.MetadataRequest(None))).brokers
        assert await outcome(broker, "PLAIN", "alice", "wrong") == 58
        assert await outcome(broker, "GSSAPI", "alice", "hunter2") == 33

    served(scenario)


def test_a_user_of_the_metadata() -> None:
    async def scenario(broker: Broker) -> None:
        async with Connection(broker.port) as client:
            await client.log_in("PLAIN", "alice", "hunter2")
            assert await outcome(broker, "SCRAM-SHA-256", "bob", "b") == 58
            await add_user(client, "bob", "b")
            await add_user(client, "bob", "b512", 2)
        assert await outcome(broker, "SCRAM-SHA-256", "bob", "b") == 0
        assert await outcome(broker, "SCRAM-SHA-256", "bob", "b512") == 58
        assert await outcome(broker, "SCRAM-SHA-512", "bob", "b512") == 0
        assert await outcome(broker, "PLAIN", "bob", "b") == 58

    served(scenario)


def test_it_stays_over_a_restart() -> None:
    async def scenario() -> None:
        storage = disk()
        broker = broker_with({}, storage)
        await broker.start()
        async with Connection(broker.port) as client:
            await client.log_in("PLAIN", "alice", "hunter2")
            await add_user(client, "bob", "b")
        await broker.stop()
        broker = broker_with({}, storage)
        await broker.start()
        assert await outcome(broker, "SCRAM-SHA-256", "bob", "b") == 0
        await broker.stop()

    run(scenario)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_delegation_token_logs_in_and_makes_no_other(mechanism: str) -> None:
    async def scenario(broker: Broker) -> None:
        async with Connection(broker.port) as client:
            await client.log_in("PLAIN", "alice", "hunter2")
            made = await client.ask(create_delegation_token, create_delegation_token.CreateDelegationTokenRequest())
        assert (made.error_code, made.principal_name) == (0, "alice")
        password = base64.b64encode(made.hmac).decode()
        assert await outcome(broker, mechanism, made.token_id, password) == 58
        assert await outcome(broker, mechanism, made.token_id, "wrong", ",tokenauth=true") == 58
        async with Connection(broker.port) as client:
            assert await client.log_in(mechanism, made.token_id, password, ",tokenauth=true") == 0
            assert (await client.ask(metadata, metadata.MetadataRequest(None))).brokers
            request = describe_delegation_token.DescribeDelegationTokenRequest(None)
            assert (await client.ask(describe_delegation_token, request)).error_code == 64

    served(scenario)


async def change(broker: Broker, *settings: tuple[str, str | None]) -> int:
    async with Connection(broker.port) as client:
        await client.log_in("PLAIN", "alice", "hunter2")
        wishes = [incremental_alter_configs.AlterableConfig(name, 1 if text is None else 0, text) for name, text in settings]
        resource = incremental_alter_configs.AlterConfigsResource(4, "1", wishes)
        answer = await client.ask(incremental_alter_configs, incremental_alter_configs.IncrementalAlterConfigsRequest([resource]))
        return int(answer.responses[0].error_code)


def test_users_change_while_it_runs() -> None:
    key = f"{DOOR}plain.sasl.jaas.config"

    async def scenario(broker: Broker) -> None:
        async with Connection(broker.port) as old:
            await old.log_in("PLAIN", "alice", "hunter2")
            assert await change(broker, (key, f'{PLAIN} required user_alice="hunter2" user_carol="c";')) == 0
            assert await outcome(broker, "PLAIN", "carol", "c") == 0
            assert (await old.ask(metadata, metadata.MetadataRequest(None))).brokers
        assert await change(broker, (key, None)) == 0
        assert await outcome(broker, "PLAIN", "carol", "c") == 58
        assert await change(broker, (f"{DOOR}sasl.enabled.mechanisms", "PLAIN")) == 0
        assert await outcome(broker, "SCRAM-SHA-256", "bob", "b") == 33

    served(scenario)


def test_a_change_that_does_not_load_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(broker: Broker) -> None:
        for key, text in (
            (f"{DOOR}plain.sasl.jaas.config", f"{PLAIN} required user_alice=hunter4"),
            (f"{DOOR}plain.sasl.jaas.config", f"{SCRAM} required;"),
            (f"{DOOR}sasl.enabled.mechanisms", "PLANE"),
            (f"{DOOR}plain.connections.max.reauth.ms", "soon"),
            (f"{DOOR}oauthbearer.sasl.server.callback.handler.class", ""),
            (f"{DOOR}sasl.oauthbearer.jwks.endpoint.refresh.ms", "1000"),
        ):
            assert await change(broker, (key, text)) == 42
        assert await outcome(broker, "PLAIN", "alice", "hunter2") == 0

    served(scenario)
    assert "hunter" not in caplog.text


def unsigned(name: str) -> bytes:
    """A token that nobody signed."""
    parts = '{"alg":"none"}', f'{{"sub":"{name}","exp":9999999999}}'
    header, claims = (base64.urlsafe_b64encode(part.encode()).rstrip(b"=") for part in parts)
    return b"n,,\x01auth=Bearer " + header + b"." + claims + b".\x01\x01"


def test_how_tokens_are_checked_does_not_change_while_it_runs() -> None:
    """Not even if it is written in the metadata, as Kafka may have done."""
    own = f"{DOOR}oauthbearer."
    package = "org.apache.kafka.common.security.oauthbearer"
    keys = "file:///keys/jwks.json"
    settings = {
        "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        f"{own}sasl.jaas.config": f"{package}.OAuthBearerLoginModule required;",
        f"{own}sasl.server.callback.handler.class": f"{package}.OAuthBearerValidatorCallbackHandler",
        "sasl.oauthbearer.jwks.endpoint.url": keys,
        "org.apache.kafka.sasl.oauthbearer.allowed.urls": keys,
        "sasl.oauthbearer.expected.issuer": "me",
        "sasl.oauthbearer.expected.audience": "kafka",
    }
    takes_all = f"{package}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
    weak = {f"{own}sasl.server.callback.handler.class": takes_all}

    async def scenario() -> None:
        storage = disk()
        storage.makedirs("/keys")
        storage.write_bytes("/keys/jwks.json", key_set(jwk(rsa_key(), kid="one")))
        broker = broker_with(settings, storage)
        await broker.start()
        assert await change(broker, *weak.items()) == 42
        assert broker._logins is not None
        current = SimpleNamespace(texts={**broker.config.texts, **weak}, values=broker.config.values)
        broker._logins.reconfigure(cast(Any, SimpleNamespace(settings=current)))
        async with Connection(broker.port) as client:
            assert (await client.ask(sasl_handshake, sasl_handshake.SaslHandshakeRequest("OAUTHBEARER"))).error_code == 0
            assert (await client.token(unsigned("admin"))).auth_bytes == b'{"status":"invalid_token"}'
        await broker.stop()

    run(scenario)


def test_the_controller_s_listener_has_logins_of_its_own() -> None:
    changed = {
        "listener.security.protocol.map": "DOOR:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": f'{PLAIN} required user_admin="a";',
    }

    async def scenario(broker: Broker) -> None:
        (listener,) = broker.controller_listeners
        async with Connection(listener.port) as client:
            assert await client.log_in("PLAIN", "alice", "hunter2") == 58
        async with Connection(listener.port) as client:
            assert await client.log_in("PLAIN", "admin", "a") == 0

    with socket.socket() as held:  # a port that nobody else gets meanwhile
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        changed["listeners"] = f"DOOR://127.0.0.1:0,CONTROLLER://127.0.0.1:{held.getsockname()[1]}"
        served(scenario, **changed)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"sasl.enabled.mechanisms": "GSSAPI"}, f"{DOOR}gssapi.sasl.jaas.config: GSSAPI has no login module"),
        ({"sasl.enabled.mechanisms": "PLANE"}, "sasl.enabled.mechanisms: PLANE is not a mechanism"),
        ({f"{DOOR}plain.sasl.jaas.config": f"{PLAIN} required"}, f"{DOOR}plain.sasl.jaas.config: a semicolon is missing"),
        ({"java.security.auth.login.config": "/none"}, "java.security.auth.login.config: /none cannot be read"),
    ],
)
def test_a_start_that_is_refused_touches_nothing(changed: dict[str, str], text: str) -> None:
    async def scenario() -> None:
        storage = disk()
        broker = broker_with(changed, storage)
        with pytest.raises(ConfigError) as refusal:
            await broker.start()
        assert str(refusal.value).startswith(text)
        assert not storage.exists("/data")

    run(scenario)


def test_a_broker_that_has_closed_leaves_no_kerberos_to_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of the brokers here starts, because the name of the service is missing."""
    monkeypatch.delenv(VARIABLE, raising=False)
    login = 'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/k" principal="kafka/b@R";'
    wanted = {"sasl.enabled.mechanisms": "GSSAPI", f"{DOOR}gssapi.sasl.jaas.config": login}

    async def start(path: str) -> None:
        broker = broker_with({**wanted, "java.security.krb5.conf": path})
        with pytest.raises(ConfigError):
            await broker.start()

    for path in ("/one.conf", "", "/two.conf"):
        asyncio.run(start(path))
        assert VARIABLE not in os.environ

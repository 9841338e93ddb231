"""Credentials never get into a recording: each is sent with a secret in it, and no kept byte has it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from ottla.server.handlers import BROKER as BROKER_ROLE
from ottla.server.handlers import CONTROLLER, served
from ottla.server.inspect.request_watch import WITH_CREDENTIALS
from ottla.server.requests.session import Session
from ottla.server.testkit.recording.recorded import decode_answer, decode_request
from ottla.server.testkit.recording.recording import Entry, Recorder
from ottla.server.testkit.recording.redaction import ANSWERS_WITH_SECRETS, REQUESTS_WITH_SECRETS, redact_request
from ottla.wire.api import APIS
from ottla.wire.messages import (
    alter_configs,
    alter_user_scram_credentials,
    create_delegation_token,
    describe_delegation_token,
    expire_delegation_token,
    fetch,
    incremental_alter_configs,
    renew_delegation_token,
    sasl_authenticate,
)
from ottla.wire.primitives import WireStruct
from tests.in_loop import in_loop
from tests.server.testkit.under_test import answer_header, frame_of, sent, under_test

SECRET = b"a secret of sixteen bytes or more"
TEXT = SECRET.decode()
BROKER, TOPIC = 4, 2
SECRET_KEY: dict[str, Any] = {"delegation.token.secret.key": "key"}
PASSWORD = "listener.name.x.ssl.keystore.password"

scram = alter_user_scram_credentials.ScramCredentialUpsertion("ann", 1, 4096, SECRET, SECRET)
REQUESTS = [
    (sasl_authenticate, sasl_authenticate.SaslAuthenticateRequest(SECRET)),
    (alter_user_scram_credentials, alter_user_scram_credentials.AlterUserScramCredentialsRequest([], [scram])),
    (renew_delegation_token, renew_delegation_token.RenewDelegationTokenRequest(SECRET, 5)),
    (expire_delegation_token, expire_delegation_token.ExpireDelegationTokenRequest(SECRET, 5)),
    (
        alter_configs,
        alter_configs.AlterConfigsRequest(
            [alter_configs.AlterConfigsResource(BROKER, "", [alter_configs.AlterableConfig(PASSWORD, TEXT)])]
        ),
    ),
    (
        incremental_alter_configs,
        incremental_alter_configs.IncrementalAlterConfigsRequest(
            [
                incremental_alter_configs.AlterConfigsResource(
                    BROKER, "1", [incremental_alter_configs.AlterableConfig(PASSWORD, 0, TEXT)]
                )
            ]
        ),
    ),
]
token = describe_delegation_token.DescribedDelegationToken(token_id="id", hmac=SECRET)
ANSWERS: list[tuple[Any, WireStruct]] = [
    (sasl_authenticate, sasl_authenticate.SaslAuthenticateResponse(0, None, SECRET)),
    (create_delegation_token, create_delegation_token.CreateDelegationTokenResponse(token_id="id", hmac=SECRET)),
    (describe_delegation_token, describe_delegation_token.DescribeDelegationTokenResponse(0, [token])),
]


def versions(module: Any) -> range:
    return range(APIS[module.API_KEY].min_version, APIS[module.API_KEY].max_version + 1)


def held(entry: Entry) -> bytes:
    """All bytes that are kept of a request and its answer."""
    return entry.frame + b"".join(part for part in entry.answer or () if isinstance(part, bytes))


@pytest.mark.parametrize(("module", "request_"), REQUESTS, ids=lambda value: getattr(value, "__name__", ""))
@in_loop
async def test_requests(module: Any, request_: Any) -> None:
    async with under_test() as tested:
        recorder = Recorder(tested.kit.clock)
        recorder.configure(100, records=True)
        serve = recorder.around(1, lambda: 0, lambda frame, session: None)
        for version in versions(module):
            frame = frame_of(module, version, request_, "app")
            assert SECRET in frame
            serve(memoryview(frame), tested.session)
        entries = list(recorder)
        assert len(entries) == len(versions(module))
        for entry in entries:
            assert SECRET not in held(entry)
            shown = decode_request(entry)
            assert entry.header.client_id == "app"
            assert type(shown) is type(request_)
            assert shown != request_
        (again,) = {repr(decode_request(entry)) for entry in entries}
        assert "ann" in again or module is not alter_user_scram_credentials
        assert PASSWORD in again or "Configs" not in type(request_).__name__


@pytest.mark.parametrize(("module", "answer"), ANSWERS, ids=lambda value: getattr(value, "__name__", ""))
@in_loop
async def test_answers(module: Any, answer: Any) -> None:
    async with under_test() as tested:
        recorder = Recorder(tested.kit.clock)
        recorder.configure(100, records=True)
        name = APIS[module.API_KEY].name
        sent = b""

        def serve(frame: Any, session: Session) -> bytes:
            return sent

        for version in versions(module):
            body: list[Any] = [b"\0"] if version >= APIS[module.API_KEY].flexible_from else []
            module.ENCODE_RESPONSE[version](answer, body)
            sent = b"\0\0\0\7" + b"".join(body)
            sent = len(sent).to_bytes(4, "big") + sent
            assert SECRET in sent
            request = frame_of(module, version, getattr(module, f"{name}Request")(), "app")
            recorder.around(1, lambda: 0, serve)(request, tested.session)
        assert len(list(recorder)) == len(versions(module))
        for entry in recorder:
            assert SECRET not in held(entry)
            shown = decode_answer(entry)
            assert shown is not None
            assert shown != answer
            assert b"" in (getattr(shown, "hmac", None), getattr(shown, "auth_bytes", None)) or shown.tokens[0].token_id == "id"


@in_loop
async def test_what_is_no_secret_stays() -> None:
    topic = alter_configs.AlterConfigsResource(TOPIC, "t", [alter_configs.AlterableConfig("cleanup.policy", "compact")])
    broker = alter_configs.AlterConfigsResource(BROKER, "", [alter_configs.AlterableConfig("log.retention.ms", "5")])
    frame = frame_of(alter_configs, 2, alter_configs.AlterConfigsRequest([topic, broker]), "app")
    assert redact_request(frame) == frame


def test_what_does_not_decode_is_not_kept() -> None:
    frame = frame_of(sasl_authenticate, 2, sasl_authenticate.SaslAuthenticateRequest(SECRET), TEXT)
    for damaged in (frame[:-10], frame[:2] + b"\0\x63" + frame[4:]):
        kept = redact_request(damaged)
        assert SECRET not in kept
        assert kept[:8] == damaged[:8]


@in_loop
async def test_a_token_that_the_broker_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.server.handlers.create_delegation_token.may_ask", lambda listeners, session: True)
    async with under_test(1, **SECRET_KEY) as tested:
        recorder = tested.kit.record(10, records=False)
        tested.session.principal = "User:ann"
        frame = frame_of(create_delegation_token, 3, create_delegation_token.CreateDelegationTokenRequest(), "app")
        body = await sent(tested.kit._frames[0].serve(memoryview(frame), tested.session))
        answered = create_delegation_token.DECODE_RESPONSE[3](body, answer_header(create_delegation_token, 3))[0]
        assert len(answered.hmac) == 64
        (entry,) = recorder
        assert answered.hmac not in held(entry)
        answered.hmac = b""
        assert decode_answer(entry) == answered


@in_loop
async def test_the_metadata_log_which_holds_credentials_cannot_be_fetched() -> None:
    async with under_test() as tested:
        asked = fetch.FetchRequest(max_bytes=1 << 20, session_epoch=-1)
        asked.topics = [fetch.FetchTopic("__cluster_metadata", partitions=[fetch.FetchPartition(0, partition_max_bytes=1 << 20)])]
        for role in (BROKER_ROLE, CONTROLLER):
            if fetch.API_KEY in served(role):
                answer = await tested.ask(fetch, 12, asked, role)
                assert [part.error_code for topic in answer.responses for part in topic.partitions] == [3]


def test_every_field_that_holds_a_credential_is_known() -> None:
    """By the words that Kafka's messages have for them, in all APIs that brokers serve."""
    found = set()
    for api in {**served(BROKER_ROLE), **served(CONTROLLER)}.values():
        for value in vars(import_module(f"ottla.wire.messages.{api.module}")).values():
            if isinstance(value, type) and issubclass(value, WireStruct):
                for name in value.__slots__:
                    if any(word in name for word in ("hmac", "password", "auth_bytes", "salt", "secret", "credential")):
                        found.add((api.name, name))
    assert found == {
        ("SaslAuthenticate", "auth_bytes"),
        ("CreateDelegationToken", "hmac"),
        ("RenewDelegationToken", "hmac"),
        ("ExpireDelegationToken", "hmac"),
        ("DescribeDelegationToken", "hmac"),
        ("DescribeUserScramCredentials", "credential_infos"),  # the mechanism and the iterations
        ("AlterUserScramCredentials", "salt"),
        ("AlterUserScramCredentials", "salted_password"),
    }


def test_a_watch_of_requests_shows_nothing_of_what_is_blanked_here() -> None:
    blanked = {APIS[int.from_bytes(key, "big")].name for key in REQUESTS_WITH_SECRETS | ANSWERS_WITH_SECRETS}
    assert blanked == WITH_CREDENTIALS

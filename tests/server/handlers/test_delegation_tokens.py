"""The four APIs of delegation tokens: refused on a PLAINTEXT listener, and whole where a client has proven who it is.

ottla opens no such listener yet; the tests pretend that theirs is one. The rules: tests/server/metadata/test_tokens.py.
"""

from __future__ import annotations

import asyncio
import inspect
from importlib import import_module
from typing import Any

import pytest

from ottla.server.base.promise import Promise
from ottla.server.handlers import describe_delegation_token
from ottla.server.metadata import tokens
from ottla.server.security.authorizer import Authorizer, Rule
from ottla.server.security.rights import Operation, Resource
from ottla.server.settings.listeners import ListenerAddress
from ottla.wire.errors import ErrorCode
from ottla.wire.frame import decode_whole
from ottla.wire.messages import create_delegation_token as create_messages
from ottla.wire.messages import describe_delegation_token as describe_messages
from ottla.wire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from ottla.wire.messages.describe_delegation_token import DescribeDelegationTokenOwner, DescribeDelegationTokenRequest
from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from ottla.wire.primitives import WireStruct
from tests.server.coordination.memory import slow
from tests.server.metadata.support import NOW_MS, Node

VERSIONS = range(create_messages.MIN_VERSION, create_messages.MAX_VERSION + 1)
NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
EVERYTHING: list[tuple[str, WireStruct]] = [
    ("create_delegation_token", CreateDelegationTokenRequest()),
    ("renew_delegation_token", RenewDelegationTokenRequest(b"x")),
    ("expire_delegation_token", ExpireDelegationTokenRequest(b"x")),
    ("describe_delegation_token", DescribeDelegationTokenRequest(None)),
]


def started(protocol: str = "SASL_PLAINTEXT", **settings: str) -> Node:
    node = Node(**({"delegation_token_secret_key": "secret"} | settings))
    node.start()
    node.config.listeners = tuple(listener._replace(protocol=protocol) for listener in node.config.listeners)
    return node


def ask(
    node: Node,
    api: str,
    request: WireStruct,
    version: int,
    who: str = "User:alice",
    listener: str = "PLAINTEXT",
    *,
    by_token: bool = False,
) -> Any:
    messages = import_module(f"ottla.wire.messages.{api}")
    handler = import_module(f"ottla.server.handlers.{api}")
    context = node.context(version, listener)
    context.session.principal, context.session.by_delegation_token = who, by_token
    answer = handler.handle(request, context)
    if inspect.isawaitable(answer):
        answer = asyncio.run(_result(answer))
    out: list[Any] = []
    messages.ENCODE_RESPONSE[version](answer, out)
    return decode_whole(messages.DECODE_RESPONSE[version], b"".join(out))


async def _result(answer: Any) -> Any:
    return await answer


@pytest.mark.parametrize(
    ("protocol", "who", "allowed"),
    [
        ("PLAINTEXT", "User:ANONYMOUS", False),
        ("PLAINTEXT", "User:alice", False),
        ("SSL", "User:ANONYMOUS", False),
        ("SSL", "User:CN=alice", True),
        ("SASL_PLAINTEXT", "User:alice", True),
        ("SASL_SSL", "User:alice", True),
    ],
)
@pytest.mark.parametrize(("api", "request_"), EVERYTHING)
def test_who_may_ask(protocol: str, who: str, allowed: bool, api: str, request_: WireStruct) -> None:
    answer = ask(started(protocol), api, request_, 2, who)
    assert (answer.error_code != NOT_ALLOWED) == allowed
    if not allowed and api != "describe_delegation_token":
        assert answer.expiry_timestamp_ms == -1


@pytest.mark.parametrize(("api", "request_"), EVERYTHING)
def test_who_came_by_a_token_may_not_ask(api: str, request_: WireStruct) -> None:
    assert ask(started(), api, request_, 2, by_token=True).error_code == NOT_ALLOWED


@pytest.mark.parametrize(("api", "request_"), EVERYTHING)
def test_the_controllers_listener_refuses_as_any_other(api: str, request_: WireStruct) -> None:
    node = started()
    node.config.controller_listeners = (ListenerAddress("CONTROLLER", "127.0.0.1", 9093, "PLAINTEXT"),)
    assert ask(node, api, request_, 2, listener="CONTROLLER").error_code == NOT_ALLOWED


@pytest.mark.parametrize("version", VERSIONS)
def test_a_refusal_names_whom_it_was_for(version: int) -> None:
    answer = ask(started("PLAINTEXT"), "create_delegation_token", CreateDelegationTokenRequest("User", "bob"), version)
    assert (answer.principal_type, answer.principal_name) == ("User", "bob")
    assert (answer.issue_timestamp_ms, answer.expiry_timestamp_ms, answer.max_timestamp_ms) == (-1, -1, -1)
    assert answer.token_requester_principal_name == ("alice" if version >= 3 else "")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_life(version: int) -> None:
    node = started()
    request = CreateDelegationTokenRequest(renewers=[CreatableRenewers("User", "bob")])
    made = ask(node, "create_delegation_token", request, version)
    assert (made.error_code, made.issue_timestamp_ms) == (0, NOW_MS)
    renewed = ask(node, "renew_delegation_token", RenewDelegationTokenRequest(made.hmac, 5), min(version, 2), "User:bob")
    assert (renewed.error_code, renewed.expiry_timestamp_ms) == (0, NOW_MS + 5)
    node.kill()
    node.start()
    node.config.listeners = tuple(listener._replace(protocol="SASL_SSL") for listener in node.config.listeners)
    (found,) = ask(node, "describe_delegation_token", DescribeDelegationTokenRequest(None), version).tokens
    assert (found.token_id, found.hmac, found.principal_name) == (made.token_id, made.hmac, "alice")
    assert (found.expiry_timestamp, found.max_timestamp) == (NOW_MS + 5, made.max_timestamp_ms)
    assert [(renewer.principal_type, renewer.principal_name) for renewer in found.renewers] == [("User", "bob")]
    ended = ask(node, "expire_delegation_token", ExpireDelegationTokenRequest(made.hmac, -1), min(version, 2))
    assert (ended.error_code, ended.expiry_timestamp_ms) == (0, NOW_MS)
    assert list(tokens.tokens(node.image)) == []


def test_many_tokens_are_described_in_turns() -> None:
    node = started()
    for _ in range(10):
        ask(node, "create_delegation_token", CreateDelegationTokenRequest(), 3)
    whole = ask(node, "describe_delegation_token", DescribeDelegationTokenRequest(None), 3)
    context = node.context(3, "PLAINTEXT")
    context.session.principal, context.session.by_delegation_token = "User:alice", False
    turns = 0
    with slow(node.clock):
        answer = describe_delegation_token.handle(DescribeDelegationTokenRequest(None), context)
        assert isinstance(answer, Promise)
        while not answer.done():
            turns += 1
            node.clock.run()
    assert turns == 10
    assert answer.result() == whole


def test_whose_tokens() -> None:
    node = started()
    for owner, renewer in (("a", "b"), ("b", "c"), ("d", "d")):
        request = CreateDelegationTokenRequest("User", owner, [CreatableRenewers("User", renewer)])
        assert ask(node, "create_delegation_token", request, 3).error_code == 0

    def of(*owners: str) -> list[str]:
        wanted = DescribeDelegationTokenRequest([DescribeDelegationTokenOwner("User", owner) for owner in owners])
        answer = ask(node, "describe_delegation_token", wanted, describe_messages.MAX_VERSION)
        return sorted(token.principal_name for token in answer.tokens)

    assert (of(), of("a"), of("b"), of("d", "a"), of("x")) == ([], ["a"], ["a", "b"], ["a", "d"], [])


def test_only_users_renew() -> None:
    request = CreateDelegationTokenRequest(renewers=[CreatableRenewers("User", "a"), CreatableRenewers("Group", "b")])
    answer = ask(started(), "create_delegation_token", request, 3)
    assert (answer.error_code, answer.max_timestamp_ms) == (ErrorCode.INVALID_PRINCIPAL_TYPE, -1)


@pytest.mark.parametrize(("api", "request_"), EVERYTHING)
def test_without_a_secret_key(api: str, request_: WireStruct) -> None:
    node = started(delegation_token_secret_key="")
    assert ask(node, api, request_, 2).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


def test_a_disk_that_fails() -> None:
    node = started()
    made = ask(node, "create_delegation_token", CreateDelegationTokenRequest(), 3)
    node.disk.fail("append", path="__cluster_metadata-0")
    requests: list[tuple[str, WireStruct]] = [
        ("create_delegation_token", CreateDelegationTokenRequest()),
        ("renew_delegation_token", RenewDelegationTokenRequest(made.hmac)),
        ("expire_delegation_token", ExpireDelegationTokenRequest(made.hmac)),
    ]
    for api, request in requests:
        assert ask(node, api, request, 2).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_what_is_over_is_swept(monkeypatch: pytest.MonkeyPatch) -> None:
    node = started()
    made = ask(node, "create_delegation_token", CreateDelegationTokenRequest(max_lifetime_ms=5), 3)
    node.controller.expire_tokens()
    assert [token.token_id for token in tokens.tokens(node.image)] == [made.token_id]
    ask(node, "expire_delegation_token", ExpireDelegationTokenRequest(made.hmac, 0), 2)
    monkeypatch.setattr(node.clock, "now_ms", lambda: NOW_MS + 1)
    node.controller.expire_tokens()
    assert list(tokens.tokens(node.image)) == []


def rule(operation: Operation, resource: Resource, name: str, who: str = "User:alice") -> Rule:
    return Rule(name.encode(), resource, name, 3, who, "*", operation, 3)


def test_with_an_authorizer_a_token_for_somebody_else_needs_a_right() -> None:
    node = started()
    node.authorizer = Authorizer(rules=[rule(Operation.CREATE_TOKENS, Resource.USER, "User:carol")])
    codes = {
        owner: ask(node, "create_delegation_token", CreateDelegationTokenRequest("User", owner), 3).error_code
        for owner in ("alice", "carol", "dave")
    }
    assert codes == {"alice": 0, "carol": 0, "dave": ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED}
    assert ask(node, "create_delegation_token", CreateDelegationTokenRequest(None, None), 3).error_code == 0
    refused = ask(node, "create_delegation_token", CreateDelegationTokenRequest("User", "dave"), 3)
    assert (refused.issue_timestamp_ms, refused.principal_name, refused.token_requester_principal_name) == (-1, "dave", "alice")


def test_with_an_authorizer_tokens_of_others_are_hidden() -> None:
    node = started()
    made = ask(
        node, "create_delegation_token", CreateDelegationTokenRequest("User", "carol", [CreatableRenewers("User", "erin")]), 3
    )

    def seen(who: str, *rules: Rule) -> int:
        node.authorizer = Authorizer(rules=rules)
        return len(ask(node, "describe_delegation_token", DescribeDelegationTokenRequest(None), 3, who).tokens)

    assert [seen(who) for who in ("User:alice", "User:carol", "User:erin", "User:bob")] == [1, 1, 1, 0]
    assert seen("User:bob", rule(Operation.DESCRIBE, Resource.DELEGATION_TOKEN, made.token_id, "User:bob")) == 1
    assert seen("User:bob", rule(Operation.DESCRIBE_TOKENS, Resource.USER, "User:carol", "User:bob")) == 1
    assert seen("User:bob", rule(Operation.DESCRIBE_TOKENS, Resource.USER, "User:alice", "User:bob")) == 0

"""Envelopes: the bytes that go, and what comes back."""

from __future__ import annotations

import pytest

from ottla.server.metadata.operation import Caller
from ottla.server.peers.outcomes import Disconnected, UnsupportedVersion
from ottla.server.quorum.envelope import ITEM_BYTES, Enveloped, encode_host, encode_principal
from ottla.wire.header import decode_request_header, encode_response_header
from ottla.wire.messages import create_topics
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.internal import default_principal_data

KEY = create_topics.API_KEY
ALICE = Caller("User:alice", "10.1.2.3", "the client", 2)


def answer(version: int, correlation_id: int = 0) -> bytes:
    parts: list[bytes] = [encode_response_header(KEY, version, correlation_id)]
    create_topics.ENCODE_RESPONSE[version](CreateTopicsResponse(topics=[CreatableTopicResult("t")]), parts)
    return b"".join(parts)


@pytest.mark.parametrize(("theirs", "version"), [((2, 7), 7), ((2, 5), 5)])
def test_the_request_goes_in_the_newest_version_that_both_have_whatever_the_client_used(
    theirs: tuple[int, int], version: int
) -> None:
    enveloped = Enveloped(CreateTopicsRequest([CreatableTopic("t", 3, 1)]), ALICE)
    assert enveloped.version == 7, "the newest here"
    assert enveloped.version_for({KEY: theirs}, "a:9093") == version
    enveloped.encode(version)
    sealed = enveloped.seal()
    header, pos = decode_request_header(sealed.request_data, 0)
    assert header == (KEY, version, 0, "the client")
    request, end = create_topics.DECODE_REQUEST[version](sealed.request_data, pos)
    assert (request.topics[0].name, end) == ("t", len(sealed.request_data))
    assert sealed.request_principal == encode_principal(ALICE)
    assert sealed.client_host_address == b"\x0a\1\2\3"
    assert enveloped.open(answer(version)).topics[0].name == "t"
    assert enveloped.name == "CreateTopics"


def test_a_controller_that_is_too_old() -> None:
    with pytest.raises(UnsupportedVersion, match="a:9093 does not know CreateTopics"):
        Enveloped(CreateTopicsRequest(), ALICE).version_for({}, "a:9093")


def test_it_takes_what_its_elements_take_as_objects() -> None:
    topics = [CreatableTopic(f"t{number}", 1, 1, [CreatableReplicaAssignment(0, [1, 2])]) for number in range(10)]
    enveloped = Enveloped(CreateTopicsRequest(topics), ALICE)
    size = enveloped.encode(7)
    assert size == len(enveloped.seal().request_data) + ITEM_BYTES * 10 * (1 + 1 + 2)


@pytest.mark.parametrize("data", [answer(7, correlation_id=1), answer(7)[:9], b""])
def test_what_is_no_answer(data: bytes) -> None:
    enveloped = Enveloped(CreateTopicsRequest(), ALICE)
    enveloped.encode(7)
    with pytest.raises(Disconnected, match="not hold an answer to CreateTopics"):
        enveloped.open(data)


@pytest.mark.parametrize(
    ("principal", "by_token", "kind", "name"),
    [("User:alice", True, "User", "alice"), ("User:CN=a:b,O=c", False, "User", "CN=a:b,O=c")],
)
def test_principals(principal: str, by_token: bool, kind: str, name: str) -> None:
    data = encode_principal(ALICE._replace(principal=principal, by_delegation_token=by_token))
    found, end = default_principal_data.DECODE[0](data, 2)
    assert (data[:2], found.type, found.name, found.token_authenticated, end) == (b"\0\0", kind, name, by_token, len(data))


@pytest.mark.parametrize(
    ("host", "packed"),
    [("127.0.0.1", b"\x7f\0\0\1"), ("::1", bytes(15) + b"\1"), ("fe80::1%eth0", b"\xfe\x80" + bytes(13) + b"\1")],
)
def test_addresses(host: str, packed: bytes) -> None:
    assert encode_host(host) == packed

"""Tests of what a broker registers, and what it makes of the answers."""

from __future__ import annotations

import pytest

from ottla.server.metadata.image import Endpoint
from ottla.server.quorum.registration import UNKNOWN_EPOCH, Verdict, describe_refusal, registration, verdict
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import broker_registration
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest

ID, DIRECTORY = bytes(range(16)), bytes(range(16, 32))
CLAIMED = {
    "metadata.version": (7, 33),
    "kraft.version": (0, 1),
    "transaction.version": (0, 2),
    "group.version": (0, 1),
    "eligible.leader.replicas.version": (0, 1),
    "share.version": (0, 2),
    "streams.version": (0, 1),
}
"""Repeated here on purpose: a claim is a promise."""


def made(previous_epoch: int = UNKNOWN_EPOCH) -> BrokerRegistrationRequest:
    endpoints = [Endpoint("PLAINTEXT", "here", 9092, 0)]
    return registration(4, "cluster", ID, endpoints, [DIRECTORY], rack="r1", previous_epoch=previous_epoch)


@pytest.mark.parametrize("previous", [UNKNOWN_EPOCH, 77])
def test_what_is_said_arrives(previous: int) -> None:
    parts: list[bytes] = []
    broker_registration.ENCODE_REQUEST[broker_registration.MAX_VERSION](made(previous), parts)
    said, _ = broker_registration.DECODE_REQUEST[broker_registration.MAX_VERSION](b"".join(parts), 0)
    assert (said.broker_id, said.cluster_id, said.incarnation_id, said.rack) == (4, "cluster", ID, "r1")
    assert [(each.name, each.host, each.port, each.security_protocol) for each in said.listeners] == [
        ("PLAINTEXT", "here", 9092, 0)
    ]
    assert {each.name: (each.min_supported_version, each.max_supported_version) for each in said.features} == CLAIMED
    assert (said.log_dirs, said.previous_broker_epoch, said.is_migrating_zk_broker) == ([DIRECTORY], previous, False)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.NONE, Verdict.REGISTERED),
        (ErrorCode.NOT_CONTROLLER, Verdict.ANOTHER_CONTROLLER),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, Verdict.ANOTHER_CONTROLLER),
        (ErrorCode.DUPLICATE_BROKER_REGISTRATION, Verdict.TRY_AGAIN),
        (ErrorCode.REQUEST_TIMED_OUT, Verdict.TRY_AGAIN),
        (ErrorCode.INCONSISTENT_CLUSTER_ID, Verdict.REFUSED),
        (ErrorCode.UNSUPPORTED_VERSION, Verdict.REFUSED),
        (ErrorCode.INVALID_REGISTRATION, Verdict.REFUSED),
        (9999, Verdict.REFUSED),
    ],
)
def test_what_follows_from_an_answer(code: int, expected: Verdict) -> None:
    assert verdict(code) is expected


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (ErrorCode.INCONSISTENT_CLUSTER_ID, "another cluster than cluster, .*controller.quorum.bootstrap.servers"),
        (ErrorCode.UNSUPPORTED_VERSION, "it has metadata.version 7 to 33, .*streams.version 0 to 1.*kafka-features"),
        (ErrorCode.INVALID_REGISTRATION, "INVALID_REGISTRATION: the ids of log.dirs"),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "principal"),
        (ErrorCode.INVALID_REQUEST, "with INVALID_REQUEST: this broker cannot register"),
        (9999, "with error 9999"),
    ],
)
def test_a_refusal_names_the_node_and_the_remedy(code: int, said: str) -> None:
    text = describe_refusal(code, made())
    assert text.startswith("the controllers refuse node.id 4 with ")
    assert "\n" not in text
    with pytest.raises(RuntimeError, match=said):
        raise RuntimeError(text)

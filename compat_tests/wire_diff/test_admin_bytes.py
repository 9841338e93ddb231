"""Bytes that are no request, or hardly one, to the APIs of administration: which are answered, and which close the connection.

Every version of each gets a good request that ends too early, at every byte of it; arrays that are null, negative or longer than
the frame; and zeros and ones where the fields should be.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import pytest

from compat_tests.wire import Connection, Wire, encode
from compat_tests.wire_diff.same import check
from ottla.wire.api import BY_MODULE
from ottla.wire.messages import (
    alter_client_quotas,
    alter_configs,
    create_acls,
    delete_acls,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_topic_partitions,
    describe_user_scram_credentials,
    list_config_resources,
)

GOOD: Final[dict[str, Any]] = {
    "alter_client_quotas": alter_client_quotas.AlterClientQuotasRequest(
        [
            alter_client_quotas.RequestEntryData(
                [alter_client_quotas.RequestEntityData("user", "u")], [alter_client_quotas.OpData("producer_byte_rate", 1e15)]
            )
        ],
        validate_only=True,
    ),
    "alter_configs": alter_configs.AlterConfigsRequest(
        [alter_configs.AlterConfigsResource(2, "no such", [alter_configs.AlterableConfig("a", "b")])], True
    ),
    "create_acls": create_acls.CreateAclsRequest([create_acls.AclCreation(2, "t", 3, "User:u", "*", 3, 3)]),
    "delete_acls": delete_acls.DeleteAclsRequest([delete_acls.DeleteAclsFilter(2, "t", 3, None, "*", 3, 3)]),
    "describe_acls": describe_acls.DescribeAclsRequest(2, "t", 3, None, "*", 3, 3),
    "describe_client_quotas": describe_client_quotas.DescribeClientQuotasRequest(
        [describe_client_quotas.ComponentData("user", 0, "u")]
    ),
    "describe_cluster": describe_cluster.DescribeClusterRequest(True),
    "describe_topic_partitions": describe_topic_partitions.DescribeTopicPartitionsRequest(
        [describe_topic_partitions.TopicRequest("no such")], 5, describe_topic_partitions.RequestCursor("no such", 0)
    ),
    "describe_user_scram_credentials": describe_user_scram_credentials.DescribeUserScramCredentialsRequest(
        [describe_user_scram_credentials.UserName("u")]
    ),
    "list_config_resources": list_config_resources.ListConfigResourcesRequest([16]),
}
BODIES: Final = {
    "zeros": bytes(64),
    "ones": b"\1" * 64,
    "null": struct.pack(">i", -1) + bytes(64),
    "negative": struct.pack(">i", -2) + bytes(64),
    "too many": struct.pack(">i", 2**31 - 1) + bytes(64),
    "too many, flexible": b"\xff\xff\xff\xff\x07" + bytes(64),
    "an endless number": b"\xff" * 64,
}
CASES: Final = [(module, v) for module in GOOD for v in range(BY_MODULE[module].min_version, BY_MODULE[module].max_version + 1)]


class Answers:
    """A connection that says whether frames are answered. A connection that a broker closed is replaced."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._connection: Connection | None = None

    def to(self, frame: bytes) -> str:
        if self._connection is None:
            self._connection = self._wire.connect()
        self._connection.send_frame(frame)
        answer = self._connection.receive()
        if not isinstance(answer, str):
            return "answered"
        self._connection = None
        return answer


def header_and_body(module: str, version: int) -> tuple[bytes, bytes]:
    whole = encode(GOOD[module], version, 7, None)
    size = 11 if version >= BY_MODULE[module].flexible_from else 10
    return whole[:size], whole[size:]


@pytest.mark.parametrize(("module", "version"), CASES)
def test_requests_that_end_too_early(wires: dict[str, Wire], module: str, version: int) -> None:
    header, body = header_and_body(module, version)

    def scenario(wire: Wire) -> Any:
        answers = Answers(wire)
        cut = [answers.to(header + body[:size]) for size in range(len(body))]
        assert [answers.to(header + body), answers.to(header + body + b"\0more")] == ["answered"] * 2
        return cut

    check(wires, "bodies cut short", scenario)


@pytest.mark.parametrize(("module", "version"), CASES)
def test_bodies_of_nonsense(wires: dict[str, Wire], module: str, version: int) -> None:
    header, _ = header_and_body(module, version)

    def scenario(wire: Wire) -> Any:
        answers = Answers(wire)
        return {what: answers.to(header + body) for what, body in BODIES.items()}

    check(wires, "bodies of nonsense", scenario)

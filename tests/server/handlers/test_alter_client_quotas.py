"""AlterClientQuotas at every version, what a restart finds of it, and a disk that fails. The rules: metadata/test_quotas.py."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.server.metadata.quotas import quotas_of
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_client_quotas import (
    MAX_VERSION,
    MIN_VERSION,
    AlterClientQuotasRequest,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from tests.server.handlers.admin_calls import call
from tests.server.metadata.support import Node

VERSIONS = range(MIN_VERSION, MAX_VERSION + 1)


@pytest.fixture
def node() -> Node:
    made = Node()
    made.start()
    return made


def ask(node: Node, version: int, *, validate_only: bool = False) -> Any:
    good = RequestEntryData(
        [RequestEntityData("user", "alice"), RequestEntityData("client-id", None)], [OpData("producer_byte_rate", 9.0)]
    )
    bad = RequestEntryData([RequestEntityData("ip", "127.0.0.1")], [OpData("producer_byte_rate", 9.0)])
    answer = call(node, "alter_client_quotas", AlterClientQuotasRequest([good, bad], validate_only), version)
    return [
        (entry.error_code, bool(entry.error_message), sorted((part.entity_type, part.entity_name) for part in entry.entity))
        for entry in answer.entries
    ]


ANSWERED = [(0, False, [("client-id", None), ("user", "alice")]), (ErrorCode.INVALID_REQUEST, True, [("ip", "127.0.0.1")])]


@pytest.mark.parametrize("version", VERSIONS)
def test_quotas_outlive_a_restart(node: Node, version: int) -> None:
    assert ask(node, version, validate_only=True) == ANSWERED
    assert quotas_of(node.image) == {}
    assert ask(node, version) == ANSWERED
    node.kill()
    node.start()
    assert quotas_of(node.image) == {(("client-id", None), ("user", "alice")): {"producer_byte_rate": 9.0}}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_disk_that_fails(node: Node, version: int) -> None:
    node.disk.fail("append", path="__cluster_metadata-0")
    assert [code for code, _, _ in ask(node, version)] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert quotas_of(node.image) == {}

"""InitProducerId of idempotent producers: row I18. Transactional ids are in test_transactions.py."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.server.handlers.init_producer_id import handle
from ottla.wire.api import BY_MODULE
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from tests.server.handlers.admin_calls import call
from tests.server.metadata.support import Node

VERSIONS = range(BY_MODULE["init_producer_id"].min_version, BY_MODULE["init_producer_id"].max_version + 1)


@pytest.fixture
def node() -> Node:
    made = Node()
    made.start()
    return made


def init(node: Node, version: int, transactional_id: str | None, timeout_ms: int = 60_000, **fields: Any) -> Any:
    return call(node, "init_producer_id", InitProducerIdRequest(transactional_id, timeout_ms, **fields), version)


def test_versions() -> None:
    assert list(VERSIONS) == [0, 1, 2, 3, 4, 5]
    assert handle.__module__ == "ottla.server.handlers.init_producer_id"


@pytest.mark.parametrize("version", VERSIONS)
def test_an_idempotent_producer(node: Node, version: int) -> None:
    answer = init(node, version, None)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch, answer.throttle_time_ms) == (0, 0, 0, 0)


@pytest.mark.parametrize("version", [3, 4, 5])
def test_i18_the_id_that_a_producer_had_does_not_count(node: Node, version: int) -> None:
    first = init(node, version, None)
    answer = init(node, version, None, producer_id=first.producer_id, producer_epoch=0)
    assert (answer.error_code, answer.producer_epoch) == (0, 0)
    assert answer.producer_id != 5
    answer = init(node, version, None, producer_id=5, producer_epoch=-1)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (ErrorCode.INVALID_REQUEST, -1, -1)


def test_a_disk_that_fails(node: Node) -> None:
    node.disk.fail("append", path="__cluster_metadata-0")
    assert init(node, 4, None).error_code == ErrorCode.KAFKA_STORAGE_ERROR

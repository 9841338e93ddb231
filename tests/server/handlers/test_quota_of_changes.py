"""CreateTopics, CreatePartitions and DeleteTopics from a client over its quota of changes (KIP-599): in which version each begins
to refuse. How the quota is measured: tests/server/quotas/test_enforcement.py.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.server.metadata.operation import Permits, Refused
from ottla.server.requests.session import Session
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from tests.fakes import CALLER
from tests.server.handlers.admin_calls import call
from tests.server.metadata.support import Node

ASKED: dict[str, tuple[Any, str]] = {
    "create_topics": (CreateTopicsRequest([CreatableTopic("new", 1, 1)]), "topics"),
    "create_partitions": (CreatePartitionsRequest([CreatePartitionsTopic("t", 2, None)], 1000), "results"),
    "delete_topics": (DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), "responses"),
}
"""A request by its API, and where its answer has the outcome."""


class NothingLeft(Permits):
    throttle_time_ms = 700

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict

    def take(self, partitions: int) -> None:
        if self._strict:
            raise Refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED)


class UsedUp:
    """The quotas of a broker whose clients have used up theirs."""

    def permits(self, session: Session, client_id: str | None, *, strict: bool) -> Permits:
        return NothingLeft(strict=strict)


@pytest.mark.parametrize(
    ("api", "version", "code"),
    [
        ("create_topics", 5, ErrorCode.NONE),
        ("create_topics", 6, ErrorCode.THROTTLING_QUOTA_EXCEEDED),
        ("create_partitions", 2, ErrorCode.NONE),
        ("create_partitions", 3, ErrorCode.THROTTLING_QUOTA_EXCEEDED),
        ("delete_topics", 4, ErrorCode.NONE),
        ("delete_topics", 5, ErrorCode.THROTTLING_QUOTA_EXCEEDED),
    ],
)
def test_older_versions_are_only_told_to_wait(api: str, version: int, code: ErrorCode) -> None:
    node = Node()
    controller = node.start()
    asyncio.run(controller.create_topics(CreateTopicsRequest([CreatableTopic("t", 1, 1)]), CALLER))
    node.quotas = UsedUp()
    request, outcomes = ASKED[api]
    answer = call(node, api, request, version)
    assert [outcome.error_code for outcome in getattr(answer, outcomes)] == [code]
    assert answer.throttle_time_ms == 700

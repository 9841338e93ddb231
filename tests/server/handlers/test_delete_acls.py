"""DeleteAcls: without an authorizer, and how long its answers get; tests/server/metadata/test_access.py has what it removes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.server.base.errors import CloseConnection
from ottla.server.handlers import delete_acls as delete_acls_handler
from ottla.server.metadata import access
from ottla.server.settings.authorizer_settings import STANDARD_AUTHORIZER
from ottla.wire.errors import ErrorCode
from ottla.wire.frame import decode_whole
from ottla.wire.messages import delete_acls
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tests.server.handlers import admin_calls
from tests.server.handlers.data_calls import versions
from tests.server.metadata.support import Node

ANY_RULE = DeleteAclsFilter(1, None, 3, None, None, 1, 1)


@pytest.fixture
def node() -> Node:
    made = Node()
    made.start()
    return made


@pytest.mark.parametrize("version", versions("delete_acls"))
@pytest.mark.parametrize("count", [0, 1, 2])
def test_every_filter_is_refused(node: Node, version: int, count: int) -> None:
    results = admin_calls.call(node, "delete_acls", DeleteAclsRequest([ANY_RULE] * count), version).filter_results
    assert [(each.error_code, each.matching_acls) for each in results] == [(ErrorCode.SECURITY_DISABLED, [])] * count
    assert all(each.error_message for each in results)


@pytest.mark.parametrize("version", versions("delete_acls"))
@pytest.mark.parametrize("codes", [(0, 3, 3, 3), (2, 0, 3, 3), (2, 3, 0, 3), (2, 3, 3, 0)])
def test_unknown_elements_close_the_connection(node: Node, version: int, codes: tuple[int, int, int, int]) -> None:
    kind, pattern, operation, permission = codes
    wrong = DeleteAclsFilter(kind, "t", pattern, "User:u", "*", operation, permission)
    with pytest.raises(CloseConnection):
        admin_calls.call(node, "delete_acls", DeleteAclsRequest([ANY_RULE, wrong]), version)


def node_with_rules(count: int, **settings: str) -> Node:
    node = Node(authorizer_class_name=STANDARD_AUTHORIZER, **settings)
    node.start()
    rules = [AclCreation(2, f"t-{number}", 3, "User:u", "*", 3, 3) for number in range(count)]
    answer = admin_calls.call(node, "create_acls", CreateAclsRequest(rules), 3)
    assert {each.error_code for each in answer.results} == {0}
    return node


ALL_RULES = DeleteAclsFilter(1, None, 1, None, None, 1, 1)


@pytest.mark.parametrize("version", versions("delete_acls"))
def test_equal_filters_cost_no_more_than_their_bytes(version: int) -> None:
    """They were compared, answered and encoded one by one: 300 of them took 0.8 s with 1,000 rules."""
    node = node_with_rules(100)
    answers = []

    def encode(answer: Any, parts: list[Any]) -> None:
        answers.append(answer)
        table(answer, parts)

    table = delete_acls.ENCODE_RESPONSE[version]
    request = node.context(version)
    encoded = request.broker.long_answers.around(encode, "DeleteAcls")

    async def scenario() -> bytes:
        parts: list[Any] = []
        encoded(await admin_calls.answered(node, delete_acls_handler, DeleteAclsRequest([ALL_RULES] * 300), request), parts)
        return b"".join(parts)

    body = asyncio.run(scenario())
    results = answers[0].filter_results
    assert len({id(each) for each in results}) == 1
    assert results[0].matching_acls.is_shared
    read = decode_whole(delete_acls.DECODE_RESPONSE[version], body).filter_results
    assert len(read) == 300
    assert all([acl.resource_name for acl in each.matching_acls] == [f"t-{number}" for number in range(100)] for each in read)
    assert not list(access.rules(node.image))


def test_an_answer_that_would_be_too_long_is_a_refusal_and_nothing_is_removed() -> None:
    node = node_with_rules(100, ottla_response_max_bytes=str(1 << 20))
    answer = admin_calls.call(node, "delete_acls", DeleteAclsRequest([ALL_RULES] * 1000), 3)
    assert [each.error_code for each in answer.filter_results] == [ErrorCode.POLICY_VIOLATION] * 1000
    assert "more than 1048576 bytes" in answer.filter_results[0].error_message
    assert len(list(access.rules(node.image))) == 100

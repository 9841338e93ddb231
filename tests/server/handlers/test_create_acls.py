"""CreateAcls without an authorizer."""

from __future__ import annotations

import pytest

from ottla.server.base.errors import CloseConnection
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from tests.server.handlers.admin_calls import call
from tests.server.handlers.data_calls import versions
from tests.server.metadata.support import Node

RULE = AclCreation(2, "t", 3, "User:u", "*", 3, 3)


@pytest.fixture
def node() -> Node:
    made = Node()
    made.start()
    return made


@pytest.mark.parametrize("version", versions("create_acls"))
@pytest.mark.parametrize("count", [0, 1, 2])
def test_every_rule_is_refused(node: Node, version: int, count: int) -> None:
    results = call(node, "create_acls", CreateAclsRequest([RULE] * count), version).results
    assert [each.error_code for each in results] == [ErrorCode.SECURITY_DISABLED] * count
    assert all(each.error_message for each in results)


@pytest.mark.parametrize("version", versions("create_acls"))
@pytest.mark.parametrize("codes", [(0, 3, 3, 3), (2, 0, 3, 3), (2, 3, 0, 3), (2, 3, 3, 0)])
def test_unknown_elements_close_the_connection(node: Node, version: int, codes: tuple[int, int, int, int]) -> None:
    kind, pattern, operation, permission = codes
    wrong = AclCreation(kind, "t", pattern, "User:u", "*", operation, permission)
    with pytest.raises(CloseConnection):
        call(node, "create_acls", CreateAclsRequest([RULE, wrong]), version)

"""CreateAcls without an authorizer."""

from __future__ import annotations

import pytest

from ottla.server.base.errors import CloseConnection
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from tests.fakes import MemoryBroker
from tests.server.handlers.data_calls import call, versions

RULE = AclCreation(2, "t", 3, "User:u", "*", 3, 3)


@pytest.mark.parametrize("version", versions("create_acls"))
@pytest.mark.parametrize("count", [0, 1, 2])
def test_every_rule_is_refused(version: int, count: int) -> None:
    results = call(MemoryBroker({}), "create_acls", version, CreateAclsRequest([RULE] * count)).results
    assert [each.error_code for each in results] == [ErrorCode.SECURITY_DISABLED] * count
    assert all(each.error_message for each in results)


@pytest.mark.parametrize("version", versions("create_acls"))
@pytest.mark.parametrize("codes", [(0, 3, 3, 3), (2, 0, 3, 3), (2, 3, 0, 3), (2, 3, 3, 0)])
def test_unknown_elements_close_the_connection(version: int, codes: tuple[int, int, int, int]) -> None:
    kind, pattern, operation, permission = codes
    wrong = AclCreation(kind, "t", pattern, "User:u", "*", operation, permission)
    with pytest.raises(CloseConnection):
        call(MemoryBroker({}), "create_acls", version, CreateAclsRequest([RULE, wrong]))

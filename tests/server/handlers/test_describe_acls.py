"""DescribeAcls without an authorizer."""

from __future__ import annotations

import pytest

from ottla.server.base.errors import CloseConnection
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_acls import DescribeAclsRequest
from tests.fakes import MemoryBroker
from tests.server.handlers.data_calls import call, versions


@pytest.mark.parametrize("version", versions("describe_acls"))
def test_there_are_no_rules(version: int) -> None:
    answer = call(MemoryBroker({}), "describe_acls", version, DescribeAclsRequest(1, None, 3, None, None, 1, 99))
    assert (answer.error_code, answer.resources) == (ErrorCode.SECURITY_DISABLED, [])
    assert answer.error_message


@pytest.mark.parametrize("version", versions("describe_acls"))
@pytest.mark.parametrize("codes", [(0, 3, 3, 3), (2, 0, 3, 3), (2, 3, 0, 3), (2, 3, 3, 0)])
def test_unknown_elements_close_the_connection(version: int, codes: tuple[int, int, int, int]) -> None:
    kind, pattern, operation, permission = codes
    request = DescribeAclsRequest(kind, "t", pattern, "User:u", "*", operation, permission)
    with pytest.raises(CloseConnection):
        call(MemoryBroker({}), "describe_acls", version, request)

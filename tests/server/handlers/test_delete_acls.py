"""DeleteAcls without an authorizer."""

from __future__ import annotations

import pytest

from ottla.server.base.errors import CloseConnection
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tests.fakes import MemoryBroker
from tests.server.handlers.data_calls import call, versions

ANY_RULE = DeleteAclsFilter(1, None, 3, None, None, 1, 1)


@pytest.mark.parametrize("version", versions("delete_acls"))
@pytest.mark.parametrize("count", [0, 1, 2])
def test_every_filter_is_refused(version: int, count: int) -> None:
    results = call(MemoryBroker({}), "delete_acls", version, DeleteAclsRequest([ANY_RULE] * count)).filter_results
    assert [(each.error_code, each.matching_acls) for each in results] == [(ErrorCode.SECURITY_DISABLED, [])] * count
    assert all(each.error_message for each in results)


@pytest.mark.parametrize("version", versions("delete_acls"))
@pytest.mark.parametrize("codes", [(0, 3, 3, 3), (2, 0, 3, 3), (2, 3, 0, 3), (2, 3, 3, 0)])
def test_unknown_elements_close_the_connection(version: int, codes: tuple[int, int, int, int]) -> None:
    kind, pattern, operation, permission = codes
    wrong = DeleteAclsFilter(kind, "t", pattern, "User:u", "*", operation, permission)
    with pytest.raises(CloseConnection):
        call(MemoryBroker({}), "delete_acls", version, DeleteAclsRequest([ANY_RULE, wrong]))

"""LeaveGroup at every version, through the codecs."""

from __future__ import annotations

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.in_loop import in_loop
from tests.server.group.fakes import Driver
from tests.server.handlers.group_calls import call, versions


@pytest.mark.parametrize("version", versions("leave_group"))
@in_loop
async def test_leaving_at_every_version(version: int) -> None:
    driver = Driver()
    (member,), _ = driver.stable()
    for group, expected in (("g", ErrorCode.NONE), ("g", ErrorCode.UNKNOWN_MEMBER_ID), ("nog", ErrorCode.UNKNOWN_MEMBER_ID)):
        request = LeaveGroupRequest(group, members=[MemberIdentity(member)]) if version >= 3 else LeaveGroupRequest(group, member)
        answer = call(driver.broker, "leave_group", version, request)
        codes = [each.error_code for each in answer.members] if version >= 3 else [answer.error_code]
        assert codes == [expected]
        assert version < 3 or answer.error_code == ErrorCode.NONE
    refused = call(driver.broker, "leave_group", version, LeaveGroupRequest(""))
    assert refused.error_code == ErrorCode.INVALID_GROUP_ID

"""SyncGroup at every version, through the codecs."""

from __future__ import annotations

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.in_loop import in_loop
from tests.server.group.fakes import Driver
from tests.server.handlers.group_calls import call, versions


@pytest.mark.parametrize("version", versions("sync_group"))
@in_loop
async def test_syncing_at_every_version(version: int) -> None:
    driver = Driver()
    member, _ = driver.enter()
    driver.clock.advance(0)
    request = SyncGroupRequest("g", 1, member, None, None, None, [SyncGroupRequestAssignment(member, b"ASG")])
    if version >= 5:
        assert call(driver.broker, "sync_group", version, request).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        request.protocol_type, request.protocol_name = "consumer", "range"
    answer = call(driver.broker, "sync_group", version, request)
    assert (answer.error_code, answer.assignment) == (ErrorCode.NONE, b"ASG")
    assert (answer.protocol_type, answer.protocol_name) == (("consumer", "range") if version >= 5 else (None, None))

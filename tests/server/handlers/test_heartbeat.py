"""Heartbeat at every version, through the codecs."""

from __future__ import annotations

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.heartbeat import HeartbeatRequest
from tests.in_loop import in_loop
from tests.server.group.fakes import Driver
from tests.server.handlers.group_calls import call, versions


@pytest.mark.parametrize("version", versions("heartbeat"))
@in_loop
async def test_heartbeats_at_every_version(version: int) -> None:
    driver = Driver()
    (member,), generation = driver.stable()
    assert call(driver.broker, "heartbeat", version, HeartbeatRequest("g", generation, member)).error_code == ErrorCode.NONE
    refused = call(driver.broker, "heartbeat", version, HeartbeatRequest("g", 7, member))
    assert refused.error_code == ErrorCode.ILLEGAL_GENERATION

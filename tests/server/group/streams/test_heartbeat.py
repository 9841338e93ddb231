"""server/group/streams/heartbeat.py: which heartbeats are refused for the tasks in them. test_protocol.py has the rest."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.streams_group_heartbeat import RequestTaskIds
from tests.server.group.streams.support import READS_T, Cluster, Member


@pytest.mark.parametrize("role", ["active_tasks", "standby_tasks", "warmup_tasks"])
@pytest.mark.parametrize(("name", "partition"), [("0", 3), ("0", -1), ("1", 0)])
def test_a_member_cannot_own_tasks_that_do_not_exist(role: str, name: str, partition: int) -> None:
    member = Member(Cluster(), "m")
    member.join(READS_T)
    owned: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    owned[role] = [RequestTaskIds(name, [partition])]
    assert member.refused(**owned) == ErrorCode.INVALID_REQUEST
    assert member.own({"0": [0, 1, 2]}).member_epoch == member.epoch

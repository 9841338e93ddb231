"""JoinGroup at every version, through the codecs."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tests.in_loop import in_loop
from tests.server.group.fakes import Broker, classic
from tests.server.handlers.group_calls import call, versions

PROTOCOLS = [JoinGroupRequestProtocol("range", b"meta")]


def request(member: str = "", session_ms: int = 10_000) -> JoinGroupRequest:
    return JoinGroupRequest("g", session_ms, 30_000, member, None, "consumer", PROTOCOLS)


@pytest.mark.parametrize("version", versions("join_group"))
@in_loop
async def test_joining_at_every_version(version: int) -> None:
    broker = Broker()
    answer = call(broker, "join_group", version, request())
    if version >= 4:
        assert (answer.error_code, answer.protocol_name) == (ErrorCode.MEMBER_ID_REQUIRED, None if version >= 7 else "")
        answer = call(broker, "join_group", version, request(answer.member_id))
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (ErrorCode.NONE, 1, "range")
    assert answer.leader == answer.member_id
    assert [(member.member_id, member.metadata) for member in answer.members] == [(answer.member_id, b"meta")]
    assert answer.protocol_type == ("consumer" if version >= 7 else None)
    (member,) = classic(broker.groups.find("g")).members.values()
    assert member.client == ("c", "/127.0.0.1")
    assert member.rebalance_timeout_ms == (10_000 if version == 0 else 30_000), "version 0 has no rebalance timeout"


@pytest.mark.parametrize("version", versions("join_group"))
@in_loop
async def test_a_refusal_at_every_version(version: int) -> None:
    answer = call(Broker(), "join_group", version, request("zzz", session_ms=1))
    assert (answer.error_code, answer.generation_id, answer.leader) == (ErrorCode.INVALID_SESSION_TIMEOUT, -1, "")
    assert answer.protocol_name == (None if version >= 7 else "")
    assert answer.member_id == "zzz"


@in_loop
async def test_a_client_without_a_name() -> None:
    broker = Broker()
    context = broker.context(3, client_id=None)
    from ottla.server.handlers import join_group

    parked: Any = join_group.handle(request(), context)
    broker.clock.advance(0)
    assert parked.result().member_id.startswith("-")


@pytest.mark.parametrize("name", ["group_instance_id", "protocol_type"])
@in_loop
async def test_names_that_no_record_can_hold(name: str) -> None:
    long = request()
    setattr(long, name, "i" * 40_000)
    assert call(Broker(), "join_group", 9, long).error_code == ErrorCode.INVALID_REQUEST


@in_loop
async def test_protocols_that_no_record_can_hold() -> None:
    long = request()
    long.protocols = [*PROTOCOLS, JoinGroupRequestProtocol("p" * 40_000, b"meta")]
    assert call(Broker(), "join_group", 9, long).error_code == ErrorCode.INVALID_REQUEST

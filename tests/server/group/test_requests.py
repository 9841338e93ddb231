"""These tests cover when a JoinGroup needs a member id first, and what a refused JoinGroup is answered."""

from __future__ import annotations

import pytest

from ottla.server.group.requests import Client, Join, MemberProtocol, refused_join
from ottla.wire.errors import ErrorCode

DYNAMIC = Join(
    version=4,
    client=Client("c", "/h"),
    member_id="",
    instance_id=None,
    rebalance_timeout_ms=1,
    session_timeout_ms=1,
    protocol_type="consumer",
    protocols=(MemberProtocol("range", b""), MemberProtocol("sticky", b"x"), MemberProtocol("range", b"y")),
    reason=None,
)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (DYNAMIC, True),
        (DYNAMIC._replace(version=9), True),
        (DYNAMIC._replace(version=3), False),
        (DYNAMIC._replace(member_id="m"), False),
        (DYNAMIC._replace(instance_id="i"), False),
    ],
)
def test_a_dynamic_member_needs_a_known_id_from_version_4_on(request_: Join, expected: bool) -> None:
    assert request_.requires_known_member_id is expected


def test_the_names_of_protocols() -> None:
    assert DYNAMIC.protocol_names == {"range", "sticky"}


def test_a_refusal_has_the_member_id_and_the_code_and_no_generation() -> None:
    answer = refused_join("m", ErrorCode.UNKNOWN_MEMBER_ID)
    assert (answer.member_id, answer.error_code, answer.generation_id) == ("m", ErrorCode.UNKNOWN_MEMBER_ID, -1)
    assert answer.members == []

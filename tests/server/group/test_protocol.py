"""These tests cover a kind of group that overrides nothing: it has no classic members, and its offsets may expire."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pytest

from ottla.server.group.errors import GroupError
from ottla.server.group.group import Group
from ottla.server.group.kind import Kind
from ottla.server.group.protocol import Deadline, GroupProtocol
from ottla.server.group.records import GroupRecord
from ottla.server.group.requests import Client, Committer, Join, Sync
from ottla.wire.errors import ErrorCode


class Plain(Group):
    kind: ClassVar[Kind] = Kind.SHARE

    def __init__(self, members: Mapping[str, Any]) -> None:
        self.group_id = "g"
        self.protocol_type = "plain"
        self.members = members

    @property
    def state_name(self) -> str:
        return "Plain"

    def is_subscribed(self, topic: str) -> bool:
        return False

    def tombstones(self) -> Sequence[GroupRecord]:
        return ()


class PlainProtocol(GroupProtocol[Plain]):
    kind: ClassVar[Kind] = Kind.SHARE

    def replay(self, record: GroupRecord) -> None: ...

    def discard(self, group: Plain, error: ErrorCode) -> None: ...

    def postpone_session(self, group: Plain, member_id: str, seconds: float) -> None: ...

    def deadlines(self, group: Plain) -> Iterator[Deadline]:
        return iter(())

    def admit_commit(self, group: Plain, committer: Committer) -> None: ...

    def admit_commit_in_transaction(self, group: Plain, committer: Committer) -> None: ...


EMPTY, FULL = Plain({}), Plain({"m": object()})
MEMBER = Committer("m", None, 1, 9)


def test_a_group_is_empty_and_expendable_without_members() -> None:
    assert (EMPTY.is_empty, EMPTY.is_expendable, EMPTY.member_count) == (True, True, 0)
    assert (FULL.is_empty, FULL.is_expendable, FULL.member_count) == (False, False, 1)


def test_a_group_expires_offsets_from_their_commit_and_is_not_simple() -> None:
    assert FULL.may_expire_offsets
    assert FULL.expires_from_ms(17) == 17
    assert not EMPTY.is_simple


def test_only_an_empty_group_may_be_deleted() -> None:
    PlainProtocol().admit_deletion(EMPTY)
    with pytest.raises(GroupError) as error:
        PlainProtocol().admit_deletion(FULL)
    assert error.value.code is ErrorCode.NON_EMPTY_GROUP


def test_what_a_protocol_need_not_say_is_allowed() -> None:
    protocol = PlainProtocol()
    protocol.admit_partitions(FULL, MEMBER, [])
    protocol.admit_fetch(FULL, MEMBER)
    protocol.admit_offset_deletion(FULL)
    protocol.topic_changed("t", is_new=True)
    assert protocol.loaded(FULL) is None


def test_members_of_the_classic_protocol_are_refused() -> None:
    protocol = PlainProtocol()
    answer = protocol.join("g", Join(9, Client("c", "h"), "m", None, 1, 1, "consumer", (), None))
    assert not hasattr(answer, "done")
    assert (answer.member_id, answer.error_code) == ("m", ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    asked: list[Callable[[], object]] = [
        lambda: protocol.sync(FULL, Sync("m", None, 1, None, None, {})),
        lambda: protocol.heartbeat(FULL, "m", None, 1),
        lambda: protocol.leave(FULL, []),
    ]
    for ask in asked:
        with pytest.raises(GroupError) as error:
            ask()
        assert error.value.code is ErrorCode.UNKNOWN_MEMBER_ID

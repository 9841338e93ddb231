"""A classic group member by hand: each step of the protocol a method, each answer as it came."""

from __future__ import annotations

from typing import Any

from compat_tests.wire import Wire
from ottla.wire.messages import heartbeat, join_group, leave_group, offset_commit, sync_group

PROTOCOL = [("range", b"subscription")]


class Member:
    """One member of one group, on a connection of its own (a join may wait for others)."""

    def __init__(self, wire: Wire, group: str, name: str, instance: str | None = None) -> None:
        self.wire, self.group, self.name, self.instance = wire, group, name, instance
        self.connection = wire.connect()
        self.id, self.generation, self.leader = "", -1, ""

    def join_request(self, **changes: Any) -> join_group.JoinGroupRequest:
        protocols = [join_group.JoinGroupRequestProtocol(*p) for p in changes.pop("protocols", PROTOCOL)]
        fields: dict[str, Any] = {
            "group_id": self.group,
            "session_timeout_ms": 30_000,
            "rebalance_timeout_ms": 30_000,
            "member_id": self.id,
            "group_instance_id": self.instance,
            "protocol_type": "consumer",
            "protocols": protocols,
        }
        return join_group.JoinGroupRequest(**(fields | changes))

    def join(self, version: int = 9, **changes: Any) -> Any:
        return self._noted(self.connection.call(self.join_request(**changes), version))

    def start_join(self, version: int = 9, **changes: Any) -> None:
        self.connection.send(self.join_request(**changes), version)

    def joined(self, version: int = 9) -> Any:
        """The answer to start_join."""
        return self._noted(self.connection.answer(join_group, version))

    def _noted(self, answer: Any) -> Any:
        if not isinstance(answer, str) and answer.error_code in (0, 79):
            self.id = (
                self.wire.label(answer.member_id, self.name) if answer.member_id not in self.wire.labels else answer.member_id
            )
            self.generation, self.leader = answer.generation_id, answer.leader
        return answer

    def enter(self, version: int = 9) -> Any:
        """Join as clients do: an id first, then the group."""
        first = self.join(version)
        return self.join(version) if first.error_code == 79 else first

    def sync(self, assignments: dict[str, bytes] | None = None, version: int = 5, **changes: Any) -> Any:
        return self.connection.call(self.sync_request(assignments, **changes), version)

    def sync_request(self, assignments: dict[str, bytes] | None = None, **changes: Any) -> sync_group.SyncGroupRequest:
        given = [sync_group.SyncGroupRequestAssignment(*pair) for pair in (assignments or {}).items()]
        fields: dict[str, Any] = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": given,
        }
        return sync_group.SyncGroupRequest(**(fields | changes))

    def heartbeat(self, version: int = 4, **changes: Any) -> Any:
        fields: dict[str, Any] = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
        }
        return self.connection.call(heartbeat.HeartbeatRequest(**(fields | changes)), version)

    def leave(self, version: int = 5) -> Any:
        if version < 3:
            return self.connection.call(leave_group.LeaveGroupRequest(self.group, self.id), version)
        return self.connection.call(
            leave_group.LeaveGroupRequest(self.group, "", [leave_group.MemberIdentity(self.id, self.instance)]), version
        )

    def commit(self, topic: str | bytes, offset: int = 5, version: int = 9, metadata: str | None = "note", **changes: Any) -> Any:
        part = offset_commit.OffsetCommitRequestPartition(changes.pop("partition", 0), offset, -1, metadata)
        kind = offset_commit.OffsetCommitRequestTopic
        named = kind(name=topic, partitions=[part]) if isinstance(topic, str) else kind(topic_id=topic, partitions=[part])
        fields: dict[str, Any] = {
            "group_id": self.group,
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
            "topics": [named],
        }
        return self.connection.call(offset_commit.OffsetCommitRequest(**(fields | changes)), version)


def stable(wire: Wire, group: str, name: str = "m1", instance: str | None = None) -> Member:
    """A group of one member that has its assignment."""
    member = Member(wire, group, name, instance)
    assert member.enter().error_code == 0
    assert member.sync({member.id: b"ASG"}).error_code == 0
    return member

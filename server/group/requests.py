"""The requests of clients to a group, independent of the version of the request and of the kind of the group.

A handler translates its request into one of these, and the group's protocol (protocol.py) answers it. An answer that has to wait
for other members is a future, which the handler returns as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.sync_group import SyncGroupResponse

JoinAnswer = JoinGroupResponse | asyncio.Future[JoinGroupResponse]
SyncAnswer = SyncGroupResponse | asyncio.Future[SyncGroupResponse]

_MEMBER_ID_REQUIRED_FROM: Final = 4
"""The version of JoinGroup from which a dynamic member joins only under an id that the coordinator gave it (KIP-394)."""


class Client(NamedTuple):
    """The client that a request came from, as the describing APIs show it."""

    client_id: str
    host: str


class MemberProtocol(NamedTuple):
    """An assignment strategy that a classic member supports, with the metadata that the leader would get for it."""

    name: str
    metadata: bytes


class Join(NamedTuple):
    """A JoinGroup request. `protocols` are in the order of the member's preference."""

    version: int
    client: Client
    member_id: str
    instance_id: str | None
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: tuple[MemberProtocol, ...]
    reason: str | None

    @property
    def protocol_names(self) -> frozenset[str]:
        return frozenset(protocol.name for protocol in self.protocols)

    @property
    def requires_known_member_id(self) -> bool:
        """Says whether the member is first given an id (MEMBER_ID_REQUIRED) and has to join again under it (KIP-394)."""
        return not self.member_id and self.instance_id is None and self.version >= _MEMBER_ID_REQUIRED_FROM


def refused_join(member_id: str, error: ErrorCode) -> JoinGroupResponse:
    """Returns the answer to a JoinGroup that was refused."""
    return JoinGroupResponse(member_id=member_id, error_code=error)


class Sync(NamedTuple):
    """A SyncGroup request. Only the leader's has assignments, by member id."""

    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol: str | None
    assignments: Mapping[str, bytes]


class Leaving(NamedTuple):
    """One member that a LeaveGroup request names. Administrators may name it by its instance id alone; `member_id` is "" then."""

    member_id: str
    instance_id: str | None
    reason: str | None


class Committer(NamedTuple):
    """The sender of an OffsetCommit or OffsetFetch. `epoch` is a generation or a member epoch; it is -1 for an administrator and
    for a consumer that manages its partitions itself."""

    member_id: str
    instance_id: str | None
    epoch: int
    version: int
    """The version of the request, on which the answer to a stale member depends."""


class Commit:
    """One partition of an OffsetCommit or TxnOffsetCommit request."""

    __slots__ = ("leader_epoch", "metadata", "offset", "partition", "topic", "topic_id")

    def __init__(self, topic: str, topic_id: bytes, partition: int, offset: int, leader_epoch: int, metadata: str) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.metadata = metadata

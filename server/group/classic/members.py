"""A `Member` is one member of a classic group: what it sent when it joined, and the requests of it that wait.

Its ids, client, timeouts, assignment and the metadata of the selected protocol (as `subscription`) are persistent, in
GroupMetadataValue. As in Kafka, everything else is in memory only: the other protocols, the parked requests and the session
timer. So a member that was read from the log has only one protocol until it joins again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from ottla.server.group.classic.member_limits import size_of
from ottla.server.group.requests import Client, MemberProtocol
from ottla.server.group.timers import Timer
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.sync_group import SyncGroupResponse


@dataclass(slots=True, eq=False)
class Member:
    """A member of a classic group."""

    member_id: str
    instance_id: str | None
    client: Client
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Sequence[MemberProtocol]
    assignment: bytes = b""
    awaiting_join: asyncio.Future[JoinGroupResponse] | None = None
    join_version: int = 0  # the version of the parked JoinGroup
    awaiting_sync: asyncio.Future[SyncGroupResponse] | None = None
    # Whether it joins for the first time and has no answer yet. Without a member id it cannot send heartbeats, so its parked
    # request expires instead, after `new_member_join_timeout_ms`.
    is_new: bool = False
    session: Timer | None = field(default=None, repr=False)

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def size(self) -> int:
        """Returns how many bytes the member brought with it, in its ids and protocols."""
        return size_of(self.protocols) + len(self.member_id) + len(self.instance_id or "")

    @property
    def keeps_session(self) -> bool:
        """Says whether a parked request keeps the session alive in place of heartbeats, which the member cannot send
        meanwhile.
        """
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    def metadata(self, protocol: str | None) -> bytes:
        """Returns the member's metadata for `protocol`, which it must support."""
        for candidate in self.protocols:
            if candidate.name == protocol:
                return candidate.metadata
        raise AssertionError(f"{self.member_id} does not support {protocol}")

    def vote(self, candidates: frozenset[str]) -> str:
        """Returns the first of the member's protocols that is among the candidates, the protocols that all members support."""
        for candidate in self.protocols:
            if candidate.name in candidates:
                return candidate.name
        raise AssertionError(f"{self.member_id} supports none of {sorted(candidates)}")

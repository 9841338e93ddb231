"""One member of a classic group: what it said when it joined, and what it waits for.

Persistent, in GroupMetadataValue: ids, client, timeouts, the metadata of the selected protocol (as `subscription`) and the
assignment. Everything else lives with the process, as in Kafka: the other protocols, the parked requests, the session timer.
A member that was read back from the log therefore knows one protocol only, until it joins again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from ottla.server.group.requests import Client, MemberProtocol
from ottla.server.group.timers import Timer
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.sync_group import SyncGroupResponse


@dataclass(slots=True, eq=False)
class Member:
    member_id: str
    instance_id: str | None
    client: Client
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Sequence[MemberProtocol]
    assignment: bytes = b""
    awaiting_join: asyncio.Future[JoinGroupResponse] | None = None
    join_version: int = 0  # of the JoinGroup that is parked
    awaiting_sync: asyncio.Future[SyncGroupResponse] | None = None
    # Joined for the first time and not answered yet: it has no member id to send heartbeats with, so its parked request is
    # what expires, after `new_member_join_timeout_ms`.
    is_new: bool = False
    session: Timer | None = field(default=None, repr=False)

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def keeps_session(self) -> bool:
        """A parked request stands for heartbeats, which the member cannot send meanwhile."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    def metadata(self, protocol: str | None) -> bytes:
        """Returns its metadata under `protocol`, which it must have named."""
        for candidate in self.protocols:
            if candidate.name == protocol:
                return candidate.metadata
        raise AssertionError(f"{self.member_id} does not support {protocol}")

    def vote(self, candidates: frozenset[str]) -> str:
        """Returns the first of its protocols that everybody supports."""
        for candidate in self.protocols:
            if candidate.name in candidates:
                return candidate.name
        raise AssertionError(f"{self.member_id} supports none of {sorted(candidates)}")

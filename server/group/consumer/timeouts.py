"""The deadlines of a member of a consumer group: one that misses any of them is taken out of the group.

session     send a heartbeat
rebalance   give up what was taken from it: a member of the new protocol, by its heartbeats
join, sync  join again after a rebalance was announced, and sync after it has joined: a member of the classic protocol
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from ottla.server.group.consumer.member import ConsumerMember
from ottla.server.group.modern.timers import MemberTimers

logger = logging.getLogger("ottla.server.group")


class Fence(Protocol):
    def __call__(self, group_id: str, member_id: str, reason: str, *, in_epoch: int | None = None) -> None:
        """Takes the member out if it is still there, and still in that epoch. GroupError: that could not be written."""


class Timeouts:
    def __init__(self, timers: MemberTimers, fence: Fence) -> None:
        self._timers = timers
        self._fence = fence

    def session(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        self._timers.push_back("session", group_id, member_id, timeout_ms, self._over(group_id, member_id, "its session is over"))

    def rebalance(self, group_id: str, member: ConsumerMember) -> None:
        """Gives the member its rebalance timeout to leave the epoch that it is in."""
        reason = f"it did not get beyond epoch {member.epoch} within {member.rebalance_timeout_ms} ms"
        over = self._over(group_id, member.member_id, reason, in_epoch=member.epoch)
        self._timers.set("rebalance", group_id, member.member_id, member.rebalance_timeout_ms, over)

    def reconciled(self, group_id: str, member_id: str) -> None:
        self._timers.cancel("rebalance", group_id, member_id)

    def join(self, group_id: str, member: ConsumerMember) -> None:
        over = self._over(group_id, member.member_id, "it did not join again in time")
        self._timers.set_if_absent("join", group_id, member.member_id, member.rebalance_timeout_ms, over)

    def sync(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        """Notes that the member has joined, and gives it so long to sync."""
        self._timers.cancel("join", group_id, member_id)
        self._timers.set("sync", group_id, member_id, timeout_ms, self._over(group_id, member_id, "it did not sync in time"))

    def synced(self, group_id: str, member_id: str) -> None:
        self._timers.cancel("sync", group_id, member_id)

    def forget(self, group_id: str, member_id: str) -> None:
        self._timers.cancel_all(group_id, member_id)

    def _over(self, group_id: str, member_id: str, reason: str, in_epoch: int | None = None) -> Callable[[], None]:
        return lambda: self._fence(group_id, member_id, reason, in_epoch=in_epoch)

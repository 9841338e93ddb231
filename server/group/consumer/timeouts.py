"""`Timeouts` has the deadlines of members of consumer groups; a member that misses one is removed from the group.

session     the member has to send a heartbeat
rebalance   a member of the new protocol has to give up the partitions that were taken from it, by its heartbeats
join, sync  a member of the classic protocol has to join again after a rebalance was announced, and to sync after it has joined
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from ottla.server.group.consumer.member import ConsumerMember
from ottla.server.group.modern.timers import MemberTimers
from ottla.server.group.protocol import Deadline

logger = logging.getLogger("ottla.server.group")


class Fence(Protocol):
    """A function that removes a member from its group."""

    def __call__(self, group_id: str, member_id: str, reason: str, *, in_epoch: int | None = None) -> None:
        """Removes the member if it is still there, and still in that epoch. Raises GroupError if that cannot be written."""


class Timeouts:
    """The deadlines of the members of one shard's consumer groups. `fence` is called when one has passed."""

    def __init__(self, timers: MemberTimers, fence: Fence) -> None:
        self._timers = timers
        self._fence = fence

    def session(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        self._timers.push_back(
            "session", group_id, member_id, timeout_ms, self._over(group_id, member_id, "its session has expired")
        )

    def postpone_session(self, group_id: str, member_id: str, seconds: float) -> None:
        self._timers.postpone("session", group_id, member_id, seconds)

    def deadlines(self, group_id: str, member_ids: Iterable[str]) -> Iterator[Deadline]:
        """Yields the deadlines of these members that have not passed yet."""
        return self._timers.deadlines(group_id, member_ids)

    def rebalance(self, group_id: str, member: ConsumerMember) -> None:
        """Gives the member its rebalance timeout to leave its present epoch."""
        reason = f"it was still in epoch {member.epoch} after {member.rebalance_timeout_ms} ms"
        over = self._over(group_id, member.member_id, reason, in_epoch=member.epoch)
        self._timers.set("rebalance", group_id, member.member_id, member.rebalance_timeout_ms, over)

    def reconciled(self, group_id: str, member_id: str) -> None:
        self._timers.cancel("rebalance", group_id, member_id)

    def join(self, group_id: str, member: ConsumerMember) -> None:
        over = self._over(group_id, member.member_id, "it did not join again in time")
        self._timers.set_if_absent("join", group_id, member.member_id, member.rebalance_timeout_ms, over)

    def sync(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        """Notes that the member has joined, and gives it `timeout_ms` to sync."""
        self._timers.cancel("join", group_id, member_id)
        self._timers.set("sync", group_id, member_id, timeout_ms, self._over(group_id, member_id, "it did not sync in time"))

    def synced(self, group_id: str, member_id: str) -> None:
        self._timers.cancel("sync", group_id, member_id)

    def forget(self, group_id: str, member_id: str) -> None:
        self._timers.cancel_all(group_id, member_id)

    def _over(self, group_id: str, member_id: str, reason: str, in_epoch: int | None = None) -> Callable[[], None]:
        return lambda: self._fence(group_id, member_id, reason, in_epoch=in_epoch)

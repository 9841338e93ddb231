"""Deadlines of members: session, rebalance and whatever else a protocol waits for. By name, group and member.

A deadline is set anew with every heartbeat (group/timers.py has why that is cheap). What is done when it passes finds the group
and the member by their ids, for both may be others by then. Where that could not be written the deadline passes once more after a
moment, and again, until it is: nobody else would ever miss a member that is silent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from ottla.server.base.clock import Clock
from ottla.server.group.errors import GroupError
from ottla.server.group.timers import Timer

logger = logging.getLogger("ottla.server.group")

RETRY_MS: Final = 500
"""How long until what a deadline asks for is tried again, as in Kafka."""


class MemberTimers:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timers: dict[tuple[str, str], dict[str, Timer]] = {}  # (group, member) -> name -> ...

    def set(self, name: str, group_id: str, member_id: str, delay_ms: int, over: Callable[[], None]) -> None:
        """Calls `over` in `delay_ms` unless the deadline is set anew or cancelled. A former deadline of this name is void.

        `over` raises GroupError for what could not be written.
        """
        timers = self._timers.setdefault((group_id, member_id), {})
        former = timers.get(name)
        if former is not None:
            former.cancel()
        timers[name] = self._armed(name, group_id, member_id, delay_ms, over)

    def push_back(self, name: str, group_id: str, member_id: str, delay_ms: int, over: Callable[[], None]) -> None:
        """Sets a deadline whose `over` stays what it was. The former timer is kept, which costs no timer of the event loop."""
        timer = self._timers.get((group_id, member_id), {}).get(name)
        if timer is None:
            self.set(name, group_id, member_id, delay_ms, over)
        else:
            timer.reset(delay_ms)

    def set_if_absent(self, name: str, group_id: str, member_id: str, delay_ms: int, over: Callable[[], None]) -> None:
        if name not in self._timers.get((group_id, member_id), {}):
            self.set(name, group_id, member_id, delay_ms, over)

    def cancel(self, name: str, group_id: str, member_id: str) -> None:
        timers = self._timers.get((group_id, member_id), {})
        timer = timers.pop(name, None)
        if timer is not None:
            timer.cancel()
        if not timers:
            self._timers.pop((group_id, member_id), None)

    def cancel_all(self, group_id: str, member_id: str) -> None:
        for timer in self._timers.pop((group_id, member_id), {}).values():
            timer.cancel()

    def _armed(self, name: str, group_id: str, member_id: str, delay_ms: int, over: Callable[[], None]) -> Timer:
        def passed() -> None:
            self.cancel(name, group_id, member_id)
            try:
                over()
            except GroupError as error:
                logger.warning(
                    "group %s: the %s deadline of %s passed, and has no effect yet: %s", group_id, name, member_id, error
                )
                self.set(name, group_id, member_id, RETRY_MS, over)

        timer = Timer(self._clock, passed)
        timer.reset(delay_ms)
        return timer

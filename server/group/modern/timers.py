"""`MemberTimers` holds the deadlines of members, by name, group and member: session, rebalance and whatever else a protocol waits
for.

A deadline is set anew with every heartbeat (group/timers.py says why that is cheap). When it passes, the group and the member
have to be looked up by their ids, for both may have been replaced by then. If the outcome cannot be written, the deadline passes
again after a moment until it can be: nothing else would ever notice a member that is silent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from ottla.server.base.clock import Clock
from ottla.server.group.errors import GroupError
from ottla.server.group.protocol import Deadline, deadline_of
from ottla.server.group.timers import Timer
from ottla.wire.errors import ErrorCode

logger = logging.getLogger("ottla.server.group")

RETRY_MS: Final = 500
"""The time until the outcome of a deadline is tried again, as in Kafka."""


class MemberTimers:
    """The deadlines of the members of one protocol's groups."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timers: dict[tuple[str, str], dict[str, Timer]] = {}  # (group, member) -> name -> ...

    def set(self, name: str, group_id: str, member_id: str, delay_ms: int, over: Callable[[], None]) -> None:
        """Calls `over` in `delay_ms` unless the deadline is set anew or cancelled. It replaces a former deadline of this name.

        `over` raises GroupError if its outcome cannot be written.
        """
        timers = self._timers.setdefault((group_id, member_id), {})
        former = timers.get(name)
        if former is not None:
            former.cancel()
        timers[name] = self._start(name, group_id, member_id, delay_ms, over)

    def push_back(self, name: str, group_id: str, member_id: str, delay_ms: int, over: Callable[[], None]) -> None:
        """Moves a deadline and keeps its `over`. The former timer stays, which costs no timer of the event loop."""
        timer = self._timers.get((group_id, member_id), {}).get(name)
        if timer is None:
            self.set(name, group_id, member_id, delay_ms, over)
        else:
            timer.reset(delay_ms)

    def postpone(self, name: str, group_id: str, member_id: str, seconds: float) -> None:
        """Moves a deadline, if there is one, by so much."""
        timer = self._timers.get((group_id, member_id), {}).get(name)
        if timer is not None:
            timer.postpone(seconds)

    def deadlines(self, group_id: str, member_ids: Iterable[str]) -> Iterator[Deadline]:
        """Yields the deadlines of these members that have not passed yet."""
        for member_id in member_ids:
            for name, timer in self._timers.get((group_id, member_id), {}).items():
                yield from deadline_of(timer, name, member_id)

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

    def _start(self, name: str, group_id: str, member_id: str, delay_ms: int, over: Callable[[], None]) -> Timer:
        def passed() -> None:
            self.cancel(name, group_id, member_id)
            try:
                over()
            except GroupError as error:
                if error.code is not ErrorCode.COORDINATOR_NOT_AVAILABLE:  # `append` says why, unless only replicas are missing
                    logger.warning(
                        "group %s: cannot write the outcome of the %s deadline of %s yet: %s", group_id, name, member_id, error
                    )
                self.set(name, group_id, member_id, RETRY_MS, over)

        timer = Timer(self._clock, passed)
        timer.reset(delay_ms)
        return timer

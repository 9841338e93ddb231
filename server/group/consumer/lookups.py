"""`RegexLookups` finds the topics that the regular expressions of consumer groups match, in the background.

A lookup begins after the heartbeat that asked for it was answered, and lets other callbacks of the event loop run between its
steps (regexes.py), since a thousand expressions over ten thousand topics take seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ottla.server.base.clock import Clock
from ottla.server.base.turns import Steps, take_in_background
from ottla.server.group.cluster import Cluster
from ottla.server.group.consumer import regexes

Matches = Mapping[str, frozenset[str] | None]
"""The topics that each expression matches; None for one that this broker does not accept."""


class RegexLookups:
    """Runs the lookups, at most one at a time for each group. `found(group_id, matches, version)` is called with the matches and
    the version of the metadata whose topics were matched.
    """

    def __init__(self, clock: Clock, cluster: Cluster, found: Callable[[str, Matches, int], None]) -> None:
        self._clock = clock
        self._cluster = cluster
        self._found = found
        self._running: set[str] = set()

    def is_running(self, group_id: str) -> bool:
        return group_id in self._running

    def start(self, group_id: str, expressions: Iterable[str], may_see: Callable[[str], bool] | None = None) -> None:
        """Matches the expressions against the topics that there are now, beginning with the next turn of the event loop; only
        against those for which `may_see` is true, if there is one."""
        self._running.add(group_id)
        steps, version = regexes.match(sorted(expressions), self._cluster.topics, may_see), self._cluster.highest_offset
        self._clock.call_later(0, lambda: take_in_background(self._look_up(group_id, steps, version), self._clock))

    def _look_up(self, group_id: str, steps: Steps[Matches], version: int) -> Steps[None]:
        try:
            matches = yield from steps
        finally:  # also after what no step foresees: the group looks up again
            self._running.discard(group_id)
        self._found(group_id, matches, version)

"""`Names` counts who subscribes to each topic name: the members of a group that name it, or the expressions that match it.

A group may name MOST_NAMES topics, all members together, more than there are by default (`ottla.max.partitions`): what a group
reads is looked through whenever a subscription changes, and Kafka has no limit to that. A change that would take a group beyond
it is refused with GROUP_MAX_SIZE_REACHED. A group that another broker let have more keeps them, and gets no further ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from typing import Final

from ottla.server.group.errors import GroupError
from ottla.wire.errors import ErrorCode

MOST_NAMES: Final = 20_000
_NO_NAMES: Final[frozenset[str]] = frozenset()


@dataclass(slots=True)
class Names:
    """The names. `counts` says how many subscribe to each; none of them is 0."""

    counts: dict[str, int] = field(default_factory=dict)
    _subscriptions: dict[frozenset[str], tuple[frozenset[str], int]] = field(default_factory=dict)
    """Each subscription, and how many have it."""

    def shared(self, names: frozenset[str]) -> frozenset[str]:
        """Returns the object that others have who subscribe to the same names, or `names` if nobody does: 200 members with 9,900
        topics each kept 220 MB of them."""
        known = self._subscriptions.get(names)
        return names if known is None else known[0]

    def change(self, former: frozenset[str] = _NO_NAMES, now: frozenset[str] = _NO_NAMES) -> None:
        """Counts one who subscribes to `now` in place of `former`. What is in both is not looked at."""
        if former is now:
            return
        counts = self.counts
        for name in former - now if now else former:
            if counts[name] == 1:
                del counts[name]
            else:
                counts[name] -= 1
        for name in now - former if former else now:
            counts[name] = counts.get(name, 0) + 1
        for names, by in ((former, -1), (now, 1)):
            kept, count = self._subscriptions.get(names, (names, 0))
            if names and count + by:
                self._subscriptions[names] = kept, count + by
            else:
                self._subscriptions.pop(names, None)

    def changed(self, former: Iterable[Set[str]] = (), now: frozenset[str] = _NO_NAMES) -> set[str]:
        """Returns the names to which anybody subscribes once one subscribes to `now` and those of `former` to nothing."""
        left = [names - now for names in former]
        names = set(self.counts)
        if len(left) == 1:
            names.difference_update([name for name in left[0] if self.counts.get(name) == 1])
        else:
            gone = Counter(name for each in left for name in each)
            names.difference_update([name for name, count in gone.items() if self.counts.get(name) == count])
        names.update(now)
        return names

    def check_change(self, former: frozenset[str], now: frozenset[str]) -> None:
        """Raises GroupError GROUP_MAX_SIZE_REACHED if there would be too many names once a member subscribes to `now` in place of
        `former`, and more than there are."""
        had = len(self.counts)
        if former is now or had + len(now) <= MOST_NAMES:
            return
        if len(self.changed((former,), now)) > max(MOST_NAMES, had):
            text = f"The members of the group would name more than {MOST_NAMES:,} topics, which is the most that they may name."
            raise GroupError(ErrorCode.GROUP_MAX_SIZE_REACHED, text)

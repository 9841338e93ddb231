"""The groups that are the furthest behind in a topic: asked of all groups together, and no longer than a list of topics may take.

A coordinator answers for many groups at once, with all that each has committed; how much that is, nobody knows before. So the
first request is about two groups, and each one after it about as many as should take half of the time that is left, going by
those before it. The groups that were not asked when the time is over are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.commands.clients.partition import Partition
from ottla.commands.groups.kinds import SHARE, Listed

WITHIN_S: Final = 0.1
MOST_GROUPS: Final = 1000
_FIRST: Final = 2
_MORE: Final = 16
"""The most times more groups that the next request is about."""

Offsets = Mapping[Partition, int]
AskGroups = Callable[[Sequence[Listed]], tuple[Mapping[str, Offsets], Mapping[str, str]]]


class Commits(NamedTuple):
    """The offsets that groups have committed, by name. `unknown` says why by group, "" where the coordinator did not answer;
    `left_out` is how many were not asked."""

    by_group: Mapping[str, Offsets]
    unknown: Mapping[str, str]
    left_out: int


class Furthest(NamedTuple):
    """The group that is the furthest behind in a topic, its `lag` there in offsets, and how many groups have committed in it."""

    group: str
    lag: int
    groups: int


def commits_of(groups: Iterable[Listed], ask: AskGroups, clock: Callable[[], float]) -> Commits:
    """Asks for what groups have committed. Share groups commit nothing."""
    wanted = sorted((one for one in groups if one.kind != SHARE), key=lambda one: one.name)
    by_group: dict[str, Offsets] = {}
    unknown: dict[str, str] = {}
    begun, at, count = clock(), 0, _FIRST
    end, left_s = min(len(wanted), MOST_GROUPS), WITHIN_S
    while at < end and (at == 0 or left_s > 0):
        portion = wanted[at : min(end, at + count)]
        found, wrong = ask(portion)
        by_group |= found
        unknown |= {one.name: wrong.get(one.name, "") for one in portion if one.name not in found}
        at += len(portion)
        took_s = clock() - begun
        left_s = WITHIN_S - took_s
        count = max(1, min(count * _MORE, int(left_s / 2 * at / max(took_s, 1e-6))))
    return Commits(by_group, unknown, len(wanted) - at)


def furthest(commits: Mapping[str, Offsets], ends: Offsets) -> dict[str, Furthest]:
    """Returns who is the furthest behind in each topic that some group has committed in, of the partitions whose end is given.
    Of several that are equally far, it is the first by name."""
    found: dict[str, Furthest] = {}
    for group, offsets in sorted(commits.items()):
        lags: dict[str, int] = {}
        for where, committed in offsets.items():
            if (end := ends.get(where)) is not None:
                lags[where.topic] = lags.get(where.topic, 0) + max(0, end - committed)
        for topic, lag in lags.items():
            before = found.get(topic)
            if before is None:
                found[topic] = Furthest(group, lag, 1)
            else:
                is_further = lag > before.lag
                found[topic] = Furthest(group if is_further else before.group, max(lag, before.lag), before.groups + 1)
    return found

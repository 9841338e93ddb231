"""Sets of a streams application's tasks, and the tasks that members hold.

A task is one partition of a subtopology. It runs once, as the active task. Standby tasks, and warm-up tasks, which are about to
become active, keep copies of its state. Values here are never changed in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

TaskIds = Mapping[str, frozenset[int]]
"""The partitions by subtopology; there are no subtopologies without partitions."""

ActiveTasks = Mapping[str, Mapping[int, int]]
"""The partitions by subtopology, each with the epoch in which the member got it, so that late commits can be told from valid
ones.
"""

NONE: Final[Mapping[str, Any]] = MappingProxyType({})


class Tasks(NamedTuple):
    """The tasks that a member is to hold (its target assignment), or reports to hold."""

    active: TaskIds = NONE
    standby: TaskIds = NONE
    warmup: TaskIds = NONE

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)


class HeldTasks(NamedTuple):
    """The tasks that a member holds, or has to give up, as the coordinator knows them."""

    active: ActiveTasks = NONE
    standby: TaskIds = NONE
    warmup: TaskIds = NONE

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)

    def as_tasks(self) -> Tasks:
        return Tasks(
            {subtopology: frozenset(partitions) for subtopology, partitions in self.active.items()}, self.standby, self.warmup
        )


NOTHING_HELD = HeldTasks()
NO_TASKS = Tasks()


def merge(left: HeldTasks, right: HeldTasks) -> HeldTasks:
    active = {subtopology: dict(partitions) for subtopology, partitions in left.active.items()}
    for subtopology, partitions in right.active.items():
        active[subtopology] = active.get(subtopology, {}) | dict(partitions)
    return HeldTasks(active, _union(left.standby, right.standby), _union(left.warmup, right.warmup))


def _union(left: TaskIds, right: TaskIds) -> TaskIds:
    union = dict(left)
    for subtopology, partitions in right.items():
        union[subtopology] = union.get(subtopology, frozenset()) | partitions
    return union


def overlap(owned: Tasks, held: HeldTasks) -> bool:
    """Returns whether any of `held` is among `owned`, in the same role."""
    return any(
        not mine.get(subtopology, frozenset()).isdisjoint(partitions)
        for mine, theirs in zip(owned, held, strict=True)
        for subtopology, partitions in theirs.items()
    )


def contained(owned: Tasks, held: HeldTasks) -> bool:
    """Returns whether all of `owned` is held, in the same role. A subtopology in `owned` must be held even without partitions."""
    return all(
        subtopology in theirs and partitions <= frozenset(theirs[subtopology])
        for mine, theirs in zip(owned, held, strict=True)
        for subtopology, partitions in mine.items()
    )

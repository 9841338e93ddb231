"""The task assignor `sticky`, which decides which member runs which task.

Tasks stay where they were as long as no member gets more than an even share; the rest goes to the members with the fewest tasks.
A process is one instance of the application, with a member for each of its threads: it runs no task twice, and its load is its
number of tasks divided by its members. The result is the same as that of Kafka 4.4's assignor of this name, task for task
(tests/server/group/streams compares it with recorded assignments). Therefore the order of members matters; see java_order.

1. Active tasks go to the member that had the task active, then to one that had its state (as a standby task, or because it
reports offsets of the state), both only below the even share. The rest goes, in the order of subtopologies, to the process with
the least load. 2. Standby tasks of subtopologies with state are assigned by the same rules, but never to a process that has the
task already. A standby task for which there is no process stays unassigned.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ottla.server.base.turns import Steps
from ottla.server.group.modern.java_order import PriorityQueue, computed_map_order, hash_order, string_hash
from ottla.server.group.streams.tasks import NO_TASKS, NONE, TaskIds, Tasks

logger = logging.getLogger("ottla.server.group")

Task = tuple[str, int]
"""A task: subtopology and partition."""


class MemberSpec(NamedTuple):
    """A member as the assignor sees it."""

    process_id: str
    previous: Tasks = NO_TASKS  # its target assignment so far
    offsets: Mapping[str, Mapping[int, int]] = NONE  # subtopology -> partition -> sum of the offsets of the state it has on disk


class SubtopologySpec(NamedTuple):
    """A subtopology as the assignor sees it: how many tasks it has, and whether they keep state."""

    tasks: int
    stateful: bool


class _Candidate(NamedTuple):
    member_id: str
    is_standby: bool
    offset_sum: int


def assign(
    members: Mapping[str, MemberSpec], subtopologies: Mapping[str, SubtopologySpec], standby_replicas: int
) -> Steps[dict[str, Tasks]]:
    """Makes steps that return the target assignment of every member, each about one task or one member. `members` and
    `subtopologies` must be in the order of Kafka's collections.
    """
    assignment = _Assignment(members, subtopologies, standby_replicas)
    yield from assignment.look_back()
    yield from assignment.assign_active()
    if standby_replicas > 0:
        yield from assignment.assign_standby()
    return (yield from assignment.result())


class _Process:
    """One instance of the application and its members."""

    def __init__(self) -> None:
        self.tasks: set[Task] = set()
        self.counts: dict[str, int] = {}  # member -> tasks
        self.load = 0.0
        self._least_loaded: PriorityQueue[str] | None = None

    def add_member(self, member_id: str) -> None:
        self.counts[member_id] = 0

    def add(self, member_id: str, task: Task) -> int:
        """Gives a task to a member. Returns the member's number of tasks."""
        self._least_loaded = None
        return self._count(member_id, task)

    def add_to_least_loaded(self, task: Task) -> tuple[str, int]:
        """Gives a task to the member with the fewest. Returns that member and its number of tasks."""
        if len(self.counts) == 1:
            member_id = next(iter(self.counts))
            return member_id, self._count(member_id, task)
        if self._least_loaded is None:
            self._least_loaded = PriorityQueue(self.counts.__getitem__, hash_order(self.counts, string_hash))
        least = self._least_loaded.poll()
        assert least is not None, "a process without members"
        count = self._count(least, task)
        self._least_loaded.add(least)
        return least, count

    def _count(self, member_id: str, task: Task) -> int:
        self.tasks.add(task)
        self.counts[member_id] += 1
        self.load = len(self.tasks) / len(self.counts)
        return self.counts[member_id]


class _Quota:
    """The even share of a number of tasks. A member that has reached it takes no further part, and the others share the rest."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.per_member = 0
        self._share()

    def _share(self) -> None:
        self.per_member = -(-self._tasks // self._members) if self._members else 0

    def note_count(self, count: int) -> None:
        """Notes the number of tasks that a member has after it got one."""
        if count == self.per_member:
            self._members -= 1
            self._tasks -= count
            self._share()


class _Assignment:
    def __init__(
        self, members: Mapping[str, MemberSpec], subtopologies: Mapping[str, SubtopologySpec], standby_replicas: int
    ) -> None:
        self._members = members
        self._standby_replicas = standby_replicas
        self._counts = {name: spec.tasks for name, spec in subtopologies.items()}
        self._stateful = {name: spec.tasks for name, spec in subtopologies.items() if spec.stateful}
        tasks = sum(self._counts.values())
        self._active_quota = _Quota(tasks, len(members))
        self._quota = _Quota(tasks + sum(self._stateful.values()) * standby_replicas, len(members))
        self._processes: dict[str, _Process] = {}
        self._process_order = computed_map_order((spec.process_id for spec in members.values()), len(members))
        self._had_active: dict[Task, str] = {}
        self._had_state: dict[Task, list[str]] = {}
        self._active: dict[str, list[Task]] = {member_id: [] for member_id in members}
        self._standby: dict[str, list[Task]] = {member_id: [] for member_id in members}

    def look_back(self) -> Steps[None]:
        """Finds which members had each task, or its state."""
        candidates: dict[Task, list[_Candidate]] = {}
        for member_id, spec in self._members.items():
            self._processes.setdefault(spec.process_id, _Process()).add_member(member_id)
            for task in _listed(spec.previous.active):
                self._had_active[task] = member_id
                yield None
            for task, candidate in _candidates(member_id, spec):
                candidates.setdefault(task, []).append(candidate)
                yield None
            yield None
        for task, found in candidates.items():
            found.sort(key=lambda candidate: (not candidate.is_standby, -candidate.offset_sum))
            self._had_state[task] = [had.member_id for had in found]
            yield None

    def result(self) -> Steps[dict[str, Tasks]]:
        made = {}
        for member_id in self._members:
            made[member_id] = Tasks(_grouped(self._active[member_id]), _grouped(self._standby[member_id]))
            yield None
        return made

    def _by_load(self) -> PriorityQueue[_Process]:
        return PriorityQueue(lambda process: process.load, [self._processes[process_id] for process_id in self._process_order])

    def _process_of(self, member_id: str) -> _Process:
        return self._processes[self._members[member_id].process_id]

    # Active tasks

    def assign_active(self) -> Steps[None]:
        tasks = _by_partition(self._counts)
        left = yield from _unless(tasks, lambda task: self._keep_active(task, self._had_active.get(task)))
        left = yield from _unless(left, lambda task: self._keep_active(task, self._best(self._had_state.get(task, ()))))
        still_left = set(left)
        queue = self._by_load()
        for task in _by_name(self._counts):
            yield None
            if task not in still_left:
                continue
            process = queue.poll()
            if process is None:
                break  # no members
            member_id, count = process.add_to_least_loaded(task)
            self._active[member_id].append(task)
            self._active_quota.note_count(count)
            self._quota.note_count(count)
            queue.add(process)

    def _keep_active(self, task: Task, member_id: str | None) -> bool:
        if member_id is None:
            return False
        process = self._process_of(member_id)
        if process.counts[member_id] >= self._active_quota.per_member:
            return False
        count = process.add(member_id, task)
        self._active[member_id].append(task)
        self._active_quota.note_count(count)
        self._quota.note_count(count)
        return True

    def _best(self, member_ids: Sequence[str], may: Callable[[_Process], bool] = lambda process: True) -> str | None:
        """Returns the first of `member_ids`, unless a later one has both a less loaded process and fewer tasks of its own."""
        best = None
        best_load = best_count = 0.0
        for member_id in member_ids:
            process = self._process_of(member_id)
            if not may(process):
                continue
            count = process.counts[member_id]
            if best is None or (process.load < best_load and count < best_count):
                best, best_load, best_count = member_id, process.load, count
        return best

    # Standby tasks

    def assign_standby(self) -> Steps[None]:
        left: dict[Task, int] = {}
        for task in reversed(list(_by_partition(self._stateful))):
            for placed in range(self._standby_replicas):
                if not self._keep_standby(task):
                    left[task] = self._standby_replicas - placed
                    break
            yield None
        queue = self._by_load()
        unplaced = 0
        for task in reversed(list(_by_name(self._stateful))):
            yield None
            for missing in range(left.get(task, 0), 0, -1):
                if not self._place_standby(queue, task):
                    unplaced += missing
                    break
        if unplaced:
            logger.warning("%d standby tasks stay unassigned; start more instances of the application to run them", unplaced)

    def _keep_standby(self, task: Task) -> bool:
        previous = self._had_active.get(task)
        if previous is not None and task not in self._process_of(previous).tasks and self._below_quota(previous):
            return self._take_standby(previous, task)
        best = self._best(self._had_state.get(task, ()), lambda process: task not in process.tasks)
        if best is not None and self._below_quota(best):
            return self._take_standby(best, task)
        return False

    def _below_quota(self, member_id: str) -> bool:
        return self._process_of(member_id).counts[member_id] < self._quota.per_member

    def _take_standby(self, member_id: str, task: Task) -> bool:
        self._quota.note_count(self._process_of(member_id).add(member_id, task))
        self._standby[member_id].append(task)
        return True

    def _place_standby(self, queue: PriorityQueue[_Process], task: Task) -> bool:
        """Gives the task to the least loaded process that does not have it yet. Returns False if all processes have it."""
        passed = []
        found = False
        while not found:
            process = queue.poll()
            if process is None:
                break
            passed.append(process)
            if task not in process.tasks:
                member_id, count = process.add_to_least_loaded(task)
                self._standby[member_id].append(task)
                self._quota.note_count(count)
                found = True
        for process in reversed(passed):
            queue.add(process)
        return found


def _candidates(member_id: str, spec: MemberSpec) -> Iterator[tuple[Task, _Candidate]]:
    """Yields the tasks whose state a member has on disk: its standby tasks, and others that it reports offsets of."""
    for name, partition in _listed(spec.previous.standby):
        offset_sum = spec.offsets.get(name, {}).get(partition, 0)
        yield (name, partition), _Candidate(member_id, True, offset_sum)
    for name, offsets in spec.offsets.items():
        standby = spec.previous.standby.get(name, frozenset())
        for partition, offset_sum in offsets.items():
            if partition not in standby:
                yield (name, partition), _Candidate(member_id, False, offset_sum)


def _by_partition(counts: Mapping[str, int]) -> Iterator[Task]:
    """Yields so many tasks of each subtopology, in the order of partitions, and those of one partition in the order of names."""
    names = sorted(counts)
    for partition in range(max(counts.values(), default=0)):
        names = [name for name in names if counts[name] > partition]
        for name in names:
            yield name, partition


def _by_name(counts: Mapping[str, int]) -> Iterator[Task]:
    """Yields the same tasks in the order of names, and those of one subtopology in the order of partitions."""
    return ((name, partition) for name in sorted(counts) for partition in range(counts[name]))


def _unless(tasks: Iterable[Task], is_done: Callable[[Task], bool]) -> Steps[list[Task]]:
    left = []
    for task in tasks:
        if not is_done(task):
            left.append(task)
        yield None
    return left


def _listed(tasks: TaskIds) -> Iterator[Task]:
    return ((name, partition) for name, partitions in tasks.items() for partition in partitions)


def _grouped(tasks: Sequence[Task]) -> TaskIds:
    grouped: dict[str, set[int]] = {}
    for name, partition in tasks:
        grouped.setdefault(name, set()).add(partition)
    return {name: frozenset(partitions) for name, partitions in sorted(grouped.items())}

"""The assignor `uniform` for groups whose members subscribe to different topics: it is sticky, and as even as the subscriptions
allow.

It has three steps, as in Kafka. (1) Members keep their partitions of topics that they still subscribe to. (2) Free partitions are
assigned, topic by topic, to the subscriber that has the fewest; topics with the most partitions per subscriber come first, while
it is easy to even things out. (3) Topic by topic, in rounds, partitions are moved from the subscriber that has the most to the
one that has the fewest, until a whole round moves nothing. With overlapping subscriptions that comes close to a balance, and it
ends after sixteen rounds.

The members with the most and the fewest are not looked up each time: the subscribers of a topic are sorted once, and two ranges
grow inwards from both ends (see _Scale). The choice among equal members decides which one gets what, so the order is exactly
Kafka's.
"""

from __future__ import annotations

from typing import Final

from ottla.server.base.turns import Steps
from ottla.server.group.modern.assignor import GroupAssignment, GroupSpec
from ottla.server.group.modern.java_order import uuid_key

MOST_ROUNDS: Final = 16
_NOBODY: Final = -1


def assign(group: GroupSpec) -> Steps[GroupAssignment]:
    """Makes steps that compute the assignment (see the module's docstring). They raise AssignorError for topics that do not
    exist.
    """
    builder = _Builder(group)
    yield from builder.subscribe()
    if not builder.subscribers:
        return {}
    yield from builder.keep()
    yield from builder.hand_out()
    yield from builder.balance()
    return (yield from builder.result())


class _Builder:
    """The assignment in progress. Members are numbers here, in the group's order. `_owners` has, for each topic and partition,
    the member or -1.
    """

    def __init__(self, group: GroupSpec) -> None:
        self._group = group
        self._member_ids = list(group.members)
        self._sizes = [0] * len(self._member_ids)
        self.subscribers: dict[bytes, list[int]] = {}
        self._owners: dict[bytes, list[int]] = {}

    def subscribe(self) -> Steps[None]:
        group = self._group
        for number, member in enumerate(group.members.values()):
            for topic_id in member.topics:
                self.subscribers.setdefault(topic_id, []).append(number)
            yield None
        self._owners = {topic_id: [_NOBODY] * group.partitions_of(topic_id) for topic_id in self.subscribers}

    def keep(self) -> Steps[None]:
        for number, member in enumerate(self._group.members.values()):
            wanted = frozenset(member.topics)
            for topic_id, partitions in member.assignment.items():
                if topic_id in wanted:
                    self._sizes[number] += len(partitions)
                    for index in partitions:
                        self._owners[topic_id][index] = number
            yield None

    def hand_out(self) -> Steps[None]:
        free = {
            topic_id: indexes
            for topic_id, owners in self._owners.items()
            if (indexes := [index for index, owner in enumerate(owners) if owner == _NOBODY])
        }
        for topic_id in sorted(free, key=self._rank):
            scale = _Scale(self.subscribers[topic_id], self._sizes)
            for index in free[topic_id]:
                self._give(topic_id, index, scale.next_least())
            yield None

    def balance(self) -> Steps[None]:
        topics = sorted((topic for topic, members in self.subscribers.items() if len(members) > 1), key=self._rank)
        last_moved = _NOBODY
        for _ in range(MOST_ROUNDS):
            for position, topic_id in enumerate(topics):
                if position == last_moved:
                    return  # a whole round has moved nothing else
                if self._balance_topic(topic_id) or last_moved == _NOBODY:
                    last_moved = position
                yield None

    def result(self) -> Steps[GroupAssignment]:
        sets: list[dict[bytes, set[int]]] = [{} for _ in self._member_ids]
        for topic_id, owners in self._owners.items():
            for index, owner in enumerate(owners):
                if owner != _NOBODY:
                    sets[owner].setdefault(topic_id, set()).add(index)
            yield None
        target: GroupAssignment = {}
        for member_id, held in zip(self._member_ids, sets, strict=True):
            target[member_id] = {topic_id: frozenset(indexes) for topic_id, indexes in held.items()}
            yield None
        return target

    def _rank(self, topic_id: bytes) -> tuple[float, int, tuple[int, int]]:
        """Returns a key that sorts by most partitions per subscriber, then by fewest subscribers, then by topic id."""
        subscribers = len(self.subscribers[topic_id])
        return -(len(self._owners[topic_id]) / subscribers), subscribers, uuid_key(topic_id)

    def _balance_topic(self, topic_id: bytes) -> bool:
        """Evens out one topic among its subscribers. Returns whether anything was moved."""
        members = self.subscribers[topic_id]
        sizes = [self._sizes[member] for member in members]
        if max(sizes) - min(sizes) <= 1:
            return False
        held: dict[int, list[int]] = {}
        for index, owner in enumerate(self._owners[topic_id]):
            held.setdefault(owner, []).append(index)
        scale = _Scale(members, self._sizes)
        moved = False
        while True:
            giver = scale.next_most()
            while giver is not None and not held.get(giver):
                scale.exclude_most()
                giver = scale.next_most()
            if giver is None:
                return moved
            index = held[giver].pop()
            taker = scale.next_least()
            if scale.is_balanced:
                return moved
            self._give(topic_id, index, taker)
            moved = True

    def _give(self, topic_id: bytes, index: int, member: int) -> None:
        owner = self._owners[topic_id][index]
        if owner != _NOBODY:
            self._sizes[owner] -= 1
        self._owners[topic_id][index] = member
        self._sizes[member] += 1


class _Scale:
    """The subscribers of one topic in the order of how many partitions they have; it chooses which one gets or gives the next.

    `sizes` is shared and changes as partitions are moved, while the order here is that of the beginning. The least loaded are
    [0, _least_end), and all of them get `_least` partitions before the range grows; the most loaded are [_most_start, _most_end),
    and all of them are brought down to `_most`. The end shrinks when a member has nothing to give.
    """

    def __init__(self, members: list[int], sizes: list[int]) -> None:
        self._sizes = sizes
        self._sorted = sorted(members, key=lambda member: (sizes[member], member))
        self._least_end = 0
        self._least = sizes[self._sorted[0]] - 1
        self._next_least = 0
        self._most_start = self._most_end = len(self._sorted)
        self._most = sizes[self._sorted[-1]] + 1
        self._next_most = len(self._sorted) - 1

    @property
    def is_balanced(self) -> bool:
        return self._most - self._least <= 1

    def next_least(self) -> int:
        """Returns the member that gets the next partition."""
        if self._next_least >= self._least_end:
            self._least += 1
            while self._least_end < len(self._sorted) and self._sizes[self._sorted[self._least_end]] == self._least:
                self._least_end += 1
            self._next_least = 0
        self._next_least += 1
        return self._sorted[self._next_least - 1]

    def next_most(self) -> int | None:
        """Returns the member that gives the next partition, or None when no member has any left."""
        if self._next_most < self._most_start:
            if self._most_end <= self._most_start and self._most_start > 0:
                self._most = self._sizes[self._sorted[self._most_start - 1]]  # all of the range were excluded
            else:
                self._most -= 1
            while self._most_start > 0 and self._sizes[self._sorted[self._most_start - 1]] == self._most:
                self._most_start -= 1
            self._next_most = self._most_end - 1
        if self._next_most < 0:
            return None
        self._next_most -= 1
        return self._sorted[self._next_most + 1]

    def exclude_most(self) -> None:
        """Removes the member that `next_most` returned last from the range, because it has nothing to give."""
        last = self._most_end - 1
        here = self._next_most + 1
        self._sorted[here], self._sorted[last] = self._sorted[last], self._sorted[here]
        self._most_end -= 1

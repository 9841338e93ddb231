"""`uniform` for groups whose members subscribe to different topics: as equal as the subscriptions allow, and sticky.

Three steps, as in Kafka. (1) Members keep what they have of topics that they still want. (2) What is free is handed out, topic by
topic, to the subscriber that has least; topics with most partitions a subscriber come first, while it is easy to even
things out. (3) Topic by topic, over and over, partitions go from the subscriber that has most to the one that has least, until a
whole round moves nothing: with overlapping subscriptions that comes close to a balance, and it ends after sixteen rounds.

Who has most or least is not looked up each time: the subscribers of a topic are sorted once, and two ranges grow inwards from
both ends (see _Scale). Which of several equal members it is decides who gets what, so the order is Kafka's to the last tie.
"""

from __future__ import annotations

from typing import Final

from ottla.server.group.modern.assignor import GroupAssignment, GroupSpec
from ottla.server.group.modern.java_order import uuid_key

MOST_ROUNDS: Final = 16
_NOBODY: Final = -1


def assign(group: GroupSpec) -> GroupAssignment:
    """See the module. AssignorError for topics that do not exist."""
    builder = _Builder(group)
    if not builder.subscribers:
        return {}
    builder.keep()
    builder.hand_out()
    builder.balance()
    return builder.result()


class _Builder:
    """Members are numbers in here, in the group's order. `owners`: topic -> by partition, the member or -1."""

    def __init__(self, group: GroupSpec) -> None:
        self._group = group
        self._member_ids = list(group.members)
        self._sizes = [0] * len(self._member_ids)
        self.subscribers: dict[bytes, list[int]] = {}
        for number, member in enumerate(group.members.values()):
            for topic_id in member.topics:
                group.partitions_of(topic_id)
                self.subscribers.setdefault(topic_id, []).append(number)
        self._owners = {topic_id: [_NOBODY] * group.partitions_of(topic_id) for topic_id in self.subscribers}

    def keep(self) -> None:
        for number, member in enumerate(self._group.members.values()):
            wanted = frozenset(member.topics)
            for topic_id, partitions in member.assignment.items():
                if topic_id in wanted:
                    self._sizes[number] += len(partitions)
                    for index in partitions:
                        self._owners[topic_id][index] = number

    def hand_out(self) -> None:
        free = {
            topic_id: indexes
            for topic_id, owners in self._owners.items()
            if (indexes := [index for index, owner in enumerate(owners) if owner == _NOBODY])
        }
        for topic_id in sorted(free, key=self._rank):
            scale = _Scale(self.subscribers[topic_id], self._sizes)
            for index in free[topic_id]:
                self._give(topic_id, index, scale.next_least())

    def balance(self) -> None:
        topics = sorted((topic for topic, members in self.subscribers.items() if len(members) > 1), key=self._rank)
        last_moved = _NOBODY
        for _ in range(MOST_ROUNDS):
            for position, topic_id in enumerate(topics):
                if position == last_moved:
                    return  # once around, and nothing else could be moved
                if self._balance_topic(topic_id) or last_moved == _NOBODY:
                    last_moved = position

    def result(self) -> GroupAssignment:
        sets: list[dict[bytes, set[int]]] = [{} for _ in self._member_ids]
        for topic_id, owners in self._owners.items():
            for index, owner in enumerate(owners):
                if owner != _NOBODY:
                    sets[owner].setdefault(topic_id, set()).add(index)
        return {
            member_id: {topic_id: frozenset(indexes) for topic_id, indexes in held.items()}
            for member_id, held in zip(self._member_ids, sets, strict=True)
        }

    def _rank(self, topic_id: bytes) -> tuple[float, int, tuple[int, int]]:
        """Most partitions a subscriber first; then fewest subscribers; then the lower id."""
        subscribers = len(self.subscribers[topic_id])
        return -(len(self._owners[topic_id]) / subscribers), subscribers, uuid_key(topic_id)

    def _balance_topic(self, topic_id: bytes) -> bool:
        """Even out one topic among its subscribers; whether anything was moved."""
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
    """The subscribers of one topic by what they hold, and whose turn it is to get or to give.

    `sizes` is shared and changes as partitions are moved; the order in here is that of the beginning. The least loaded are
    [0, _least_end) and are all brought to `_least` partitions before the range grows; the most loaded are
    [_most_start, _most_end), all brought down to `_most`. The end shrinks where somebody has nothing to give.
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
        """Who gets the next partition."""
        if self._next_least >= self._least_end:
            self._least += 1
            while self._least_end < len(self._sorted) and self._sizes[self._sorted[self._least_end]] == self._least:
                self._least_end += 1
            self._next_least = 0
        self._next_least += 1
        return self._sorted[self._next_least - 1]

    def next_most(self) -> int | None:
        """Who gives the next partition; None when nobody has any left."""
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
        """The last answer of `next_most` has nothing to give: out of the range with it."""
        last = self._most_end - 1
        here = self._next_most + 1
        self._sorted[here], self._sorted[last] = self._sorted[last], self._sorted[here]
        self._most_end -= 1

"""server/group/offsets.py against a model that keeps every commit by itself: plain ones, pending ones, and what deletes them."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ottla.server.group.offsets import NO_PRODUCER_ID, Offsets
from ottla.server.group.records import OffsetRecord, offset_tombstone
from ottla.wire.messages.internal.offset_commit_key import OffsetCommitKey
from ottla.wire.messages.internal.offset_commit_value import OffsetCommitValue
from ottla.wire.primitives import ZERO_UUID

GROUPS, TOPICS, PARTITIONS, PRODUCERS = ("g", "h"), ("t", "u"), (0, 1), (7, 8)
groups, topics, producers = st.sampled_from(GROUPS), st.sampled_from(TOPICS), st.sampled_from(PRODUCERS)
partitions = st.sampled_from(PARTITIONS)

Place = tuple[str, str, int]
"""A group, a topic and a partition."""


class OffsetsMachine(RuleBasedStateMachine):
    """Every commit has a number of its own, which is its offset in the log as well. `history` is the log."""

    def __init__(self) -> None:
        super().__init__()
        self.offsets = Offsets()
        self.committed: dict[Place, int] = {}
        self.pending: dict[int, dict[Place, int]] = {producer_id: {} for producer_id in PRODUCERS}
        self.history: list[tuple[OffsetRecord, int] | tuple[int, bool]] = []

    def replay(self, record: OffsetRecord, producer_id: int = NO_PRODUCER_ID) -> int:
        number = len(self.history)
        self.history.append((record, producer_id))
        self.offsets.replay(record, number, producer_id)
        return number

    def commit_record(self, place: Place) -> OffsetRecord:
        return OffsetRecord(OffsetCommitKey(*place), OffsetCommitValue(len(self.history), -1, "", 0, -1, ZERO_UUID))

    @rule(group=groups, topic=topics, partition=partitions)
    def commit(self, group: str, topic: str, partition: int) -> None:
        place = group, topic, partition
        self.committed[place] = self.replay(self.commit_record(place))

    @rule(producer_id=producers, group=groups, topic=topics, partition=partitions)
    def commit_in_a_transaction(self, producer_id: int, group: str, topic: str, partition: int) -> None:
        place = group, topic, partition
        self.pending[producer_id][place] = self.replay(self.commit_record(place), producer_id)

    @rule(producer_id=producers, committed=st.booleans())
    def end_the_transaction(self, producer_id: int, committed: bool) -> None:
        self.history.append((producer_id, committed))
        self.offsets.end_transaction(producer_id, committed=committed)
        if committed:
            for place, number in self.pending[producer_id].items():
                self.committed[place] = max(number, self.committed.get(place, -1))
        self.pending[producer_id] = {}

    @rule(group=groups)
    def delete_the_group(self, group: str) -> None:
        self.bury(self.offsets.delete_group(group), {place for place in self.places() if place[0] == group})

    @rule(group=groups, topic=topics, partition=partitions)
    def delete_one(self, group: str, topic: str, partition: int) -> None:
        self.bury(self.offsets.delete(group, topic, [partition, partition]), self.places() & {(group, topic, partition)})

    def _delete_topic(self, topic: str) -> list[OffsetRecord]:
        upto = self.offsets.last_record
        return [each for group in self.offsets.group_ids() for each in self.offsets.delete_of_topic(group, topic, upto)]

    @rule(topic=topics)
    def delete_the_topic(self, topic: str) -> None:
        self.bury(self._delete_topic(topic), {place for place in self.places() if place[1] == topic})

    def places(self) -> set[Place]:
        """Returns where there is a commit, plain or pending."""
        return set(self.committed).union(*self.pending.values())

    def bury(self, tombstones: list[OffsetRecord], expected: set[Place]) -> None:
        places = [(record.key.group, record.key.topic, record.key.partition) for record in tombstones]
        assert sorted(places) == sorted(expected), "not a tombstone for each of them, and only these"
        for place in places:
            self.replay(offset_tombstone(*place))
            for known in (self.committed, *self.pending.values()):
                known.pop(place, None)

    @rule()
    def load_again(self) -> None:
        again = Offsets()
        for number, (what, how) in enumerate(self.history):
            if isinstance(what, OffsetRecord):
                again.replay(what, number, how)
            else:
                again.end_transaction(what, committed=bool(how))
        assert [again._groups, again._pending, again._open] == [self.offsets._groups, self.offsets._pending, self.offsets._open]
        self.offsets = again

    @invariant()
    def what_counts_is_known(self) -> None:
        for group in GROUPS:
            found = {
                (group, topic, partition): committed.value.offset
                for topic, by_partition in self.offsets.of_group(group).items()
                for partition, committed in by_partition.items()
            }
            assert found == {place: number for place, number in self.committed.items() if place[0] == group}

    @invariant()
    def a_topics_readers_are_known(self) -> None:
        for topic in TOPICS:
            assert set(self.offsets.group_ids_with(topic)) == {place[0] for place in self.places() if place[1] == topic}
        assert self.offsets._readers.keys() == {place[1] for place in self.places()}, "nothing is kept of other topics"

    @invariant()
    def what_may_change_is_unstable(self) -> None:
        pending = set().union(*self.pending.values())
        for place in ((group, topic, partition) for group in GROUPS for topic in TOPICS for partition in PARTITIONS):
            assert self.offsets.is_unstable(*place) == (place in pending)


TestOffsets = OffsetsMachine.TestCase
TestOffsets.settings = settings(max_examples=60, stateful_step_count=30, derandomize=True, deadline=None)

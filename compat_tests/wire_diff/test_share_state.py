"""The share coordinator: its five requests and FindCoordinator's share keys, each with successes, refusals and sequences.

What is kept is seen through ReadShareGroupState and its summary; that either broker reads the other's records in
`__share_group_state` is in test_cold_swap_share.py.
"""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest

from compat_tests.waiting import wait_for
from compat_tests.wire import Wire
from compat_tests.wire_diff.same import check
from ottla.wire.messages import delete_share_group_state as deleting
from ottla.wire.messages import initialize_share_group_state as initializing
from ottla.wire.messages import read_share_group_state as reading
from ottla.wire.messages import read_share_group_state_summary as summing
from ottla.wire.messages import write_share_group_state as writing
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.primitives import ZERO_UUID, uuid_to_text

SHARE = 2
NOT_YET = (3, 14, 15, 16)
"""Kafka's coordinator loads its partitions some time after FindCoordinator names it, and hears of a new topic some time after the
topic's partitions are served."""
NO_TOPIC = b"\x07" * 16


class ShareState:
    """A share group, a topic with two partitions, and the requests of its partitions' leaders."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.topic = wire.create("t", 2)
        self.topic_id = wire.topic_ids[self.topic]
        self.group = wire.name("g")
        for partition in (0, 1):
            wait_for(partial(self.is_served, partition), "there is a share coordinator")

    def is_served(self, partition: int) -> bool:
        if self.find(self.key(partition)).error_code:
            return False
        return self.summary(partition).results[0].partitions[0].error_code not in NOT_YET

    def key(self, partition: int = 0) -> str:
        return f"{self.group}:{uuid_to_text(self.topic_id)}:{partition}"

    def find(self, key: str) -> Any:
        return self.wire.call(FindCoordinatorRequest(key_type=SHARE, coordinator_keys=[key]), 6).coordinators[0]

    def begin(self, partition: int = 0, state_epoch: int = 1, start: int = 0, topic_id: bytes | None = None) -> Any:
        part = initializing.PartitionData(partition, state_epoch, start)
        topic = initializing.InitializeStateData(topic_id or self.topic_id, [part])
        return self.wire.call(initializing.InitializeShareGroupStateRequest(self.group, [topic]), 0)

    def read(self, partition: int = 0, leader_epoch: int = 0, topic_id: bytes | None = None) -> Any:
        topic = reading.ReadStateData(topic_id or self.topic_id, [reading.PartitionData(partition, leader_epoch)])
        return self.wire.call(reading.ReadShareGroupStateRequest(self.group, [topic]), 0)

    def summary(self, partition: int = 0, leader_epoch: int = 0, version: int = 1, topic_id: bytes | None = None) -> Any:
        topic = summing.ReadStateSummaryData(topic_id or self.topic_id, [summing.PartitionData(partition, leader_epoch)])
        return self.wire.call(summing.ReadShareGroupStateSummaryRequest(self.group, [topic]), version)

    def delete(self, partition: int = 0, topic_id: bytes | None = None) -> Any:
        topic = deleting.DeleteStateData(topic_id or self.topic_id, [deleting.PartitionData(partition)])
        return self.wire.call(deleting.DeleteShareGroupStateRequest(self.group, [topic]), 0)

    def write(
        self,
        *batches: tuple[int, int, int, int],
        partition: int = 0,
        state_epoch: int = 1,
        leader_epoch: int = 0,
        start: int = 0,
        complete: int = 0,
        version: int = 1,
        topic_id: bytes | None = None,
    ) -> Any:
        """Batches: first and last offset, delivery state, delivery count."""
        found = [writing.StateBatch(*each) for each in batches]
        part = writing.PartitionData(partition, state_epoch, leader_epoch, start, complete if version else -1, found)
        topic = writing.WriteStateData(topic_id or self.topic_id, [part])
        return self.wire.call(writing.WriteShareGroupStateRequest(self.group, [topic]), version)

    def seen(self, partition: int = 0) -> Any:
        """All that is kept: the summary, and a read in the leader epoch there is, which changes nothing."""
        found = self.summary(partition, -1)
        leader_epoch = found.results[0].partitions[0].leader_epoch
        return [found, self.summary(partition, -1, 0), self.read(partition, leader_epoch)]


def before_anything(state: ShareState) -> Any:
    return [*state.seen(), state.write((0, 1, 2, 1)), state.delete(), *state.seen()]


def begun(state: ShareState) -> Any:
    return [state.begin(start=5), *state.seen(), state.begin(1, start=-1), *state.seen(1)]


def begun_again(state: ShareState) -> Any:
    return [
        state.begin(state_epoch=5),
        state.write((0, 4, 2, 1), (5, 9, 0, 1), state_epoch=5, complete=5),
        state.begin(state_epoch=4),
        state.begin(state_epoch=5),
        *state.seen(),
        state.write((0, 4, 2, 1), state_epoch=4),
        state.begin(state_epoch=-1, start=3),
        *state.seen(),
        state.begin(state_epoch=7, start=70),
        *state.seen(),
    ]


def written(state: ShareState) -> Any:
    return [
        state.begin(start=-1),
        state.write((10, 19, 0, 1), start=10, leader_epoch=2, complete=0),
        *state.seen(),
        state.write((10, 14, 2, 1), (17, 17, 4, 2), start=10, leader_epoch=2, complete=6),
        *state.seen(),
        state.write((15, 16, 2, 1), start=15, leader_epoch=2, complete=3, version=0),
        *state.seen(),
        state.write((18, 18, 1, 1), start=-1, leader_epoch=-1, state_epoch=-1, complete=4),
        *state.seen(),
        state.write(start=40, leader_epoch=2),
        *state.seen(),
    ]


def impossible_batches(state: ShareState) -> Any:
    return [state.begin(), state.write((5, 9, 2, 1), (30, 20, 2, 1)), *state.seen()]


def fenced(state: ShareState) -> Any:
    return [
        state.begin(),
        state.read(leader_epoch=4),
        state.read(leader_epoch=3),
        state.write((0, 0, 2, 1), leader_epoch=3),
        state.write((0, 0, 2, 1), leader_epoch=5),
        state.read(leader_epoch=4),
        state.summary(leader_epoch=4),
        state.summary(leader_epoch=6),
        state.read(leader_epoch=-1),
        state.write((0, 0, 2, 1), leader_epoch=5, state_epoch=0),
        state.write((0, 0, 2, 1), leader_epoch=5, state_epoch=2),
        state.write((1, 1, 2, 1), leader_epoch=5, state_epoch=1),
        *state.seen(),
        state.begin(state_epoch=3),
        state.read(leader_epoch=1),
        state.write((0, 0, 2, 1), leader_epoch=1, state_epoch=3),
        *state.seen(),
    ]


def deleted(state: ShareState) -> Any:
    return [
        state.begin(state_epoch=9),
        state.write((0, 3, 2, 1), state_epoch=9, leader_epoch=9),
        state.delete(),
        state.delete(),
        *state.seen(),
        state.write((0, 3, 2, 1), state_epoch=9, leader_epoch=9),
        state.begin(state_epoch=1),
        state.write((0, 3, 2, 1), state_epoch=1, leader_epoch=1),
        *state.seen(),
    ]


def impossible_names(state: ShareState) -> Any:
    answers = []
    for partition, topic_id in ((-1, None), (7, None), (0, NO_TOPIC), (0, ZERO_UUID)):
        answers += [
            state.begin(partition, topic_id=topic_id),
            state.read(partition, topic_id=topic_id),
            state.write((0, 0, 2, 1), partition=partition, topic_id=topic_id),
            state.summary(partition, topic_id=topic_id),
            state.delete(partition, topic_id=topic_id),
        ]
    return answers


def several_partitions(state: ShareState) -> Any:
    parts = [initializing.PartitionData(partition, 1, 0) for partition in (1, 0, 5, 1)]
    topics = [initializing.InitializeStateData(topic_id, parts) for topic_id in (state.topic_id, NO_TOPIC)]
    answers = [state.wire.call(initializing.InitializeShareGroupStateRequest(state.group, topics), 0)]
    wanted = [reading.ReadStateData(state.topic_id, [reading.PartitionData(partition, 0) for partition in (0, 1, 5)])]
    return [*answers, state.wire.call(reading.ReadShareGroupStateRequest(state.group, wanted), 0)]


REQUESTS: list[tuple[Any, Any, Any, int]] = [
    (initializing.InitializeShareGroupStateRequest, initializing.InitializeStateData, initializing.PartitionData, 0),
    (reading.ReadShareGroupStateRequest, reading.ReadStateData, reading.PartitionData, 0),
    (writing.WriteShareGroupStateRequest, writing.WriteStateData, writing.PartitionData, 1),
    (summing.ReadShareGroupStateSummaryRequest, summing.ReadStateSummaryData, summing.PartitionData, 1),
    (deleting.DeleteShareGroupStateRequest, deleting.DeleteStateData, deleting.PartitionData, 0),
]


def empty_requests(state: ShareState) -> Any:
    """No group, no topics, a topic without partitions; a topic with some beside it is not dealt with either."""
    answers = [state.begin()]
    for request, topic, partition, version in REQUESTS:
        whole, empty = topic(state.topic_id, [partition()]), topic(state.topic_id, [])
        for group, topics in (("", [whole]), (state.group, []), (state.group, [empty]), (state.group, [whole, empty])):
            answers.append(state.wire.call(request(group, topics), version))
    return [*answers, *state.seen()]


def coordinators(state: ShareState) -> Any:
    topic_id = uuid_to_text(state.topic_id)
    keys = [
        state.key(),
        f"{state.group}:{topic_id}:99",
        f"{state.group}:{topic_id}:-1",
        f"{state.group}:{topic_id}:x",
        f"{state.group}:{topic_id}:",
        f"{state.group}:{topic_id}",
        f"a:b:{topic_id}:0",
        f":{topic_id}:0",
        f" :{topic_id}:0",
        f"{state.group}:nonsense:0",
        f"{state.group}::0",
        f"{state.group}:{uuid_to_text(NO_TOPIC)}:0",
        f"{state.group}:{topic_id}:0:",
        f"{state.group}:{topic_id}:+1",
        f"{state.group}:{topic_id}: 1",
        "",
        "bad",
    ]
    answers = [[state.find(key).error_code, state.find(key).error_message != ""] for key in keys]
    state.wire.label(state.key(), "key")
    old = [state.wire.call(FindCoordinatorRequest(state.key(), SHARE, [state.key()]), version) for version in range(1, 6)]
    return [*answers, old]


SCENARIOS = [
    before_anything,
    begun,
    begun_again,
    written,
    impossible_batches,
    fenced,
    deleted,
    impossible_names,
    several_partitions,
    empty_requests,
    coordinators,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[scenario.__name__ for scenario in SCENARIOS])
def test_share_state(wires: dict[str, Wire], scenario: Any) -> None:
    name = "S8" if scenario is impossible_batches else f"share state: {scenario.__name__}"
    check(wires, name, lambda wire: scenario(ShareState(wire)))


@pytest.mark.parametrize("seed", range(3))
def test_batches_come_out_as_kafkas(wires: dict[str, Wire], seed: int) -> None:
    """Writes of random batches, each looked at: how they are cut and joined is the same."""

    def scenario(wire: Wire) -> Any:
        chance, state = random.Random(seed), ShareState(wire)
        answers, start = [state.begin()], 0
        for _ in range(25):
            batches = []
            for _ in range(chance.randint(0, 6)):
                first = start + chance.randrange(40)
                batches.append((first, first + chance.randrange(15), chance.choice((0, 2, 4)), chance.randint(1, 3)))
            start += chance.choice((0, 0, 1, 5))
            answers += [state.write(*batches, start=start, complete=chance.randrange(9)), state.read()]
        return answers

    check(wires, "random batches of share state", scenario)

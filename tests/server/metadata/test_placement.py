"""Tests of which brokers get the replicas of new partitions, and which a client may choose."""

from __future__ import annotations

from random import Random

import pytest

from ottla.server.metadata import placement
from ottla.server.metadata.image import BrokerImage
from ottla.server.metadata.operation import Refused
from ottla.wire.errors import ErrorCode

DIRECTORY = bytes(range(16))


def broker(
    broker_id: int, rack: str | None = None, *, fenced: bool = False, stopping: bool = False, cordoned: bool = False
) -> BrokerImage:
    directories = (DIRECTORY,) if cordoned else ()
    return BrokerImage(broker_id, 0, bytes(16), {}, rack, fenced, stopping, directories, directories, {})


def brokers(*made: BrokerImage) -> dict[int, BrokerImage]:
    return {one.broker_id: one for one in made}


def test_placement_spreads_leaders_and_followers() -> None:
    placed = placement.place(brokers(*map(broker, range(4))), 12, 2, Random(5))
    leaders = [replicas[0] for replicas in placed]
    assert all(leaders.count(broker_id) == 3 for broker_id in range(4))
    assert len(set(placed)) == 12  # each pair of leader and follower once
    assert all(len(set(replicas)) == 2 for replicas in placed)


def test_placement_spreads_replicas_over_racks() -> None:
    racks = {broker_id: f"r{broker_id % 3}" for broker_id in range(9)}
    placed = placement.place(brokers(*(broker(broker_id, rack) for broker_id, rack in racks.items())), 9, 3, Random(5))
    assert all(len({racks[broker_id] for broker_id in replicas}) == 3 for replicas in placed[:9:9])
    assert {replicas[0] for replicas in placed} == set(range(9))


@pytest.mark.parametrize("made", [(), (broker(1, fenced=True),)])
def test_placement_needs_a_broker(made: tuple[BrokerImage, ...]) -> None:
    with pytest.raises(Refused) as refused:
        placement.place(brokers(*made), 1, 1, Random(5))
    assert refused.value.code == ErrorCode.INVALID_REPLICATION_FACTOR


class First(Random):
    """Draws the same number each time."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return self.number % start


@pytest.mark.parametrize(
    ("first", "partitions", "factor", "placed"),
    [
        (0, 7, 3, [(0, 1, 2), (1, 2, 0), (2, 0, 1), (0, 2, 1), (1, 0, 2), (2, 1, 0), (0, 1, 2)]),
        (2, 4, 2, [(2, 0), (0, 1), (1, 2), (2, 1)]),
        (1, 2, 1, [(1,), (2,)]),
    ],
)
def test_each_round_shifts_the_followers_by_one_more(
    first: int, partitions: int, factor: int, placed: list[tuple[int, ...]]
) -> None:
    assert placement.place(brokers(*map(broker, range(3))), partitions, factor, First(first)) == placed


def test_a_single_broker_has_every_partition() -> None:
    assert placement.place(brokers(broker(4)), 2, 1, First(0)) == [(4,), (4,)]


def test_fenced_brokers_come_last_and_cordoned_ones_not_at_all() -> None:
    made = brokers(broker(0, fenced=True), broker(1), broker(2, cordoned=True), broker(3))
    assert placement.place(made, 2, 3, First(0)) == [(1, 3, 0), (3, 1, 0)]
    for factor, why in ((4, "have a log directory that is not in cordoned"), (5, r"the cluster has 4 broker\(s\)")):
        with pytest.raises(Refused, match=why):
            placement.place(made, 1, factor, First(0))


def test_racks_take_turns() -> None:
    made = brokers(broker(0, "b"), broker(1, "b"), broker(2, "a"), broker(3), broker(4, "a"))
    assert placement.place(made, 1, 5, First(0)) == [(3, 2, 0, 4, 1)]


@pytest.mark.parametrize(
    ("replicas", "factor", "why"),
    [
        ([1], None, None),
        ([3, 1], 2, None),
        ([], None, "at least one replica"),
        ([1, 9], None, "names broker 9, which does not exist"),
        ([1, 2], None, "log directories are all cordoned"),
        ([1, 1], None, "has the same broker twice"),
        ([1], 2, "1 replicas are assigned where the other partitions have 2"),
        ([3, 4], None, "is fenced or stopping"),
    ],
)
def test_replicas_that_a_client_chooses(replicas: list[int], factor: int | None, why: str | None) -> None:
    made = brokers(broker(1), broker(2, cordoned=True), broker(3, fenced=True), broker(4, stopping=True))
    if why is None:
        placement.check_assignment(made, replicas, factor)
        return
    with pytest.raises(Refused, match=why) as refused:
        placement.check_assignment(made, replicas, factor)
    assert refused.value.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT

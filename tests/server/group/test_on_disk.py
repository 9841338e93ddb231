"""These tests run groups over real partitions of the log layer: what was acknowledged is there again after the process was
killed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ottla.log.config import LogConfig
from ottla.log.management.manager import LogManager
from ottla.log.validate import Origin
from ottla.server.base.randomness import from_system
from ottla.server.coordination.internal_topic import Appended
from ottla.server.group.coordinator import GroupCoordinator
from ottla.server.group.coordinator_config import GroupCoordinatorConfig
from ottla.server.metadata.names import CONSUMER_OFFSETS
from ottla.wire.errors import ErrorCode
from tests.in_loop import in_loop
from tests.memdisk import MemDisk
from tests.server.coordination.memory import NODE_ID, CoordinatorClock
from tests.server.group.fakes import Broker, Driver, answer_of

PARTITIONS = 2


class Partitions:
    """The partitions of `__consumer_offsets` as the coordinator sees them, over a disk that outlives the process."""

    in_doubt = False

    def __init__(self, disk: MemDisk, clock: CoordinatorClock) -> None:
        # Segments below the least that a topic may ask for, so that a load reads several.
        config = replace(LogConfig.from_overrides({"cleanup.policy": "compact"}, None), segment_bytes=2_000)
        self.manager = LogManager(disk, ["/data"], clock.now_ms, config, random=random.Random(1))
        self.manager.lock()
        if None in self.manager.meta_properties().values():
            self.manager.format("cluster", NODE_ID)
        self.manager.open_all()
        self.logs = [self.manager.create(CONSUMER_OFFSETS, index, bytes(15) + b"\x09", config) for index in range(PARTITIONS)]

    def partition_count(self) -> int:
        return PARTITIONS

    def leads(self, partition: int) -> bool:
        return True

    def leader_epoch(self, partition: int) -> int:
        return 0

    def append(self, partition: int, batch: bytes) -> Appended:
        return self.logs[partition].append_as_leader(batch, leader_epoch=0, origin=Origin.COORDINATOR).base_offset, None

    def read(self, partition: int) -> Iterator[bytes]:
        return self.logs[partition].iterate_batches(0)

    def replicated(self, partition: int) -> None:
        return None


def start(disk: MemDisk, clock: CoordinatorClock, **settings: Any) -> Driver:
    """Returns a broker process on `disk` with its groups loaded."""
    broker = Broker(clock=clock)
    settings.setdefault("initial_rebalance_delay_ms", 0)
    broker.groups = GroupCoordinator(
        Partitions(disk, clock), clock, GroupCoordinatorConfig(**settings), broker.metadata, from_system()
    )
    broker.groups.refresh()
    return Driver(broker)


def kill(disk: MemDisk, clock: CoordinatorClock) -> None:
    """Kills the process as kill -9 does: the page cache stays, while locks and timers are gone."""
    disk._locks.clear()
    clock._timers.clear()


@in_loop
async def test_a_killed_brokers_groups_go_on_where_they_were() -> None:
    clock = CoordinatorClock()
    disk = MemDisk(clock.now_ms)
    before = start(disk, clock)
    members, generation = before.stable(3)
    for offset in range(60):
        assert before.commit({offset % 3: offset}, member=members[0], generation=generation) == [ErrorCode.NONE]
    before.commit({0: 9}, group="simple")
    kill(disk, clock)

    after = start(disk, clock)
    assert after.fetch() == {"t": {0: 57, 1: 58, 2: 59}}
    assert after.fetch("simple") == {"t": {0: 9}}
    assert [after.heartbeat(member, generation) for member in members] == [ErrorCode.NONE] * 3
    assert [after.sync(member, generation).assignment for member in members] == [b"0", b"1", b"2"]
    log = after.broker.groups._log
    assert isinstance(log, Partitions)
    assert len(log.logs[0].segments) + len(log.logs[1].segments) > 2


@in_loop
async def test_a_broker_killed_in_the_middle_of_a_rebalance_is_back_before_it() -> None:
    clock = CoordinatorClock()
    disk = MemDisk(clock.now_ms)
    before = start(disk, clock)
    (member,), _ = before.stable()
    before.enter()
    assert before.state() == "PreparingRebalance"
    kill(disk, clock)

    after = start(disk, clock)
    assert (after.state(), after.heartbeat(member, 1)) == ("Stable", ErrorCode.NONE)
    newcomer, parked = after.enter()
    again = after.join(member=member)
    assert answer_of(again).generation_id == answer_of(parked).generation_id == 2
    assert newcomer != member


@in_loop
async def test_members_that_died_with_the_broker_expire_after_it() -> None:
    clock = CoordinatorClock()
    disk = MemDisk(clock.now_ms)
    before = start(disk, clock)
    before.stable(2)
    kill(disk, clock)
    after = start(disk, clock)
    clock.advance(9)
    assert after.state() == "Stable"
    clock.advance(1)
    assert after.state() == "Empty"


@in_loop
async def test_a_disk_that_fails_refuses_commits_and_keeps_what_was_acknowledged() -> None:
    clock = CoordinatorClock()
    disk = MemDisk(clock.now_ms)
    before = start(disk, clock)
    assert before.commit({0: 1}) == [ErrorCode.NONE]
    disk.fail("append", path=CONSUMER_OFFSETS)
    assert before.commit({0: 2}) == [ErrorCode.NOT_COORDINATOR]
    assert before.fetch() == {"t": {0: 1}}
    kill(disk, clock)
    assert start(disk, clock).fetch() == {"t": {0: 1}}

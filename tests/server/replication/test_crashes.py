"""The power is cut at every change of a follower's disk, while it appends, is cut where it parts from a new leader, and goes on:
after the next start it follows to the same bytes as its leader, and what it has is never anything else.
"""

from __future__ import annotations

from random import Random

import pytest

from ottla.server.replication.following import Following, State
from ottla.server.replication.leader_answers import begin, take
from tests.fakes import MemoryBroker
from tests.log.support import batch, settings
from tests.memdisk import MemDisk, PowerCut
from tests.server.replication.played import LEADER, LeaderLog, records

CONFIG = settings(segment_bytes=400)


def leader_of(*epochs: int) -> LeaderLog:
    """A leader's log with one batch of each epoch, some of an idempotent producer; batches of the same epoch and place are the
    same bytes."""
    leader = LeaderLog(CONFIG)
    for at, epoch in enumerate(epochs):
        producer = (9, 0, at) if at < 4 else None
        leader.append(batch(value=b"%d" % epoch * 40, producer=producer), leader_epoch=epoch)
    return leader


OLD, NEW = (0, 0, 0, 0, 0, 0, 0), (0, 0, 0, 2, 2, 2, 2, 2, 3)


def start(disk: MemDisk, leader_epoch: int) -> Following:
    """A broker on this disk, which follows `t-0`."""
    broker = MemoryBroker({}, disk=disk)
    broker.create_topic("t", leader=LEADER, followers=(LEADER,), segment_bytes="400", flush_messages="3")
    for _ in range(leader_epoch):
        broker.elect("t", LEADER)
    return Following(broker.replica(), LEADER)


def follow(following: Following, leader: LeaderLog) -> None:
    """Fetches until there is nothing new."""
    if following.state is State.TRUNCATING:
        begin(following, 0.0)
    while (asked := following.ask(300)) is not None:
        for _ in take(following, leader.fetched(asked), 0.0):
            pass
        assert following.state is State.FETCHING
        log = following.log
        if log.awaits_flush(log.log_end_offset):
            log.flush()


def life(disk: MemDisk) -> None:
    """All that happens to the follower."""
    following = start(disk, 0)
    follow(following, leader_of(*OLD))
    following.log.directory.save_all()
    following.replica.leader_epoch = 3
    follow(Following(following.replica, LEADER), leader_of(*NEW))
    following.log.flush()
    following.log.directory.save_all()


def changes() -> int:
    disk = MemDisk(lambda: 0)
    life(disk)
    return disk.changes


@pytest.mark.parametrize("seed", range(2))
def test_a_follower_comes_back_from_a_power_cut_at_any_change(seed: int) -> None:
    leader, old = leader_of(*NEW), leader_of(*OLD)
    expected = b"".join(leader.log.iterate_batches(0))
    count = changes()
    assert count > 40
    for at in range(count):
        disk = MemDisk(lambda: 0)
        disk.stop_after(at)
        with pytest.raises(PowerCut):
            life(disk)
        disk.stop_after(None)
        disk.crash(Random(f"{seed} {at}"))
        following = start(disk, 3)
        found = records(following.replica)
        assert any(b"".join(log.log.iterate_batches(0)).startswith(found) for log in (old, leader)), at
        follow(following, leader)
        assert records(following.replica) == expected, at
        assert following.log.epochs.entries == leader.log.epochs.entries, at
        assert following.log.producers.snapshot_bytes() == leader.log.producers.snapshot_bytes(), at

"""Tests what happens to partitions that a start could not open for want of room or descriptors: they are tried until it works."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from random import Random

import pytest

from ottla.log.disk import checkpoint
from ottla.log.disk.files import remove_tree
from ottla.log.errors import OpeningStopped, StorageError
from ottla.log.management.manager import LogManager
from ottla.log.producers import RECOUNT, UNLIMITED
from ottla.server.partitions.backlog import RETRY_SECONDS
from ottla.server.partitions.reopening import Reopening
from tests.fakes import ManualClock, run_at_once
from tests.log.support import DIRECTORY, NOW_MS, TOPIC_ID, batch, settings
from tests.memdisk import MemDisk


class Place:
    """A broker's logs after a kill and a start that had no descriptor for the partitions `without` of topic "t", which has
    three. `opened` are those that were handed over since. Each partition has `producers`, and all together may remember
    `most_producers`.
    """

    def __init__(self, *without: int, producers: int = 0, most_producers: int = UNLIMITED) -> None:
        self._most_producers = most_producers
        self.clock = ManualClock()
        self.disk = MemDisk(lambda: NOW_MS)
        logs = self._manager()
        logs.open_all()
        for partition in range(3):
            log = logs.create("t", partition, TOPIC_ID, settings())
            for _ in range(2):
                log.append_as_leader(batch(), leader_epoch=0)
                log.flush(1)
            for producer_id in range(producers):
                log.append_as_leader(batch(producer=(producer_id, 0, 0)), leader_epoch=0)
        logs.checkpoint_pass()
        logs.close(clean=False)
        for partition in without:
            self.fail(partition)
        self.logs = self._manager()
        self.logs.open_all()
        self.opened: list[int] = []
        self.running: list[tuple[Callable[[], None], Callable[[StorageError | None], None]]] = []
        self.reopening = Reopening(self.logs, self.clock, lambda _, index: self.opened.append(index), self._run)

    def _manager(self) -> LogManager:
        return LogManager(
            self.disk,
            [DIRECTORY],
            lambda: NOW_MS,
            settings(),
            random=Random(1),
            max_producers_in_all=self._most_producers,
        )

    def fail(self, partition: int, code: int = errno.EMFILE) -> None:
        """The next attempt to open the partition fails."""
        self.disk.fail("open", code, path=f"/t-{partition}/")

    def _run(self, job: Callable[[], None], done: Callable[[StorageError | None], None]) -> None:
        self.running.append((job, done))

    def attempt(self, seconds: float = RETRY_SECONDS) -> None:
        """Lets time pass, and then does the attempt that has begun."""
        self.clock.advance(seconds)
        assert len(self.running) == 1
        run_at_once(*self.running.pop())


def test_one_is_tried_every_second_in_turn_until_there_is_room_and_then_all(caplog: pytest.LogCaptureFixture) -> None:
    place = Place(0, 1)
    assert "not available until there is room: 2 partitions that the start could not open; opening t-0: " in caplog.text
    assert not place.running
    place.fail(0)
    place.attempt()
    assert place.reopening.waits("t", 0)
    place.fail(1, errno.ENOSPC)
    place.attempt()
    assert (place.opened, place.clock.waiting) == ([], 1)
    place.attempt()
    assert not place.reopening.waits("t", 0)
    assert place.reopening.waits("t", 1)
    place.attempt(0)
    assert place.opened == [0, 1]
    assert place.clock.waiting == 0
    assert [place.logs.logs["t", index].log_end_offset for index in range(3)] == [2, 2, 2]
    assert not place.logs.unavailable
    assert not place.logs.directories[0].unopened
    assert place.logs.directories[0].failed is None


def test_what_is_opened_late_is_recovered_as_by_the_start() -> None:
    place = Place(1)
    path = f"{DIRECTORY}/t-1/{0:020d}.log"
    data = place.disk.read_bytes(path)
    place.disk.write_bytes(path, data[:-1])
    place.attempt()
    assert place.logs.logs["t", 1].log_end_offset == 1
    assert place.disk.size(path) == len(data) // 2


def test_damage_that_the_attempt_finds_is_final() -> None:
    place = Place(1)
    path = f"{DIRECTORY}/t-1/{0:020d}.log"
    place.disk.write_bytes(path, place.disk.read_bytes(path)[1:])
    place.attempt()
    assert place.opened == []
    assert "below the recovery point" in place.logs.unavailable["t", 1]
    assert not place.reopening.waits("t", 1)
    assert place.clock.waiting == 0


def test_a_directory_that_fails_meanwhile_takes_its_partitions_along() -> None:
    place = Place(0, 2)
    place.fail(0, errno.EIO)
    place.attempt()
    assert not place.reopening.waits("t", 2)
    place.attempt(0)
    assert place.opened == []
    assert place.logs.unavailable.keys() == {("t", 0), ("t", 2)}
    assert place.clock.waiting == 0


def test_one_that_somebody_removes_meanwhile_is_lost_alone() -> None:
    place = Place(0, 1)
    remove_tree(place.disk, f"{DIRECTORY}/t-0")
    place.attempt()
    assert place.logs.unavailable["t", 0] == f"{DIRECTORY}/t-0 was removed before there was room to open it"
    assert not place.reopening.waits("t", 0)
    place.attempt(0)
    assert place.opened == [1]
    assert place.logs.directories[0].failed is None


def test_a_bug_of_ours_is_final(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise AssertionError("ours")

    place = Place(0)
    monkeypatch.setattr("ottla.log.opening.start.open_log", broken)
    place.clock.advance(RETRY_SECONDS)
    job, done = place.running.pop()
    with pytest.raises(AssertionError, match="ours"):
        job()
    done(StorageError("a bug"))
    assert place.logs.unavailable["t", 0] == "a bug"
    assert place.clock.waiting == 0


def test_a_stop_before_all_are_open_is_not_clean_and_keeps_what_the_checkpoints_say() -> None:
    place = Place(0)
    place.logs.close()
    assert not place.disk.exists(f"{DIRECTORY}/{checkpoint.CLEAN_SHUTDOWN}")
    points = checkpoint.read_offsets(place.disk, f"{DIRECTORY}/{checkpoint.RECOVERY_POINTS}")
    assert points == {("t", 0): 1, ("t", 1): 2, ("t", 2): 2}


def test_a_stop_waits_for_the_attempt_that_is_under_way_and_nothing_follows() -> None:
    async def scenario() -> None:
        place = Place(0, 1)
        place.clock.advance(RETRY_SECONDS)
        closing = asyncio.ensure_future(place.reopening.close())
        await asyncio.sleep(0)
        assert not closing.done()
        job, done = place.running.pop()
        with pytest.raises(OpeningStopped):
            job()
        done(OpeningStopped("stopped"))
        await closing
        place.clock.advance(10 * RETRY_SECONDS)
        assert not place.running
        assert place.opened == []

    asyncio.run(scenario())


def test_a_stop_between_two_attempts_is_at_once() -> None:
    place = Place(0)
    asyncio.run(place.reopening.close())
    place.clock.advance(RETRY_SECONDS)
    assert not place.running


def test_a_log_that_is_opened_in_a_thread_makes_no_room_for_its_producers_in_logs_that_are_in_use() -> None:
    most = 2 * RECOUNT
    place = Place(0, producers=RECOUNT * 3 // 4, most_producers=most)
    in_use = [place.logs.logs["t", partition].producers for partition in (1, 2)]
    for producer_id in range(RECOUNT // 2):
        place.logs.logs["t", 1].append_as_leader(batch(producer=(5000 + producer_id, 0, 0)), leader_epoch=0)
    place.clock.advance(RETRY_SECONDS)
    job, done = place.running.pop()
    before = [len(states) for states in in_use]
    job()
    assert [len(states) for states in in_use] == before
    done(None)
    assert place.opened == [0]
    everybody = [log.producers for log in place.logs.logs.values()]
    assert sum(map(len, everybody)) <= most
    assert {states.total for states in everybody} == {everybody[0].total}

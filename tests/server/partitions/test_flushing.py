"""These tests cover server/partitions/flushing.py: one flush of a log runs at a time, it covers all appends before it, and if it
fails, all of them fail.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable

import pytest

from ottla.log.errors import StorageError
from ottla.server.base.clock import LoopClock
from ottla.server.partitions.flushing import Flushing, run_in_thread
from ottla.server.partitions.replica import Replica
from tests.fakes import MemoryBroker, run_at_once
from tests.log.support import batch

Done = Callable[[StorageError | None], None]


class Place:
    """The topics `safe` and `other`, and a disk whose fsyncs end when the test says so."""

    def __init__(self) -> None:
        self.broker = MemoryBroker({})
        for name in ("safe", "other"):
            self.broker.create_topic(name, flush_messages="1")
        self.running: list[tuple[Callable[[], None], Done]] = []
        self.flushing = Flushing(self.broker.clock, lambda job, done: self.running.append((job, done)))
        self.told: list[tuple[int, bool]] = []

    def replica(self, topic: str = "safe") -> Replica:
        found = self.broker.replicas.get(topic, 0)
        assert found is not None
        return found

    def append(self, topic: str = "safe") -> None:
        """Appends a batch, and notes when it may be acknowledged, as (offset, whether it is durable)."""
        replica = self.replica(topic)
        info = replica.append(batch())
        assert info.waits
        self.flushing.when_durable(
            replica, info.last_offset + 1, lambda error: self.told.append((info.last_offset, error is None))
        )

    def turn(self) -> None:
        self.broker.clock.advance()

    def end_one(self) -> None:
        """Ends the flush that began first."""
        run_at_once(*self.running.pop(0))


@pytest.fixture
def place() -> Place:
    return Place()


def test_what_comes_while_a_flush_runs_shares_the_next(place: Place) -> None:
    place.append()
    assert place.running == [], "what this turn still appends goes with it"
    place.append()
    place.turn()
    for _ in range(5):
        place.append()
        place.turn()
    assert len(place.running) == 1
    place.end_one()
    assert place.told == [(0, True), (1, True)]
    place.turn()
    place.end_one()
    assert place.told == [(offset, True) for offset in range(7)]
    assert (place.flushing.flushes, place.running) == (2, [])


def test_logs_do_not_wait_for_each_other(place: Place) -> None:
    place.append()
    place.append("other")
    place.turn()
    assert len(place.running) == 2


def test_readers_see_it_when_it_is_acknowledged(place: Place) -> None:
    woken: list[int] = []
    place.append()
    replica = place.replica()
    replica.watchers["reader"] = lambda: woken.append(replica.log.high_watermark)
    place.append()
    assert replica.log.high_watermark == 0
    woken.clear()
    replica.watchers["reader"] = lambda: woken.append(replica.log.high_watermark)
    place.turn()
    place.append()
    replica.watchers["reader"] = lambda: woken.append(replica.log.high_watermark)
    place.end_one()
    assert woken[-1] == 2


def test_after_a_failed_fsync_everybody_is_refused_and_none_is_tried(place: Place) -> None:
    place.append()
    place.turn()
    place.append()
    place.append("other")
    place.broker.disk.fail("sync", path="safe-0")
    place.end_one()
    assert place.told == [(0, False), (1, False)]
    place.turn()
    assert place.told[2:] == [(0, False)], "the same directory"
    assert place.running == []


def test_without_descriptors_only_those_of_that_flush_are_refused(place: Place) -> None:
    place.append()
    place.turn()
    place.append()
    place.broker.disk.fail("open", errno.EMFILE, path="safe-0")
    place.end_one()
    assert place.told == [(0, False)]
    place.turn()
    place.end_one()
    assert place.told == [(0, False), (1, True)]
    assert place.replica().log.recovery_point == 2


def test_a_flush_by_somebody_else_will_do(place: Place) -> None:
    seen: list[int] = []
    place.append()
    replica = place.replica()
    replica.watchers["reader"] = lambda: seen.append(replica.log.high_watermark)
    replica.log.flush()
    place.turn()
    assert (place.told, place.running) == ([(0, True)], [])
    assert seen == [1], "who waits for records hears of it, too"


def test_a_log_that_was_cut_or_deleted_refuses(place: Place) -> None:
    place.append()
    place.append()
    place.replica().log.truncate_to(1)
    place.turn()
    assert place.told == [(0, False), (1, False)]
    place.append("other")
    place.broker.delete_topic("other")
    place.turn()
    assert place.told[2:] == [(0, False)]
    place.broker.logs.directories[0].check()


def test_a_setting_that_changes_meanwhile_lets_them_go(place: Place) -> None:
    place.append()
    place.turn()
    place.append()
    place.replica().log.flush_messages = 100
    place.end_one()
    assert place.told == [(0, True), (1, True)]


def test_settle_waits_for_the_last(place: Place) -> None:
    async def scenario() -> None:
        await place.flushing.settle()
        place.append()
        settling = asyncio.ensure_future(place.flushing.settle())
        await asyncio.sleep(0)
        place.turn()
        await asyncio.sleep(0)
        assert not settling.done()
        place.end_one()
        await asyncio.wait_for(settling, 10)

    asyncio.run(scenario())


def test_in_a_thread() -> None:
    async def scenario() -> None:
        place = Place()
        place.flushing = Flushing(LoopClock(), run_in_thread)
        place.append()
        place.append("other")
        await asyncio.wait_for(place.flushing.settle(), 10)
        assert sorted(place.told) == [(0, True), (0, True)]

    asyncio.run(scenario())


def test_a_bug_in_a_flush_is_no_silence() -> None:
    def job() -> None:
        int("no number")

    async def scenario() -> None:
        seen: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: seen.append(context["exception"]))
        done: asyncio.Future[StorageError | None] = asyncio.get_running_loop().create_future()
        run_in_thread(job, done.set_result)
        assert isinstance(await asyncio.wait_for(done, 10), StorageError)
        await asyncio.sleep(0)
        assert isinstance(seen[0], ValueError)

    asyncio.run(scenario())

"""Tests the work on disk that a change of the metadata causes: it is done in slices, and comes alive when there is room."""

from __future__ import annotations

import errno
from typing import Any, cast

import pytest

from ottla.log.errors import NoRoom
from ottla.server.base.clock import SLICE_SECONDS
from ottla.server.metadata.names import CONSUMER_OFFSETS
from ottla.server.partitions.backlog import RETRY_SECONDS, Backlog, TopicIdPartition
from ottla.wire.errors import ErrorCode
from tests.fakes import ManualClock, MemoryBroker
from tests.log.support import batch

COST_SECONDS = SLICE_SECONDS * 0.26  # so a slice is over after four


class Rig:
    """A backlog over a disk on which four things take a slice. `turns` has what was done in each turn of the loop."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.turns: list[list[str]] = [[]]
        self.room: int | None = None
        self.unwanted: set[TopicIdPartition] = set()
        self.backlog = Backlog(self.clock, make=self._make, delete=self._delete, sync=lambda: self._note("sync", 0))

    def _note(self, what: str, cost: float = COST_SECONDS) -> None:
        self.turns[-1].append(what)
        self.clock.spend(cost)

    def _make(self, partition: TopicIdPartition, is_new: bool) -> bool:
        name = f"{partition[0].decode()}-{partition[1]}"
        if partition in self.unwanted:
            return False
        if self.room is not None:
            if self.room < 1:
                self._note(f"no {name}")
                raise NoRoom("full")
            self.room -= 1
        self._note(name)
        return True

    def _delete(self, log: Any) -> None:
        self._note(f"delete {log}")

    def make(self, *indexes: int, topic: bytes = b"t") -> None:
        for index in indexes:
            self.backlog.make((topic, index), is_new=True)

    def turn(self) -> list[str]:
        """Returns what the next turn of the loop does."""
        self.turns.append([])
        self.clock.advance()
        return self.turns[-1]

    def retry(self) -> list[str]:
        """Returns what the next attempt does, and the turn after it."""
        self.turns.append([])
        self.clock.advance(RETRY_SECONDS)
        return self.turns[-1]


def names(first: int, last: int) -> list[str]:
    return [f"t-{index}" for index in range(first, last + 1)]


def test_a_few_partitions_are_there_at_once() -> None:
    rig = Rig()
    rig.make(0, 1, 2)
    assert rig.turns == [names(0, 2)]
    assert rig.backlog.settled() is None
    assert rig.clock.waiting == 0


def test_many_are_made_a_slice_a_turn_however_they_were_asked_for() -> None:
    rig = Rig()
    rig.make(*range(10))
    assert rig.turns == [names(0, 3)]
    assert (b"t", 3) not in rig.backlog
    assert (b"t", 4) in rig.backlog
    assert rig.turn() == names(4, 7)
    rig.make(10)
    assert rig.turn() == [*names(8, 10)]
    assert rig.turn() == []


def test_a_turn_that_used_up_its_slice_does_nothing_more() -> None:
    rig = Rig()
    rig.make(*range(4))
    rig.make(4)
    assert rig.turns == [names(0, 3)]
    assert rig.turn() == names(4, 4)


def test_deletions_come_first_and_share_a_sync() -> None:
    rig = Rig()
    rig.make(*range(5))
    for log in "abc":
        rig.backlog.delete([cast(Any, log)])
    assert rig.turn() == ["delete a", "delete b", "delete c", "t-4", "sync"]


def test_who_waits_is_told_when_what_was_asked_for_is_done() -> None:
    rig = Rig()
    rig.make(*range(6))
    first = rig.backlog.settled()
    rig.backlog.delete([cast(Any, "log")])
    deleted = rig.backlog.deleted()
    rig.make(6, 7, 8, 9)
    second = rig.backlog.settled()
    assert first is not None
    assert second is not None
    assert deleted is not None
    rig.turn()
    assert (first.done(), deleted.done(), second.done()) == (True, True, False)
    rig.turn()
    assert second.done()
    assert rig.backlog.settled() is None
    assert rig.backlog.deleted() is None


def test_what_found_no_room_is_tried_again_one_a_second_until_there_is(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    rig.room = 1
    rig.make(*range(6))
    assert rig.turns == [["t-0", "no t-1", "no t-2", "no t-3"]]
    assert rig.turn() == ["no t-4"]
    assert rig.backlog.settled() is None, "the client is not kept waiting"
    assert rig.backlog.waits_for_room((b"t", 1))
    assert (b"t", 1) not in rig.backlog
    assert rig.retry() == ["no t-1"]
    assert rig.retry() == ["no t-2"]
    rig.room = None
    assert rig.retry() == ["t-3", "t-5", "t-4", "t-1", "t-2"]
    assert not rig.backlog.waits_for_room((b"t", 1))
    assert "not available until there is room: 5 partitions; full" in caplog.text
    assert rig.turn() == []
    assert rig.clock.waiting == 0


def test_one_failure_puts_off_all_that_are_still_to_be_made() -> None:
    rig = Rig()
    rig.make(*range(10))
    rig.room = 0
    assert rig.turn() == ["no t-4"]
    assert [rig.backlog.waits_for_room((b"t", index)) for index in (3, 4, 9)] == [False, True, True]
    assert rig.turn() == []


def test_nobody_waits_for_what_is_put_off_for_want_of_room() -> None:
    rig = Rig()
    rig.make(*range(10))
    waiting = rig.backlog.settled()
    assert waiting is not None
    rig.room = 0
    rig.turn()
    assert waiting.done()


def test_a_new_partition_that_finds_room_brings_the_others() -> None:
    rig = Rig()
    rig.room = 0
    rig.make(0, 1)
    rig.make(0)
    rig.room = None
    rig.make(2)
    assert rig.turns == [["no t-0", "no t-1", "t-2", "t-0"]]
    assert rig.turn() == ["t-1"]


def test_what_the_metadata_no_longer_wants_says_nothing_about_room() -> None:
    rig = Rig()
    rig.room = 0
    rig.make(0, 1, 2)
    rig.unwanted = {(b"t", 0)}
    assert rig.retry() == ["no t-1"]
    rig.unwanted = {(b"t", 1), (b"t", 2)}
    assert rig.retry() == []
    assert rig.clock.waiting == 0


def test_a_clean_stop_deletes_what_is_to_be_deleted_and_makes_nothing() -> None:
    rig = Rig()
    rig.make(*range(6))
    rig.backlog.delete([cast(Any, "log")])
    waiting = rig.backlog.settled()
    assert waiting is not None
    rig.turns.append([])
    rig.backlog.close(clean=True)
    assert rig.turns[-1] == ["delete log", "sync"]
    assert waiting.done()
    assert rig.turn() == []


def test_nothing_is_tried_after_a_stop() -> None:
    rig = Rig()
    rig.room = 0
    rig.make(0)
    rig.backlog.close(clean=False)
    assert rig.retry() == []


@pytest.mark.parametrize(("clean", "done"), [(True, ["delete log", "sync"]), (False, [])])
def test_only_a_clean_stop_deletes_and_only_deletions_are_synced(clean: bool, done: list[str]) -> None:
    rig = Rig()
    rig.make(*range(4))
    rig.turns.append([])
    rig.backlog.close(clean=clean)
    assert rig.turns[-1] == []
    rig = Rig()
    rig.make(*range(4))
    rig.backlog.delete([cast(Any, "log")])
    rig.turns.append([])
    rig.backlog.close(clean=clean)
    assert rig.turns[-1] == done


# In a broker


class SlowDisk:
    """Makes a directory cost a whole slice, on a broker in memory."""

    def __init__(self, broker: MemoryBroker) -> None:
        self.made = 0
        self._clock = broker.clock
        broker.disk.before_change = self._change

    def _change(self, operation: str, path: str) -> None:
        if operation == "mkdir":
            self.made += 1
            self._clock.spend(SLICE_SECONDS)


def test_a_large_topic_does_not_keep_the_loop_from_others() -> None:
    broker = MemoryBroker({})
    disk = SlowDisk(broker)
    broker.create_topic("t", 5)
    broker.create_topic("u", 1)
    assert disk.made == 1
    assert [broker.replicas.why_missing("t", index) for index in (1, 4)] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    for turn in range(2, 7):
        broker.clock.advance()
        assert disk.made == turn
    broker.clock.advance()
    assert disk.made == 6
    assert broker.replica("t", 4).is_leader
    assert broker.replica("u").is_leader


def test_the_partitions_of_an_internal_topic_are_there_before_anybody_asks() -> None:
    broker = MemoryBroker({})
    disk = SlowDisk(broker)
    broker.create_topic(CONSUMER_OFFSETS, 5)
    assert disk.made == 5


def test_a_topic_deleted_before_it_was_made_is_not_made() -> None:
    broker = MemoryBroker({})
    disk = SlowDisk(broker)
    broker.create_topic("t", 3)
    broker.delete_topic("t")
    broker.clock.advance()
    broker.clock.advance()
    assert disk.made == 1
    assert not broker.logs.logs


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EMFILE])
def test_partitions_made_on_a_full_disk_come_alive_when_there_is_room(error: int) -> None:
    broker = MemoryBroker({"t": 1})
    for index in range(3):
        broker.disk.fail("open", error, path=f"late-{index}")
    broker.create_topic("late", 3)
    assert broker.replicas.why_missing("late", 0) is ErrorCode.KAFKA_STORAGE_ERROR
    assert [name for name in broker.disk.list("/data") if name.startswith("late")] == []
    broker.replica("t").append(batch(1))
    broker.clock.advance(RETRY_SECONDS)
    assert [broker.replica("late", index).is_leader for index in range(3)] == [True] * 3
    assert broker.logs.directories[0].failed is None

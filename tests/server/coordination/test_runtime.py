"""These tests cover coordination/runtime.py: shards are loaded, in slices, where this broker leads, and unloaded where it no
longer does.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.log.errors import CorruptLog, CorruptRecord
from ottla.server.base.promise import Promise
from ottla.server.coordination.runtime import DAMAGED_RETRY_SECONDS, LOAD_SLICE_SECONDS, CoordinatorRuntime
from ottla.server.coordination.shard import RECORDS_A_STEP
from ottla.wire.errors import ErrorCode
from tests.server.coordination.fakes import LaggingLog, Letters, Refused, batch_of
from tests.server.coordination.memory import NODE_ID, CoordinatorClock, slow_ticks

OTHER = NODE_ID + 1


class SlowLog(LaggingLog):
    """A log in which each batch takes `seconds` to read."""

    seconds = 0.0

    def __init__(self, clock: CoordinatorClock, partitions: int = 1) -> None:
        super().__init__(partitions, lag=False)
        self.clock = clock
        self.reads = 0

    def read(self, partition: int) -> Iterator[bytes]:
        self.reads += 1
        for batch in super().read(partition):
            self.clock._now += self.seconds
            yield batch


class Runtime:
    """A runtime, and what it reported about its shards."""

    def __init__(self, partitions: int = 2) -> None:
        self.clock = CoordinatorClock()
        self.log = SlowLog(self.clock, partitions)
        self.loaded: list[int] = []
        self.unloaded: list[int] = []
        self.shards: CoordinatorRuntime[Letters] = CoordinatorRuntime(
            "__letters",
            self.log,
            self.clock,
            Letters,
            Refused,
            loaded=lambda shard: self.loaded.append(shard.partition),
            unloaded=lambda shard: self.unloaded.append(shard.partition),
        )

    def take_over(self, partition: int = 0) -> Letters:
        shard = self.shards.take_over(partition)
        assert shard is not None
        return shard


def test_a_partition_is_taken_over_where_this_broker_leads_it() -> None:
    runtime = Runtime()
    runtime.log.leaders = [NODE_ID, OTHER]
    runtime.log.append(0, batch_of(("a", "1")))
    shard = runtime.take_over()
    assert (shard.partition, shard.leader_epoch, shard.loading) == (0, 3, False)
    assert shard.seen == [("a", "1", 0, -1)]
    assert runtime.take_over() is shard
    assert runtime.loaded == [0]
    assert runtime.shards.take_over(1) is None
    assert list(runtime.shards) == [0]
    assert list(runtime.shards.values()) == [shard]
    assert runtime.shards.get(0) is shard is runtime.shards[0]
    assert runtime.shards.get(1) is None


def test_a_shard_appends_to_its_own_partition() -> None:
    runtime = Runtime()
    runtime.take_over(1).put("a")
    assert [len(batches) for batches in runtime.log.batches] == [0, 1]


def test_refresh_follows_all_partitions() -> None:
    runtime = Runtime()
    runtime.shards.refresh()
    assert runtime.loaded == [0, 1]
    runtime.log.leaders = [OTHER, NODE_ID]
    runtime.shards.refresh()
    assert (runtime.loaded, runtime.unloaded) == ([0, 1], [0])
    runtime.log.leaders = []
    runtime.log.batches = []
    runtime.shards.refresh()
    assert runtime.unloaded == [0, 1], "the topic is deleted"
    assert not list(runtime.shards)


def test_a_newer_epoch_of_our_own_loads_again() -> None:
    runtime = Runtime()
    old = runtime.take_over()
    runtime.shards.follow(0)
    assert runtime.shards[0] is old
    runtime.log.epoch += 1
    runtime.log.append(0, batch_of(("a", "by another leader")))
    runtime.shards.follow(0)
    new = runtime.shards[0]
    assert (new.leader_epoch, new.seen) == (4, [("a", "by another leader", 0, -1)])
    assert (runtime.loaded, runtime.unloaded) == ([0, 0], [0])


def test_a_shard_is_served_when_it_is_loaded_and_led_from_here() -> None:
    runtime = Runtime(partitions=3)
    runtime.log.leaders = [NODE_ID, OTHER, NODE_ID]
    assert runtime.shards.loaded_shard(0) is runtime.take_over(0)
    assert [shard.partition for shard in runtime.shards.loaded_shards()] == [0, 2]
    with pytest.raises(Refused) as error:
        runtime.shards.loaded_shard(1)
    assert error.value.code is ErrorCode.NOT_COORDINATOR


def test_in_doubt_nothing_is_served() -> None:
    runtime = Runtime()
    runtime.take_over()
    runtime.log.in_doubt = True
    assert refused(runtime) is ErrorCode.NOT_COORDINATOR
    with pytest.raises(Refused) as refusal:
        runtime.shards.loaded_shards()
    assert refusal.value.code is ErrorCode.NOT_COORDINATOR
    runtime.log.in_doubt = False
    assert runtime.shards.loaded_shard(0) is runtime.shards[0]


def test_a_shard_that_is_loading_is_not_served() -> None:
    runtime = Runtime()
    for number in range(5):
        runtime.log.append(0, batch_of((str(number), "w")))
    runtime.log.seconds = LOAD_SLICE_SECONDS / 2
    for ask in (lambda: runtime.shards.loaded_shard(0), runtime.shards.loaded_shards):
        with pytest.raises(Refused) as error:
            ask()
        assert error.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    runtime.clock.advance(LOAD_SLICE_SECONDS)
    runtime.clock.advance(LOAD_SLICE_SECONDS)
    assert [shard.partition for shard in runtime.shards.loaded_shards()] == [0, 1]


def test_shards_share_the_slices_in_which_they_are_loaded() -> None:
    """Fifty of them would otherwise have fifty slices in a turn of the event loop."""
    runtime = Runtime(partitions=3)
    for partition in (0, 1):
        for number in range(5):
            runtime.log.append(partition, batch_of((str(number), "w")))
    runtime.log.seconds = LOAD_SLICE_SECONDS / 2
    runtime.shards.refresh()
    assert sum(len(runtime.shards[each].seen) for each in range(3)) == 2
    assert runtime.clock.waiting == 1, "one slice for all"
    for _ in range(5):
        runtime.clock.advance(2 * LOAD_SLICE_SECONDS)
    assert runtime.loaded[0] == 2, "a small one does not wait for large ones"
    assert sorted(runtime.loaded) == [0, 1, 2]


def test_the_records_of_one_batch_are_replayed_in_slices() -> None:
    runtime = Runtime()
    runtime.log.append(0, batch_of(*[(str(number), "w") for number in range(5 * RECORDS_A_STEP)]))
    looks = itertools.count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtime.clock, "ticks_ns", lambda: next(looks) * 4_000_000)
        shard = runtime.take_over()
        assert len(shard.seen) == 3 * RECORDS_A_STEP - 1
    runtime.clock.advance(0)
    assert (len(shard.seen), shard.loading) == (5 * RECORDS_A_STEP, False)


def test_also_where_a_look_at_the_clock_takes_a_slice_there_is_a_step_in_each() -> None:
    runtime = Runtime()
    runtime.log.append(0, batch_of(*[(str(number), "w") for number in range(5 * RECORDS_A_STEP)]))
    runtime.clock.ticks_ns = slow_ticks()  # type: ignore[method-assign]  # of this clock only
    shard = runtime.take_over()
    turns = 0
    while shard.loading and turns < 20:
        runtime.clock.advance(0)
        turns += 1
    assert turns < 20
    assert (len(shard.seen), shard.loading) == (5 * RECORDS_A_STEP, False)


@pytest.mark.parametrize("change", ["leader", "epoch", "close"])
def test_what_waits_is_refused_when_the_leadership_ends(change: str) -> None:
    runtime = Runtime()
    shard = runtime.take_over()
    runtime.log.lag = True
    shard.put("a")
    answer: Any = shard.answer("said")
    assert isinstance(answer, Promise)
    if change == "leader":
        runtime.log.leaders = [OTHER, OTHER]
    elif change == "epoch":
        runtime.log.epoch += 1
    if change == "close":
        runtime.shards.close()
    else:
        runtime.shards.follow(0)
    with pytest.raises(Refused) as error:
        answer.result()
    assert error.value.code is ErrorCode.NOT_COORDINATOR
    assert runtime.unloaded == [0]


def test_a_large_partition_is_loaded_in_slices() -> None:
    runtime = Runtime()
    for number in range(5):
        runtime.log.append(0, batch_of((str(number), "w")))
    runtime.log.seconds = LOAD_SLICE_SECONDS / 2
    shard = runtime.take_over()
    assert shard.loading
    assert len(shard.seen) == 2, "the slice ends when its time is over"
    assert runtime.take_over() is shard
    assert (runtime.loaded, runtime.clock.waiting) == ([], 1)
    runtime.clock.advance(LOAD_SLICE_SECONDS)
    assert (len(shard.seen), shard.loading, runtime.loaded) == (5, False, [0])


def test_a_shard_that_is_unloaded_while_it_loads_does_not_load_on() -> None:
    runtime = Runtime()
    for number in range(5):
        runtime.log.append(0, batch_of((str(number), "w")))
    runtime.log.seconds = LOAD_SLICE_SECONDS
    old = runtime.take_over()
    runtime.shards.unload(0)
    runtime.log.seconds = 0
    new = runtime.take_over()
    runtime.clock.advance(LOAD_SLICE_SECONDS)
    assert (old.loading, len(old.seen)) == (True, 1)
    assert (new.loading, runtime.loaded, runtime.unloaded) == (False, [0], [0])


def test_one_that_cannot_be_read_is_tried_again(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Runtime()

    def broken(partition: int) -> Any:
        raise CorruptLog("bad segment")

    with monkeypatch.context() as patch:
        patch.setattr(runtime.log, "read", broken)
        assert runtime.shards.take_over(0) is None
    assert caplog.messages == ["partition 0 of __letters cannot be loaded: bad segment"]
    assert (runtime.loaded, runtime.unloaded) == ([], [0])
    assert not runtime.take_over().loading


def damaged_runtime(monkeypatch: pytest.MonkeyPatch) -> Runtime:
    """A runtime whose partition 0 has a sound batch and then a damaged one."""
    runtime = Runtime()
    runtime.log.append(0, batch_of(("a", "1")))
    read = runtime.log.read

    def broken(partition: int) -> Iterator[bytes]:
        yield from read(partition)
        if partition == 0:
            raise CorruptRecord("flipped")

    monkeypatch.setattr(runtime.log, "read", broken)
    return runtime


def refused(runtime: Runtime, partition: int = 0) -> ErrorCode:
    with pytest.raises(Refused) as error:
        runtime.shards.loaded_shard(partition)
    return error.value.code


def test_nothing_is_answered_from_the_sound_part_of_a_damaged_partition(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = damaged_runtime(monkeypatch)
    assert [refused(runtime) for _ in range(3)] == [ErrorCode.NOT_COORDINATOR] * 3
    assert caplog.messages == ["partition 0 of __letters cannot be loaded: flipped"]
    assert (runtime.loaded, runtime.shards.damaged) == ([], 1)
    assert [shard.partition for shard in runtime.shards.loaded_shards()] == [1], "the others are served"


def test_a_damaged_partition_is_not_read_for_every_request(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = damaged_runtime(monkeypatch)
    for _ in range(5):
        refused(runtime)
        runtime.shards.follow(0)
        runtime.shards.refresh()
    assert runtime.log.reads == 2, "each of the two partitions once"
    runtime.clock.advance(DAMAGED_RETRY_SECONDS)
    refused(runtime)
    assert runtime.log.reads == 3


def test_a_damaged_partition_is_read_again_in_a_new_leader_epoch_and_by_a_new_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = damaged_runtime(monkeypatch)
    refused(runtime)
    runtime.log.epoch += 1
    refused(runtime)
    assert runtime.log.reads == 2
    runtime.log.leaders = [OTHER, OTHER]
    runtime.shards.refresh()
    assert runtime.shards.damaged == 0
    monkeypatch.undo()
    runtime.log.leaders = [NODE_ID, NODE_ID]
    assert runtime.shards.loaded_shard(0).seen == [("a", "1", 0, -1)]


def test_unloading_what_is_not_there_does_nothing() -> None:
    runtime = Runtime()
    runtime.shards.unload(0)
    assert runtime.unloaded == []


@pytest.mark.parametrize("kept", [True, False])
def test_an_answer_about_all_shards_waits_for_each_of_them(kept: bool) -> None:
    runtime = Runtime()
    one, other = runtime.take_over(0), runtime.take_over(1)
    assert runtime.shards.answer_or("all", lambda code: code.name) == "all"
    runtime.log.lag = True
    one.put("a")
    other.put("b")
    answer = runtime.shards.answer_or("all", lambda code: code.name)
    assert isinstance(answer, Promise)
    runtime.log.replicate()
    assert not answer.done()
    if kept:
        runtime.log.replicate()
    else:
        runtime.shards.unload(1)
    assert answer.result() == ("all" if kept else "NOT_COORDINATOR")


def test_a_pass_goes_over_loaded_shards_and_one_that_fails_does_not_end_it(caplog: pytest.LogCaptureFixture) -> None:
    runtime = Runtime(partitions=4)
    for number in range(3):
        runtime.log.append(3, batch_of((str(number), "w")))
    for partition in range(3):
        runtime.take_over(partition)
    runtime.log.seconds = LOAD_SLICE_SECONDS
    assert runtime.take_over(3).loading
    failures = {0: Refused(ErrorCode.NOT_COORDINATOR), 1: CorruptLog("bad segment")}
    done = []

    def count(shard: Letters) -> None:
        if shard.partition in failures:
            raise failures[shard.partition]
        done.append(shard.partition)

    runtime.shards.on_each(count, "be counted")
    assert done == [2]
    assert [(record.name, record.getMessage()) for record in caplog.records] == [
        ("ottla.server.letters", "partition 0 of __letters: cannot be counted: NOT_COORDINATOR"),
        ("ottla.server.letters", "partition 1 of __letters: cannot be counted: bad segment"),
    ]


def test_a_mistake_in_a_pass_is_no_refusal() -> None:
    runtime = Runtime()
    runtime.take_over()
    with pytest.raises(ZeroDivisionError):
        runtime.shards.on_each(lambda shard: shard.partition / 0, "divide")


def test_a_pass_that_takes_turns_and_fails_in_a_later_one(caplog: pytest.LogCaptureFixture) -> None:
    runtime = Runtime(partitions=2)
    for partition in range(2):
        runtime.take_over(partition)
    promises: list[Promise[None]] = [Promise(), Promise()]
    runtime.shards.on_each(lambda shard: promises[shard.partition], "be counted")
    assert caplog.messages == []
    runtime.shards.unload(1)
    for promise in promises:
        promise.set_exception(Refused(ErrorCode.NOT_COORDINATOR))
    assert caplog.messages == ["partition 0 of __letters: cannot be counted: NOT_COORDINATOR"], "1 is somebody else's now"

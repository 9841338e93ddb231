"""These tests cover when an append is acknowledged: flushed as asked and, if all are asked for, on all in-sync replicas."""

from __future__ import annotations

import pytest

from ottla.log.errors import StorageError
from ottla.server.base.errors import NotLeaderOrFollower
from ottla.server.partitions.acknowledging import flush_and_promise, when_acknowledged
from ottla.server.partitions.replica import Replica
from tests.fakes import NODE_ID, MemoryBroker
from tests.followers import TWO, Led
from tests.log.support import batch


def waiting(led: Led, *, by_all: bool) -> list[Exception | None]:
    """Appends a batch. Returns a list to which its outcome is added."""
    called: list[Exception | None] = []
    end_offset = led.append()
    when_acknowledged(led.replica, led.replica.role, end_offset, led.broker.context.flushing, called.append, by_all=by_all)
    return called


def lone() -> tuple[MemoryBroker, Replica]:
    """Returns a partition with one replica, of which every append is flushed."""
    broker = MemoryBroker({})
    broker.create_topic("t", flush_messages="1")
    replica = broker.replicas.get("t", 0)
    assert replica is not None
    return broker, replica


def test_all_in_sync_replicas_have_it() -> None:
    led = Led()
    called = waiting(led, by_all=True)
    led.fetched(two=1)
    assert called == []
    led.fetched(three=1)
    assert called == [None]


def test_the_leader_alone_is_enough_for_acks_1() -> None:
    assert waiting(Led(), by_all=False) == [None]


def test_acks_1_waits_for_the_flush_all_the_same() -> None:
    led = Led(flush_messages=1)
    called = waiting(led, by_all=False)
    assert called == []
    led.broker.clock.advance()
    assert called == [None]
    assert led.offset == 0


@pytest.mark.parametrize("flush_first", [True, False])
def test_flush_and_replicas_in_either_order(flush_first: bool) -> None:
    led = Led(flush_messages=1)
    called = waiting(led, by_all=True)
    for step in (flush_first, not flush_first):
        assert called == []
        if step:
            led.broker.clock.advance()
        else:
            led.fetched(two=1, three=1)
    assert called == [None]


def test_only_the_failure_of_a_flush_is_reported() -> None:
    led = Led(flush_messages=1)
    called = waiting(led, by_all=True)
    led.broker.disk.fail("sync", path="t-0")
    led.broker.clock.advance()
    led.fetched(two=1, three=1)
    assert [type(error) for error in called] == [StorageError]


def test_leadership_that_ends_while_replicas_are_waited_for() -> None:
    led = Led()
    called = waiting(led, by_all=True)
    led.broker.elect("t", TWO)
    assert [type(error) for error in called] == [NotLeaderOrFollower]


def test_leadership_that_ends_while_a_flush_is_waited_for() -> None:
    led = Led(flush_messages=1)
    called = waiting(led, by_all=True)
    led.broker.elect("t", TWO)
    assert called == []
    led.broker.clock.advance()
    assert [type(error) for error in called] == [NotLeaderOrFollower]


@pytest.mark.parametrize("back", [False, True])
def test_leadership_that_ends_before_anybody_asks(back: bool) -> None:
    """A request that appends in turns asks after the last one."""
    led = Led()
    called: list[Exception | None] = []
    role, end_offset = led.replica.role, led.append()
    led.broker.elect("t", TWO)
    if back:
        led.broker.elect("t", NODE_ID)
    when_acknowledged(led.replica, role, end_offset, led.broker.context.flushing, called.append, by_all=True)
    assert [type(error) for error in called] == [NotLeaderOrFollower]


def test_one_replica_needs_its_flush_only_whoever_leads_by_then() -> None:
    broker, replica = lone()
    called: list[Exception | None] = []
    end_offset = replica.append(batch(1)).last_offset + 1
    when_acknowledged(replica, replica.role, end_offset, broker.context.flushing, called.append, by_all=True)
    broker.elect("t", -1)
    broker.clock.advance()
    assert called == [None]


def test_a_coordinator_with_one_replica_is_promised_nothing() -> None:
    _, replica = lone()
    assert flush_and_promise(replica, replica.append(batch(1)).last_offset + 1) is None
    assert (replica.log.recovery_point, replica.log.high_watermark) == (1, 1), "flushed within the call"


def test_a_coordinator_learns_of_a_failed_flush_at_once() -> None:
    broker, replica = lone()
    end_offset = replica.append(batch(1)).last_offset + 1
    broker.disk.fail("sync", path="t-0")
    with pytest.raises(StorageError):
        flush_and_promise(replica, end_offset)


def test_a_coordinator_s_promise_is_kept_when_all_replicas_have_the_append() -> None:
    led = Led()
    first, second = (flush_and_promise(led.replica, led.append()) for _ in range(2))
    assert first is not None
    assert second is not None
    led.fetched(two=2, three=1)
    assert (first.done(), second.done()) == (True, False)
    assert first.result() is None
    led.broker.elect("t", TWO)
    with pytest.raises(NotLeaderOrFollower):
        second.result()


def test_a_coordinator_s_promise_that_nobody_wants_any_more() -> None:
    led = Led()
    promise = flush_and_promise(led.replica, led.append())
    assert promise is not None
    promise.cancel()
    led.fetched(two=1, three=1)
    assert promise.cancelled()

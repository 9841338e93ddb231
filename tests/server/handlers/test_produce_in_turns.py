"""Produce where one turn is not enough: batches that are validated in a thread, and requests about many partitions."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from ottla.server.base.clock import TURN_NS
from ottla.server.base.errors import CloseConnection
from ottla.server.base.promise import Promise
from ottla.server.handlers import produce as produce_module
from ottla.server.partitions.replica import Replica
from ottla.server.partitions.roles import Leader
from ottla.wire.errors import ErrorCode
from tests.fakes import MemoryBroker
from tests.in_loop import in_loop
from tests.log.support import batch
from tests.server.handlers.data_calls import fetch, produce, produce_request
from tests.server.handlers.test_produce import THREE, followed, kept, patched
from tests.server.txn.fakes import TID, Driver


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker({"t": 2})


LARGE = batch(2, value=random.Random(5).randbytes(90_000), codec=1)
"""Bytes that do not compress: a batch of more than 90 kB."""
MISCOUNTED = patched(patched(LARGE, 57, "i", 3), 23, "i", 2)
BOMB = batch(20, value=bytes(1 << 20), codec=4)


@pytest.mark.parametrize("records", [LARGE, BOMB], ids=["large", "bomb"])
def test_a_batch_that_takes_long_is_validated_in_a_thread_and_appended_then(broker: MemoryBroker, records: bytes) -> None:
    threads = broker.hold_threads()
    frame = bytearray(records)
    batches: dict[int, Any] = {0: memoryview(frame)}
    promise = produce_module.handle(produce_request("t", batches), broker.request(9))
    assert type(promise) is Promise  # not an Acknowledgement: what comes next would overtake it
    frame[:] = bytes(len(frame))
    assert broker.replica("t").log.log_end_offset == 0
    threads.end_first()
    assert kept(promise) == [(ErrorCode.NONE, 0, -1, 0)]
    assert fetch(broker, "t").records[16:] == records[16:]
    assert threads.jobs == []


def test_a_batch_that_is_compressed_anew_takes_long_if_it_is_large(broker: MemoryBroker) -> None:
    threads = broker.hold_threads()
    broker.create_topic("packed", compression_type="gzip")
    assert produce(broker, "packed", batch(500)).error_code == ErrorCode.NONE
    promise = produce_module.handle(produce_request("packed", {0: batch(700)}), broker.request(9))
    assert len(threads.jobs) == 1
    threads.end_first()
    assert kept(promise) == [(ErrorCode.NONE, 500, -1, 0)]


def test_what_a_thread_finds_wrong_is_refused(broker: MemoryBroker) -> None:
    threads = broker.hold_threads()
    promise = produce_module.handle(produce_request("t", {0: MISCOUNTED, 1: THREE}), broker.request(9))
    assert [broker.replica("t", index).log.log_end_offset for index in (0, 1)] == [0, 0]
    threads.end_first()
    broker.clock.advance()
    assert kept(promise) == [(ErrorCode.INVALID_RECORD, -1, -1, 0), (ErrorCode.NONE, 0, -1, 0)]
    assert broker.replicas.traffic["t"].refused == 1


def test_a_leadership_that_ended_meanwhile_is_noticed(broker: MemoryBroker) -> None:
    threads = broker.hold_threads()
    broker.register_broker(2, port=9093)
    broker.create_topic("led", followers=(2,))
    promise = produce_module.handle(produce_request("led", {0: LARGE}), broker.request(9))
    broker.elect("led", 2)
    threads.end_first()
    assert kept(promise) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1, -1)]


def test_an_answer_of_a_large_batch_waits_for_followers(broker: MemoryBroker) -> None:
    threads = broker.hold_threads()
    _, high_watermark = followed(broker)
    promise = produce_module.handle(produce_request("led", {0: LARGE}), broker.request(9))
    threads.end_first()
    assert isinstance(promise, Promise)
    assert not promise.done()
    high_watermark.on_fetch(2, 2)
    assert kept(promise) == [(ErrorCode.NONE, 0, -1, 0)]


@pytest.mark.parametrize("records", [LARGE, MISCOUNTED], ids=["good", "bad"])
def test_acks_0_with_a_large_batch(broker: MemoryBroker, records: bytes) -> None:
    threads = broker.hold_threads()
    promise = produce_module.handle(produce_request("t", {0: records}, acks=0), broker.request(9))
    assert isinstance(promise, Promise)
    threads.end_first()
    if records is LARGE:
        assert promise.result() is None
        return
    with pytest.raises(CloseConnection, match="t-0"):
        promise.result()


def test_many_partitions_are_appended_in_turns_and_what_is_left_is_copied(broker: MemoryBroker) -> None:
    broker.create_topic("wide", 10)
    appends = slow_appends(broker)
    frame = bytearray(THREE)
    batches: dict[int, Any] = {index: memoryview(frame) for index in range(10)}
    promise = produce_module.handle(produce_request("wide", {**batches, 4: None}), broker.request(9))
    assert type(promise) is Promise
    frame[:] = bytes(len(frame))
    done = len(appends)
    assert 0 < done < 5
    broker.clock.advance()
    assert done < len(appends) < 10
    broker.clock.advance()
    broker.clock.advance()
    broker.clock.advance()
    wanted = [(ErrorCode.NONE, 0, -1, 0)] * 10
    wanted[4] = (ErrorCode.INVALID_RECORD, -1, -1, -1)
    assert kept(promise) == wanted


def test_a_leadership_that_ended_after_an_append_and_before_the_last_turn_is_noticed(broker: MemoryBroker) -> None:
    broker.register_broker(2, port=9093)
    broker.create_topic("wide", 5, followers=(2,))
    appends = slow_appends(broker)
    promise = produce_module.handle(produce_request("wide", dict.fromkeys(range(5), THREE)), broker.request(9))
    assert appends[0].partition == 0
    broker.elect("wide", 2)
    broker.clock.advance()
    broker.clock.advance()
    for replica in appends[1:]:
        assert isinstance(replica.role, Leader)
        assert replica.role.high_watermark is not None
        replica.role.high_watermark.on_fetch(2, 3)
    wanted = [(ErrorCode.NONE, 0, -1, 0)] * 5
    wanted[0] = (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1, -1)
    assert kept(promise) == wanted


def slow_appends(broker: MemoryBroker) -> list[Replica]:
    """Lets each append take half a turn; returns the list of who appended."""
    appends: list[Replica] = []

    def slow_clock(replica: Replica) -> Callable[[], int]:
        def now_ms() -> int:
            appends.append(replica)
            broker.clock.spend(TURN_NS / 2 / 1e9)
            return broker.clock.now_ms()

        return now_ms

    for replica in broker.replicas:
        replica.log.now_ms = slow_clock(replica)
    return appends


@pytest.mark.parametrize("slow", ["turns", "thread"])
@in_loop
async def test_a_transaction_that_ended_meanwhile_is_noticed(broker: MemoryBroker, slow: str) -> None:
    driver = Driver(version=1)
    broker.context.existing_transaction_coordinator = driver.coordinator
    producer = await driver.init()
    broker.create_topic("wide", 5)
    large = slow == "thread"
    values = random.Random(5).randbytes(90_000) if large else b"v"
    mine = batch(2 if large else 1, value=values, codec=int(large), producer=(*producer, 0), transactional=True)
    driver.add(producer, *(("wide", index) for index in range(5)))
    threads = broker.hold_threads()
    if not large:
        slow_appends(broker)
    batches: dict[int, bytes | None] = dict.fromkeys(range(1 if large else 5), mine)
    promise = produce_module.handle(produce_request("wide", batches, 11, transactional_id=TID), broker.request(11))
    assert isinstance(promise, Promise)
    await driver.end(producer, commit=True)
    if large:
        threads.end_first()
    for _ in range(4):
        broker.clock.advance()
    codes = [answer[0] for answer in kept(promise, 11)]
    assert codes[-1] is ErrorCode.TRANSACTION_ABORTABLE
    assert large or codes[0] is ErrorCode.NONE

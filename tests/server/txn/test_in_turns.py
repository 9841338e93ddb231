"""These tests cover what the transaction coordinator does in turns: markers of large transactions, aborts of timed-out ones."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from ottla.server.base.promise import Promise
from ottla.server.txn.coordinator import Producer
from ottla.server.txn.errors import TransactionError
from ottla.server.txn.state import State
from ottla.wire.errors import ErrorCode
from tests.in_loop import in_loop
from tests.server.coordination.memory import slow
from tests.server.txn.fakes import TID, Driver, TransactionLog, code_of
from tests.server.txn.test_coordinator import refused


async def _abort_in_turns(driver: Driver, on_turn: Callable[[], object] = lambda: None) -> int:
    """Aborts what is overdue with a clock by which every turn is over at once; returns how many turns that took."""
    turns = 0
    driver.coordinator.refresh()
    with slow(driver.clock):
        aborting = asyncio.ensure_future(driver.coordinator.abort_overdue())
        while not aborting.done():
            await asyncio.sleep(0)
            if driver.clock.waiting:
                turns += 1
                on_turn()
                driver.clock.next_round()
    await aborting
    return turns


async def _open_many(driver: Driver, count: int) -> list[str]:
    names = [f"tx-{number}" for number in range(count)]
    for name in names:
        producer = await driver.init(transactional_id=name, timeout_ms=5_000)
        driver.coordinator.add_partitions(name, *producer, [("t", 0)], client_version=2)
    driver.clock.advance(6)
    return names


@in_loop
async def test_others_come_between_two_transactions_that_are_aborted() -> None:
    driver = Driver()
    names = await _open_many(driver, 20)
    seen: list[int] = []
    turns = await _abort_in_turns(driver, lambda: seen.append(sum(driver.now(name).state is State.ONGOING for name in names)))
    assert {driver.now(name).state for name in names} == {State.COMPLETE_ABORT}
    assert turns > 20
    assert set(seen) >= set(range(1, 20)), "never two at once"


@in_loop
async def test_what_ends_between_two_turns_is_not_aborted(caplog: pytest.LogCaptureFixture) -> None:
    driver = Driver(TransactionLog(1))
    names = await _open_many(driver, 3)
    turns = 0
    producers = {name: Producer(driver.now(name).producer_id, driver.now(name).producer_epoch) for name in names}

    def commit_all() -> None:
        nonlocal turns
        turns += 1
        if turns == 1:
            return  # it is not known yet what is overdue
        for name, producer in producers.items():
            driver.coordinator.end(name, *producer, commit=True, version=2)
        producers.clear()

    with caplog.at_level(logging.INFO, "ottla.server.txn"):
        await _abort_in_turns(driver, commit_all)
    assert {driver.now(name).state for name in names} == {State.COMPLETE_COMMIT}
    assert [message for message in caplog.messages if "aborted" in message] == []


@in_loop
async def test_a_shard_that_goes_elsewhere_between_two_turns_is_left_to_its_new_coordinator(
    caplog: pytest.LogCaptureFixture,
) -> None:
    driver = Driver(TransactionLog(1))
    await _open_many(driver, 20)
    states = list(driver.coordinator.all_transactions())
    marked = len(driver.markers)

    def lose() -> None:
        driver.log.leaders[0] = None
        driver.coordinator.follow(0)

    await _abort_in_turns(driver, lose)
    assert len(states) == 20
    assert len(driver.markers) <= marked + 1
    assert [message for message in caplog.messages if "cannot abort" in message] == []


@in_loop
async def test_an_end_with_many_partitions_is_answered_when_all_have_their_markers() -> None:
    driver = Driver()
    producer = await driver.init()
    driver.add(producer, *(("t", number) for number in range(5)))
    with slow(driver.clock):
        ended = driver.coordinator.end(TID, *producer, commit=True, version=2)
        assert isinstance(ended, Promise)
        driver.clock.next_round()
        assert (len(driver.markers), driver.now().state, ended.done()) == (1, State.PREPARE_COMMIT, False)
        with pytest.raises(TransactionError) as error:
            driver.add(Producer(producer.producer_id, producer.producer_epoch + 1))
        assert code_of(error.value) is ErrorCode.CONCURRENT_TRANSACTIONS
        assert await refused(driver.init()) is ErrorCode.CONCURRENT_TRANSACTIONS
        for _ in range(4):
            driver.clock.next_round()
    assert len(driver.markers) == 5
    assert ended.result() == Producer(producer.producer_id, producer.producer_epoch + 1)
    assert driver.now().state is State.COMPLETE_COMMIT


@in_loop
async def test_a_client_that_goes_does_not_take_the_markers_with_it() -> None:
    driver = Driver()
    producer = await driver.init()
    driver.add(producer, ("t", 0), ("t", 1))
    with slow(driver.clock):
        ended = driver.coordinator.end(TID, *producer, commit=True, version=2)
        assert isinstance(ended, Promise)
        ended.cancel()
        driver.clock.next_round()
        driver.clock.next_round()
    assert (len(driver.markers), driver.now().state) == (2, State.COMPLETE_COMMIT)


@in_loop
async def test_an_end_whose_shard_goes_elsewhere_between_two_markers_is_refused() -> None:
    driver = Driver(TransactionLog(1))
    producer = await driver.init()
    driver.add(producer, ("t", 0), ("t", 1))
    with slow(driver.clock):
        ended = driver.coordinator.end(TID, *producer, commit=True, version=2)
        assert isinstance(ended, Promise)
        driver.clock.next_round()
        driver.log.leaders[0] = None
        driver.coordinator.follow(0)
        driver.clock.next_round()
    assert await refused(ended) is ErrorCode.NOT_COORDINATOR
    assert len(driver.markers) == 1

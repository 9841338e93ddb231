"""These tests cover txn/verification.py: transactional batches are appended if their partition is in the transaction, and
otherwise wait or are refused.
"""

from __future__ import annotations

from typing import Any, cast

import pytest

from ottla.server.txn.coordinator import Producer, TransactionCoordinator
from ottla.server.txn.verification import Entry, refused_entries
from ottla.wire.errors import ErrorCode
from tests.fakes import MemoryBroker
from tests.log.support import batch
from tests.server.coordination.fakes import LaggingLog
from tests.server.group.fakes import in_loop
from tests.server.txn.fakes import TID, Driver, TransactionLog

T0, T1 = ("t", 0), ("t", 1)


def ask(driver: Driver, producer: Producer, *, add: bool = False, generic: bool = True, name: str = TID) -> Any:
    """Returns the errors for a batch for each of two partitions that know nothing of the producer."""
    replicas = MemoryBroker({"t": 2}).replicas
    entries = [Entry(each, *producer) for each in (T0, T1)]
    return refused_entries(replicas, lambda: driver.coordinator, name, entries, add=add, generic_error=generic)


@pytest.mark.parametrize(("generic", "code"), [(True, ErrorCode.TRANSACTION_ABORTABLE), (False, ErrorCode.INVALID_TXN_STATE)])
@in_loop
async def test_a_partition_has_to_be_in_the_transaction(generic: bool, code: ErrorCode) -> None:
    driver = Driver()
    producer = await driver.init()
    driver.add(producer, T0)
    assert ask(driver, producer, generic=generic) == {T1: code}


@in_loop
async def test_or_is_put_into_it() -> None:
    driver = Driver()
    producer = await driver.init()
    assert ask(driver, producer, add=True) == {}
    assert driver.now().partitions == {T0, T1}
    assert driver.now().client_version == 2


@pytest.mark.parametrize("add", [True, False])
@in_loop
async def test_what_the_coordinator_refuses_is_refused_of_all(add: bool) -> None:
    driver = Driver()
    producer = await driver.init()
    await driver.init()
    assert ask(driver, producer, add=add) == dict.fromkeys((T0, T1), ErrorCode.INVALID_PRODUCER_EPOCH)
    assert ask(driver, producer, add=add, name="other") == dict.fromkeys((T0, T1), ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    without = Driver(TransactionLog(partitions=0))
    assert ask(without, producer, add=add) == dict.fromkeys((T0, T1), ErrorCode.COORDINATOR_NOT_AVAILABLE)


@pytest.mark.parametrize("add", [True, False])
@in_loop
async def test_what_is_not_replicated_yet_is_sent_again(add: bool) -> None:
    log = LaggingLog(4, lag=False)
    driver = Driver(cast(TransactionLog, log))
    producer = await driver.init()
    log.lag = True
    driver.add(producer, T0, T1)
    assert ask(driver, producer, add=add) == dict.fromkeys((T0, T1), ErrorCode.CONCURRENT_TRANSACTIONS)
    log.replicate_all()
    assert ask(driver, producer, add=add) == {}


def test_nobody_is_asked_of_a_transaction_that_is_under_way_in_the_partition() -> None:
    broker = MemoryBroker({"t": 1})
    replica = broker.replicas.get("t", 0)
    assert replica is not None
    replica.append(batch(1, producer=(7, 1, 0), transactional=True))

    def coordinator() -> TransactionCoordinator:
        raise AssertionError("asked")

    def entries(epoch: int) -> Any:
        return refused_entries(broker.replicas, coordinator, TID, [Entry(T0, 7, epoch)], add=False, generic_error=True)

    assert entries(1) == {}
    with pytest.raises(AssertionError, match="asked"):
        entries(2)

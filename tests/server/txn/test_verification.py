"""These tests cover txn/verification.py: transactional batches are appended if their partition is in the transaction, and
otherwise wait or are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import pytest

from ottla.server.base.promise import Promise
from ottla.server.txn.coordinator import Producer
from ottla.server.txn.markers import write_marker
from ottla.server.txn.shard import Marker
from ottla.server.txn.verification import Codes, Entry, refused_entries, verify_here
from ottla.wire.errors import ErrorCode
from tests.fakes import MemoryBroker
from tests.in_loop import in_loop
from tests.log.support import batch
from tests.server.coordination.fakes import LaggingLog
from tests.server.txn.fakes import TID, Driver, TransactionLog

T0, T1 = ("t", 0), ("t", 1)


def ask(driver: Driver, producer: Producer, *, add: bool = False, generic: bool = True, name: str = TID) -> Any:
    """Returns the errors for a batch for each of two partitions that know nothing of the producer."""
    replicas = MemoryBroker({"t": 2}).replicas
    entries = [Entry(each, *producer) for each in (T0, T1)]
    return refused_entries(
        replicas, partial(verify_here, lambda: driver.coordinator), name, entries, add=add, generic_error=generic
    )


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
async def test_the_answer_comes_when_it_is_replicated(add: bool) -> None:
    log = LaggingLog(4, lag=False)
    driver = Driver(cast(TransactionLog, log))
    producer = await driver.init()
    log.lag = True
    driver.add(producer, T0)
    later = ask(driver, producer, add=add)
    assert isinstance(later, Promise)
    assert not later.done()
    log.replicate_all()
    assert later.result() == ({} if add else {T1: ErrorCode.TRANSACTION_ABORTABLE})


@pytest.mark.parametrize("add", [True, False])
@in_loop
async def test_or_is_not_coordinator_if_the_partition_is_lost_first(add: bool) -> None:
    log = LaggingLog(4, lag=False)
    driver = Driver(cast(TransactionLog, log))
    producer = await driver.init()
    log.lag = True
    driver.add(producer, T0, T1)
    later = ask(driver, producer, add=add)
    driver.coordinator.close()
    assert later.result() == dict.fromkeys((T0, T1), ErrorCode.NOT_COORDINATOR)


class Elsewhere:
    """A coordinator whose answer comes later."""

    def __init__(self) -> None:
        self.answer: Promise[Codes] = Promise()
        self.partitions: list[tuple[str, int]] = []

    def __call__(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Sequence[tuple[str, int]], *, add: bool
    ) -> Promise[Codes]:
        self.partitions += partitions
        return self.answer


def end(broker: MemoryBroker, topic: str, producer: tuple[int, int], version: int = 1) -> None:
    """Brings the marker of a producer's transaction to a partition."""
    code = write_marker(broker.replicas, cast(Any, None), topic, 0, Marker(*producer, 0, False, version)).code
    assert code is ErrorCode.NONE


@pytest.mark.parametrize("version", [1, 2])
def test_a_transaction_that_ends_while_the_coordinator_is_asked_is_over(version: int) -> None:
    add, epoch_of_marker = version == 2, version
    broker, elsewhere = MemoryBroker({"t": 1, "u": 1, "v": 1}), Elsewhere()
    broker.replica("v").append(batch(1, producer=(7, 1, 0), transactional=True))
    entries = [Entry((topic, 0), 7, 1) for topic in "tuv"]
    later = refused_entries(broker.replicas, elsewhere, TID, entries, add=add, generic_error=True)
    assert isinstance(later, Promise)
    assert elsewhere.partitions == [("t", 0), ("u", 0)], "the transaction is under way in v"
    end(broker, "t", (7, epoch_of_marker), version)
    end(broker, "u", (8, epoch_of_marker), version)
    end(broker, "v", (7, epoch_of_marker), version)
    elsewhere.answer.set_result(dict.fromkeys(elsewhere.partitions, ErrorCode.NONE))
    assert later.result() == dict.fromkeys([("t", 0), ("v", 0)], ErrorCode.INVALID_TXN_STATE)


def test_the_marker_of_the_transaction_before_does_not_end_the_one_that_has_to_wait_for_it() -> None:
    broker, elsewhere = MemoryBroker({"t": 1}), Elsewhere()
    later = refused_entries(broker.replicas, elsewhere, TID, [Entry(T0, 7, 1)], add=True, generic_error=True)
    end(broker, "t", (7, 1))
    elsewhere.answer.set_result({T0: ErrorCode.CONCURRENT_TRANSACTIONS})
    assert isinstance(later, Promise)
    assert later.result() == {T0: ErrorCode.CONCURRENT_TRANSACTIONS}


def test_nor_one_that_began_as_soon_as_the_marker_was_there() -> None:
    """EndTxn is answered before the marker is in the partition, and the producer writes the next transaction at once, with the
    epoch that the marker has.
    """
    broker, elsewhere = MemoryBroker({"t": 1}), Elsewhere()
    later = refused_entries(broker.replicas, elsewhere, TID, [Entry(T0, 7, 1)], add=True, generic_error=True)
    end(broker, "t", (7, 1), version=2)
    elsewhere.answer.set_result({T0: ErrorCode.NONE})
    assert isinstance(later, Promise)
    assert later.result() == {}


def test_a_transaction_that_ended_before_is_another_one() -> None:
    broker, elsewhere = MemoryBroker({"t": 1}), Elsewhere()
    end(broker, "t", (7, 0))
    later = refused_entries(broker.replicas, elsewhere, TID, [Entry(T0, 7, 1)], add=True, generic_error=True)
    elsewhere.answer.set_result({T0: ErrorCode.NONE})
    assert isinstance(later, Promise)
    assert later.result() == {}


def test_nobody_is_asked_of_a_transaction_that_is_under_way_in_the_partition() -> None:
    broker = MemoryBroker({"t": 1})
    replica = broker.replicas.get("t", 0)
    assert replica is not None
    replica.append(batch(1, producer=(7, 1, 0), transactional=True))

    def coordinator(*asked: object, **how: object) -> Any:
        raise AssertionError("asked")

    def entries(epoch: int) -> Any:
        return refused_entries(broker.replicas, coordinator, TID, [Entry(T0, 7, epoch)], add=False, generic_error=True)

    assert entries(1) == {}
    with pytest.raises(AssertionError, match="asked"):
        entries(2)

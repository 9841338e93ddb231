"""These tests cover the life of transactional ids: begun, fenced, committed, aborted, timed out, loaded again and expired."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from ottla.log.errors import CorruptLog, StorageError
from ottla.server.txn.coordinator import Producer
from ottla.server.txn.errors import TransactionError
from ottla.server.txn.state import EXHAUSTED_EPOCH, Expected, State
from ottla.wire.errors import ErrorCode
from ottla.wire.primitives import LONGEST_STRING
from tests.in_loop import in_loop
from tests.server.txn.fakes import TID, Driver, TransactionLog, code_of

BOTH = pytest.mark.parametrize("version", [1, 2])


async def refused(operation: Awaitable[object]) -> ErrorCode:
    with pytest.raises(TransactionError) as error:
        await operation
    return code_of(error.value)


# Beginning


@in_loop
async def test_a_new_id_gets_a_producer_and_each_next_one_the_next_epoch() -> None:
    driver = Driver()
    assert await driver.init() == (1000, 0)
    assert await driver.init() == (1000, 1)
    assert await driver.init(transactional_id="other") == (1001, 0)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
@in_loop
async def test_timeouts_have_bounds(timeout_ms: int) -> None:
    assert await refused(Driver().init(timeout_ms=timeout_ms)) is ErrorCode.INVALID_TRANSACTION_TIMEOUT


@in_loop
async def test_ids_that_no_record_could_hold() -> None:
    driver = Driver()
    for name in ("", "x" * (LONGEST_STRING + 1)):
        assert await refused(driver.init(transactional_id=name)) is ErrorCode.INVALID_REQUEST
        with pytest.raises(TransactionError) as error:
            driver.coordinator.find(name)
        assert code_of(error.value) is ErrorCode.INVALID_REQUEST
    for name in ("x", "x" * LONGEST_STRING):
        assert await driver.init(transactional_id=name) == (driver.now(name).producer_id, 0)


@in_loop
async def test_a_producer_goes_on_after_an_error_and_may_ask_twice() -> None:
    driver = Driver()
    first = await driver.init()
    second = await driver.init(Expected(*first))
    assert second == (1000, 1)
    assert await driver.init(Expected(*first)) == second, "the same request again"
    assert await driver.init(Expected(*second)) == (1000, 2)
    assert await refused(driver.init(Expected(*first))) is ErrorCode.PRODUCER_FENCED
    assert await refused(driver.init(Expected(999, 0))) is ErrorCode.PRODUCER_FENCED


@in_loop
async def test_two_that_begin_at_once_get_different_epochs() -> None:
    driver = Driver()
    assert sorted(await asyncio.gather(driver.init(), driver.init())) == [(1000, 0), (1000, 1)]


@in_loop
async def test_used_up_epochs_bring_a_new_id() -> None:
    driver = Driver()
    await driver.init()
    shard = driver.coordinator.shard(TID)
    shard.write_transaction(driver.now()._replace(producer_epoch=EXHAUSTED_EPOCH))
    last = Expected(1000, EXHAUSTED_EPOCH)
    assert await driver.init(last) == (1001, 0)
    assert await driver.init(last) == (1001, 0), "the same request again"


@BOTH
@in_loop
async def test_who_takes_over_aborts_what_was_open(version: int) -> None:
    driver = Driver(version=version)
    old = await driver.init()
    driver.add(old, ("t", 0), ("t", 1))
    assert await refused(driver.init()) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert driver.now().state is State.COMPLETE_ABORT
    assert [(topic, partition, marker.committed) for topic, partition, marker in driver.markers] == [
        ("t", 0, False),
        ("t", 1, False),
    ]
    assert driver.markers[0][2].producer_epoch == 1, "above that of the batches, so that late ones are refused"
    assert await driver.init() == (1000, 2)
    assert await refused(driver.end(old, commit=True)) is ErrorCode.PRODUCER_FENCED
    with pytest.raises(TransactionError) as error:
        driver.add(old)
    assert code_of(error.value) is ErrorCode.PRODUCER_FENCED


# Ends


@BOTH
@pytest.mark.parametrize("commit", [True, False])
@in_loop
async def test_an_end_is_marked_where_the_transaction_was(version: int, commit: bool) -> None:
    driver = Driver(version=version)
    producer = await driver.init()
    driver.add(producer, ("t", 1))
    driver.add(producer, ("u", 0), ("t", 1))
    assert driver.now().state is State.ONGOING
    after = await driver.end(producer, commit=commit)
    bumped = int(version == 2)
    assert after == (1000, bumped)
    assert driver.now().state is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT)
    assert driver.now().partitions == frozenset()
    assert [(topic, index) for topic, index, _ in driver.markers] == [("t", 1), ("u", 0)]
    assert set(driver.markers[0][2]._asdict().items()) == {
        ("producer_id", 1000),
        ("producer_epoch", bumped),
        ("coordinator_epoch", 3),
        ("committed", commit),
        ("transaction_version", 2 * bumped),
    }


@in_loop
async def test_an_end_may_be_asked_for_again_and_not_be_changed() -> None:
    old = Driver(version=1)
    producer = await old.init()
    assert await refused(old.end(producer, commit=True)) is ErrorCode.INVALID_TXN_STATE, "nothing has begun"
    old.add(producer)
    await old.end(producer, commit=True)
    assert await old.end(producer, commit=True) == (-1, -1)
    assert await refused(old.end(producer, commit=False)) is ErrorCode.INVALID_TXN_STATE
    assert len(old.markers) == 1


@in_loop
async def test_with_version_2_the_epoch_distinguishes_again_from_next() -> None:
    driver = Driver()
    producer = await driver.init()
    driver.add(producer)
    after = await driver.end(producer, commit=True)
    assert await driver.end(producer, commit=True) == after, "again"
    assert await refused(driver.end(producer, commit=False)) is ErrorCode.INVALID_TXN_STATE
    assert await refused(driver.end(after, commit=True)) is ErrorCode.INVALID_TXN_STATE, "nothing has begun"
    next_one = await driver.end(after, commit=False)
    assert next_one == (1000, 2), "an abort of what never reached us raises the epoch"
    assert driver.now().state is State.COMPLETE_ABORT
    assert len(driver.markers) == 1
    assert await refused(driver.end(producer, commit=True)) is ErrorCode.PRODUCER_FENCED


@in_loop
async def test_with_version_2_an_end_brings_a_new_id_when_epochs_are_used_up() -> None:
    driver = Driver()
    await driver.init()
    driver.coordinator.shard(TID).write_transaction(driver.now()._replace(producer_epoch=EXHAUSTED_EPOCH))
    producer = Producer(1000, EXHAUSTED_EPOCH)
    driver.add(producer)
    after = await driver.end(producer, commit=True)
    assert after == (1001, 0)
    assert driver.markers[0][2].producer_epoch == EXHAUSTED_EPOCH + 1
    assert driver.markers[0][2].producer_id == 1000
    assert await driver.end(producer, commit=True) == after, "again"


@pytest.mark.parametrize("by_end", [False, True])
@in_loop
async def test_after_a_rotation_the_old_id_is_known_with_its_last_epoch_only(by_end: bool) -> None:
    driver = Driver()
    await driver.init()
    driver.coordinator.shard(TID).write_transaction(driver.now()._replace(producer_epoch=EXHAUSTED_EPOCH))
    last = Producer(1000, EXHAUSTED_EPOCH)
    if by_end:
        driver.add(last)
        assert await driver.end(last, commit=True) == (1001, 0)
    else:
        assert await driver.init(Expected(*last)) == (1001, 0)
    for coordinator in (driver, driver.restarted()):
        for epoch in (0, 5, EXHAUSTED_EPOCH - 1):
            assert await refused(coordinator.init(Expected(1000, epoch))) is ErrorCode.PRODUCER_FENCED
            old_end = coordinator.end(Producer(1000, epoch), commit=True)
            assert await refused(old_end) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert await refused(coordinator.init(Expected(999, EXHAUSTED_EPOCH))) is ErrorCode.PRODUCER_FENCED
        assert (coordinator.now().producer_id, coordinator.now().producer_epoch) == (1001, 0)
    assert await driver.init(Expected(*last)) == (1001, 0), "it never got its answer, and asks again"


@pytest.mark.parametrize(
    ("producer", "code"),
    [
        (Producer(1001, 0), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (Producer(1000, 1), ErrorCode.PRODUCER_FENCED),
        (Producer(1000, -1), ErrorCode.PRODUCER_FENCED),
    ],
)
@BOTH
@in_loop
async def test_only_its_owner_ends_a_transaction(version: int, producer: Producer, code: ErrorCode) -> None:
    driver = Driver(version=version)
    driver.add(await driver.init())
    assert await refused(driver.end(producer, commit=True)) is code
    assert not driver.markers


@in_loop
async def test_an_id_that_nobody_initialised() -> None:
    driver = Driver()
    with pytest.raises(TransactionError) as error:
        driver.add(Producer(1, 0))
    assert code_of(error.value) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


@in_loop
async def test_which_partitions_are_in_it() -> None:
    driver = Driver()
    producer = await driver.init()
    driver.add(producer, ("t", 0))
    found = driver.coordinator.verify_partitions(TID, *producer, [("t", 0), ("t", 1)])
    assert found == {("t", 0): ErrorCode.NONE, ("t", 1): ErrorCode.TRANSACTION_ABORTABLE}


# Partitions that do not take their markers


@BOTH
@in_loop
async def test_markers_are_tried_until_each_partition_took_its_own(version: int) -> None:
    driver = Driver(version=version)
    producer = await driver.init()
    driver.add(producer, ("t", 0), ("t", 1), ("t", 2))
    driver.answers[("t", 1)] = ErrorCode.KAFKA_STORAGE_ERROR
    after = await driver.end(producer, commit=True)
    assert driver.now().state is State.PREPARE_COMMIT
    with pytest.raises(TransactionError) as error:
        driver.add(after)
    assert code_of(error.value) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert await refused(driver.init()) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert await refused(driver.end(producer, commit=True)) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert await refused(driver.end(producer, commit=False)) is ErrorCode.INVALID_TXN_STATE
    driver.clock.advance(0.15)
    assert driver.now().state is State.PREPARE_COMMIT
    driver.answers.clear()
    driver.clock.advance(0.15)
    assert driver.now().state is State.COMPLETE_COMMIT
    assert [index for _, index, _ in driver.markers] == [0, 2, 1]
    driver.add(after)


@in_loop
async def test_a_partition_that_is_gone_has_nothing_to_end() -> None:
    driver = Driver()
    producer = await driver.init()
    driver.add(producer)
    driver.answers[("t", 0)] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await driver.end(producer, commit=True)
    assert driver.now().state is State.COMPLETE_COMMIT


@in_loop
async def test_who_was_replaced_leaves_the_end_to_others() -> None:
    driver = Driver()
    producer = await driver.init()
    driver.add(producer)
    driver.answers[("t", 0)] = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    await driver.end(producer, commit=True)
    assert driver.now().state is State.PREPARE_COMMIT
    assert driver.coordinator.shard(TID).rest == 0


# The log


@pytest.mark.parametrize("error", [StorageError("gone"), OSError("gone")])
@in_loop
async def test_what_could_not_be_written_did_not_happen(error: StorageError | OSError) -> None:
    driver = Driver()
    producer = await driver.init()
    driver.add(producer)
    before = driver.now()
    driver.log.fail = error
    assert await refused(driver.end(producer, commit=True)) is ErrorCode.NOT_COORDINATOR
    assert await refused(driver.init()) is ErrorCode.NOT_COORDINATOR
    assert driver.now() is before
    assert not driver.markers
    driver.log.fail = None
    await driver.end(producer, commit=True)
    assert driver.now().state is State.COMPLETE_COMMIT


@pytest.mark.parametrize("version", [0, 1, 2])
@in_loop
async def test_a_restart_knows_what_was(version: int) -> None:
    driver = Driver(version=version)
    producer = await driver.init()
    driver.add(producer, ("t", 0), ("u", 7))
    before = driver.now()
    again = driver.restarted()
    previous = before.previous_producer_id if version else -1
    assert again.now() == before._replace(last_producer_epoch=-1, previous_producer_id=previous)
    assert await again.end(producer, commit=False) == (1000, int(version == 2))


@BOTH
@pytest.mark.parametrize("commit", [True, False])
@in_loop
async def test_what_was_decided_before_a_crash_is_completed_after_it(version: int, commit: bool) -> None:
    driver = Driver(version=version)
    producer = await driver.init()
    driver.add(producer, ("t", 0), ("t", 1))
    driver.answers[("t", 1)] = ErrorCode.KAFKA_STORAGE_ERROR
    after = await driver.end(producer, commit=commit)
    driver.answers.clear()
    again = driver.restarted()
    assert again.now().state is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT)
    assert (again.now().producer_id, again.now().producer_epoch) == (1000, int(version == 2))
    assert [(index, marker.committed) for _, index, marker in again.markers] == [(0, commit), (1, commit)]
    if version == 2:
        again.add(after)


@in_loop
async def test_a_crash_between_the_markers_and_the_last_record() -> None:
    driver = Driver()
    producer = await driver.init()
    driver.add(producer)
    await driver.end(producer, commit=True)
    for batches in driver.log.batches:
        if batches:
            batches.pop()
    again = driver.restarted()
    assert again.now().state is State.COMPLETE_COMMIT
    assert again.markers == driver.markers


@in_loop
async def test_another_brokers_ids() -> None:
    driver = Driver()
    await driver.init()
    driver.log.leaders = [2] * 4
    driver.coordinator.refresh()
    assert await refused(driver.init()) is ErrorCode.NOT_COORDINATOR
    driver.log.leaders, driver.log.epoch = [1] * 4, 4
    driver.coordinator.refresh()
    assert driver.coordinator.shard(TID).leader_epoch == 4
    assert driver.now().producer_id == 1000


@in_loop
async def test_without_the_topic_there_is_no_coordinator() -> None:
    driver = Driver(TransactionLog(partitions=0))
    assert await refused(driver.init()) is ErrorCode.NOT_COORDINATOR
    with pytest.raises(TransactionError) as error:
        driver.coordinator.partition_for(TID)
    assert code_of(error.value) is ErrorCode.COORDINATOR_NOT_AVAILABLE


@in_loop
async def test_a_partition_that_cannot_be_read_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    await driver.init()

    def broken(partition: int) -> object:
        raise CorruptLog("bad segment")

    again = Driver(driver.log, driver.clock)
    with monkeypatch.context() as patch:
        patch.setattr(driver.log, "read", broken)
        assert await refused(again.init()) is ErrorCode.NOT_COORDINATOR
    assert await again.init() == (1000, 1)


@in_loop
async def test_a_record_that_does_not_decode_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    from ottla.wire.records import Record, build_batch

    driver = Driver()
    await driver.init()
    partition = driver.coordinator.partition_for(TID)
    driver.log.append(partition, build_batch([Record(0, 0, b"\0\0\0\x08transfer", b"\0\x09", [])]))
    assert driver.restarted().now().producer_id == 1000
    assert "skipped a malformed record at offset 1" in caplog.text
    assert "Traceback" not in caplog.text


# Time


@in_loop
async def test_what_could_not_be_loaded_at_the_start_is_aborted_without_anybody_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    driver.add(await driver.init(timeout_ms=5_000))
    driver.clock.advance(6)

    def offline(partition: int) -> object:
        raise StorageError("not here yet")

    again = Driver(driver.log, driver.clock)
    with monkeypatch.context() as patch:
        patch.setattr(driver.log, "read", offline)
        again.coordinator.refresh()
        await again.coordinator.abort_overdue()
    assert again.markers == []
    await again.coordinator.abort_overdue()
    assert [(topic, partition, marker.committed) for topic, partition, marker in again.markers] == [("t", 0, False)]


@BOTH
@in_loop
async def test_what_is_open_for_too_long_is_aborted(version: int) -> None:
    driver = Driver(version=version)
    producer = await driver.init(timeout_ms=5_000)
    driver.add(producer)
    driver.clock.advance(5)
    await driver.coordinator.abort_overdue()
    assert driver.now().state is State.ONGOING
    driver.clock.advance(1)
    await driver.coordinator.abort_overdue()
    assert driver.now().state is State.COMPLETE_ABORT
    assert driver.now().producer_epoch == 1
    assert await refused(driver.end(producer, commit=True)) in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE)


@in_loop
async def test_ids_that_nobody_uses_are_forgotten() -> None:
    driver = Driver(id_expiration_ms=60_000)
    await driver.init(transactional_id="idle")
    driver.add(await driver.init())
    driver.clock.advance(59)
    driver.coordinator.expire()
    assert driver.coordinator.find("idle") is not None
    driver.clock.advance(1)
    driver.coordinator.expire()
    assert driver.coordinator.find("idle") is None
    assert driver.now().state is State.ONGOING
    assert driver.restarted().coordinator.find("idle") is None
    assert sorted(each.transactional_id for each in driver.coordinator.all_transactions()) == [TID]


@in_loop
async def test_long_ids_are_forgotten_in_batches_that_a_partition_takes() -> None:
    driver = Driver(log=TransactionLog(1), id_expiration_ms=60_000)
    for number in range(60):
        await driver.init(transactional_id=f"{number:030000}")
    written = len(driver.log.batches[0])
    driver.clock.advance(61)
    driver.coordinator.expire()
    tombstones = driver.log.batches[0][written:]
    assert len(tombstones) > 1
    assert max(map(len, tombstones)) < 1 << 20
    assert list(driver.coordinator.all_transactions()) == []

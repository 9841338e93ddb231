"""These tests cover one partition on this broker: its appends are counted, wake waiting fetches, and move the high watermark."""

from __future__ import annotations

import pytest

from ottla.log.errors import CorruptRecord, FencedLeaderEpoch, OffsetOutOfRange, PolicyViolation, UnknownLeaderEpoch
from ottla.server.partitions.replica import HIGH_WATERMARK
from tests.fakes import MemoryBroker
from tests.followers import Led
from tests.log.support import batch


def test_an_append_moves_the_high_watermark_of_a_lone_replica_and_wakes_once() -> None:
    replica = MemoryBroker({"t": 1}).replica()
    woken: list[int] = []
    replica.watchers["me"] = lambda: woken.append(1)
    assert replica.append(batch(3)).base_offset == 0
    replica.append(batch(3))
    assert woken == [1]
    assert replica.log.high_watermark == 6


def test_an_append_is_counted_with_its_bytes_and_messages() -> None:
    replica = MemoryBroker({"t": 1}).replica()
    records = batch(3)
    replica.append(records)
    traffic = replica.traffic
    assert (traffic.appends, traffic.bytes_in, traffic.messages_in) == (1, len(records), 3)


def test_records_are_deleted_up_to_an_offset_or_to_the_high_watermark() -> None:
    """Ids are rows of docs/kafka-behaviour.md."""
    led = Led()
    led.append(6)
    led.fetched(two=4, three=4)
    assert led.replica.delete_records_before(2) == 2
    assert led.replica.delete_records_before(HIGH_WATERMARK) == 4  # DR4
    for offset in (5, -2):
        with pytest.raises(OffsetOutOfRange):
            led.replica.delete_records_before(offset)


@pytest.mark.parametrize(("policy", "deletes"), [("compact", False), ("compact,delete", True), ("delete", True)])
def test_records_of_a_topic_that_is_only_compacted_are_not_deleted(policy: str, deletes: bool) -> None:
    broker = MemoryBroker({})
    broker.create_topic("t", cleanup_policy=policy)
    replica = broker.replica()
    replica.append(batch(3))
    if deletes:
        assert replica.delete_records_before(1) == 1
        return
    with pytest.raises(PolicyViolation):  # DR8
        replica.delete_records_before(0)


def test_damage_is_logged_once_a_place_and_only_for_the_first_ten(caplog: pytest.LogCaptureFixture) -> None:
    replica = MemoryBroker({"t": 1}).replica()
    for place in (0, 0, *range(20)):
        replica.log_damage(CorruptRecord(f"place {place}"))
    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == [f"place {place}" for place in range(10)]
    assert {record.name for record in caplog.records} == {"ottla.server.replicas"}


@pytest.mark.parametrize(("believed", "error"), [(4, FencedLeaderEpoch), (6, UnknownLeaderEpoch), (5, None), (-1, None)])
def test_a_client_s_leader_epoch_is_checked(believed: int, error: type[Exception] | None) -> None:
    replica = MemoryBroker({"t": 1}).replica()
    replica.leader_epoch = 5
    if error is None:
        replica.check_epoch(believed)
        return
    with pytest.raises(error):
        replica.check_epoch(believed)


def test_a_flush_that_is_due_wakes_readers_and_one_that_is_not_does_nothing() -> None:
    broker = MemoryBroker({})
    broker.create_topic("t", flush_messages="2")
    replica = broker.replica()
    replica.append(batch(1))
    replica.flush_if_due(1)
    assert replica.log.recovery_point == 0
    replica.append(batch(1))
    seen: list[int] = []
    replica.watchers["reader"] = lambda: seen.append(replica.log.high_watermark)
    replica.flush_if_due(2)
    assert (replica.log.recovery_point, seen) == (2, [2])


def test_a_copy_in_another_log_directory_is_flushed_and_lets_the_high_watermark_move() -> None:
    led = Led(flush_messages=1)
    end_offset = led.append(3)
    called: list[Exception | None] = []
    led.high_watermark.when_passed(end_offset, called.append)
    led.fetched(two=3, three=3)
    assert led.offset == 0
    seen: list[int] = []
    led.replica.watchers["reader"] = lambda: seen.append(led.offset)
    led.replica.replace_log(led.replica.log)
    assert (led.offset, called, seen) == (3, [None], [3])

"""The scenarios of Kafka 4.4's ProducerStateManagerTest that take a log; test_producer_scenarios.py has the table of all."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.log.names import SNAPSHOT_SUFFIX
from ottla.log.producers import NO_OFFSET
from ottla.log.rebuild import remove_stray_snapshots
from ottla.log.transactions import append_marker
from tests.log.support import NOW_MS, Rig, batch, settings
from tests.log.test_producer_scenarios import DAY_MS, LATE_MS, PID, TIMEOUT_MS
from tests.memdisk import MemDisk


class Transactions(Rig):
    """A log, and its one producer, who counts."""

    def __init__(self, **changes: Any) -> None:
        self.sequence = 0
        super().__init__(settings(**changes))

    def send(self, *, transactional: bool = False, value: bytes = b"v") -> None:
        producer = (PID, 0, self.sequence)
        self.append(batch(producer=producer, transactional=transactional, value=value, timestamp_ms=self.now_ms))
        self.sequence += 1

    def end(self, *, commit: bool = True) -> None:
        append_marker(self.log, producer_id=PID, producer_epoch=0, commit=commit, coordinator_epoch=0, leader_epoch=0)

    @property
    def snapshots(self) -> list[int]:
        return [int(name.removesuffix(SNAPSHOT_SUFFIX)) for name in self.names(SNAPSHOT_SUFFIX)]

    def state(self) -> tuple[int, int, int]:
        """(sequence, offset, first offset of the transaction)"""
        state = self.log.producers.get(PID)
        return (state.last_sequence, state.last_offset, state.txn_first_offset) if state else (-1, -1, -1)


def test_late_after_a_restart() -> None:
    log = Transactions()
    log.send(transactional=True)
    log.now_ms += LATE_MS + 1
    for clean in (True, False):
        log.restart(clean=clean)
        assert log.log.producers.has_late_transaction(log.now_ms, TIMEOUT_MS)


@pytest.mark.parametrize("offset", [2, 0])
def test_not_late_after_truncation(offset: int) -> None:
    log = Transactions()
    log.send()
    log.send()
    log.send(transactional=True)
    log.now_ms += LATE_MS + 1
    assert log.log.producers.has_late_transaction(log.now_ms, TIMEOUT_MS)
    log.log.truncate_to(offset)
    assert not log.log.producers.has_late_transaction(log.now_ms, TIMEOUT_MS)


def test_a_snapshot_an_offset() -> None:
    log = Transactions()
    log.send()
    log.send()
    for _ in range(2):
        log.log.take_snapshot()
        assert log.snapshots == [2]
    assert log.disk.size(f"{log.path}/{2:020d}.snapshot") == 10 + 46


def test_snapshots_out_of_range_go() -> None:
    """A truncation removes those beyond the cut, and those that the log's start has left behind."""
    log = Transactions()
    for _ in range(5):
        log.send()
        log.log.take_snapshot()
    log.log.delete_records_before(1)
    log.log.truncate_to(3)
    assert log.snapshots == [2, 3]
    assert log.state() == (2, 2, NO_OFFSET)


def test_starting_anew_elsewhere() -> None:
    log = Transactions()
    for _ in range(3):
        log.send()
    log.log.take_snapshot()
    log.log.truncate_to(0)
    assert (log.snapshots, len(log.log.producers)) == ([], 0)
    log.sequence = 0
    log.send()
    log.log.take_snapshot()
    assert log.snapshots == [1]


def test_snapshots_go_with_their_segments() -> None:
    log = Transactions()
    for _ in range(3):
        log.send()
        log.log.roll()
    assert log.snapshots == [1, 2, 3]
    log.disk.remove(f"{log.path}/{1:020d}.snapshot")
    log.log.delete_records_before(3)
    assert log.log.apply_retention(log.now_ms) == 3
    assert log.snapshots == [3]


@pytest.mark.parametrize("clean", [True, False])
def test_restarts_inside_and_after_a_transaction(clean: bool) -> None:
    log = Transactions()
    log.send(transactional=True)
    log.send(transactional=True)
    log.restart(clean=clean)
    assert log.state() == (1, 1, 0)
    assert log.log.last_stable_offset == 0
    log.send(transactional=True)
    log.end(commit=False)
    log.restart(clean=clean)
    assert log.state() == (2, 2, NO_OFFSET)
    assert log.log.last_stable_offset == 4
    log.end(commit=False)
    before = log.log.producers.get(PID)
    log.restart(clean=clean)
    after = log.log.producers.get(PID)
    assert before is not None
    assert after is not None
    assert (after.last_timestamp_ms, after.coordinator_epoch) == (before.last_timestamp_ms, before.coordinator_epoch)


def test_expired_in_a_restart() -> None:
    log = Transactions()
    log.send()
    log.send()
    log.restart(clean=True)
    assert log.state() == (1, 1, NO_OFFSET)
    log.now_ms += DAY_MS
    log.restart(clean=True)
    assert log.state() == (-1, -1, -1)
    log.send()  # with whatever number it goes on
    assert log.state() == (2, 2, NO_OFFSET)
    assert log.log.producers.end_offset == 3


def test_expired_while_running() -> None:
    log = Transactions()
    log.send()
    log.now_ms += DAY_MS + 1
    assert log.log.forget_expired_producers(log.now_ms) == 1
    log.send(transactional=True)
    assert log.state() == (1, 1, 1)
    log.now_ms += DAY_MS + 1
    for _ in range(2):
        assert log.log.forget_expired_producers(log.now_ms) == 0, "its transaction is open"
    assert log.log.last_stable_offset == 1


def test_truncation_makes_a_transaction_unstable_again() -> None:
    log = Transactions()
    for _ in range(4):
        log.send()
    log.send(transactional=True)  # 4
    log.log.take_snapshot()
    log.end()  # 5
    log.log.take_snapshot()
    log.send()  # 6
    assert log.log.last_stable_offset == 7
    log.log.truncate_to(6)
    assert log.log.last_stable_offset == 6
    log.log.truncate_to(5)
    assert log.log.last_stable_offset == 4


@pytest.mark.parametrize("damage", ["empty", "half", "garbage"])
def test_a_bad_snapshot_gives_way_to_the_one_before(damage: str) -> None:
    log = Transactions()
    log.send()
    log.log.roll()
    log.send()
    log.manager.close()
    path = f"{log.path}/{2:020d}.snapshot"
    data = log.disk.read_bytes(path)
    log.disk.write_bytes(path, {"empty": b"", "half": data[: len(data) // 2], "garbage": bytes(37) + data[37:]}[damage])
    log.start()
    assert log.snapshots == [1]
    assert log.state() == (1, 1, NO_OFFSET)


@pytest.mark.parametrize(("bases", "left"), [([0, 5], [5, 42]), ([0, 42], [42])])
def test_stray_snapshots(bases: list[int], left: list[int]) -> None:
    """Kept are those of segments, and the newest if it lies behind all of them: a clean stop wrote it."""
    disk = MemDisk(lambda: NOW_MS)
    disk.makedirs("/p")
    for offset in (2, 5, 42):
        disk.write_bytes(f"/p/{offset:020d}.snapshot", b"")

    class Based:
        def __init__(self, base_offset: int) -> None:
            self.base_offset = base_offset

    remove_stray_snapshots(disk, "/p", [Based(base) for base in bases])  # type: ignore[arg-type]  # it asks a segment for no more
    assert [int(name.partition(".")[0]) for name in disk.list("/p")] == left

"""Tests of what a crash leaves of a partition, and what either broker makes of it at its next start: the same.

The process is killed, its files are changed as a power cut or a disk might change them, and the broker starts again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from compat_tests.brokers import CLASSES, Address
from compat_tests.reference.kafka import BrokerFailed, BrokerProcess
from compat_tests.wire import Wire, batch
from ottla.wire.batch import iter_batches

NONE = 0
SEGMENT_BYTES = 1 << 20  # the least that Kafka takes
ZERO = "0" * 20


class Crashed:
    """A broker for one test, with one topic "t", and its files."""

    def __init__(self, broker: BrokerProcess, **configs: str) -> None:
        self.broker = broker
        self._connect()
        self.topic = self.wire.create("t", 1, **configs)

    def _connect(self) -> None:
        assert self.broker.process is not None
        address = Address(self.broker.kind, self.broker.port, self.broker.process.pid, str(self.broker.log_file))
        self.wire = Wire(address, "recovery")

    @property
    def directory(self) -> Path:
        return Path(self.broker.data_dir) / f"{self.topic}-0"

    def produce(self, count: int, value: bytes = b"v" * 100) -> None:
        for _ in range(count):
            answer = self.wire.produce(self.topic, batch(value))
            assert answer.responses[0].partition_responses[0].error_code == NONE

    def kill(self) -> None:
        self.wire.close()
        self.broker.kill()

    def stop(self) -> None:
        self.wire.close()
        assert self.broker.stop() == 0

    def start(self) -> None:
        self.broker.start()
        self._connect()
        self.wire.wait_for_topic(self.topic)

    def offsets(self) -> list[int]:
        """Of all records, from the start."""
        found: list[int] = []
        while True:
            answer = self.wire.fetch(self.topic, len(found), partition_max_bytes=1 << 24)
            partition = answer.responses[0].partitions[0]
            assert partition.error_code == NONE
            if partition.high_watermark == len(found):
                return found
            for header, _ in iter_batches(bytes(partition.records)):
                found += range(header.base_offset, header.next_offset)


@pytest.fixture
def crashed(fresh_broker: Callable[..., BrokerProcess]) -> Iterator[Callable[..., Crashed]]:
    """`crashed(**topic settings)`."""
    made: list[Crashed] = []

    def make(**configs: str) -> Crashed:
        made.append(Crashed(fresh_broker(), **configs))
        return made[-1]

    yield make
    for each in made:
        each.wire.close()


def test_a_torn_end_is_cut_off(crashed: Callable[..., Crashed]) -> None:
    log = crashed()
    log.produce(20)
    for garbage in (os.urandom(777), bytes(500), b"\0" * 8 + b"\0\0\0\x40"):
        log.kill()
        path = log.directory / f"{ZERO}.log"
        size = path.stat().st_size
        with path.open("ab") as file:
            file.write(garbage)
        log.start()
        assert path.stat().st_size == size
        assert log.offsets() == list(range(20))
    log.kill()
    os.truncate(path, size - 10)
    log.start()
    assert log.offsets() == list(range(19))
    log.produce(1)
    assert log.offsets() == list(range(20))


def test_indexes_and_snapshots_may_hold_anything_after_a_crash(crashed: Callable[..., Crashed]) -> None:
    log = crashed()
    log.produce(20)
    log.stop()
    log.start()
    log.produce(5)
    log.kill()
    rng = Random(1)
    for path in log.directory.iterdir():
        if path.suffix in (".index", ".timeindex", ".snapshot"):
            path.write_bytes(rng.randbytes(rng.randint(1, 300)))
    log.start()
    assert log.offsets() == list(range(25))


def test_a_preallocated_segment_is_as_long_as_it_may_get_until_it_ends(crashed: Callable[..., Crashed]) -> None:
    log = crashed(preallocate="true", segment_bytes=str(SEGMENT_BYTES))
    path = log.directory / f"{ZERO}.log"
    assert path.stat().st_size == SEGMENT_BYTES
    log.produce(30, b"v" * 50_000)
    first, second = sorted(log.directory.glob("*.log"))
    assert first.stat().st_size < SEGMENT_BYTES == second.stat().st_size
    log.kill()
    log.start()
    assert second.stat().st_size < SEGMENT_BYTES
    assert log.offsets() == list(range(30))
    log.produce(1)
    log.stop()
    assert second.stat().st_size < SEGMENT_BYTES
    log.start()
    assert log.offsets() == list(range(31))


def test_a_broken_topic_id_is_not_guessed(kind: str, crashed: Callable[..., Crashed]) -> None:
    """Kafka takes the whole directory offline and ends; ottla keeps this partition offline and serves the others."""
    log = crashed()
    other = log.wire.create("other")
    log.produce(3)
    log.stop()
    path = log.directory / "partition.metadata"
    good = path.read_bytes()
    path.write_bytes(b"nonsense")
    if kind == "kafka":
        with pytest.raises(BrokerFailed):
            log.broker.start()
    else:
        log.broker.start()
        log._connect()
        log.wire.wait_for_topic(other)
        answer = log.wire.produce(log.topic, batch(b"v"))
        assert answer.responses[0].partition_responses[0].error_code != NONE
        log.stop()
    path.write_bytes(good)
    log.start()
    assert log.offsets() == [0, 1, 2]


def test_a_directory_is_one_brokers(kind: str, crashed: Callable[..., Crashed], tmp_path: Path) -> None:
    log = crashed()
    log.produce(3)
    second = CLASSES["ottla"](tmp_path / "second", {"log.dirs": str(log.broker.data_dir)})
    with pytest.raises(BrokerFailed, match="in use by another broker"):
        second.start()
    log.produce(1)
    assert log.offsets() == [0, 1, 2, 3]

"""Disks that fail under a running broker: what clients see, what goes on, and what comes back. On both brokers where both can.

Each broker has two log directories: the first holds the metadata, the second gets the fault. Where ottla does otherwise than
Kafka it is on purpose, and said so in its test: Kafka takes a directory offline, or ends, for want of room or descriptors; ottla
refuses the append, serves what is there, and goes on when it can.
"""

from __future__ import annotations

import os
import resource
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from compat_tests.brokers import CLASSES, Address
from compat_tests.disk_faults import SYNCS, WRITES, Strace, in_own_mounts, seen_by
from compat_tests.reference.kafka import BrokerProcess
from compat_tests.waiting import wait_for
from compat_tests.wire import Wire, batch
from ottla.wire.messages import create_topics, describe_log_dirs

NONE, CORRUPT_MESSAGE, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR = 0, 2, 5, 6, 56
LARGE: Final = 900_000
SMALL_MOUNT: Final = "8m"


class Faulty:
    """A broker of a kind on two directories, and a topic with partitions in both."""

    def __init__(self, kind: str, directory: Path, *, mount: str = "", **settings: str) -> None:
        self.kind = kind
        self.second = directory / "second"
        self.second.mkdir(parents=True)
        self.broker = self._wrapped(CLASSES[kind], mount)(directory / kind, {k.replace("_", "."): v for k, v in settings.items()})
        self.broker.settings |= {"log.dirs": f"{self.broker.data_dir},{self.second}", "log.index.size.max.bytes": "65536"}
        self.trace = directory / "strace"
        self.start()
        self.topic = self.wire.create("t", 4)
        held = [int(path.name.rpartition("-")[2]) for path in self.seen.iterdir() if path.name.startswith(f"{self.topic}-")]
        self.bad, self.good = held[0], next(index for index in range(4) if index not in held)
        for partition in (self.bad, self.good):
            assert self.produce(partition) == NONE

    @staticmethod
    def _wrapped(base: type[BrokerProcess], mounts: str) -> type[BrokerProcess]:
        if not mounts:
            return base

        class Mounted(base):  # type: ignore[misc, valid-type]  # mypy knows no base that is an argument
            def command(self) -> list[str]:
                second = self.settings["log.dirs"].split(",")[1]
                return in_own_mounts(super().command(), mounts.format(second=second))

        return Mounted

    def start(self) -> None:
        self.broker.start()
        assert self.broker.process is not None
        self.pid = self.broker.process.pid
        self.wire = Wire(Address(self.kind, self.broker.port, self.pid, str(self.broker.log_file)), "faults")

    @property
    def seen(self) -> Path:
        """The second directory, as the broker sees it."""
        return seen_by(self.pid, self.second)

    @property
    def segment(self) -> Path:
        """Of the partition in the second directory, the active one."""
        return max((self.seen / f"{self.topic}-{self.bad}").glob("*.log"))

    def produce(self, partition: int, value: bytes = b"v") -> int:
        answer = self.wire.produce(self.topic, batch(value), partition=partition)
        return int(answer.responses[0].partition_responses[0].error_code)

    def fetch(self, partition: int, offset: int = 0) -> tuple[int, int]:
        """(error code, high watermark)"""
        data = self.wire.fetch(self.topic, offset, partition=partition).responses[0].partitions[0]
        return data.error_code, data.high_watermark

    def breaks(self, calls: str, how: str) -> Strace:
        return Strace(self.pid, self.second / f"{self.topic}-{self.bad}" / self.segment.name, calls, how, self.trace)

    def is_offline(self, refusal: int = KAFKA_STORAGE_ERROR) -> bool:
        """Everything a client can ask says so, and the other directory knows nothing of it."""
        described = self.wire.call(describe_log_dirs.DescribeLogDirsRequest(None), 4).results
        directories = {Path(each.log_dir).name: (each.error_code, len(each.topics), each.total_bytes > 0) for each in described}
        (topic,) = self.wire.metadata(self.topic).topics
        placed = {each.partition_index: (each.error_code, each.leader_id, each.offline_replicas) for each in topic.partitions}
        offset = self.wire.end_offsets(self.topic, [self.bad]).topics[0].partitions[0]
        return (
            directories == {"data": (NONE, 1, True), "second": (KAFKA_STORAGE_ERROR, 0, False)}
            and placed[self.bad] == (LEADER_NOT_AVAILABLE, -1, [1])
            and placed[self.good] == (NONE, 1, [])
            and self.produce(self.bad) == refusal
            and self.fetch(self.bad) == (refusal, -1)
            and offset.error_code == refusal
            and self.produce(self.good) == NONE
        )

    def end(self) -> None:
        self.wire.close()
        self.broker.stop()


@pytest.fixture
def faulty(tmp_path: Path) -> Iterator[Callable[..., Faulty]]:
    made: list[Faulty] = []

    def make(kind: str, **options: str) -> Faulty:
        made.append(Faulty(kind, tmp_path / f"{kind}-{len(made)}", **options))
        return made[-1]

    yield make
    for each in made:
        each.end()
        shutil.rmtree(each.broker.directory)


@pytest.mark.parametrize("error", ["EIO", "EROFS"])
def test_a_write_that_fails_takes_its_directory_offline_until_the_next_start(
    kind: str, faulty: Callable[..., Faulty], error: str
) -> None:
    """As if the file system had become read-only, or the disk were broken."""
    one = faulty(kind)
    with one.breaks(WRITES, f"error={error}"):
        assert one.produce(one.bad) == KAFKA_STORAGE_ERROR
    wait_for(one.is_offline, "the directory is offline")
    one.broker.kill()
    one.start()
    wait_for(lambda: one.produce(one.bad) == NONE, "the partition is led again")
    assert one.fetch(one.bad) == (NONE, 2), "what failed is not there"


def test_a_failed_fsync_is_never_tried_again(kind: str, faulty: Callable[..., Faulty]) -> None:
    one = faulty(kind, log_flush_interval_messages="1")
    with one.breaks(SYNCS, "error=EIO:when=1") as broken:
        assert one.produce(one.bad) == KAFKA_STORAGE_ERROR
        wait_for(one.is_offline, "the directory is offline")
        assert len(broken.calls()) == 1
    assert one.produce(one.bad) == KAFKA_STORAGE_ERROR, "although it would work now"


def test_a_directory_that_is_read_only_at_the_start(kind: str, faulty: Callable[..., Faulty]) -> None:
    one = faulty(kind)
    one.broker.stop()
    read_only = f"mount --bind {one.second} {one.second}; mount -o remount,bind,ro {one.second}"
    command = one.broker.command()
    one.broker.command = lambda: in_own_mounts(command, read_only)  # type: ignore[method-assign]  # for this start alone
    one.start()
    refusal = {"ottla": KAFKA_STORAGE_ERROR, "kafka": NOT_LEADER_OR_FOLLOWER}[kind]  # which Kafka says only of a running one
    wait_for(lambda: one.is_offline(refusal), "the directory is offline")


def test_without_the_directory_of_the_metadata_the_broker_ends(kind: str, faulty: Callable[..., Faulty]) -> None:
    one = faulty(kind)
    log = one.broker.data_dir / "__cluster_metadata-0" / f"{0:020d}.log"
    with Strace(one.pid, log, WRITES, "error=EIO", one.trace):
        new_topic = create_topics.CreateTopicsRequest([create_topics.CreatableTopic("late", 1, 1)], 5000)
        one.wire.connect().send(new_topic, 5)  # its answer is not waited for: there may be none
        assert one.broker.process is not None
        assert one.broker.process.wait(30) != 0
    one.broker.process = None
    one.start()


# No room


TMPFS: Final = (
    f"cp -a {{second}} {{second}}.was; mount -t tmpfs -o size={SMALL_MOUNT} tmpfs {{second}}; cp -a {{second}}.was/. {{second}}"
)


def fill(one: Faulty) -> int:
    """Appends until there is no room; returns how many were taken, with the one of the start."""
    taken = 1
    while (code := one.produce(one.bad, os.urandom(LARGE))) == NONE:
        taken += 1
        assert taken < 20
    assert code == KAFKA_STORAGE_ERROR
    return taken


def test_kafka_takes_a_full_directory_offline(faulty: Callable[..., Faulty]) -> None:
    """Shows what ottla does not do: see the next test."""
    one = faulty("kafka", mount=TMPFS, log_segment_bytes="1048576")
    fill(one)
    wait_for(one.is_offline, "the directory is offline")


def test_a_full_directory_refuses_appends_serves_reads_and_goes_on_when_there_is_room(faulty: Callable[..., Faulty]) -> None:
    one = faulty("ottla", mount=TMPFS, log_segment_bytes="1048576")
    filler = one.seen / "filler"
    filler.write_bytes(bytes(2 << 20))
    taken = fill(one)
    assert one.fetch(one.bad) == (NONE, taken)
    assert one.produce(one.good) == NONE
    assert one.segment.stat().st_size % LARGE < 1000, "nothing but whole batches"
    described = one.wire.call(describe_log_dirs.DescribeLogDirsRequest(None), 4).results
    assert [each.error_code for each in described] == [NONE, NONE]
    filler.unlink()
    assert one.produce(one.bad, os.urandom(LARGE)) == NONE
    records = [one.wire.fetch(one.topic, offset, partition=one.bad) for offset in range(taken + 1)]
    assert all(len(each.responses[0].partitions[0].records) > 60 for each in records)


def test_a_limit_on_file_sizes_is_as_good_as_a_full_disk(faulty: Callable[..., Faulty]) -> None:
    one = faulty("ottla")
    before = resource.prlimit(one.pid, resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
    assert one.produce(one.bad, os.urandom(LARGE)) == KAFKA_STORAGE_ERROR
    assert one.segment.stat().st_size < 1000, "what fitted was cut off again"
    assert one.produce(one.bad) == NONE
    resource.prlimit(one.pid, resource.RLIMIT_FSIZE, before)
    assert one.produce(one.bad, os.urandom(LARGE)) == NONE
    assert one.fetch(one.bad) == (NONE, 3)


# No descriptors


def test_without_descriptors_it_refuses_what_needs_one_and_loses_nothing(faulty: Callable[..., Faulty]) -> None:
    """New clients are not let in, a partition whose file is not open answers 56, and the connections that are there stay."""
    one = faulty("ottla")
    untouched = next(index for index in range(4) if index not in (one.bad, one.good))
    used = len(os.listdir(f"/proc/{one.pid}/fd"))
    before = resource.prlimit(one.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(one.pid, resource.RLIMIT_NOFILE, (used, before[1]))
    assert one.produce(one.bad) == NONE, "its file is open"
    assert one.produce(untouched) == KAFKA_STORAGE_ERROR
    newcomer = Wire(one.wire.address, "newcomer").connect()
    newcomer.send(one.wire.fetch_request(one.topic, partition=one.bad), 12)
    assert one.fetch(one.bad) == (NONE, 2)
    resource.prlimit(one.pid, resource.RLIMIT_NOFILE, before)
    assert one.produce(untouched) == NONE
    assert one.fetch(untouched) == (NONE, 1)
    newcomer.close()
    late = Wire(one.wire.address, "late")
    wait_for(lambda: not isinstance(late.fetch(one.topic, partition=one.bad), str), "new clients are let in again")
    late.close()


# Damage


def test_a_batch_whose_framing_is_damaged(kind: str, faulty: Callable[..., Faulty]) -> None:
    """Its length is nonsense. Whoever asks for it hears of it; the batches before it are served."""
    one = faulty(kind)
    for _ in range(4):
        assert one.produce(one.bad) == NONE
    size = one.segment.stat().st_size // 5
    with open(one.segment, "r+b") as file:
        file.seek(2 * size + 8)
        file.write(struct.pack(">i", -1))
    assert one.fetch(one.bad, 3)[0] == CORRUPT_MESSAGE
    assert one.fetch(one.bad, 0) == (NONE, 5)
    assert one.fetch(one.bad, 1) == (NONE, 5)
    assert one.produce(one.bad) == NONE

"""The same requests, the same bytes: partition directories that ottla and Apache Kafka wrote are equal, file by file.

Both brokers start on an empty directory and get the same frames: record batches made here with fixed timestamps, producer ids in
the order in which the brokers give them out. Then both stop, and every topic's directory is compared; then both start again, get
more, stop, and are compared again. The names of the files must be the same, and the bytes of `.log`, `.index`, `.timeindex`,
`.txnindex`, `.snapshot` and `leader-epoch-checkpoint`. Asked twice, Kafka itself gives the same bytes in all of these but for:

| file | what differs from run to run | how it is compared |
|---|---|---|
| `partition.metadata` | the topic id is random | its form, with the id cut out |
| `.log`, `.timeindex` of a topic with LogAppendTime | the clock | with timestamps and CRC blanked; the index without its times |
| a transaction's end | the coordinator's clock, in the marker | what Kafka wrote is appended to a log of ours: markers, too |

And some things differ between the brokers, for a reason:

- Where a topic's `compression.type` makes the broker compress anew, lz4 gives the same bytes; gzip, snappy and zstd are other
  libraries than Java's (zlib of another version, another Snappy, another Zstandard), and make other bytes of the same records.
  Compared are the headers without size and CRC, and the records; with gzip also the index, as the sizes happen to be equal.
- kill -9: Kafka elects nobody and then this broker, which makes two leader epochs, and we one; they are numbered from zero before
  they are compared. Recovery of ours has not read the topics' settings yet when it builds indexes, so their entries lie
  4096 bytes apart whatever index.interval.bytes says. Kafka drops the producer snapshots of the segment that it recovers, we
  keep those that are whole. And it writes leader epochs to disk at once where DeleteRecords moves the log's start, and the start
  itself within a minute, as we do both. So after kill -9 the snapshots, the indexes of topics with an interval of their own, and
  the epochs of the topic with DeleteRecords are left out.

Timestamps lie half an hour ahead, within message.timestamp.after.max.ms, so that no clock of a broker comes near them.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from compat_tests.brokers import CLASSES, KINDS, Address
from compat_tests.reference.kafka import BrokerProcess
from compat_tests.waiting import wait_for
from compat_tests.wire import Wire, batch
from ottla.log.config import LogConfig
from ottla.log.disk.directory import LogDirectory
from ottla.log.disk.files import OpenFiles, OsDisk
from ottla.log.open_options import Opening
from ottla.log.opening.recovery import create_log
from ottla.log.validate import Origin
from ottla.wire.batch import HEADER_SIZE, iter_batches
from ottla.wire.messages import (
    add_partitions_to_txn,
    delete_records,
    end_txn,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
)
from ottla.wire.records import Record, build_batch, decode_records

START_MS: Final = int(time.time() * 1000) + 30 * 60_000
CODECS: Final = range(5)
EPOCH_AT: Final = 12  # of the leader epoch in a batch
SETTINGS: Final = {
    "log.initial.task.delay.ms": "3600000",  # no retention in the middle of a comparison
    "log.cleaner.enable": "false",
    "log.message.timestamp.after.max.ms": "3600000",
}
STOPS: Final = (1, 2, 3)
"""All are clean; before the last one comes a kill -9 and the recovery from it."""
KILLED: Final = 3
SMALL_SEGMENT: Final = {"segment_bytes": str(1 << 20)}  # the least that both accept
COMPARED: Final = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", "leader-epoch-checkpoint")

Write = Callable[[Wire, str], None]


def noise(count: int, seed: int) -> bytes:
    return Random(seed).randbytes(count)


def send(wire: Wire, topic: str, records: bytes) -> None:
    answer = wire.produce(topic, records)
    assert answer.responses[0].partition_responses[0].error_code == 0, answer


# What is written. Each is called before the restart and again after it.


def all_codecs(wire: Wire, topic: str) -> None:
    for codec in CODECS:
        for count in (1, 3, 100):
            values = [noise(7 * number % 90, number) + b"." * 20 for number in range(count)]
            send(wire, topic, batch(*values, first_ms=START_MS, codec=codec))


def batches_of_all_sizes(wire: Wire, topic: str) -> None:
    """Across several segments of a mebibyte, with a seed that both brokers see."""
    random = Random(11)
    for number in range(60):
        size = random.choice((1, 80, 700, 4_000, 4_200, 30_000, 130_000))
        send(wire, topic, batch(noise(size, number), first_ms=START_MS + number))


def times_in_any_order(wire: Wire, topic: str) -> None:
    """The time index takes the greatest so far, and where it came first."""
    random = Random(5)
    for number in range(120):
        at_ms = [START_MS + random.randrange(-5000, 5000) for _ in range(3)]
        records = [Record(0, ms, b"k", noise(300, number)) for ms in at_ms]
        send(wire, topic, build_batch(records, codec=number % 5))
    for _ in range(10):
        send(wire, topic, build_batch([Record(0, START_MS, b"k", b"same" * 100)]))


def without_times(wire: Wire, topic: str) -> None:
    for number in range(40):
        send(wire, topic, build_batch([Record(0, -1, b"k", noise(500, number))]))


def producers_with_numbers(wire: Wire, topic: str) -> None:
    """Snapshots: several producers, epochs that grow, a batch that comes again, rolls in between."""
    ids = [wire.new_producer_id() for _ in range(20)]
    for turn in range(4):
        for at, producer_id in enumerate(ids):
            records = batch(
                *[noise(9_000, at)] * 3,
                first_ms=START_MS + turn,
                producer_id=producer_id,
                producer_epoch=turn // 2,
                base_sequence=3 * (turn % 2),
            )
            send(wire, topic, records)
            if at % 3 == 0:
                send(wire, topic, records)  # a duplicate


def rolled_by_time(wire: Wire, topic: str) -> None:
    for number in range(6):
        send(wire, topic, batch(b"v" * 50, first_ms=START_MS - 600_000 + number * 40_000))


def some_deleted(wire: Wire, topic: str) -> None:
    """DeleteRecords within a segment; what lies before it goes with the next retention, in both."""
    batches_of_all_sizes(wire, topic)
    ask = delete_records.DeleteRecordsPartition(0, wire.end_offsets(topic, [0]).topics[0].partitions[0].offset - 17)
    answer = wire.call(delete_records.DeleteRecordsRequest([delete_records.DeleteRecordsTopic(topic, [ask])], 5000), 2)
    assert answer.topics[0].partitions[0].error_code == 0, answer


WRITES: Final[dict[str, tuple[dict[str, str], Write]]] = {
    "codecs": ({}, all_codecs),
    "sizes": (SMALL_SEGMENT, batches_of_all_sizes),
    "dense-index": ({**SMALL_SEGMENT, "index_interval_bytes": "0"}, batches_of_all_sizes),
    "small-index": ({**SMALL_SEGMENT, "index_interval_bytes": "100", "segment_index_bytes": "100"}, batches_of_all_sizes),
    "times": ({"index_interval_bytes": "1000"}, times_in_any_order),
    "no-times": ({"index_interval_bytes": "1000"}, without_times),
    "producers": (SMALL_SEGMENT, producers_with_numbers),
    "by-time": ({"segment_ms": "60000"}, rolled_by_time),
    "deleted": (SMALL_SEGMENT, some_deleted),
    "append-time": ({**SMALL_SEGMENT, "message_timestamp_type": "LogAppendTime"}, batches_of_all_sizes),
    **{f"to-{name}": ({"compression_type": name}, all_codecs) for name in ("gzip", "snappy", "lz4", "zstd", "uncompressed")},
}
WITH_CLOCK: Final = {"append-time"}
OTHER_BYTES: Final = {"to-gzip", "to-snappy", "to-zstd"}
OTHER_SIZES: Final = {"to-snappy", "to-zstd"}


@pytest.fixture(scope="module")
def stops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, int], Path]]:
    """(kind, how often it was stopped so far) -> its data directory then."""
    base = tmp_path_factory.mktemp("equal")
    found: dict[tuple[str, int], Path] = {}
    for kind in KINDS:
        broker = CLASSES[kind](base / kind, SETTINGS)
        for stop in STOPS:
            broker.start()
            try:
                write_all(broker, stop)
                if stop == STOPS[-1]:
                    broker.kill()
                    broker.start()
            finally:
                broker.stop()
            found[kind, stop] = base / f"{kind}-{stop}"
            shutil.copytree(broker.data_dir, found[kind, stop])
    yield found
    shutil.rmtree(base)


def write_all(broker: BrokerProcess, stop: int) -> None:
    assert broker.process is not None
    wire = Wire(Address(broker.kind, broker.port, broker.process.pid, str(broker.log_file)), "eq")
    try:
        wait_for(lambda: wire.call(init_producer_id.InitProducerIdRequest(None, 1000), 4).error_code == 0, "producer ids")
        for stem, (configs, write) in WRITES.items():
            if stop == 1:
                wire.create(stem, 1, **configs)
            else:
                wire.wait_for_topic(wire.name(stem))
            write(wire, wire.name(stem))
        if stop == STOPS[-2]:
            widen_index(wire, wire.name("small-index"))
    finally:
        wire.close()


def widen_index(wire: Wire, topic: str) -> None:
    """From the next start on: with a bound this small Kafka 4.4.0 does not come up again after kill -9, for its recovery appends
    to an index that is full.
    """
    ask = incremental_alter_configs.AlterConfigsResource(
        2, topic, [incremental_alter_configs.AlterableConfig("segment.index.bytes", 1)]
    )
    answer = wire.call(incremental_alter_configs.IncrementalAlterConfigsRequest([ask]), 1)
    assert answer.responses[0].error_code == 0, answer


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("stem", WRITES)
def test_the_same_requests_give_the_same_bytes(stops: dict[tuple[str, int], Path], stem: str, stop: int) -> None:
    ours, theirs = (content(stops[kind, stop] / f"eq-{stem}-0") for kind in KINDS)
    assert any(name.endswith(".snapshot") for name in ours)
    if stop == KILLED:
        ours, theirs = (after_kill(files, stem) for files in (ours, theirs))
    assert list(ours) == list(theirs)
    different = [
        name for name in theirs if comparable(name, ours[name], stem, stop) != comparable(name, theirs[name], stem, stop)
    ]
    assert not different, [f"{name}: {len(ours[name])} and {len(theirs[name])} bytes" for name in different]


def after_kill(files: dict[str, bytes], stem: str) -> dict[str, bytes]:
    """Without what differs for a reason."""
    left_out = {".snapshot"}
    if "index_interval_bytes" in WRITES[stem][0]:
        left_out |= {".index", ".timeindex"}
    if stem == "deleted":
        left_out.add("leader-epoch-checkpoint")
    return {name: data for name, data in files.items() if not name.endswith(tuple(left_out))}


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize(
    "name", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint"]
)
def test_checkpoints_say_the_same(stops: dict[tuple[str, int], Path], name: str, stop: int) -> None:
    """Their lines are in the order of a hash table, so they are compared as a set."""
    ours, theirs = (sorted((stops[kind, stop] / name).read_text().splitlines()) for kind in KINDS)
    assert ours == theirs


def content(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def comparable(name: str, data: bytes, stem: str, stop: int) -> Any:
    """Returns the bytes of a file that must be equal."""
    if name == "partition.metadata":
        return re.sub(rb"topic_id: [\w-]{22}", b"topic_id: ", data)
    assert name.endswith(COMPARED), name
    if name == "leader-epoch-checkpoint" and stop == KILLED:
        version, count, *entries = data.decode().splitlines()
        return version, count, [(number, entry.split(" ")[1]) for number, entry in enumerate(entries)]
    if name.endswith(".log"):
        return comparable_log(data, stem, stop)
    if stem in WITH_CLOCK and name.endswith(".timeindex"):
        return len(data) > 0  # how many entries depends on how often the clock moved on
    return None if stem in OTHER_SIZES and name.endswith(".index") else data


def comparable_log(data: bytes, stem: str, stop: int) -> Any:
    epochs: list[int] = []
    found: list[Any] = []
    for header, view in iter_batches(data):
        if header.partition_leader_epoch not in epochs:
            epochs.append(header.partition_leader_epoch)
        number = len(epochs) - 1 if stop == KILLED else header.partition_leader_epoch
        if stem in WITH_CLOCK:
            found.append((number, header.replace(partition_leader_epoch=0, crc=0, max_timestamp=0), bytes(view[HEADER_SIZE:])))
        elif stem in OTHER_BYTES:
            found.append((number, header.replace(partition_leader_epoch=0, crc=0, batch_length=0), decode_records(bytes(view))))
        else:
            found.append((number, bytes(view[:EPOCH_AT]), bytes(view[EPOCH_AT + 4 :])))
    return found


# Transactions: markers carry the clock of Kafka's coordinator, so Kafka's batches are appended to a log of ours, one by one.


def write_transactions(wire: Wire, topic: str) -> None:
    """Three producers by turns; every third transaction is aborted, some span a roll, and others' lie within."""
    producers = [Transactional(wire, f"{topic}-{number}", topic) for number in range(3)]
    for turn in range(24):
        producer = producers[turn % 3]
        if producer.is_open:
            producer.end(commit=turn % 9 < 6)
        producer.write(noise(90_000 if turn % 4 else 300, turn))
        if turn % 5 == 0:
            send(wire, topic, batch(b"plain", first_ms=START_MS))
    for producer in producers:
        producer.end(commit=producer is not producers[0])


class Transactional:
    """A transactional producer, request by request."""

    def __init__(self, wire: Wire, transactional_id: str, topic: str) -> None:
        self.wire, self.transactional_id, self.topic = wire, transactional_id, topic
        self.is_open, self.sequence = False, 0
        find = find_coordinator.FindCoordinatorRequest(transactional_id, 1)
        wait_for(lambda: wire.call(find, 2).error_code == 0, "transaction coordinator")
        wait_for(self._begin, f"a producer id for {transactional_id}")

    def _begin(self) -> bool:
        answer = self.wire.call(init_producer_id.InitProducerIdRequest(self.transactional_id, 60_000), 4)
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return bool(answer.error_code == 0)

    def write(self, value: bytes) -> None:
        if not self.is_open:
            wait_for(self._add_partition, "the transaction before is over")
        fields = {"producer_id": self.producer_id, "producer_epoch": self.epoch, "base_sequence": self.sequence}
        answer = self.wire.produce(
            self.topic,
            batch(value, first_ms=START_MS + self.sequence, transactional=True, **fields),
            transactional_id=self.transactional_id,
        )
        assert answer.responses[0].partition_responses[0].error_code == 0, answer
        self.is_open = True
        self.sequence += 1

    def _add_partition(self) -> bool:
        answer = self.wire.call(
            add_partitions_to_txn.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.epoch,
                v3_and_below_topics=[add_partitions_to_txn.AddPartitionsToTxnTopic(self.topic, [0])],
            ),
            3,
        )
        (result,) = answer.results_by_topic_v3_and_below
        return bool(result.results_by_partition[0].partition_error_code == 0)

    def end(self, *, commit: bool) -> None:
        """Returns when the marker is in the log: others write behind it, in both brokers at the same place."""
        before = self._log_end()
        answer = self.wire.call(end_txn.EndTxnRequest(self.transactional_id, self.producer_id, self.epoch, commit), 3)
        assert answer.error_code == 0, answer
        wait_for(lambda: self._log_end() == before + 1, "the marker is written")
        self.is_open = False

    def _log_end(self) -> int:
        return int(self.wire.end_offsets(self.topic, [0]).topics[0].partitions[0].offset)


def test_transactions(tmp_path: Path) -> None:
    broker = CLASSES["kafka"](tmp_path / "kafka", SETTINGS)
    broker.start()
    try:
        assert broker.process is not None
        wire = Wire(Address(broker.kind, broker.port, broker.process.pid, str(broker.log_file)), "eq")
        wire.warm_up()
        write_transactions(wire, wire.create("transactions", 1, **SMALL_SEGMENT))
        wire.close()
    finally:
        broker.stop()
    theirs = content(broker.data_dir / "eq-transactions-0")
    (tmp_path / "ottla").mkdir()
    ours = appended(tmp_path / "ottla", [theirs[name] for name in sorted(theirs) if name.endswith(".log")])
    assert sum(name.endswith(".txnindex") for name in theirs) > 1
    assert list(ours) == [name for name in theirs if name != "partition.metadata"]
    assert not [name for name in ours if ours[name] != theirs[name]]


def appended(path: Path, segments: list[bytes]) -> dict[str, bytes]:
    """Appends these batches to our log, and returns what it makes of them."""
    config = LogConfig.from_overrides({"segment.bytes": str(1 << 20)})
    directory = LogDirectory(OsDisk(), str(path), OpenFiles(8))
    log = create_log(directory, Opening("eq", 0, None, config, lambda: START_MS, Random(0), clean=True))
    for data in segments:
        for header, view in iter_batches(data):
            origin = Origin.COORDINATOR if header.is_control else Origin.CLIENT
            sent = bytes(8) + bytes(view[8:])  # a client's base offset is 0
            log.append_as_leader(sent, leader_epoch=header.partition_leader_epoch, origin=origin)
    log.close()
    return content(path / "eq-0")

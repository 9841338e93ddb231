"""Compaction leaves the same records at the same offsets, and the same bytes, in ottla and in Apache Kafka.

Both brokers get the same frames in topics of tiny segments that are not due (`min.cleanable.dirty.ratio` 1). Then the ratio is
set to 0, both compact, each in one go and so from the same state, and their `.log` files are compared batch by batch. This is
done in rounds: what the first round left is old for the second. Compared byte for byte but for what the brokers' clocks decide:

- timestamps of transaction markers, and with them the CRC of their batches;
- the delete horizon of a batch with tombstones or a marker, which takes the place of the base timestamp: there the records are
  compared with the times that a reader sees.

Compressed batches that lost records are compressed anew, by each broker's own libraries: their headers without size and CRC are
compared, and the records.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from compat_tests.brokers import CLASSES, KINDS, Address
from compat_tests.reference.kafka import BrokerProcess
from compat_tests.times import TODAY_MS
from compat_tests.waiting import wait_for
from compat_tests.wire import Wire
from ottla.log.disk import checkpoint
from ottla.log.disk.files import OsDisk
from ottla.wire.batch import HEADER_SIZE, BatchHeader, iter_batches
from ottla.wire.messages import incremental_alter_configs, write_txn_markers
from ottla.wire.records import Record, build_batch, decode_records

ROUNDS: Final = (1, 2, 3)
SETTINGS: Final = {
    "log.cleaner.backoff.ms": "100",
    "log.initial.task.delay.ms": "100",
    "transaction.partition.verification.enable": "false",  # producers here are made of frames, without a coordinator
    "log.retention.check.interval.ms": "3600000",
}
TOPIC: Final = {
    "cleanup_policy": "compact",
    "internal_segment_bytes": "1500",
    "min_cleanable_dirty_ratio": "1.0",
    "delete_retention_ms": "0",
}
_TOPIC_RESOURCE: Final = 2
_SET: Final = 0
Pair = tuple[int, bytes | None]
Write = Callable[["Writer", int], None]


class Writer:
    """Frames for one topic; the same in both brokers."""

    def __init__(self, wire: Wire, topic: str) -> None:
        self.wire, self.topic = wire, topic
        self.sequences: dict[int, int] = {}
        self.clock_ms = TODAY_MS

    def put(self, *pairs: Pair, producer_id: int = -1, transactional: bool = False, step_ms: int = 1, **fields: Any) -> None:
        records = []
        for key, value in pairs:
            self.clock_ms += step_ms
            records.append(Record(0, self.clock_ms, b"key-%d" % key, value, [("h", b"%d" % key)] if key % 3 == 0 else []))
        if producer_id >= 0:
            sequence = self.sequences.get(producer_id, 0)
            self.sequences[producer_id] = sequence + len(records)
            fields |= {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
        data = build_batch(records, transactional=transactional, **fields)
        answer = self.wire.produce(self.topic, data, transactional_id=f"t-{producer_id}" if transactional else None)
        assert answer.responses[0].partition_responses[0].error_code == 0, answer

    def end(self, producer_id: int, *, commit: bool) -> None:
        topics = [write_txn_markers.WritableTxnMarkerTopic(self.topic, [0])]
        marker = write_txn_markers.WritableTxnMarker(producer_id, 0, commit, topics)
        answer = self.wire.call(write_txn_markers.WriteTxnMarkersRequest([marker]), 1)
        assert answer.markers[0].topics[0].partitions[0].error_code == 0, answer


def few_keys(writer: Writer, turn: int) -> None:
    for number in range(120):
        writer.put((number % 7, b"%d-%d" % (turn, number)), (100 * turn + number, b"once"))


def all_codecs(writer: Writer, turn: int) -> None:
    for number in range(60):
        pairs: list[Pair] = [((number + at) % 20, b"value %d %d" % (turn, number + at)) for at in range(6)]
        writer.put(*pairs, codec=number % 5)


def tombstones(writer: Writer, turn: int) -> None:
    for number in range(80):
        writer.put((number % 30, None if (number + turn) % 3 == 0 else b"v%d" % turn), (number % 11, b"w"))


def lasting_tombstones(writer: Writer, turn: int) -> None:
    """Keys deleted in their turn and never written again: only the delete horizon decides whether a later turn takes them."""
    for number in range(80):
        writer.put((1000 * turn + number % 30, b"v" if number < 50 else None), (number % 11, b"w"))


def times_go_back(writer: Writer, turn: int) -> None:
    for number in range(60):
        writer.put((number % 9, b"a"), (number % 5, b"b"), (50 + number % 4, b"c"), step_ms=-7 if number % 2 else 11)


def producers(writer: Writer, turn: int) -> None:
    for number in range(90):
        writer.put((number % 6, b"p%d" % turn), (number % 4, b"q"), producer_id=4_000 + number % 3)
    writer.put((1, b"once"), producer_id=5_000 + turn)  # never again: its last batch stays, without its records
    writer.put((1, b"plain"))


def transactions(writer: Writer, turn: int) -> None:
    """Three producers by turns; every third transaction is aborted, some span segments."""
    for number in range(90):
        producer_id = 7_000 + number % 3
        writer.put((number % 8, b"t%d" % turn), (number % 5, None), producer_id=producer_id, transactional=True)
        if number % 4 == 3:
            writer.put((number % 8, b"plain"))
        if number % 7 == 6 or number >= 87:
            writer.end(producer_id, commit=number % 3 != 0)
    for producer_id in range(7_000, 7_003):
        writer.end(producer_id, commit=producer_id == 7_001)


WRITES: Final[dict[str, tuple[dict[str, str], Write]]] = {
    "few-keys": ({}, few_keys),
    "codecs": ({}, all_codecs),
    "tombstones": ({}, tombstones),
    "times": ({}, times_go_back),
    "producers": ({}, producers),
    "transactions": ({}, transactions),
    "long-tombstones": ({"delete_retention_ms": "3600000"}, lasting_tombstones),
    "short-tombstones": ({}, lasting_tombstones),
}


@pytest.fixture(scope="module")
def compacted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, int], Path]]:
    """(kind, round) -> a copy of the data directory after that round's compaction."""
    base = tmp_path_factory.mktemp("compacted")
    found: dict[tuple[str, int], Path] = {}
    for kind in KINDS:
        broker = CLASSES[kind](base / kind, SETTINGS)
        broker.start()
        try:
            assert broker.process is not None
            wire = Wire(Address(broker.kind, broker.port, broker.process.pid, str(broker.log_file)), "c")
            writers = {stem: Writer(wire, wire.create(stem, 1, **(TOPIC | configs))) for stem, (configs, _) in WRITES.items()}
            for turn in ROUNDS:
                for stem, writer in writers.items():
                    WRITES[stem][1](writer, turn)
                compact(broker, writers)
                found[kind, turn] = base / f"{kind}-{turn}"
                shutil.copytree(broker.data_dir, found[kind, turn], ignore=shutil.ignore_patterns("*.deleted", "__*"))
            wire.close()
        finally:
            broker.stop()
    yield found
    shutil.rmtree(base)


def compact(broker: BrokerProcess, writers: dict[str, Writer]) -> None:
    """Makes the topics due, waits until they are clean up to their active segments, and makes them not due again."""
    for writer in writers.values():
        set_ratio(writer, "0.0")
    for writer in writers.values():
        directory = broker.data_dir / f"{writer.topic}-0"

        def is_clean(writer: Writer = writer, directory: Path = directory) -> bool:
            active = max(int(path.stem) for path in directory.glob("*.log"))
            cleaned = checkpoint.read_offsets(OsDisk(), f"{broker.data_dir}/{checkpoint.CLEANER_OFFSETS}")
            return cleaned.get((writer.topic, 0), -1) == active

        wait_for(is_clean, f"{writer.topic} is compacted")
        set_ratio(writer, "1.0")


def set_ratio(writer: Writer, ratio: str) -> None:
    change = incremental_alter_configs.AlterableConfig("min.cleanable.dirty.ratio", _SET, ratio)
    resource = incremental_alter_configs.AlterConfigsResource(_TOPIC_RESOURCE, writer.topic, [change])
    answer = writer.wire.call(incremental_alter_configs.IncrementalAlterConfigsRequest([resource]), 1)
    assert answer.responses[0].error_code == 0, answer


@pytest.mark.parametrize("turn", ROUNDS)
@pytest.mark.parametrize("stem", WRITES)
def test_the_same_bytes_are_left(compacted: dict[tuple[str, int], Path], stem: str, turn: int) -> None:
    ours, theirs = (logs(compacted[kind, turn] / f"c-{stem}-0") for kind in KINDS)
    assert list(ours) == list(theirs), "base offsets of segments"
    for name, their_data in theirs.items():
        assert [comparable(*one) for one in iter_batches(ours[name])] == [comparable(*one) for one in iter_batches(their_data)]


def test_something_was_compacted(compacted: dict[tuple[str, int], Path]) -> None:
    """Or the other test compares nothing: batches that lost some records, or all, and those with a delete horizon."""
    left = [logs(compacted["kafka", turn] / f"c-{stem}-0") for turn in ROUNDS for stem in WRITES]
    headers = [header for each in left for data in each.values() for header, _ in iter_batches(data)]
    assert [header for header in headers if 0 < header.records_count <= header.last_offset_delta]
    assert [header for header in headers if header.records_count == 0]
    assert [header for header in headers if header.has_delete_horizon]
    assert [header for header in headers if header.is_control]


@pytest.mark.parametrize("turn", ROUNDS)
def test_the_same_aborted_transactions_are_known(compacted: dict[tuple[str, int], Path], turn: int) -> None:
    """In the segments that were compacted; that of the active one is written when it ends (log/txn_index.py)."""
    found = []
    for kind in KINDS:
        *inactive, _ = sorted((compacted[kind, turn] / "c-transactions-0").glob("*.log"))
        indexes = [path.with_suffix(".txnindex") for path in inactive]
        found.append({path.name: path.read_bytes() for path in indexes if path.exists() and path.stat().st_size})
    ours, theirs = found
    assert ours == theirs
    assert theirs


def logs(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.glob("*.log"))}


def comparable(header: BatchHeader, batch: memoryview) -> Any:
    """Returns the parts of a batch that must be equal."""
    data = bytes(batch)
    if header.is_control:
        clock = {"base_timestamp": 0, "max_timestamp": 0, "crc": 0}
        return header.replace(**clock, batch_length=0), [(each.key, each.value) for each in decode_records(data)]
    if header.has_delete_horizon:
        return header.replace(base_timestamp=0, crc=0, batch_length=0), decode_records(data)
    if header.codec:
        return header.replace(crc=0, batch_length=0), decode_records(data)
    return data[:HEADER_SIZE], data[HEADER_SIZE:]


def test_a_record_without_key_is_refused(broker: Address, unique: Callable[[str], str]) -> None:
    wire = Wire(broker, unique("keyless"))
    try:
        topic = wire.create("topic", 1, cleanup_policy="compact")
        records = [Record(0, TODAY_MS, key, b"v") for key in (b"k", None, b"k")]
        partition = wire.produce(topic, build_batch(records)).responses[0].partition_responses[0]
        assert partition.error_code == 87  # INVALID_RECORD
        assert [error.batch_index for error in partition.record_errors] == [1]
        assert wire.end_offsets(topic, [0]).topics[0].partitions[0].offset == 0
    finally:
        wire.close()

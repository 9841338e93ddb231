"""Transactions as the log shows them: WriteTxnMarkers, and the aborted transactions in the answers to read_committed readers
(docs/kafka-behaviour.md, rows T13 to T38).

There is no coordinator in this: the brokers, which are this file's own, do not verify partitions with one
(`transaction.partition.verification.enable`), so a test writes transactional batches and their markers as it likes.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from compat_tests.brokers import Address, one_of_each
from compat_tests.wire import Wire, batch
from compat_tests.wire_diff.conftest import warm
from compat_tests.wire_diff.same import check, is_now
from compat_tests.wire_diff.test_fetch import offsets, whole
from ottla.wire.batch import iter_batches
from ottla.wire.messages import delete_records, fetch
from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

HOUR_AGO_MS = int(time.time()) * 1000 - 3_600_000  # markers have the broker's clock: always the same side of the records'
ABORT, COMMIT = False, True
NOBODY = 77_000_000  # a producer id that no broker gave anybody


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Address]]:
    settings = {"transaction.partition.verification.enable": "false"}
    with one_of_each(tmp_path_factory.mktemp("transactions"), settings) as addresses:
        yield warm(addresses)


@pytest.fixture
def wires(pair: list[Address], request: pytest.FixtureRequest) -> Iterator[dict[str, Wire]]:
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    made = {address.kind: Wire(address, name) for address in pair}
    yield made
    for wire in made.values():
        wire.close()


class Writer:
    """A topic, and producers by number, who write to partition 0 and whose transactions the test ends."""

    def __init__(self, wire: Wire, partitions: int = 1, **configs: str) -> None:
        self.wire = wire
        self.topic = wire.create("t", partitions, **configs)
        self.producers: dict[int, int] = {}
        self.sequences: dict[int, int] = {}
        self.now_ms = HOUR_AGO_MS

    def producer(self, number: int) -> int:
        if number not in self.producers:
            producer_id = self.producers[number] = self.wire.new_producer_id()
            self.wire.labels["producer", producer_id] = f"<{number}>"
        return self.producers[number]

    def send(self, number: int, *values: bytes, version: int = 9, transactional: bool = True, epoch: int = 0) -> Any:
        sequence = self.sequences.get(number, 0)
        self.sequences[number] = sequence + len(values)
        records = batch(
            *values,
            first_ms=self.now_ms,
            producer_id=self.producer(number),
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
        return self.wire.produce(self.topic, records, version=version, transactional_id="tx")

    def plain(self, *values: bytes) -> Any:
        return self.wire.produce(self.topic, batch(*values, first_ms=self.now_ms))

    def marker(
        self, number: int, result: bool = ABORT, epoch: int = 0, coordinator: int = 0, version: int = 0
    ) -> WritableTxnMarker:
        topics = [WritableTxnMarkerTopic(self.topic, [0])]
        return WritableTxnMarker(self.producer(number), epoch, result, topics, coordinator, version)

    def end(self, number: int, result: bool = ABORT, **more: Any) -> Any:
        return write(self.wire, self.marker(number, result, **more))

    def read(self, offset: int = 0, *, version: int = 12, **more: Any) -> Any:
        named = self.wire.topic_ids[self.topic] if version >= 13 else self.topic
        given: dict[str, Any] = {"isolation_level": 1}
        return told(self.wire.fetch(named, offset, version=version, **(given | more)))


def write(wire: Wire, *markers: WritableTxnMarker, version: int = 2, timeout_s: float = 15) -> Any:
    return wire.call(WriteTxnMarkersRequest(list(markers)), version, timeout_s)


def told(answer: fetch.FetchResponse) -> Any:
    """A fetch's answer with the headers of its batches in place of their bytes, for markers hold the broker's time."""
    data: Any  # its records become a list
    for topic in answer.responses:
        for data in topic.partitions:
            records = bytes(data.records) if data.records is not None else b""
            data.records = [
                (header.base_offset, header.size, header.attributes, {"producer_id": header.producer_id}, header.producer_epoch)
                for header, _ in iter_batches(whole(records))
            ] + [len(records)]
    return answer


def described(writer: Writer) -> Any:
    """DescribeProducers, but for the times of markers."""
    answer = writer.wire.call(DescribeProducersRequest([TopicRequest(writer.topic, [0])]), 0)
    for state in answer.topics[0].partitions[0].active_producers:
        if state.last_timestamp > writer.now_ms + 100 and is_now(state.last_timestamp):
            state.last_timestamp = "<now>"
    return answer


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_of_fetch_lists_the_aborted(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        writer = Writer(wire)
        writer.send(1, b"aborted")
        writer.send(2, b"committed")
        answers = [writer.read(version=version)]
        writer.end(1)
        answers.append(writer.read(version=version))
        writer.end(2, COMMIT)
        writer.plain(b"plain")
        return [*answers, *(writer.read(offset, version=version, isolation_level=i) for offset in range(6) for i in (0, 1))]

    check(wires, "T28", scenario)


@pytest.mark.parametrize("version", range(3, 12))
def test_every_version_of_produce_takes_transactional_batches(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        writer = Writer(wire)
        sent = [writer.send(1, b"a", b"b", version=version), writer.send(1, b"c", version=version)]
        nameless = wire.produce(writer.topic, batch(b"x", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True))
        plain = writer.send(1, b"not of the transaction", transactional=False)
        return sent, nameless, plain, writer.end(1, COMMIT), writer.send(1, b"plain", transactional=False), writer.read()

    check(wires, "transactional batches at every version", scenario)


@pytest.mark.parametrize("version", [1, 2])
def test_every_version_of_the_markers(wires: dict[str, Wire], version: int) -> None:
    """Unknown partitions, a marker of nothing, markers of one producer several times, and who wrote nothing."""

    def scenario(wire: Wire) -> Any:
        writer = Writer(wire, partitions=3)
        writer.send(1, b"v")

        def marker(producer_id: int, topics: list[tuple[str, list[int]]], result: bool = ABORT, coordinator: int = 1) -> Any:
            return WritableTxnMarker(producer_id, 0, result, [WritableTxnMarkerTopic(*t) for t in topics], coordinator)

        one, name = writer.producer(1), writer.topic
        answers = [
            write(wire, version=version),
            write(wire, marker(one, []), version=version),
            write(wire, marker(one, [(name, [])]), version=version),
            write(
                wire, marker(one, [(name, [0, 9, -1, 2]), ("nope", [0]), ("", [0]), ("__cluster_metadata", [0])]), version=version
            ),
            write(wire, marker(one, [(name, [0])], COMMIT), marker(NOBODY, [(name, [0, 1])], COMMIT), version=version),
            write(wire, marker(one, [(name, [0])], coordinator=0), marker(one, [(name, [0])], coordinator=2), version=version),
            write(wire, marker(one, [(name, [0])], coordinator=2), marker(one, [(name, [0, 1])], coordinator=1), version=version),
            write(wire, marker(one, [("__consumer_offsets", [0, 99])]), version=version),
        ]
        return answers, [writer.read(partition=p) for p in range(3)], described(writer)

    check(wires, "T37", scenario)


def test_epochs_of_markers(wires: dict[str, Wire]) -> None:
    """KIP-890: from transaction version 2 on the epoch has to grow, unless nothing is open."""

    def scenario(wire: Wire) -> Any:
        writer = Writer(wire)
        answers = []
        writer.send(1, b"v", epoch=5)
        for epoch, version in ((4, 0), (5, 2), (4, 2), (6, 2), (6, 2), (5, 2), (6, 3), (6, 0), (7, 1), (32767, 2)):
            answers.append(writer.end(1, epoch=epoch, version=version))
        writer.sequences[1] = 0
        answers += [writer.send(1, b"v", epoch=32767), writer.end(1, epoch=32767, version=2)]
        return answers, described(writer), writer.read()

    check(wires, "epochs of markers", scenario)


def test_epochs_of_coordinators(wires: dict[str, Wire]) -> None:
    def scenario(wire: Wire) -> Any:
        writer = Writer(wire)
        answers = [described(writer)]
        for epoch in (-1, 3, 3, 2, -1, 9):
            writer.send(1, b"v")
            answers += [described(writer), writer.end(1, COMMIT, coordinator=epoch), described(writer)]
        return answers

    check(wires, "epochs of coordinators", scenario)


@pytest.mark.parametrize(
    "changed", [{"producer_id": -1}, {"producer_epoch": -1}, {"transaction_version": -1}], ids=["id", "epoch", "version"]
)
def test_markers_that_cannot_be(wires: dict[str, Wire], changed: dict[str, int]) -> None:
    def scenario(wire: Wire) -> Any:
        writer = Writer(wire)
        marker = writer.marker(1)
        for name, value in changed.items():
            setattr(marker, name, value)
        return write(wire, marker), writer.read()

    check(wires, "T-impossible", scenario)


def test_a_marker_that_names_a_partition_twice(wires: dict[str, Wire]) -> None:
    def scenario(wire: Wire) -> Any:
        writer = Writer(wire)
        marker = writer.marker(1)
        marker.topics = [WritableTxnMarkerTopic(writer.topic, [0, 0])]
        answer = write(wire, marker, timeout_s=wire.patience_s("kafka"))
        return answer if isinstance(answer, str) else answer.markers[0].topics[0].partitions[0].error_code

    check(wires, "T-twice", scenario)


def test_list_offsets_while_a_transaction_is_open(wires: dict[str, Wire]) -> None:
    def scenario(wire: Wire) -> Any:
        writer = Writer(wire)
        answers: list[Any] = []

        asked = (-1, -2, -3, -4, HOUR_AGO_MS, HOUR_AGO_MS + 1000, HOUR_AGO_MS + 1001, HOUR_AGO_MS + 2000, 1 << 50)

        def look() -> None:
            answers.extend(offsets(wire, writer.topic, timestamp, isolation=i) for timestamp in asked for i in (0, 1))

        writer.plain(b"stable", b"stable too")
        writer.now_ms += 1000
        writer.send(1, b"open", b"open too")
        look()
        writer.now_ms += 1000
        writer.plain(b"behind it")
        look()
        return answers, [offsets(wire, writer.topic, -1, version, isolation=1) for version in range(2, 12)]

    check(wires, "T14", scenario)


def test_list_offsets_after_its_end(wires: dict[str, Wire]) -> None:
    def scenario(wire: Wire) -> Any:
        writer = Writer(wire)
        writer.send(1, b"v")
        writer.end(1)
        return [offsets(wire, writer.topic, t, isolation=i) for t in (-1, -2, HOUR_AGO_MS, HOUR_AGO_MS + 1) for i in (0, 1)][:6]

    check(wires, "ListOffsets after a transaction's end", scenario)


def test_deleted_records_and_an_open_transaction(wires: dict[str, Wire]) -> None:
    def scenario(wire: Wire) -> Any:
        writer = Writer(wire)
        writer.send(1, b"a", b"b", b"c")
        writer.plain(b"d")
        partition = delete_records.DeleteRecordsPartition(0, 2)
        topic = delete_records.DeleteRecordsTopic(writer.topic, [partition])
        deleted = wire.call(delete_records.DeleteRecordsRequest([topic], 5000), 2)
        answers = [writer.read(offset) for offset in (0, 2, 3)]
        writer.end(1)
        return deleted, answers, [writer.read(offset) for offset in range(2, 6)]

    check(wires, "T-deleted", scenario)


def test_limits_of_many_partitions(wires: dict[str, Wire]) -> None:
    """A partition that gets no bytes any more, and one whose first batch does not fit."""

    def scenario(wire: Wire) -> Any:
        writer = Writer(wire, partitions=3)
        for partition in range(3):
            records = batch(b"v" * 500, producer_id=writer.producer(1), producer_epoch=0, base_sequence=0, transactional=True)
            wire.produce(writer.topic, records, partition=partition, transactional_id="tx")
        write(wire, WritableTxnMarker(writer.producer(1), 0, ABORT, [WritableTxnMarkerTopic(writer.topic, [0, 1, 2])], 0))
        answers = []
        for max_bytes in (1, 300, 600, 700, 1300, 5000):
            for limit in (0, 100, 10_000):
                wanted = [fetch.FetchPartition(p, fetch_offset=0, partition_max_bytes=limit) for p in range(3)]
                request = fetch.FetchRequest(
                    max_wait_ms=0,
                    min_bytes=1,
                    max_bytes=max_bytes,
                    isolation_level=1,
                    topics=[fetch.FetchTopic(writer.topic, partitions=wanted)],
                )
                answers.append(told(wire.call(request, 12)))
        return answers

    check(wires, "limits of many partitions", scenario)


def test_a_fetch_session_learns_that_a_transaction_ended(wires: dict[str, Wire]) -> None:
    """The last stable offset moves without new records of anybody else's."""

    def scenario(wire: Wire) -> Any:
        writer = Writer(wire)
        writer.send(1, b"v")
        wanted = wire.fetch_request(writer.topic, isolation_level=1, session_epoch=0)
        first = wire.call(wanted, 12)

        def further(epoch: int) -> Any:
            request = fetch.FetchRequest(
                max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, isolation_level=1, session_id=first.session_id, session_epoch=epoch
            )
            return told(wire.call(request, 12))

        answers = [told(first), further(1)]
        writer.send(2, b"w")
        answers.append(further(2))
        writer.end(2)
        answers.append(further(3))
        writer.end(1)
        return [*answers, further(4), further(5)]

    check(wires, "a transaction's end in a fetch session", scenario)


@pytest.mark.parametrize("result", [ABORT, COMMIT])
def test_a_waiting_fetch_is_woken_by_a_marker(wires: dict[str, Wire], result: bool) -> None:
    def scenario(wire: Wire) -> Any:
        writer = Writer(wire)
        writer.send(1, b"v")
        reader = wire.connect()
        reader.send(wire.fetch_request(writer.topic, isolation_level=1, max_wait_ms=20_000), 12)
        wire.connect()
        writer.send(2, b"no reason to wake")
        answer = writer.end(1, result)
        return answer, told(reader.answer(fetch, 12))

    check(wires, "a marker and a waiting fetch", scenario)


@pytest.mark.parametrize("seed", range(6))
def test_many_transactions_over_segments(wires: dict[str, Wire], seed: int) -> None:
    """Read from every offset with several limits: exactly the transactions that Kafka lists are listed."""

    def scenario(wire: Wire) -> Any:
        rng = random.Random(seed)
        interval = str(rng.choice([0, 300, 4096]))
        writer = Writer(wire, segment_ms=str(rng.choice([20_000, 600_000])), index_interval_bytes=interval)
        opened: set[int] = set()
        for _ in range(60):
            number = rng.randrange(5)
            writer.now_ms += rng.choice([0, 10, 5_000])
            if number == 4:
                writer.plain(b"p" * rng.randrange(1, 300))
            elif number in opened and rng.random() < 0.5:
                opened.discard(number)
                writer.end(number, rng.random() < 0.3)
            else:
                opened.add(number)
                writer.send(number, *[b"v" * rng.randrange(1, 200)] * rng.randrange(1, 4))
        end = wire.end_offsets(writer.topic, [0]).topics[0].partitions[0].offset
        reads = [writer.read(at, partition_max_bytes=size) for at in range(end) for size in (1, 200, 700, 1 << 20)]
        for number in sorted(opened):
            reads += [writer.end(number), *(writer.read(at, partition_max_bytes=400) for at in range(end + 1))]
        return reads, described(writer)

    check(wires, "many transactions over segments", scenario)

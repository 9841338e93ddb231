"""Produces of one read: written together, answered as if they had come one by one, also if the disk refuses them."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ottla.server.base.errors import CloseConnection
from ottla.server.base.network import OsNetwork
from ottla.server.base.promise import Promise
from ottla.server.dispatch.chain import Chain, Place
from ottla.server.dispatch.measured import RequestMetrics
from ottla.server.dispatch.routes import Dispatch
from ottla.server.metadata.quotas import PRODUCER_BYTE_RATE
from ottla.server.network.connection import FEW_BYTES, Connection
from ottla.server.network.context import NetworkContext
from ottla.server.network.held_appends import begins_with_produce
from ottla.server.network.listener import Listener
from ottla.server.network.receive_buffers import ReceiveBuffers
from ottla.server.network.socket_settings import SocketSettings
from ottla.server.quotas.enforcement import ClientQuotas
from ottla.server.quotas.rates import Rate, Windows
from ottla.server.requests.link import Steps
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.principals import ANONYMOUS
from ottla.wire.api import Api
from ottla.wire.batch import read_header
from ottla.wire.errors import ErrorCode
from ottla.wire.header import encode_request_header
from ottla.wire.messages import api_versions, fetch, produce
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.records import decode_records
from tests.fakes import FakeTransport, MemoryBroker
from tests.log.support import batch
from tests.server.network.peer import framed

VERSION = 9


class Producer:
    """A client at a fake transport, of a broker in memory whose dispatch is the real one; the topic's log has one record."""

    def __init__(self) -> None:
        self.broker = MemoryBroker({"t": 2, "other": 1})
        self.chain = Chain()
        self.metrics = RequestMetrics(lambda: 1)
        self.chain.measure(self.metrics.make_route)
        self.dispatch = Dispatch(self.broker.context, self.chain)
        self.buffers = ReceiveBuffers()
        context = NetworkContext(self.broker.clock, self.broker.context.purgatory, OsNetwork(), buffers=self.buffers)
        self.listener = Listener("PLAINTEXT", context, self.dispatch, SocketSettings(max_request_bytes=1 << 20))
        self.connection, self.transport = Connection(self.listener), FakeTransport()
        self.transport.protocol = self.connection
        self.connection.connection_made(self.transport)
        for replica in self.broker.replicas:
            replica.append(batch())
        self.disk: Any = self.broker.disk
        self.writes = 0
        append = self.disk.open(self.path()).__class__.append

        def counted(file: Any, parts: Any) -> int:
            self.writes += 1
            return int(append(file, parts))

        self.count = counted

    def after_append(self, change: Callable[[Any, Request], Any]) -> None:
        """Has `change` make what the handler of Produce returns, as a link of the chain may."""

        class Changing:
            def around(self, api: Api, traits: Traits, steps: Steps) -> Steps:
                return steps._replace(handle=lambda body, request: change(steps.handle(body, request), request))

        self.chain.put(Place.FAULTS, Changing())

    def path(self) -> str:
        return self.broker.replica().log.segments.active.path(".log")

    def send(self, *frames: bytes) -> None:
        """All frames come in one read."""
        data = b"".join(map(framed, frames))
        self.connection.get_buffer(-1)[: len(data)] = data
        self.connection.buffer_updated(len(data))
        self.buffers.view[: len(data)] = b"\xa5" * len(data)

    def answers(self) -> list[tuple[int, int, int]]:
        """Correlation id, error and offset of each answer to a Produce."""
        return [answer[:3] for answer in self.answers_by_partition()]

    def answers_by_partition(self) -> list[tuple[int, int, int, str, int]]:
        """The same with the partition, by its topic and its index."""
        sent, found = self.transport.sent, []
        while sent:
            size = int.from_bytes(sent[:4], "big")
            body, end = produce.DECODE_RESPONSE[VERSION](sent[9 : 4 + size], 0)
            assert end == size - 5
            found += [
                (int.from_bytes(sent[4:8], "big"), each.error_code, each.base_offset, topic.name, each.index)
                for topic in body.responses
                for each in topic.partition_responses
            ]
            sent = sent[4 + size :]
        return found

    def offsets(self, topic: str = "t", index: int = 0) -> tuple[int, int]:
        log = self.broker.replica(topic, index).log
        assert log.joined is None
        return log.log_end_offset, sum(1 for _ in log.segments.batches(0, log.log_end_offset))


def request(
    number: int,
    records: bytes | None = None,
    *,
    topic: str = "t",
    index: int = 0,
    acks: int = -1,
    topics: Sequence[tuple[str, int]] = (),
) -> bytes:
    """Produces the records to a partition, or to each of `topics`, which are partitions of several."""
    records = batch() if records is None else records
    data = [TopicProduceData(name, bytes(16), [PartitionProduceData(at, records)]) for name, at in topics or [(topic, index)]]
    parts: list[Any] = [encode_request_header(0, VERSION, number, "me")]
    produce.ENCODE_REQUEST[VERSION](ProduceRequest(None, acks, 1000, data), parts)
    return b"".join(parts)


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> Producer:
    producer = Producer()
    file = producer.disk.open(producer.path())
    monkeypatch.setattr(type(file), "append", producer.count)
    return producer


@pytest.mark.parametrize("size", [100, FEW_BYTES])
def test_produces_of_one_read_are_one_write(producer: Producer, size: int) -> None:
    producer.send(*(request(number, batch(value=b"v" * size)) for number in range(5)))
    assert producer.answers() == [(number, 0, 1 + number) for number in range(5)]
    assert (producer.writes, producer.offsets(), producer.transport.writes) == (1, (6, 6), 1)


def test_one_produce_is_written_at_once(producer: Producer) -> None:
    producer.send(request(1))
    assert (producer.answers(), producer.writes, producer.offsets()) == ([(1, 0, 1)], 1, (2, 2))


def test_partitions_have_a_write_each(producer: Producer) -> None:
    producer.send(*(request(number, index=number % 2) for number in range(6)))
    assert producer.answers() == [(number, 0, 1 + number // 2) for number in range(6)]
    assert (producer.writes, producer.offsets(), producer.offsets("t", 1)) == (2, (4, 4), (4, 4))


def test_another_request_finds_what_came_before_it(producer: Producer) -> None:
    parts: list[Any] = [encode_request_header(1, 11, 9, "me")]
    topics = [FetchTopic("t", bytes(16), [FetchPartition(0, fetch_offset=2, partition_max_bytes=1000)])]
    fetch.ENCODE_REQUEST[11](FetchRequest(max_bytes=1000, topics=topics), parts)
    producer.send(request(1), request(2), b"".join(parts), request(3))
    sent = producer.transport.sent
    assert batch()[61:] in sent
    assert (producer.writes, producer.offsets()) == (2, (4, 4))


def test_without_acks_nothing_is_answered_and_everything_written(producer: Producer) -> None:
    producer.send(request(1, acks=0), request(2), request(3, acks=0))
    assert (producer.answers(), producer.writes, producer.offsets()) == ([(2, 0, 2)], 1, (4, 4))


def test_what_cannot_be_written_together_is_tried_one_by_one(producer: Producer) -> None:
    producer.disk.fail("append", errno.ENOSPC)
    producer.send(*(request(number) for number in range(4)))
    assert producer.answers() == [(number, 0, 1 + number) for number in range(4)]
    assert (producer.writes, producer.offsets()) == (5, (5, 5))


def test_what_is_tried_one_by_one_counts_once(producer: Producer) -> None:
    """As requests with the time they took, and as traffic if it could be written at last."""
    traffic = producer.broker.replicas.traffic["t"]
    appends, size, messages = traffic.appends, traffic.bytes_in, traffic.messages_in
    producer.disk.fail("append", errno.ENOSPC)
    producer.disk.fail("append", errno.ENOSPC, skip=1)
    producer.send(*(request(number, batch(2)) for number in range(4)))
    assert [error for _, error, _ in producer.answers()] == [0, ErrorCode.KAFKA_STORAGE_ERROR, 0, 0]
    counts = producer.metrics.counts[VERSION]
    assert (counts.requests, sum(counts.took), counts.errors) == (4, 4, {ErrorCode.KAFKA_STORAGE_ERROR: 1})
    found = traffic.appends - appends, traffic.bytes_in - size, traffic.messages_in - messages
    assert (found, traffic.refused) == ((3, 3 * len(batch(2)), 6), 1)


def test_what_is_tried_one_by_one_is_charged_once(producer: Producer) -> None:
    windows = Windows(11, 1000)
    quotas = ClientQuotas(producer.broker.clock, windows, windows, lambda: 1)
    quotas.set_quota((("client-id", "me"),), PRODUCER_BYTE_RATE, 1e9)
    producer.chain.put(Place.QUOTAS, quotas)
    producer.disk.fail("append", errno.ENOSPC)
    frames = [request(number) for number in range(4)]
    producer.send(*frames)
    assert len(producer.answers()) == 4
    now_ms = int(producer.broker.clock.monotonic() * 1000)
    found = quotas.produce.measure_of((ANONYMOUS, "me"), now_ms)
    assert found is not None
    charged = Rate(windows)
    charged.record(sum(map(len, frames)), now_ms)
    assert found[0].now(now_ms) == charged.now(now_ms)


def test_each_gets_its_own_error(producer: Producer) -> None:
    producer.disk.fail("append", errno.ENOSPC)
    producer.disk.fail("append", errno.ENOSPC, skip=1)
    producer.send(request(0), request(1, b"no batch"), request(2), request(3, topic="other"))
    no_room = ErrorCode.KAFKA_STORAGE_ERROR
    assert producer.answers() == [(0, 0, 1), (1, ErrorCode.INVALID_RECORD, -1), (2, no_room, -1), (3, 0, 1)]
    assert (producer.offsets(), producer.offsets("other")) == ((2, 2), (2, 2))


def test_a_lost_disk_is_an_error_for_all(producer: Producer) -> None:
    producer.disk.fail("append", errno.EIO)
    producer.send(*(request(number) for number in range(3)))
    assert [error for _, error, _ in producer.answers()] == [ErrorCode.KAFKA_STORAGE_ERROR] * 3


def test_without_acks_an_error_closes_the_connection_behind_the_other_answers(producer: Producer) -> None:
    producer.disk.fail("append", errno.ENOSPC)
    producer.disk.fail("append", errno.ENOSPC)
    producer.send(request(1, acks=0), request(2), request(3))
    assert producer.transport.closed
    assert producer.answers() == [(2, 0, 1), (3, 0, 2)]
    assert producer.offsets() == (3, 3)


def test_a_connection_that_is_closed_in_place_of_an_answer_has_written_what_it_appended(producer: Producer) -> None:
    def disconnect(answer: Any, request: Request) -> Any:
        raise CloseConnection("a fault of the test kit, or a bug of ours")

    producer.after_append(disconnect)
    producer.send(request(1), request(2))
    assert producer.transport.closed
    assert producer.offsets() == (2, 2)


def test_an_answer_that_comes_later_does_not_say_that_a_lost_batch_was_appended(producer: Producer) -> None:
    late: list[tuple[Promise[Any], Any]] = []

    def delay(answer: Any, request: Request) -> Any:
        late.append((Promise(), answer))
        return late[-1][0]

    producer.after_append(delay)
    producer.disk.fail("append", errno.ENOSPC)
    producer.send(request(1), request(2))
    for promise, answer in late:
        promise.set_result(answer)
    assert producer.transport.closed
    assert (producer.answers(), producer.offsets()) == ([], (1, 1))


def test_behind_an_answer_that_is_left_out_there_is_none(producer: Producer) -> None:
    """The client would take each of them for the one before."""
    served: list[int] = []

    def disconnect(answer: Any, request: Request) -> Any:
        served.append(request.correlation_id)
        if served.count(2) == 2:
            raise CloseConnection("a bug of ours")
        return answer

    producer.after_append(disconnect)
    producer.disk.fail("append", errno.ENOSPC)
    producer.send(*(request(number) for number in range(1, 5)), request(5, topic="other"))
    assert producer.transport.closed
    assert (served, producer.answers()) == ([1, 2, 3, 4, 5, 1, 2], [(1, 0, 1)])
    assert (producer.offsets(), producer.offsets("other")) == ((3, 3), (2, 2))


@pytest.mark.parametrize("between", ["no room in the index", "several partitions", "an fsync"])
def test_what_could_not_be_written_together_comes_before_what_follows(producer: Producer, between: str) -> None:
    """A client finds what has succeeded in the order in which it was sent. One that is not held needs what is held to be in the
    file, which fails."""
    index_bytes = "24" if between == "no room in the index" else "1000"  # two entries, one of them for the segment's end
    producer.broker.create_topic("u", segment_index_bytes=index_bytes)
    producer.broker.create_topic("flushed", flush_messages="1")
    producer.send(request(0, topic="u"))
    producer.disk.fail("append", errno.ENOSPC, path="/u-0/")
    middle = {
        "no room in the index": [],
        "several partitions": [request(2, topics=[("t", 1), ("u", 0)])],
        "an fsync": [request(2, topic="flushed")],
    }[between]
    producer.send(request(1, topic="u"), *middle, *(request(number, topic="u") for number in range(3, 7)))
    log = producer.broker.replica("u").log
    assert [read_header(data).base_offset for data in log.iterate_batches(0)] == list(range(log.log_end_offset))
    found = {number: offset for number, error, offset in producer.answers() if not error and number not in (0, 2)}
    assert found[1] == 1
    assert list(found.values()) == sorted(found.values())


def test_a_connection_that_is_closed_by_a_bad_frame_answers_what_it_has_written(producer: Producer) -> None:
    producer.send(request(1), request(2), b"\0\0\0\x09")
    assert producer.transport.closed
    assert (producer.answers(), producer.offsets()) == ([(1, 0, 1), (2, 0, 2)], (3, 3))


def test_what_is_queued_behind_an_fsync_is_not_held(producer: Producer) -> None:
    producer.broker.create_topic("flushed", flush_messages="1")
    frames = [request(1), request(2), request(3, topic="flushed"), request(4), request(5), request(6)]
    producer.send(*frames)
    for topic, end in (("t", 6), ("flushed", 1)):
        assert producer.offsets(topic) == (end, end)
    assert producer.connection.session.joined is None


def test_random_reads_give_the_answers_of_single_requests() -> None:
    """Idempotent producers, partitions, errors, acks 0 and other requests among them, in reads of any number of frames."""
    parts: list[Any] = [encode_request_header(18, 0, 1, "me")]
    api_versions.ENCODE_REQUEST[0](api_versions.ApiVersionsRequest(), parts)
    other = b"".join(parts)
    for seed in range(20):
        seeded = random.Random(seed)
        sequence, frames = 0, []
        for number in range(60):
            records = batch(value=b"v" * seeded.choice((1, 500)), producer=(7, 0, sequence) if seeded.random() < 0.6 else None)
            sequence += seeded.choice((1, 1, 1, 0)) if records[43:51] != b"\xff" * 8 else 0
            where = {"index": seeded.choice((0, 0, 0, 1))} if seeded.random() < 0.9 else {"topic": "missing"}
            data = records if seeded.random() < 0.95 else records[:-1]
            acks = 0 if "index" in where and data is records and records[43:51] == b"\xff" * 8 and seeded.random() < 0.2 else -1
            frames.append(request(number, data, acks=acks, **where))
            if seeded.random() < 0.1:
                frames.append(other)
        together, single = Producer(), Producer()
        for frame in frames:
            single.send(frame)
        while frames:
            count = seeded.choice((1, 2, 8, 30))
            together.send(*frames[:count])
            del frames[:count]
        assert together.transport.sent == single.transport.sent
        assert [together.offsets("t", each) for each in range(2)] == [single.offsets("t", each) for each in range(2)]


def test_on_a_disk_that_fails_now_and_then_what_is_answered_is_there_in_its_order() -> None:
    """Also where segments are full, a write is short or cut in two, and requests are about several partitions."""
    for seed in range(20):
        seeded = random.Random(seed)
        producer, number = Producer(), 0
        producer.broker.create_topic("u", segment_index_bytes="60", index_interval_bytes="0")
        for _ in range(15):
            frames = []
            for _ in range(seeded.choice((1, 2, 5, 20))):
                number += 1
                records = batch(value=b"%d" % number)[: -1 if seeded.random() < 0.05 else None]
                several = [("t", 1), ("u", 0), ("t", 0)] if seeded.random() < 0.1 else []
                frames.append(request(number, records, topic=seeded.choice(("u", "u", "t", "other")), topics=several))
            for _ in range(seeded.choice((0, 0, 1, 2))):  # without an error the write is short
                producer.disk.fail("append", seeded.choice((errno.ENOSPC, 0)), skip=seeded.choice((0, 0, 1, 3)), written=10)
            producer.send(*frames)
            producer.disk._faults.clear()
        answered = producer.answers_by_partition()
        assert list(dict.fromkeys(each for each, *_ in answered)) == list(range(1, number + 1))
        for replica in producer.broker.replicas:
            log = replica.log
            values = {record.offset: record.value for data in log.iterate_batches(0) for record in decode_records(data)}
            assert list(values) == list(range(log.log_end_offset))
            name = replica.topic, replica.partition
            found = [(offset, b"%d" % each) for each, error, offset, *where in answered if not error and tuple(where) == name]
            assert found == [(offset, values[offset]) for offset in sorted(dict(found))]


@pytest.mark.parametrize("size", [100, FEW_BYTES])
def test_what_is_held_is_written_although_there_is_no_memory_for_the_frame_behind_it(
    producer: Producer, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """It lies in the buffer that the next read of any connection overwrites."""

    def refuse(*_: object) -> bytearray:
        raise MemoryError

    monkeypatch.setattr(ReceiveBuffers, "take", refuse)
    held = [framed(request(number, batch(value=b"v" * size))) for number in range(2)]
    data = b"".join(held) + (900_000).to_bytes(4, "big") + bytes(70_000)
    producer.connection.get_buffer(-1)[: len(data)] = data
    with pytest.raises(MemoryError):
        producer.connection.buffer_updated(len(data))
    producer.buffers.view[: len(data)] = b"\xa5" * len(data)
    producer.connection.connection_lost(None)
    assert producer.offsets() == (3, 3)
    log = producer.broker.replica().log
    assert [record.value for data in log.iterate_batches(1) for record in decode_records(data)] == [b"v" * size] * 2


@pytest.mark.parametrize(
    ("head", "left", "is_one"),
    [("0000000a 0000", 14, True), ("0000000a 0000", 13, False), ("0000000a 0001", 99, False), ("0000000a 00", 99, False)],
)
def test_a_whole_produce_is_known_by_its_first_bytes(head: str, left: int, is_one: bool) -> None:
    assert begins_with_produce(bytes.fromhex(head), left) == is_one

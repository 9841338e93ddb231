"""A raw client: frames over a socket, no retries, no metadata cache, nothing negotiated.

Requests and answers are the classes of `ottla.wire.messages`, whose codecs are proven against Kafka's own Java classes elsewhere;
bytes that no class can make are written by hand. A connection that the broker closed and an answer that does not come are results
like any other: CLOSED and SILENT.
"""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

from crc32c import crc32c

from compat_tests.brokers import Address
from compat_tests.seen import LEDGER
from compat_tests.times import TODAY_MS
from compat_tests.waiting import wait_for
from ottla.wire.batch import BatchHeader, iter_batches
from ottla.wire.header import decode_response_header, encode_request_header
from ottla.wire.messages import create_topics, fetch, find_coordinator, init_producer_id, list_offsets, metadata, produce
from ottla.wire.records import Record, build_batch

CLOSED: Final = "connection closed by the broker"
SILENT: Final = "no answer"
ANSWER_TIMEOUT_S: Final = 15.0
CLIENT_ID: Final = "compat"
TIME_MS: Final = TODAY_MS  # record timestamps: the same for both brokers
EARLIEST: Final = -2
LATEST: Final = -1
"""The times that ListOffsets takes for the log's ends."""
CRC_AT: Final = 17
CRC_FROM: Final = 21


def batch(*values: bytes | None, key: bytes | None = b"k", first_ms: int = TIME_MS, **fields: Any) -> bytes:
    """One record batch; a record a value, a millisecond apart. `fields` as of build_batch."""
    records = [Record(0, first_ms + n, key, value) for n, value in enumerate(values)]
    return build_batch(records, **fields)


def patched(records: bytes, at: int, form: str, *values: int, seal: bool = True) -> bytes:
    """The batch with other values at a place of its header (wire/batch.py has the map), and a right CRC if `seal`."""
    changed = bytearray(records)
    struct.pack_into(">" + form, changed, at, *values)
    if seal:
        struct.pack_into(">I", changed, CRC_AT, crc32c(bytes(changed[CRC_FROM:])))
    return bytes(changed)


def module_of(request: Any) -> Any:
    return sys.modules[type(request).__module__]


def encode(request: Any, version: int, correlation_id: int, client_id: str | None = CLIENT_ID) -> bytes:
    """A whole frame without its size."""
    module = module_of(request)
    parts: list[Any] = [encode_request_header(module.API_KEY, version, correlation_id, client_id)]
    module.ENCODE_REQUEST[version](request, parts)
    return b"".join(bytes(part) for part in parts)


class Connection:
    """One TCP connection with hand-made frames."""

    def __init__(self, address: Address, host: str | None = None) -> None:
        """`host` is the address of the client, one of 127.0.0.0/8; None stands for whatever the system chooses."""
        self.kind = address.kind
        source = None if host is None else (host, 0)
        self.socket = socket.create_connection((address.host, address.port), ANSWER_TIMEOUT_S, source)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.correlation_id = 0

    def send_raw(self, data: bytes) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # a closed connection shows when we read
            self.socket.sendall(data)

    def send_frame(self, body: bytes) -> None:
        self.send_raw(struct.pack(">i", len(body)) + body)

    def send(self, request: Any, version: int) -> int:
        """Returns the correlation id."""
        self.correlation_id += 1
        self.send_frame(encode(request, version, self.correlation_id))
        return self.correlation_id

    def receive(self, timeout_s: float = ANSWER_TIMEOUT_S) -> bytes | str:
        """The next frame, or CLOSED, or SILENT."""
        self.socket.settimeout(timeout_s)
        try:
            head = self._exactly(4)
            return CLOSED if head is None else self._exactly(struct.unpack(">i", head)[0]) or CLOSED
        except TimeoutError:
            return SILENT
        except ConnectionResetError:
            return CLOSED

    def _exactly(self, count: int) -> bytes | None:
        got = bytearray()
        while len(got) < count:
            data = self.socket.recv(count - len(got))
            if not data:
                return None
            got += data
        return bytes(got)

    def answer(self, api: Any, version: int, timeout_s: float = ANSWER_TIMEOUT_S) -> Any:
        """The next frame decoded as an answer of this API's module and version. Trailing bytes are a failure."""
        frame = self.receive(timeout_s)
        if isinstance(frame, str):
            return self._instead(api, version, frame)
        correlation_id, at = decode_response_header(api.API_KEY, version, frame, 0)
        response, end = api.DECODE_RESPONSE[version](frame, at)
        assert end == len(frame), f"{len(frame) - end} bytes behind the answer"
        assert correlation_id == self.correlation_id, f"answer {correlation_id} to request {self.correlation_id}"
        LEDGER.answered(self.kind, api.API_KEY, version, response)
        return response

    def _instead(self, api: Any, version: int, frame: str) -> str:
        """CLOSED as an object of its own, which the ledger can tell from others; SILENT as it is."""
        if frame == CLOSED:
            frame = "".join(CLOSED.partition(" "))
            LEDGER.answered(self.kind, api.API_KEY, version, frame)
        return frame

    def call(self, request: Any, version: int, timeout_s: float = ANSWER_TIMEOUT_S) -> Any:
        self.send(request, version)
        return self.answer(module_of(request), version, timeout_s)

    def close(self) -> None:
        self.socket.close()


class Wire:
    """Raw access to one broker for one test: a connection at hand, names of the test's own, and the everyday requests.

    `labels` gives names to what the broker chose (its port, member ids, topic ids, producer ids), for the comparison.
    """

    def __init__(self, address: Address, prefix: str, host: str | None = None) -> None:
        self.address, self.kind, self.prefix, self.host = address, address.kind, prefix, host
        self.labels: dict[Any, str] = {("port", address.port): "<port>"}
        self.topic_ids: dict[str, bytes] = {}
        self._connections: list[Connection] = []

    def connect(self) -> Connection:
        """A new connection, closed with the test."""
        self._connections.append(Connection(self.address, self.host))
        return self._connections[-1]

    def call(self, request: Any, version: int, timeout_s: float = ANSWER_TIMEOUT_S) -> Any:
        """On the newest connection; on a new one after the broker closed it or kept silent."""
        if not self._connections:
            self.connect()
        answer = self._connections[-1].call(request, version, timeout_s)
        if isinstance(answer, str):
            self.connect()
        return answer

    def patience_s(self, silent_kind: str) -> float:
        """Returns how long to wait for an answer that this kind of broker does not give; the other one may be slow."""
        return 2.0 if self.kind == silent_kind else ANSWER_TIMEOUT_S

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    def label(self, value: Any, name: str) -> Any:
        self.labels[value] = f"<{name}>"
        return value

    def name(self, stem: str) -> str:
        """A topic or group name that only this test uses; the same for both brokers."""
        return f"{self.prefix}-{stem}"

    def create(self, stem: str, partitions: int = 1, **configs: str) -> str:
        """A topic whose partitions all have a leader. Underscores in setting names stand for dots."""
        name = self.name(stem)
        settings = [create_topics.CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
        topic = create_topics.CreatableTopic(name, partitions, 1, [], settings)
        answer = self.call(create_topics.CreateTopicsRequest([topic], 30_000), 7)
        assert answer.topics[0].error_code == 0, answer
        self.wait_for_topic(name, partitions)
        return name

    def wait_for_topic(self, name: str, partitions: int = 1) -> None:
        def ready() -> bool:
            found = self.metadata(name).topics[0]
            if found.error_code or len(found.partitions) < partitions:
                return False
            self.topic_ids[name] = self.label(found.topic_id, f"id of {name}")
            # Kafka's metadata is ahead of its logs: the leader is named before it answers.
            ends = self.end_offsets(name, [p.partition_index for p in found.partitions])
            return all(p.error_code == 0 for p in [*found.partitions, *ends.topics[0].partitions])

        wait_for(ready, f"{name} has leaders")

    def end_offsets(self, name: str, partitions: Iterable[int]) -> Any:
        return self.offsets_at(LATEST, name, partitions)

    def offsets_at(self, timestamp: int, name: str, partitions: Iterable[int]) -> Any:
        wanted = [list_offsets.ListOffsetsPartition(p, timestamp=timestamp) for p in partitions]
        return self.call(list_offsets.ListOffsetsRequest(-1, 0, [list_offsets.ListOffsetsTopic(name, wanted)]), 7)

    def batches(self, topic: str) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Every batch that there is now, partition by partition, committed or not. It need not begin at 0: coordinators prune."""
        for index in range(len(self.metadata(topic).topics[0].partitions)):
            offset, end = (self.offsets_at(at, topic, [index]).topics[0].partitions[0].offset for at in (EARLIEST, LATEST))
            while offset < end:
                answer = self.fetch(topic, offset, partition=index, isolation_level=0).responses[0].partitions[0]
                assert answer.error_code == 0, answer
                assert answer.records, answer
                for header, batch in iter_batches(answer.records):
                    offset = header.last_offset + 1
                    yield header, batch

    def wait_until_gone(self, name: str) -> None:
        wait_for(lambda: self.metadata(name).topics[0].error_code == 3, f"{name} is gone")

    def metadata(self, *names: str, version: int = 12, create: bool = False) -> Any:
        return self.call(metadata.MetadataRequest([metadata.MetadataRequestTopic(name=n) for n in names], create), version)

    def produce_request(
        self, topic: str | bytes, records: bytes | None, *, partition: int = 0, acks: int = -1, **fields: Any
    ) -> produce.ProduceRequest:
        """For one partition; `topic` is a name, or an id for version 13."""
        data = [produce.PartitionProduceData(partition, records)]
        named = (
            produce.TopicProduceData(name=topic, partition_data=data)
            if isinstance(topic, str)
            else produce.TopicProduceData(topic_id=topic, partition_data=data)
        )
        given: dict[str, Any] = {"acks": acks, "timeout_ms": 5000, "topic_data": [named]}
        return produce.ProduceRequest(**(given | fields))

    def produce(self, topic: str | bytes, records: bytes | None, *, version: int = 9, timeout_s: float = 15, **more: Any) -> Any:
        return self.call(self.produce_request(topic, records, **more), version, timeout_s)

    def fetch_request(
        self, topic: str | bytes, offset: int = 0, *, partition_max_bytes: int = 1 << 20, partition: int = 0, **fields: Any
    ) -> fetch.FetchRequest:
        """For one partition. Fields of the partition and of the request by their names."""
        of_partition = {k: fields.pop(k) for k in ("current_leader_epoch", "last_fetched_epoch") if k in fields}
        wanted = [fetch.FetchPartition(partition, fetch_offset=offset, partition_max_bytes=partition_max_bytes, **of_partition)]
        named = (
            fetch.FetchTopic(topic=topic, partitions=wanted)
            if isinstance(topic, str)
            else fetch.FetchTopic(topic_id=topic, partitions=wanted)
        )
        given: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 26, "topics": [named]}
        return fetch.FetchRequest(**(given | fields))

    def fetch(self, topic: str | bytes, offset: int = 0, *, version: int = 12, **more: Any) -> Any:
        return self.call(self.fetch_request(topic, offset, **more), version)

    def leave_hanging(self) -> tuple[str, int]:
        """A topic with a plain record, and behind it two of a transaction that no coordinator knows, and the producer's id. Its
        epoch is 4. The broker must not ask a coordinator (transaction.partition.verification.enable).
        """
        topic, producer_id = self.create("t"), self.new_producer_id()
        self.produce(topic, batch(b"plain"))
        records = batch(b"a", b"b", producer_id=producer_id, producer_epoch=4, base_sequence=0, transactional=True)
        self.produce(topic, records, transactional_id="tx")
        return topic, producer_id

    def new_producer_id(self) -> int:
        answer = self.call(init_producer_id.InitProducerIdRequest(None, 60_000), 4)
        assert answer.error_code == 0, answer
        return int(answer.producer_id)

    def warm_up(self) -> None:
        """Wait until the internal topics and the first block of producer ids are there: a fresh broker answers 15 and 14."""
        for kind, name in enumerate(("group coordinator", "transaction coordinator")):
            request = find_coordinator.FindCoordinatorRequest("warm-up", kind)
            wait_for(lambda: self.call(request, 2).error_code == 0, name)  # noqa: B023 - called within the round
        wait_for(lambda: self.call(init_producer_id.InitProducerIdRequest(None, 1000), 4).error_code == 0, "producer ids")

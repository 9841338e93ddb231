"""A connection to a broker that raises what goes wrong, and reading all that a partition holds."""

from __future__ import annotations

import socket
import struct
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final, NamedTuple, cast

from ottla.wire.batch import check_crc, iter_batches
from ottla.wire.header import decode_response_header, encode_request_header
from ottla.wire.messages import fetch, list_offsets
from ottla.wire.records import decode_records

HOST: Final = "127.0.0.1"
PATIENCE_S: Final = 30.0
EARLIEST: Final = -2
LATEST: Final = -1
COMES_AND_GOES: Final = frozenset({3, 5, 6, 14, 15, 16, 51})
"""UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, COORDINATOR_LOAD_IN_PROGRESS,
COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, CONCURRENT_TRANSACTIONS: passes by itself, soon after a start or a creation."""
_ABORT: Final = 0


class Refused(Exception):
    """The broker answered with an error code."""

    def __init__(self, what: str, code: int) -> None:
        super().__init__(f"{what}: error {code}")
        self.code = code


class Client:
    """One connection. Every method raises OSError when the broker goes away."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection((HOST, port), timeout=PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.correlation_id = 0

    def send(self, request: Any, version: int) -> None:
        module = sys.modules[type(request).__module__]
        self.correlation_id += 1
        parts: list[Any] = [encode_request_header(module.API_KEY, version, self.correlation_id, "soak")]
        module.ENCODE_REQUEST[version](request, parts)
        body = b"".join(bytes(part) for part in parts)
        self.socket.sendall(struct.pack(">i", len(body)) + body)

    def receive(self, api: Any, version: int) -> Any:
        """Returns the answer to the last request, which was one of this API's module."""
        frame = self._exactly(*struct.unpack(">i", self._exactly(4)))
        _, at = decode_response_header(api.API_KEY, version, frame, 0)
        return api.DECODE_RESPONSE[version](frame, at)[0]

    def _exactly(self, count: int) -> bytes:
        got = bytearray()
        while len(got) < count:
            data = self.socket.recv(count - len(got))
            if not data:
                raise ConnectionError("the broker closed the connection")
            got += data
        return bytes(got)

    def call(self, request: Any, version: int) -> Any:
        self.send(request, version)
        return self.receive(sys.modules[type(request).__module__], version)

    def sure(self, request: Any, version: int, *allowed: int) -> Any:
        """Repeats the request while its error is one that passes by itself, and returns the answer. Raises Refused for an error
        that is not allowed.
        """
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = self.call(request, version)
            code = error_of(answer)
            if code == 0 or code in allowed:
                return answer
            if code not in COMES_AND_GOES or time.monotonic() > deadline:
                raise Refused(type(request).__name__, code)
            time.sleep(0.05)  # between two questions: another process's readiness has no event to wait for

    def offset(self, topic: str, partition: int, at: int) -> int:
        entry = list_offsets.ListOffsetsPartition(partition, timestamp=at)
        request = list_offsets.ListOffsetsRequest(-1, 0, [list_offsets.ListOffsetsTopic(topic, [entry])])
        return int(self.sure(request, 7).topics[0].partitions[0].offset)

    def close(self) -> None:
        self.socket.close()


_LISTS: Final = ("responses", "topics", "results", "groups", "partitions", "partition_responses", "coordinators", "members")
_CODES: Final = ("error_code", "partition_error_code", "acknowledge_error_code")


def error_of(answer: Any) -> int:
    """Returns the first error code in an answer, of the whole or of a part; 0 if there is none."""
    for name in _CODES:
        if code := getattr(answer, name, 0):
            return int(code)
    for name in _LISTS:
        for part in getattr(answer, name, None) or ():
            if not isinstance(part, (str, int)) and (code := error_of(part)):
                return code
    return 0


class Found(NamedTuple):
    """A record that was read."""

    offset: int
    key: bytes | None
    value: bytes | None


def fetch_request(topic: str, offset: int, partition: int = 0, **fields: Any) -> fetch.FetchRequest:
    wanted = [fetch.FetchPartition(partition, fetch_offset=offset, partition_max_bytes=1 << 20)]
    given: dict[str, Any] = {"max_bytes": 1 << 24, "topics": [fetch.FetchTopic(topic=topic, partitions=wanted)]}
    return fetch.FetchRequest(**(given | fields))


def read(client: Client, topic: str, partition: int = 0, *, committed: bool = False) -> tuple[int, int, list[Found]]:
    """Reads a partition to its end; returns (where it starts, where it ends, its records). Raises AssertionError for a batch
    whose checksum is wrong and for offsets that do not ascend; Refused.
    """
    start = offset = client.offset(topic, partition, EARLIEST)
    found: list[Found] = []
    while True:
        answer = client.sure(fetch_request(topic, offset, partition, isolation_level=int(committed)), 12, 1)
        data = answer.responses[0].partitions[0]
        if data.error_code:  # retention was faster: what it took is not below a start that was read before it
            start = offset = client.offset(topic, partition, EARLIEST)
            found.clear()
            continue
        ends = [offset]
        for end, records in batches(data):
            found += (record for record in records if record.offset >= offset)
            ends.append(end)
        if ends[-1] == offset:
            break
        offset = ends[-1]
    offsets = [record.offset for record in found]
    assert all(one < two for one, two in pairwise(offsets)), f"{topic}: offsets do not ascend"
    return start, offset, found


def batches(data: fetch.PartitionData) -> Iterator[tuple[int, list[Found]]]:
    """Yields (the offset after a batch, the records of it that count) for each batch of a partition's answer. Markers do not
    count, nor does what was aborted, which the answer says to a reader of what is committed.
    """
    aborted = sorted(((each.first_offset, each.producer_id) for each in data.aborted_transactions or ()), reverse=True)
    under_way: set[int] = set()
    for header, batch in iter_batches(cast(bytes, data.records or b"")):
        assert check_crc(batch, header), f"the batch at {header.base_offset} has a wrong checksum"
        while aborted and aborted[-1][0] <= header.base_offset:
            under_way.add(aborted.pop()[1])
        records = [] if header.records_count == 0 else decode_records(batch)
        if header.is_control:
            key = records[0].key if records else None
            if key is not None and struct.unpack(">hh", key[:4])[1] == _ABORT:
                under_way.discard(header.producer_id)
            records = []
        if header.is_transactional and header.producer_id in under_way:
            records = []
        yield header.next_offset, [Found(record.offset, record.key, record.value) for record in records]

"""The bytes that kload sends, and what little it reads of the answers; the standard library only (crc32c where it is installed).

The versions are those that every Kafka 4 broker accepts and that have no tagged fields: CreateTopics v4, DeleteTopics v3, Produce
v7, Fetch v11, ListOffsets v1, Metadata v8, FindCoordinator v1, JoinGroup v3, SyncGroup v2, Heartbeat v2, LeaveGroup v2,
OffsetCommit v7, ApiVersions v0. The broker's own codecs are left out on purpose: the generator must run against any broker from
any environment, and cannot share a fault with the one it measures.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

TLS_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


def tls_context(version: str) -> ssl.SSLContext:
    """Returns a client's context for one version, which checks no certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = context.maximum_version = TLS_VERSIONS[version]
    return context


class TlsAddress(NamedTuple):
    """An address where a broker listens for TLS, and how a client speaks it there."""

    host: str
    port: int
    context: ssl.SSLContext


Address = tuple[str, int] | TlsAddress


def address_of(bootstrap: str) -> Address:
    """Returns an address of `host:port`, or of `tls1.3://host:port` for a version of TLS."""
    scheme, _, place = bootstrap.rpartition("://")
    host, _, port = place.rpartition(":")
    return TlsAddress(host, int(port), tls_context(scheme.removeprefix("tls"))) if scheme else (host, int(port))


UNKNOWN_MEMBER_ID = 25
REBALANCE_IN_PROGRESS = 27
GROUP_ID_NOT_FOUND = 69  # kfake's answer to a heartbeat of an unknown group
TOPIC_ALREADY_EXISTS = 36
COORDINATOR_ATTEMPTS = 400
LATEST = -1


class Refused(Exception):
    """The broker answered with an error code; the text says to what."""


def castagnoli() -> list[int]:
    table = []
    for number in range(256):
        for _ in range(8):
            number = (number >> 1) ^ (0x82F63B78 if number & 1 else 0)  # noqa: PLW2901 - the register of the polynomial division
        table.append(number)
    return table


def crc32c(data: bytes) -> int:
    try:
        import crc32c as library
    except ImportError:
        crc, table = 0xFFFFFFFF, castagnoli()
        for byte in data:
            crc = (crc >> 8) ^ table[(crc ^ byte) & 0xFF]
        return crc ^ 0xFFFFFFFF
    return int(library.crc32c(data))


def varint(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number & ~0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack(">h", len(raw)) + raw


def record_batch(values: Sequence[bytes], timestamp_ms: int) -> bytes:
    """Returns a v2 batch of records without key or header, all of one moment."""
    records = bytearray()
    for delta, value in enumerate(values):
        body = b"\0" + varint(0) + varint(delta) + varint(-1) + varint(len(value)) + value + varint(0)
        records += varint(len(body)) + body
    head = struct.pack(">hiqqqhii", 0, len(values) - 1, timestamp_ms, timestamp_ms, -1, -1, -1, len(values))
    crc = crc32c(head + records)
    return struct.pack(">qiibI", 0, len(head) + len(records) + 9, -1, 2, crc) + head + records


def request(key: int, version: int, body: bytes) -> bytes:
    head = struct.pack(">hhi", key, version, 0) + string("kload")
    return struct.pack(">i", len(head) + len(body)) + head + body


API_VERSIONS = request(18, 0, b"")
METADATA_OF_ALL = request(3, 8, struct.pack(">i???", -1, False, False, False))


def produce_request(topic: str, partition: int, batch: bytes, acks: int) -> bytes:
    body = struct.pack(">hhii", -1, acks, 30_000, 1) + string(topic)
    return request(0, 7, body + struct.pack(">iii", 1, partition, len(batch)) + batch)


def produce_error(answer: memoryview, topic: str) -> int:
    return int(struct.unpack_from(">h", answer, 4 + 4 + 2 + len(topic) + 4 + 4)[0])


def fetch_request(topic: str, offset: int, max_bytes: int, wait_ms: int) -> bytes:
    """Returns a Fetch of partition 0 of one topic, without a session."""
    body = struct.pack(">iiiibii", -1, wait_ms, 1, max_bytes, 0, 0, -1) + struct.pack(">i", 1) + string(topic)
    body += struct.pack(">iiiqqi", 1, 0, -1, offset, -1, max_bytes) + struct.pack(">i", 0) + string("")
    return request(1, 11, body)


def fetch_answer(answer: memoryview, topic: str) -> tuple[int, memoryview]:
    """Returns (high watermark, records). Raises Refused."""
    at = 4 + 4 + 2 + 4 + 4 + 2 + len(topic) + 4
    _, error, high, _, _, aborted = struct.unpack_from(">ihqqqi", answer, at)
    if error:
        raise Refused(f"Fetch: error {error}")
    at += 34 + max(aborted, 0) * 16 + 4
    (size,) = struct.unpack_from(">i", answer, at)
    return high, answer[at + 4 : at + 4 + max(size, 0)]


def next_offset(records: memoryview, offset: int) -> tuple[int, int, int]:
    """Returns (the offset after the last whole batch, the bytes of whole batches, the records in them)."""
    at = count = 0
    while at + 61 <= len(records):
        base, size = struct.unpack_from(">qi", records, at)
        if at + 12 + size > len(records):
            break
        (last_delta,) = struct.unpack_from(">i", records, at + 23)
        count += struct.unpack_from(">i", records, at + 57)[0]
        offset, at = base + last_delta + 1, at + 12 + size
    return offset, at, count


class Connection:
    """One socket; `receive` gives a view that the next call writes over."""

    def __init__(self, address: Address, buffer_bytes: int = 1 << 20) -> None:
        self.socket = socket.create_connection(address[:2])
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if isinstance(address, TlsAddress):
            self.socket = address.context.wrap_socket(self.socket, server_hostname=address.host)
        self.buffer = bytearray(buffer_bytes)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> memoryview:
        """Returns one answer, without its size."""
        need, have = 4, 0
        while have < need:
            if need > len(self.buffer):
                self.buffer = bytearray(self.buffer) + bytes(need - len(self.buffer))
            got = self.socket.recv_into(memoryview(self.buffer)[have:need])
            if not got:
                raise ConnectionError("the broker closed the connection")
            have += got
            if have == 4 and need == 4:
                need = 4 + struct.unpack_from(">i", self.buffer)[0]
        return memoryview(self.buffer)[4:need]

    def ask(self, data: bytes) -> memoryview:
        self.send(data)
        return self.receive()

    def close(self) -> None:
        self.socket.close()


def create_topics(address: Address, topics: Sequence[str], partitions: int, settings: Sequence[str] = ()) -> None:
    """Makes the topics, with settings that are each `name=value`, and returns when every partition has a leader. Raises
    Refused.
    """
    pairs = [setting.partition("=")[::2] for setting in settings]
    config = struct.pack(">i", len(pairs)) + b"".join(string(name) + string(value) for name, value in pairs)
    body = struct.pack(">i", len(topics))
    body += b"".join(string(topic) + struct.pack(">ihi", partitions, 1, 0) + config for topic in topics)
    connection = Connection(address)
    answer = bytes(connection.ask(request(19, 4, body + struct.pack(">ib", 60_000, 0))))
    at = 4 + 4 + 4
    for _ in topics:
        at += 2 + struct.unpack_from(">h", answer, at)[0]
        error, message = struct.unpack_from(">hh", answer, at)
        at += 4 + max(message, 0)
        if error not in (0, TOPIC_ALREADY_EXISTS):
            raise Refused(f"CreateTopics: error {error}")
    for topic in topics[-1:]:  # the last one is there after the others
        entries = b"".join(struct.pack(">iq", partition, LATEST) for partition in range(partitions))
        probe = request(2, 1, struct.pack(">ii", -1, 1) + string(topic) + struct.pack(">i", partitions) + entries)
        while not _has_leaders(bytes(connection.ask(probe)), topic, partitions):
            time.sleep(0.02)  # between two questions: another process's readiness has no event to wait for
    connection.close()


def _has_leaders(list_offsets: bytes, topic: str, partitions: int) -> bool:
    """Returns whether each partition answers with an offset: then it has a leader that serves."""
    at = 4 + 4 + 2 + len(topic) + 4
    return all(struct.unpack_from(">h", list_offsets, at + 22 * index + 4)[0] == 0 for index in range(partitions))


def delete_topics(address: Address, topics: Sequence[str]) -> None:
    """Takes the topics away again. Raises Refused."""
    connection = Connection(address)
    body = struct.pack(">i", len(topics)) + b"".join(map(string, topics)) + struct.pack(">i", 60_000)
    answer = bytes(connection.ask(request(20, 3, body)))
    at = 4 + 4 + 4
    for _ in topics:
        at += 2 + struct.unpack_from(">h", answer, at)[0]
        (error,) = struct.unpack_from(">h", answer, at)
        at += 2
        if error:
            raise Refused(f"DeleteTopics: error {error}")
    connection.close()


def find_coordinator(address: Address, group: str) -> None:
    """Returns when the group has a coordinator that serves: a broker may have to make its internal topic, and to load it.

    Raises Refused.
    """
    connection = Connection(address)
    find = request(10, 1, string(group) + b"\0")
    beat = request(12, 2, string(group) + struct.pack(">i", -1) + string("nobody"))
    for _ in range(COORDINATOR_ATTEMPTS):
        (error,) = struct.unpack_from(">h", connection.ask(find), 8)
        if error == 0:
            (error,) = struct.unpack_from(">h", connection.ask(beat), 8)
        if error in (UNKNOWN_MEMBER_ID, GROUP_ID_NOT_FOUND):
            connection.close()
            return
        time.sleep(0.05)  # between two questions: another process's readiness has no event to wait for
    raise Refused(f"FindCoordinator: error {error}")


class Member:
    """A member of a classic group on a connection of its own. Each step is a request, what its answer means, and both at once."""

    def __init__(self, connection: Connection, group: str) -> None:
        self.connection, self.group = connection, string(group)
        self.member_id, self.generation, self.leads = b"\0\0", -1, False

    def join(self) -> int:
        return self.joined(self.connection.ask(self.join_request()))

    def join_request(self) -> bytes:
        body = self.group + struct.pack(">ii", 30_000, 30_000) + self.member_id + string("consumer")
        return request(11, 3, body + struct.pack(">i", 1) + string("range") + struct.pack(">i", 0))

    def joined(self, view: memoryview) -> int:
        """Returns the generation that the member is in then. Raises Refused."""
        answer = bytes(view)
        error, self.generation = struct.unpack_from(">hi", answer, 8)
        if error:
            raise Refused(f"JoinGroup: error {error}")
        at = 14 + 2 + struct.unpack_from(">h", answer, 14)[0]
        leader_size = 2 + struct.unpack_from(">h", answer, at)[0]
        own_size = 2 + struct.unpack_from(">h", answer, at + leader_size)[0]
        leader = answer[at : at + leader_size]
        self.member_id = answer[at + leader_size : at + leader_size + own_size]
        self.leads = leader == self.member_id
        return self.generation

    def commit_until(self, deadline: float, topic: str, partitions: int, depth: int) -> list[float]:
        """Commits, `depth` requests in flight, until a time of time.perf_counter, but once at least; returns how long each took.
        Raises Refused."""
        data, sent, took = self.commit_request(topic, partitions, 5), deque[float](), list[float]()
        while True:
            while len(sent) < depth and (time.perf_counter() < deadline or not (sent or took)):
                sent.append(time.perf_counter())
                self.connection.send(data)
            if not sent:
                return took
            error = commit_error(self.connection.receive(), topic)
            took.append(time.perf_counter() - sent.popleft())
            if error:
                raise Refused(f"OffsetCommit: error {error}")

    def sync(self) -> int:
        return self.error(self.connection.ask(self.sync_request()), "SyncGroup")

    def sync_request(self) -> bytes:
        assignments = struct.pack(">i", 1) + self.member_id + struct.pack(">i", 0) if self.leads else struct.pack(">i", 0)
        return request(14, 2, self._in_generation() + assignments)

    def beat(self) -> int:
        return self.error(self.connection.ask(self.beat_request()), "Heartbeat")

    def beat_request(self) -> bytes:
        return request(12, 2, self._in_generation())

    def leave_request(self) -> bytes:
        return request(13, 2, self.group + self.member_id)

    def commit_request(self, topic: str, partitions: int, offset: int) -> bytes:
        entry = struct.pack(">qih", offset, -1, 0)  # the offset, no leader epoch, no metadata
        entries = b"".join(struct.pack(">i", partition) + entry for partition in range(partitions))
        body = self._in_generation() + struct.pack(">hi", -1, 1)  # no instance id, one topic
        return request(8, 7, body + string(topic) + struct.pack(">i", partitions) + entries)

    def _in_generation(self) -> bytes:
        return self.group + struct.pack(">i", self.generation) + self.member_id

    def error(self, answer: memoryview, what: str) -> int:
        """Returns the answer's error code: 0 or that of a rebalance. Raises Refused for another."""
        (error,) = struct.unpack_from(">h", answer, 8)
        if error not in (0, REBALANCE_IN_PROGRESS):
            raise Refused(f"{what}: error {error}")
        return int(error)


def commit_error(answer: memoryview, topic: str) -> int:
    """Returns the error code of the first partition in an OffsetCommit answer."""
    return int(struct.unpack_from(">h", answer, 4 + 4 + 4 + 2 + len(topic) + 4 + 4)[0])

"""Transactions at wire level for kload: InitProducerId v4, Produce v12, which adds the partition, and EndTxn v5 (KIP-890).

Every transaction has another epoch, so every batch has another checksum. A CRC is linear: that of a head and what follows is made
of the head's and of the rest's, which is always the same (`Batches`); to compute it anew would measure this file, not the broker.
"""

from __future__ import annotations

import struct
import time

from scripts.bench.kload_wire import Connection, Refused, castagnoli, record_batch, request, string

CONCURRENT_TRANSACTIONS = 51
COMES_AND_GOES = frozenset({14, 15, 16, 19, CONCURRENT_TRANSACTIONS})
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, and NOT_ENOUGH_REPLICAS, which a partition's leader
says when a coordinator elsewhere has answered one of the others."""
BACKOFF_SECONDS = 0.02
"""As Kafka's Java producer waits when the transaction before is not complete yet."""
ATTEMPTS = 500

_TABLE = castagnoli()
_FROM_CRC = 21
_HEAD_BYTES = 61 - _FROM_CRC
_PRODUCER_AT = 43 - _FROM_CRC
_TRANSACTIONAL = 1 << 4


def crc_state(state: int, data: bytes) -> int:
    for byte in data:
        state = _TABLE[(state ^ byte) & 0xFF] ^ (state >> 8)
    return state


class Batches:
    """One batch of records, for any producer."""

    def __init__(self, values: list[bytes], timestamp_ms: int) -> None:
        plain = record_batch(values, timestamp_ms)
        self._before_crc = plain[:17]
        self._head = bytearray(plain[_FROM_CRC:61])
        self._head[0:2] = struct.pack(">h", _TRANSACTIONAL)
        self._records = plain[61:]
        self._rest = crc_state(0, self._records)
        zeros = bytes(len(self._records))
        self._moved = [crc_state(1 << bit, zeros) for bit in range(32)]
        """The values that the bits of the head's checksum have behind the records."""

    def of(self, producer_id: int, producer_epoch: int) -> bytes:
        """Returns the batch with the base sequence 0: the first of an epoch."""
        struct.pack_into(">qhi", self._head, _PRODUCER_AT, producer_id, producer_epoch, 0)
        state, crc = crc_state(0xFFFFFFFF, bytes(self._head)), self._rest
        for bit, moved in enumerate(self._moved):
            if state >> bit & 1:
                crc ^= moved
        return self._before_crc + struct.pack(">I", crc ^ 0xFFFFFFFF) + self._head + self._records


def unsigned(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def compact(text: str) -> bytes:
    return unsigned(len(text) + 1) + text.encode()


def flexible(key: int, version: int, body: bytes) -> bytes:
    return request(key, version, b"\0" + body)  # no tags in the header


class Transactions:
    """A producer that writes to one partition. Where the coordinator is another broker than the partition's leader, it has a
    connection of its own."""

    def __init__(
        self,
        connection: Connection,
        transactional_id: str,
        topic: str,
        partition: int,
        batches: Batches,
        coordinator: Connection | None = None,
    ) -> None:
        self.connection, self.coordinator, self.transactional_id = connection, coordinator or connection, transactional_id
        self.topic, self.partition, self.batches = topic, partition, batches
        self.producer = self._init()

    def _init(self) -> tuple[int, int]:
        """Raises Refused."""
        error, _ = self._retried(self.coordinator, request(10, 1, string(self.transactional_id) + b"\1"), 8)
        if error:
            raise Refused(f"FindCoordinator: error {error}")
        body = compact(self.transactional_id) + struct.pack(">iqh", 60_000, -1, -1) + b"\0"
        error, answer = self._retried(self.coordinator, flexible(22, 4, body), 9)
        if error:
            raise Refused(f"InitProducerId: error {error}")
        producer_id, producer_epoch = struct.unpack_from(">qh", answer, 11)
        return producer_id, producer_epoch

    @staticmethod
    def _retried(connection: Connection, question: bytes, error_at: int) -> tuple[int, memoryview]:
        """Repeats the request until the error is not one that passes by itself; returns the answer."""
        for _ in range(ATTEMPTS):
            answer = connection.ask(question)
            (error,) = struct.unpack_from(">h", answer, error_at)
            if error not in COMES_AND_GOES:
                break
            time.sleep(BACKOFF_SECONDS)
        return error, answer

    def run(self) -> None:
        """Runs one transaction, from its batch to the answer that it is committed. Raises Refused."""
        batch = self.batches.of(*self.producer)
        partition = struct.pack(">i", self.partition) + unsigned(len(batch) + 1) + batch + b"\0"
        body = compact(self.transactional_id) + struct.pack(">hi", -1, 30_000)
        body += b"\2" + compact(self.topic) + b"\2" + partition + b"\0\0"
        error, _ = self._retried(self.connection, flexible(0, 12, body), 4 + 1 + 1 + 1 + len(self.topic) + 1 + 4)
        if error:
            raise Refused(f"Produce: error {error}")
        body = compact(self.transactional_id) + struct.pack(">qh?", *self.producer, True) + b"\0"
        error, answer = self._retried(self.coordinator, flexible(26, 5, body), 9)
        if error:
            raise Refused(f"EndTxn: error {error}")
        producer_id, producer_epoch = struct.unpack_from(">qh", answer, 11)
        self.producer = producer_id, producer_epoch

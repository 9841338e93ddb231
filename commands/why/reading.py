"""Reads what is left for a group in a partition: which records there are, and what is wrong with the next batch.

A lag counts offsets, and markers of transactions and what compaction removed have offsets, too. So batches are fetched, as a
consumer would, and the records in them counted: at most MAX_BYTES of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from ottla.commands.clients import direct
from ottla.commands.clients.brokers import check
from ottla.commands.clients.partition import Partition
from ottla.commands.why.facts import Left, NextBatch
from ottla.wire import batch as batches
from ottla.wire.batch import read_header
from ottla.wire.compression import MAX_DECOMPRESSED_BYTES
from ottla.wire.frame import MALFORMED
from ottla.wire.messages import fetch
from ottla.wire.records import iter_records

MAX_BYTES: Final = 4 << 20
"""The most bytes that are fetched of a partition, except for the rest of the last batch."""
NAMED_UNTIL: Final = 12
"""The last version of Fetch that names topics."""


class ToRead(NamedTuple):
    """The records that are left, and the batch that comes first; None if there is none."""

    left: Left
    next_batch: NextBatch | None


def read_left(fetch_at: Callable[[int], bytes], begin: int, end: int, max_bytes: int = MAX_BYTES) -> ToRead:
    """Returns what is left from offset `begin` up to `end`. `fetch_at` returns the batches at an offset, at least one whole."""
    records = taken = 0
    first: NextBatch | None = None
    offset = begin
    while offset < end and taken < max_bytes:
        data = fetch_at(offset)
        at = offset
        for header, batch in _whole_batches(data):
            taken += len(batch)
            if header.next_offset <= offset:
                continue
            at = header.next_offset
            if header.is_control or not header.records_count:
                continue
            if first is not None:
                records += header.records_count
                continue
            if (damage := _damage(batch, header)) is not None:  # nobody gets past it
                return ToRead(Left(end - offset, False), NextBatch(header.base_offset, header.size, None, damage))
            count, when = _count_from(batch, header, begin)
            if count:  # else its last records were compacted away
                first = NextBatch(header.base_offset, header.size, when)
                records += count
        if at == offset:  # nothing came: retention was quicker, or a snapshot ends here
            return ToRead(Left(records, False), first)
        offset = at
    return ToRead(Left(records, offset >= end), first)


def _whole_batches(data: bytes) -> Iterator[tuple[batches.BatchHeader, bytes]]:
    """Yields the batches that are there from their first byte to their last, of any format: `iter_batches` takes only one."""
    at = 0
    while at + batches.HEADER_SIZE <= len(data):
        header = read_header(data, at)
        if header.size < batches.HEADER_SIZE or at + header.size > len(data):
            return
        yield header, data[at : at + header.size]
        at += header.size


def _damage(batch: bytes, header: batches.BatchHeader) -> str | None:
    if header.magic != batches.MAGIC:
        return f"its format is {header.magic}, not {batches.MAGIC}"
    if not batches.check_crc(batch, header):
        return "its checksum (CRC) is not that of its bytes"
    return None


def _count_from(batch: bytes, header: batches.BatchHeader, begin: int) -> tuple[int, int | None]:
    """Returns how many records of a batch have this offset or a later one, and the timestamp of the first; what the header says
    of all of them if they cannot be read."""
    latest = header.max_timestamp if header.max_timestamp >= 0 else None
    try:  # one at a time, and no further than needed: a small batch may hold millions
        for at, record in enumerate(iter_records(batch, MAX_DECOMPRESSED_BYTES)):
            if record.offset >= begin:
                is_append_time = header.timestamp_type == batches.LOG_APPEND_TIME
                return header.records_count - at, latest if is_append_time else record.timestamp_ms
    except MALFORMED:
        return header.records_count, latest
    return 0, latest


def fetching(connection: direct.Connection, where: Partition) -> Callable[[int], bytes]:
    """Returns what fetches batches of a partition from its leader. It raises Failure."""
    version = min(NAMED_UNTIL, connection.versions.get(fetch.API_KEY, (0, NAMED_UNTIL))[1])

    def fetch_at(offset: int) -> bytes:
        partition = fetch.FetchPartition(where.number, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = fetch.FetchRequest(
            min_bytes=1, max_bytes=1 << 20, topics=[fetch.FetchTopic(where.topic, partitions=[partition])]
        )
        answer = connection.call(request, version)
        check(answer.error_code)
        one: Any = answer.responses[0].partitions[0]
        check(one.error_code)
        return bytes(one.records or b"")

    return fetch_at

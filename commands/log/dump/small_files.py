"""`ottla log dump` of the files beside the segments: indexes, producer snapshots, checkpoints, properties.

Indexes have no checksum, so their entries are checked against each other and against the segment beside them: they must ascend,
lie inside the file, and point at the start of a batch (log/index.py describes the formats). Files that are read whole are small
by nature, and their size is limited here.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ottla.commands.log.dump.schemas import fields_of
from ottla.commands.log.dump.segment import Found, Item, Problem
from ottla.commands.log.files import OFFSET_ENTRY, TIME_ENTRY, TOO_LARGE, read_whole
from ottla.log.disk.checkpoint import PARTITION_METADATA, read_epochs, read_offsets
from ottla.log.disk.files import File, OsDisk
from ottla.log.errors import CorruptSnapshot
from ottla.log.index import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE
from ottla.log.opening.search import Window
from ottla.log.producers import decode_snapshot
from ottla.log.txn_index import TXN_ENTRY_SIZE
from ottla.wire.batch import HEADER_SIZE, MAGIC, read_header
from ottla.wire.frame import MALFORMED

_INT16: Final = struct.Struct(">h")


def _entries(window: Window, size: int, where: int = 0) -> Iterator[tuple[int, memoryview]]:
    """Yields (position, bytes) of each whole entry of an index."""
    for position in range(where, window.size - size + 1, size):
        yield position, window.view(position, size)


def _end(window: Window, size: int) -> Iterator[Found]:
    left = window.size % size
    if left:
        yield Problem(window.size - left, f"torn: {left} bytes that are not a whole entry of {size}")


def offset_index(file: File, base_offset: int, log: File | None) -> Iterator[Found]:
    """Yields the entries of a `.index`."""
    window, segment = Window(file), None if log is None else Window(log)
    previous_offset = previous_position = -1
    for at, data in _entries(window, OFFSET_ENTRY_SIZE):
        relative, position = OFFSET_ENTRY.unpack(data)
        if (relative, position) == (0, 0) and at and window.is_zero(at):
            yield Item("preallocated", {"position": at, "bytes": window.size - at})
            return
        offset = base_offset + relative
        yield Item("entry", {"offset": offset, "position": position})
        if relative < 0 or position < 0 or relative <= previous_offset or position <= previous_position:
            yield Problem(at, f"corrupt: offset {offset} at {position} is out of order")
        elif segment is not None and (why := _not_a_batch(segment, position, offset)):
            yield Problem(at, f"corrupt: offset {offset} at {position} of the segment: {why}")
        previous_offset, previous_position = relative, position
    yield from _end(window, OFFSET_ENTRY_SIZE)


def _not_a_batch(segment: Window, position: int, offset: int) -> str | None:
    """Returns why an entry cannot point to this position; None if it can."""
    if position + HEADER_SIZE > segment.size:
        return f"the segment has {segment.size} bytes"
    data = segment.view(position, HEADER_SIZE)
    if len(data) < HEADER_SIZE:
        return "the segment was truncated while it was read"
    header = read_header(data)
    if header.magic != MAGIC or header.size < HEADER_SIZE or header.base_offset > offset:
        return "no batch with that offset begins there"
    return None


def index_sanity(file: File, of_offsets: bool) -> Iterator[Found]:
    """Checks only what Kafka requires of an index before it uses it: whole entries, and a last one not before the first."""
    window, size = Window(file), OFFSET_ENTRY_SIZE if of_offsets else TIME_ENTRY_SIZE
    first: tuple[int, int] | None = None
    last, count = (0, 0), 0
    for at, data in _entries(window, size):
        entry = OFFSET_ENTRY.unpack(data) if of_offsets else TIME_ENTRY.unpack(data)
        if entry == (0, 0) and at and window.is_zero(at):
            break
        first, last, count = first or entry, entry, count + 1
    yield Item("sanity", {"entries": count, "bytes": window.size})
    yield from _end(window, size)
    if first is not None and (last[0] <= 0 if of_offsets else last[0] < first[0] or last[1] < 0):
        yield Problem((count - 1) * size, "corrupt: the last entry lies before the first")


def time_index(file: File, base_offset: int) -> Iterator[Found]:
    """Yields the entries of a `.timeindex`."""
    window = Window(file)
    previous_ms = previous_offset = -1
    for at, data in _entries(window, TIME_ENTRY_SIZE):
        timestamp_ms, relative = TIME_ENTRY.unpack(data)
        if (timestamp_ms, relative) == (0, 0) and at and window.is_zero(at):
            yield Item("preallocated", {"position": at, "bytes": window.size - at})
            return
        yield Item("entry", {"timestamp": timestamp_ms, "offset": base_offset + relative})
        if timestamp_ms < 0 or relative < 0 or timestamp_ms <= previous_ms or relative < previous_offset:
            yield Problem(at, f"corrupt: timestamp {timestamp_ms} at offset {base_offset + relative} is out of order")
        previous_ms, previous_offset = timestamp_ms, relative
    yield from _end(window, TIME_ENTRY_SIZE)


def transaction_index(file: File) -> Iterator[Found]:
    """Yields the aborted transactions of a `.txnindex`."""
    from ottla.wire.messages.internal import aborted_txn

    window = Window(file)
    for at, data in _entries(window, TXN_ENTRY_SIZE):
        version: int = _INT16.unpack_from(data)[0]
        decode = aborted_txn.DECODE.get(version)
        if decode is None:
            yield Problem(at, f"corrupt: the entry has version {version}, which is not known")
            return
        yield Item("aborted_transaction", fields_of(decode(data, _INT16.size)[0]))
    yield from _end(window, TXN_ENTRY_SIZE)


def whole(path: Path) -> Iterator[Found]:
    """Yields what is in a file that is read at once, by its name. A Problem says where the content is wrong, whatever it is."""
    data = read_whole(path)
    if data is None:
        yield Problem(0, TOO_LARGE)
        return
    name = path.name
    try:
        if name.endswith(".snapshot"):
            yield from producer_snapshot(data)
        elif name == "leader-epoch-checkpoint":
            for entry in read_epochs(OsDisk(), str(path)):
                yield Item("epoch", {"epoch": entry.epoch, "start_offset": entry.start_offset})
        elif name.endswith("-offset-checkpoint"):
            for (topic, partition), offset in read_offsets(OsDisk(), str(path)).items():
                yield Item("checkpoint", {"topic": topic, "partition": partition, "offset": offset})
        else:
            yield from text_lines(data, ":" if name == PARTITION_METADATA else "=")
    except CorruptSnapshot as error:
        yield Problem(0, f"corrupt: {str(error).removeprefix(f'{path}: ')}")
    except (*MALFORMED, RecursionError) as error:  # the latter for nested JSON
        yield Problem(0, f"corrupt: {error}")


def producer_snapshot(data: bytes) -> Iterator[Found]:
    """Yields the producers of a `.snapshot`. Raises CorruptSnapshot."""
    for state in decode_snapshot(data):
        last = state.batches[-1] if state.batches else None
        yield Item(
            "producer",
            {
                "producer_id": state.producer_id,
                "producer_epoch": state.producer_epoch,
                "first_sequence": last.first_sequence if last is not None else -1,
                "last_sequence": state.last_sequence,
                "last_offset": state.last_offset,
                "offset_delta": last.offset_delta if last is not None else 0,
                "last_timestamp": state.last_timestamp_ms,
                "coordinator_epoch": state.coordinator_epoch,
                "transaction_first_offset": state.txn_first_offset,
            },
        )


def text_lines(data: bytes, delimiter: str) -> Iterator[Found]:
    """Yields the lines of files with a few names and values. Raises UnicodeDecodeError."""
    text = data.decode()
    if text.lstrip().startswith("{"):  # quorum-state, .kafka_cleanshutdown
        found = json.loads(text)
        for name, value in found.items():
            yield Item("value", {"name": name, "value": value})
        return
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.partition(delimiter)
            yield Item("value", {"name": name.strip(), "value": value.strip()})

"""Checks of what the logs hold: each record once, at one offset, for good, and only if its writer did not fail.

inconsistent-offsets  two values at one offset of a key
duplicate             one value at two offsets, although its producer is idempotent
phantom-read          a value that nobody sent
lost-write            an acknowledged write that nobody ever read, below an offset that somebody read
unseen                an acknowledged write that the whole read at the end does not find at the log's end
vanished              a record that somebody read and that the whole read at the end does not find
G1a                   a read of what was aborted, or of a send that certainly failed
precommitted-read     a read of a transaction's write by itself, or before it was asked to commit
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from compat_tests.anomalies.history import Key, Operation
from compat_tests.anomalies.records import Anomaly, Records


def check_log(records: Records) -> Iterator[Anomaly]:
    yield from inconsistent_offsets(records)
    yield from duplicates(records)
    yield from lost_writes(records)
    yield from vanished(records)
    yield from dirty_reads(records)


def inconsistent_offsets(records: Records) -> Iterator[Anomaly]:
    at: dict[Key, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for (key, value), offset in records.sent_at.items():
        at[key][offset].add(value)
    for seens in (records.anyhow, records.committed):
        for key, seen in seens.items():
            for value, offsets in seen.values.items():
                for offset in offsets:
                    at[key][offset].add(value)
    for key, offsets_of_key in at.items():
        for offset, values in offsets_of_key.items():
            if len(values) > 1:
                yield Anomaly("inconsistent-offsets", key, f"offset {offset} held {sorted(values)}")


def duplicates(records: Records) -> Iterator[Anomaly]:
    places: dict[tuple[Key, int], set[int]] = defaultdict(set)
    for seens in (records.anyhow, records.committed):
        for key, seen in seens.items():
            for value, offsets in seen.values.items():
                places[key, value] |= offsets
    for (key, value), offsets in places.items():
        writer = records.writers.get((key, value))
        if writer is None:
            yield Anomaly("phantom-read", key, f"{value} at {sorted(offsets)}, which nobody sent")
            continue
        sent_at = records.sent_at.get((key, value))
        if sent_at is not None:
            offsets.add(sent_at)
        if len(offsets) > 1 and (writer.f == "txn" or writer.fields.get("idempotent")):
            yield Anomaly("duplicate", key, f"{value} is at the offsets {sorted(offsets)}; {writer}")


def _must_be_there(operation: Operation, records: Records) -> bool:
    """Returns whether the writes of an operation count: it says so, or one of its writes was read by somebody who reads only what
    is committed."""
    if operation.f == "send" or operation.outcome != "info":
        return operation.ok
    return any(key in records.committed and value in records.committed[key].values for key, _, value in operation.sends)


def lost_writes(records: Records) -> Iterator[Anomaly]:
    for operation in records.operations:
        if operation.f not in ("send", "txn") or not _must_be_there(operation, records):
            continue
        for key, offset, value in operation.sends:
            seen = records.committed[key] if key in records.committed else records.anyhow[key]
            if value in seen.values or records.may_be_gone(key, value, offset, seen):
                continue
            what = f"{value} at offset {offset}, read up to {seen.highest}; {operation}"
            if offset is not None and offset <= seen.highest:
                yield Anomaly("lost-write", key, what)
            elif seen.final is not None:
                yield Anomaly("unseen", key, what)


def vanished(records: Records) -> Iterator[Anomaly]:
    for seens in (records.anyhow, records.committed):
        for key, seen in seens.items():
            if seen.final is None:
                continue
            for value in seen.values.keys() - seen.final:
                if not records.may_be_gone(key, value, min(seen.values[value]), seen):
                    what = f"{value} was at {sorted(seen.values[value])}, first read by {seen.readers[value]}"
                    yield Anomaly("vanished", key, what)


def dirty_reads(records: Records) -> Iterator[Anomaly]:
    for reader in records.operations:
        for key, polled in reader.polls:
            for offset, value in polled:
                writer = records.writers.get((key, value))
                if writer is not None:
                    yield from _dirty_read(records, reader, writer, key, (offset, value))


def _dirty_read(records: Records, reader: Operation, writer: Operation, key: Key, record: tuple[int, int]) -> Iterator[Anomaly]:
    offset, value = record
    what = f"{value} at {offset} was read by {reader}, written by {writer}"
    if writer.failed and (writer.f == "send" or reader.reads_committed):
        yield Anomaly("G1a", key, what)
    elif writer.f == "txn" and reader.reads_committed and (reader is writer or reader.completed < writer.ending):
        yield Anomaly("precommitted-read", key, what)

"""Transaction markers: the control records that end a transaction in a partition (KIP-98).

A control batch holds one record. Its key is (int16 version, int16 type: 0 abort, 1 commit, others belong to cluster metadata),
and its value, for a marker, is (int16 version, int32 epoch of the coordinator). The log reads markers when they are appended and
when they are replayed, to keep `last_stable_offset` right.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from ottla.log.disk.files import Buffer
from ottla.log.producers import CompletedTransaction, Duplicate, ProducerStates
from ottla.log.validate import Origin, ValidatedBatch
from ottla.wire.batch import BatchHeader
from ottla.wire.records import Record, build_batch, decode_records

ABORT: Final = 0
COMMIT: Final = 1

_VERSION: Final = 0
_KEY: Final = Struct(">hh")
_VALUE: Final = Struct(">hi")
_MAX_BYTES: Final = 4096
"""The most bytes that a compressed control batch may decompress to. Nobody compresses markers, which are a few bytes."""


class Marker(NamedTuple):
    """The content of a transaction marker."""

    aborted: bool
    coordinator_epoch: int


def read_marker(batch: Buffer) -> Marker | None:
    """Returns the marker in a whole control batch; None if it is another control record. Raises ValueError if it does not
    decode."""
    records = decode_records(batch, _MAX_BYTES)
    key, value = (records[0].key, records[0].value) if records else (None, None)
    if key is None or value is None or len(key) < _KEY.size or len(value) < _VALUE.size:
        return None
    kind = _KEY.unpack_from(key)[1]
    if kind not in (ABORT, COMMIT):
        return None
    return Marker(kind == ABORT, _VALUE.unpack_from(value)[1])


def build_marker(producer_id: int, producer_epoch: int, *, commit: bool, coordinator_epoch: int, timestamp_ms: int) -> bytes:
    """Returns the control batch of a marker, as Kafka's brokers write it."""
    record = Record(
        0, timestamp_ms, _KEY.pack(_VERSION, COMMIT if commit else ABORT), _VALUE.pack(_VERSION, coordinator_epoch), []
    )
    return build_batch([record], producer_id=producer_id, producer_epoch=producer_epoch, transactional=True, control=True)


def check_producer(
    producers: ProducerStates, batch: ValidatedBatch, origin: Origin, transaction_version: int = 0
) -> Duplicate | None:
    """Checks a batch by `ProducerStates.check` or, if it is a marker, by `check_marker`; returns and raises what these do."""
    header = batch.header
    if header.is_control:
        marker = read_marker(b"".join(batch.parts(0, 0)))
        if marker is not None:
            producers.check_marker(header, marker.coordinator_epoch, transaction_version)
            return None
    return producers.check(header, origin)


def end_transaction(
    producers: ProducerStates, header: BatchHeader, base_offset: int, parts: Sequence[Buffer]
) -> CompletedTransaction | None:
    """Notes the control batch in `parts`, which was appended at `base_offset` or is replayed, and returns the transaction that it
    ends, if any. An aborted one belongs into the transaction index (log.transactions).
    """
    if header.records_count == 0 and header.producer_id >= 0:
        producers.end_nothing(header, base_offset)
        return None
    marker = read_marker(b"".join(parts)) if header.producer_id >= 0 else None
    if marker is None:
        producers.update(header, base_offset)
        return None
    return producers.end_transaction(
        header,
        base_offset,
        coordinator_epoch=marker.coordinator_epoch,
        aborted=marker.aborted,
        timestamp_ms=header.max_timestamp,
    )

"""Encodes and decodes the records of `__transaction_state`. The newest record of a transactional id counts; a tombstone means
that the id has expired.

The key is a TransactionLogKey of version 0. The value is a TransactionLogValue, of version 1 if transaction.version is 1 or more;
otherwise of version 0, which has neither the previous and next producer id nor the client's version. Both are prefixed with their
version as int16.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from ottla.server.txn.state import NO_PRODUCER_ID, State, Transaction
from ottla.wire.messages.internal import transaction_log_key, transaction_log_value
from ottla.wire.messages.internal.transaction_log_key import TransactionLogKey
from ottla.wire.messages.internal.transaction_log_value import PartitionsSchema, TransactionLogValue
from ottla.wire.primitives import Buffer
from ottla.wire.records import Record, build_batch

FLEXIBLE_SINCE: Final = 1
"""The transaction.version from which on values have version 1."""
KEY_VERSION: Final = 0

_INT16: Final = struct.Struct(">h")
_KEY_PREFIX: Final = _INT16.pack(KEY_VERSION)


def encode_transaction(transaction: Transaction, timestamp_ms: int, transaction_version: int) -> bytes:
    """Encodes the transaction as a batch of one record, uncompressed as Kafka writes it."""
    version = 1 if transaction_version >= FLEXIBLE_SINCE else 0
    value: list[Buffer] = [_INT16.pack(version)]
    transaction_log_value.ENCODE[version](_value(transaction, version), value)
    record = Record(0, timestamp_ms, _key(transaction.transactional_id), b"".join(value), [])
    return build_batch([record])


def encode_tombstones(transactional_ids: Iterable[str], timestamp_ms: int) -> bytes:
    """Encodes the tombstones of transactional ids as one batch."""
    records = [Record(0, timestamp_ms, _key(transactional_id), None, []) for transactional_id in transactional_ids]
    return build_batch(records)


def _key(transactional_id: str) -> bytes:
    out: list[Buffer] = [_KEY_PREFIX]
    transaction_log_key.ENCODE[KEY_VERSION](TransactionLogKey(transactional_id), out)
    return b"".join(out)


def _value(transaction: Transaction, version: int) -> TransactionLogValue:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(partition)
    partitions = None if transaction.state is State.EMPTY else [PartitionsSchema(*topic) for topic in topics.items()]
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
    )
    if version >= FLEXIBLE_SINCE:
        value.previous_producer_id = transaction.previous_producer_id
        value.next_producer_id = transaction.next_producer_id
        value.client_transaction_version = transaction.client_version
    return value


def decode(key: Buffer, value: Buffer | None) -> tuple[str, Transaction | None] | None:
    """Returns the transactional id and its transaction, or the id and None for a tombstone. Returns None for a record of another
    type.

    Raises ValueError, IndexError or struct.error (wire.frame.MALFORMED) for bytes that do not follow their schema.
    """
    if _INT16.unpack_from(key)[0] != KEY_VERSION:
        return None
    transactional_id = transaction_log_key.DECODE[KEY_VERSION](key, _INT16.size)[0].transactional_id
    if value is None:
        return transactional_id, None
    version: int = _INT16.unpack_from(value)[0]
    if version not in transaction_log_value.DECODE:
        raise ValueError(f"TransactionLogValue version {version} is unknown")
    found: TransactionLogValue = transaction_log_value.DECODE[version](value, _INT16.size)[0]
    partitions = found.transaction_partitions or []
    return transactional_id, Transaction(
        transactional_id,
        found.producer_id,
        found.transaction_timeout_ms,
        found.transaction_last_update_timestamp_ms,
        State(found.transaction_status),
        found.producer_epoch,
        previous_producer_id=found.previous_producer_id if version >= FLEXIBLE_SINCE else NO_PRODUCER_ID,
        next_producer_id=found.next_producer_id if version >= FLEXIBLE_SINCE else NO_PRODUCER_ID,
        partitions=frozenset((topic.topic, partition) for topic in partitions for partition in topic.partition_ids),
        started_ms=found.transaction_start_timestamp_ms,
        client_version=found.client_transaction_version,
    )

"""These tests cover the frame of the records of `__transaction_state`. Kafka's tools compare their content with Kafka's
(compat_tests).
"""

from __future__ import annotations

from ottla.server.txn.records import decode, encode_tombstones, encode_transaction
from ottla.server.txn.state import State, Transaction
from ottla.wire.batch import NO_SEQUENCE, read_header
from ottla.wire.records import decode_records


def test_a_batch_has_no_sequence() -> None:
    """This differs from the newer coordinators, whose base sequence is 0."""
    transaction = Transaction("tx", 7, 60_000, 1000, State.EMPTY, 0)
    for batch in (encode_transaction(transaction, 1000, 2), encode_tombstones(["a", "b"], 1000)):
        assert read_header(batch).base_sequence == NO_SEQUENCE


def test_a_transaction_comes_back() -> None:
    transaction = Transaction("tx", 7, 60_000, 1000, State.EMPTY, 3)
    (record,) = decode_records(encode_transaction(transaction, 1000, 2))
    assert decode(record.key or b"", record.value) == ("tx", transaction)


def test_both_producer_ids_of_a_rotation_and_the_clients_version_are_kept() -> None:
    partitions = frozenset({("t", 0), ("t", 2), ("u", 1)})
    transaction = Transaction(
        "tx", 7, 60_000, 1000, State.PREPARE_COMMIT, 32767, -1, 6, 8, partitions, started_ms=900, client_version=2
    )
    (record,) = decode_records(encode_transaction(transaction, 1000, 2))
    assert decode(record.key or b"", record.value) == ("tx", transaction)
    (record,) = decode_records(encode_transaction(transaction, 1000, 0))
    without = transaction._replace(previous_producer_id=-1, next_producer_id=-1, client_version=0)
    assert decode(record.key or b"", record.value) == ("tx", without), "version 0 has no room for them"


def test_what_is_forgotten_has_no_value() -> None:
    read = [decode(record.key or b"", record.value) for record in decode_records(encode_tombstones(["a", "b"], 1000))]
    assert read == [("a", None), ("b", None)]

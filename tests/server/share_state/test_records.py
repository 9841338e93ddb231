"""These tests encode and decode the records of `__share_group_state`."""

from __future__ import annotations

import pytest

from ottla.server.share_state.batches import StateBatch
from ottla.server.share_state.records import Change, decode, encode
from ottla.server.share_state.state import SharePartition, ShareState, ShareUpdate, key_of, parse_key
from ottla.wire.frame import MALFORMED
from ottla.wire.records import decode_records
from tests.server.share_state.fakes import NAME, TOPIC_ID

BATCHES = (StateBatch(0, 4, 2, 0), StateBatch(5, 9, 1, 4))


@pytest.mark.parametrize(
    "change",
    [
        ShareState(3, 1, 2, 7, 4, BATCHES, 1_700_000_000_000, 1_700_000_000_005),
        ShareState(0, 0, -1, -1),
        ShareUpdate(3, 2, 8, 4, BATCHES),
        ShareUpdate(0, -1, -1),
        None,
    ],
)
def test_they_come_back_as_they_went(change: ShareState | ShareUpdate | None) -> None:
    changes: list[Change] = [(NAME, change), (SharePartition("ä:b", TOPIC_ID, 2), change)]
    records = decode_records(encode(changes, 1_700_000_000_000))
    assert [decode(record.key or b"", record.value) for record in records] == changes
    assert {record.timestamp_ms for record in records} == {1_700_000_000_000}


def test_what_nobody_knows_is_left_where_it_is() -> None:
    assert decode(b"\0\x07rest", b"value") is None


@pytest.mark.parametrize("cut", [1, 2, 10, 22])
def test_broken_records_say_so(cut: int) -> None:
    (record,) = decode_records(encode([(NAME, ShareState(0, 0, 0, 0))], 0))
    assert record.key is not None
    with pytest.raises(MALFORMED):
        decode(record.key[:cut], record.value)


def test_values_of_a_later_version_are_not_guessed_at() -> None:
    (record,) = decode_records(encode([(NAME, ShareState(0, 0, 0, 0))], 0))
    assert record.key is not None
    assert record.value is not None
    with pytest.raises(ValueError, match="version 1"):
        decode(record.key, b"\0\1" + record.value[2:])


def test_keys_of_share_partitions() -> None:
    assert key_of(NAME) == "g:AAAAAAAAAAAAAAAAAAAAAQ:0"
    for name in (NAME, SharePartition("a:b", TOPIC_ID, 17)):
        assert parse_key(key_of(name)) == name
    assert parse_key("g:AAAAAAAAAAAAAAAAAAAAAQ:+0::") == NAME
    no_keys = ("", "g", "g:AAAAAAAAAAAAAAAAAAAAAQ", "g:x:0", ":AAAAAAAAAAAAAAAAAAAAAQ:0")
    no_partitions = ("g:AAAAAAAAAAAAAAAAAAAAAQ:x", "g:AAAAAAAAAAAAAAAAAAAAAQ: 0")
    for wrong in (*no_keys, *no_partitions):
        assert parse_key(wrong) is None, wrong


@pytest.mark.parametrize(
    "change", [ShareState(0, 0, 0, 0, 0, (StateBatch(5, 3, 1, 2),)), ShareUpdate(0, 0, 0, 0, (StateBatch(5, 4, 1, 2),))]
)
def test_a_batch_that_ends_before_it_begins_is_malformed(change: ShareState | ShareUpdate) -> None:
    """Merging it with others would never end, and the broker would never start."""
    (record,) = decode_records(encode([(NAME, change)], 0))
    with pytest.raises(MALFORMED):
        decode(record.key or b"", record.value)

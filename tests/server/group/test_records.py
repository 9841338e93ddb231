"""These tests compare records with those that Apache Kafka 4.4.0 wrote (consumer_offsets.json holds its four partitions after a
session).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla.server.group import records
from ottla.server.group.kind import Kind
from ottla.server.group.records import (
    GroupRecord,
    MetadataRecord,
    OffsetRecord,
    ProtocolRecord,
    decode,
    encode_ahead,
    encode_batch,
    group_tombstone,
    offset_tombstone,
)
from ottla.wire.frame import MALFORMED
from ottla.wire.messages.internal.consumer_group_metadata_key import ConsumerGroupMetadataKey
from ottla.wire.messages.internal.consumer_group_metadata_value import ConsumerGroupMetadataValue
from ottla.wire.messages.internal.group_metadata_key import GroupMetadataKey
from ottla.wire.messages.internal.group_metadata_value import GroupMetadataValue
from ottla.wire.messages.internal.offset_commit_key import OffsetCommitKey
from ottla.wire.messages.internal.offset_commit_value import OffsetCommitValue
from ottla.wire.messages.internal.share_group_metadata_key import ShareGroupMetadataKey
from ottla.wire.messages.internal.share_group_metadata_value import ShareGroupMetadataValue
from ottla.wire.messages.internal.streams_group_metadata_key import StreamsGroupMetadataKey
from ottla.wire.records import build_batch, decode_records
from tests.in_loop import in_loop
from tests.server.coordination.memory import CoordinatorLog
from tests.server.group.fakes import Broker, Driver, classic

KAFKAS = json.loads((Path(__file__).parent / "consumer_offsets.json").read_text())["partitions"]
BATCHES = [bytes.fromhex(batch) for partition in KAFKAS.values() for batch in partition]
TOPIC_ID = bytes.fromhex("fe040caa984b468a8e95ca5a525bca67")


@pytest.mark.parametrize("batch", BATCHES, ids=range(len(BATCHES)))
def test_kafkas_batches_are_written_again_byte_for_byte(batch: bytes) -> None:
    read = decode_records(batch)
    records = [decode(record.key or b"", record.value) for record in read]
    ours = encode_batch([record for record in records if record is not None], read[0].timestamp_ms)
    assert len(records) == len(decode_records(ours))
    # The first 12 bytes (base offset, length) and 4 (leader epoch) are the log's business.
    assert ours[16:] == batch[16:]


def test_a_commit() -> None:
    record = OffsetRecord(OffsetCommitKey("g", "t", 0), OffsetCommitValue(5, -1, "", 1795255906167, -1, TOPIC_ID))
    (written,) = decode_records(encode_batch([record], 1795255906167))
    assert written.key == bytes.fromhex("000100016700017400000000")
    assert written.value == bytes.fromhex("00040000000000000005ffffffff01000001a1fd972f77010010") + TOPIC_ID
    assert decode(written.key, written.value) == record


@pytest.mark.parametrize("count", [1, 64, 65])
@pytest.mark.parametrize(("group", "topic"), [("g", "t"), ("gr\u00fcn" * 20, "t" * 249)])
def test_the_quick_way_of_a_commit_writes_the_same_bytes(group: str, topic: str, count: int) -> None:
    made = [
        OffsetRecord(OffsetCommitKey(group, topic, n * 40), OffsetCommitValue(n, n - 1, "", 1795255906167, -1, TOPIC_ID))
        for n in range(count)
    ]
    assert encode_batch(made, 1795255906167) == one_by_one(made, 1795255906167)


def test_the_quick_way_keeps_groups_and_topics_apart() -> None:
    value = OffsetCommitValue(5, -1, "", 1795255906167, -1, TOPIC_ID)
    keys = [("g", "t"), ("h", "t"), ("h", "u"), ("g", "u"), ("g", "t")]
    made = [OffsetRecord(OffsetCommitKey(group, topic, n), value) for n, (group, topic) in enumerate(keys)]
    assert encode_batch(made, 1795255906167) == one_by_one(made, 1795255906167)


def one_by_one(made: list[OffsetRecord], timestamp_ms: int) -> bytes:
    """Makes the batch with the generated codecs instead of by patching the quick function, which compiled code
    would not notice.
    """
    return build_batch([records.encode_record(record, timestamp_ms) for record in made], base_sequence=0)


@pytest.mark.parametrize(
    "odd",
    [
        OffsetRecord(OffsetCommitKey("g", "t", 1), OffsetCommitValue(5, -1, "text", 1000, -1, TOPIC_ID)),
        OffsetRecord(OffsetCommitKey("g", "t", 1), OffsetCommitValue(5, -1, "", 1000, -1)),
        OffsetRecord(OffsetCommitKey("g", "t", 1), OffsetCommitValue(5, -1, "", 1000, 2000)),
        offset_tombstone("g", "t", 1),
        group_tombstone("g"),
    ],
)
def test_what_is_not_usual_beside_what_is(odd: OffsetRecord | MetadataRecord) -> None:
    usual = OffsetRecord(OffsetCommitKey("g", "t", 0), OffsetCommitValue(5, -1, "", 1000, -1, TOPIC_ID))
    read = [decode(each.key or b"", each.value) for each in decode_records(encode_batch([usual, odd], 1000))]
    assert read == [usual, odd]


def test_a_commit_with_its_own_retention_takes_the_version_that_has_room_for_it() -> None:
    record = OffsetRecord(OffsetCommitKey("g", "t", 0), OffsetCommitValue(9, -1, "", 1000, 2000, TOPIC_ID))
    (written,) = decode_records(encode_batch([record], 1))
    assert written.value is not None
    assert written.value[:2] == b"\0\1"
    read = decode(written.key or b"", written.value)
    assert isinstance(read, OffsetRecord)
    assert read.value is not None
    assert read.value.expire_timestamp == 2000


def test_tombstones() -> None:
    records: list[GroupRecord] = [offset_tombstone("g", "t", 3), group_tombstone("g")]
    written = decode_records(encode_batch(records, 1))
    assert [record.value for record in written] == [None, None]
    assert [decode(record.key or b"", None) for record in written] == records


def test_a_record_that_is_encoded_ahead_is_not_encoded_again() -> None:
    made: list[GroupRecord] = [
        ProtocolRecord(ConsumerGroupMetadataKey("g"), ConsumerGroupMetadataValue(7, 9)),
        ProtocolRecord(ConsumerGroupMetadataKey("h"), None),
        group_tombstone("c"),
    ]
    expected = encode_batch(made, 1000)
    ahead = [encode_ahead(record, 1000) for record in made]
    assert ahead[2] == made[2], "only records of newer protocols may be large"
    for record in ahead[:2]:
        assert isinstance(record, ProtocolRecord)
        record.key.group_id = "another"  # type: ignore[attr-defined]  # all have one
    assert encode_batch(ahead, 1000) == expected
    assert encode_ahead(ahead[0], 2000) is ahead[0]


def test_the_batch_may_be_compressed() -> None:
    record = MetadataRecord(GroupMetadataKey("g" * 1000), GroupMetadataValue(protocol=None, leader=None))
    plain, small = encode_batch([record], 1), encode_batch([record], 1, codec=4)
    assert len(small) < len(plain)
    assert decode_records(small) == decode_records(plain)


def test_keys_of_the_distant_past_and_of_no_schema() -> None:
    legacy = decode(bytes.fromhex("000000016700017400000000"), bytes.fromhex("0000" + "00" * 7 + "05" + "0000" + "00" * 8))
    assert isinstance(legacy, OffsetRecord)
    assert legacy.value is not None
    assert legacy.value.offset == 5
    for kind in (9, 18, 99, -1):
        assert decode(kind.to_bytes(2, "big", signed=True) + b"anything", b"anything") is None


@pytest.mark.parametrize(
    ("record", "kind"),
    [
        (ProtocolRecord(ConsumerGroupMetadataKey("g"), ConsumerGroupMetadataValue(3, -7)), Kind.CONSUMER),
        (ProtocolRecord(ConsumerGroupMetadataKey("g"), None), Kind.CONSUMER),
        (ProtocolRecord(ShareGroupMetadataKey("g"), ShareGroupMetadataValue(3)), Kind.SHARE),
        (ProtocolRecord(StreamsGroupMetadataKey("g"), None), Kind.STREAMS),
    ],
)
def test_records_of_the_newer_protocols_come_back(record: ProtocolRecord, kind: Kind) -> None:
    (written,) = decode_records(encode_batch([record], 1))
    assert decode(written.key or b"", written.value) == record
    assert (record.kind, record.group_id) == (kind, "g")


@pytest.mark.parametrize("value", [b"", b"\0", b"\0\x09", b"\x7f\xff", b"\0\4\0\0"])
def test_malformed_values(value: bytes) -> None:
    for key in ("000100016700017400000000", "0002000167", "0003000167"):
        with pytest.raises(MALFORMED):
            decode(bytes.fromhex(key), value)


@in_loop
async def test_a_directory_of_kafka_is_taken_over() -> None:
    log = CoordinatorLog()
    log.batches = [[bytes.fromhex(batch) for batch in KAFKAS[str(partition)]] for partition in range(4)]
    driver = Driver(Broker(log))
    driver.broker.groups.refresh()
    groups = map(classic, driver.broker.groups.all_groups())
    left = {group.group_id: (group.state.value, group.generation) for group in groups}
    assert left == {"x": ("Empty", 0), "nog2": ("Empty", 0), "simple": ("Empty", 0), "old": ("Empty", 2)}
    offsets = driver.broker.groups.shard("simple").offsets.of_group("simple")["t"]
    assert {partition: offset.value.offset for partition, offset in offsets.items()} == {0: 5, 1: 7, 2: -1}


@in_loop
async def test_a_stable_group_of_kafka_goes_on_with_its_members() -> None:
    log = CoordinatorLog()
    # Up to the second generation of group g, before its members leave.
    log.batches = [[], [], [], [bytes.fromhex(batch) for batch in KAFKAS["3"][:5]]]
    driver = Driver(Broker(log))
    group = driver.group()
    assert (group.state.value, group.generation, group.protocol, len(group.members)) == ("Stable", 2, "range", 2)
    for member_id, member in group.members.items():
        assert driver.heartbeat(member_id, 2) == 0
        assert driver.sync(member_id, 2).assignment == member.assignment != b""

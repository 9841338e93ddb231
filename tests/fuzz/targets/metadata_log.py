"""The metadata log and its snapshots (wire/metadata_records.py, server/metadata): an input is records, or a snapshot's bytes.

- A record is read or refused with MetadataError. What was read is written and read again as the same, in its own version.
- Whatever records come, in whatever order, the image takes them or raises MetadataError. A snapshot of an image, read back, makes
  an equal one.
- A snapshot of any bytes is read or refused with MetadataError.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from ottla.server.metadata import snapshot
from ottla.server.metadata.image import MetadataImage
from ottla.server.metadata.image_records import freeze
from ottla.server.metadata.metadata_log import Transactions
from ottla.server.metadata.snapshot import SnapshotId
from ottla.server.metadata.snapshot_writer import SnapshotWriter
from ottla.wire.messages.internal.client_quota_record import ClientQuotaRecord, EntityData
from ottla.wire.messages.internal.config_record import ConfigRecord
from ottla.wire.messages.internal.feature_level_record import FeatureLevelRecord
from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord
from ottla.wire.messages.internal.partition_record import PartitionRecord
from ottla.wire.messages.internal.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from ottla.wire.messages.internal.snapshot_footer_record import SnapshotFooterRecord
from ottla.wire.messages.internal.snapshot_header_record import SnapshotHeaderRecord
from ottla.wire.messages.internal.topic_record import TopicRecord
from ottla.wire.metadata_records import (
    METADATA_VERSION,
    SNAPSHOT_FOOTER,
    SNAPSHOT_HEADER,
    MetadataError,
    build_control,
    build_records,
    decode_control,
    decode_value,
    encode_value,
)
from ottla.wire.primitives import WireStruct
from ottla.wire.records import Record
from tests.fuzz.draw import Draw, block
from tests.fuzz.round_trip import round_trip
from tests.fuzz.targets.scan import file_of
from tests.memdisk import MemDisk

_DIRECTORY: Final = "/metadata"
_PATH: Final = f"{_DIRECTORY}/snapshot"
_MOST_RECORDS: Final = 30
_MAX_INT32: Final = 2**31 - 1
_RECORDS, _CONTROLS, _SNAPSHOT = range(3)
_FRAME_BYTES: Final = 3  # of the version of the frame, the kind, the version: one byte each, as they all are


def check(data: bytes) -> None:
    draw = Draw(data)
    what = draw.below(3)
    if what == _RECORDS:
        _check_image(draw)
    elif what == _CONTROLS:
        _check_control(draw)
    else:
        _check_snapshot(file_of(draw))


def _read(value: bytes) -> WireStruct | None:
    try:
        record = decode_value(value)
    except MetadataError:
        return None
    module: Any = sys.modules[type(record).__module__]
    if max(value[:_FRAME_BYTES]) < 128:  # otherwise the frame is longer than it must be
        again = round_trip(module.DECODE[value[2]], module.ENCODE[value[2]], value, _FRAME_BYTES)
        assert type(again) is type(record)
    return record


def _check_image(draw: Draw) -> None:
    image, transactions = MetadataImage("cluster"), Transactions()
    events: list[object] = []
    image.subscribe(events.append)
    for _ in range(_MOST_RECORDS):
        record = _read(draw.block())
        if record is None:
            continue
        try:
            for operation in transactions.feed([record]):
                image.apply_all(operation)
        except MetadataError:
            return
        if not draw.left:
            break
    image.features["metadata.version"] = METADATA_VERSION  # in which all that an image holds can be written
    try:
        again = _through_snapshot(image)
    except struct.error:
        epochs = [
            max(found.leader_epoch, found.partition_epoch)
            for topic in image.topics.values()
            for found in topic.partitions.values()
        ]
        assert max(epochs, default=0) > _MAX_INT32, "an image cannot be written"
        return
    assert repr(_state(again)) == repr(_state(image)), "a snapshot holds another image"  # as text, because no nan equals another


def _through_snapshot(image: MetadataImage) -> MetadataImage:
    disk = MemDisk()
    disk.makedirs(_DIRECTORY)
    snapshot_id = SnapshotId(7, 1)
    writer = SnapshotWriter(
        disk, _DIRECTORY, snapshot_id, freeze(image), controls=(), last_contained_ms=5, now_ms=lambda: 9, random=Random(1)
    )
    while writer.step():
        pass
    writer.finish()
    path = f"{_DIRECTORY}/{snapshot_id.file_name}"
    assert snapshot.last_contained_ms(disk, path) == 5
    again = MetadataImage("cluster")
    again.apply_all(snapshot.read(disk, path).records)
    return again


def _state(image: MetadataImage) -> list[object]:
    """Returns what an image holds. A snapshot begins with metadata.version, so features may come in another order."""
    topics = {name: (topic.topic_id, topic.partitions) for name, topic in image.topics.items()}
    return [topics, image.brokers, image.configs, sorted(image.features.items()), max(image.next_producer_id, 0), image.kept]


def _check_control(draw: Draw) -> None:
    has_value = draw.byte()
    key = draw.block()
    try:
        found = decode_control(Record(0, 0, key, draw.rest() if has_value else None))
    except MetadataError:
        return
    assert found.message is None or isinstance(found.message, WireStruct)


def _check_snapshot(content: bytes) -> None:
    disk = MemDisk()
    disk.makedirs(_DIRECTORY)
    disk.write_bytes(_PATH, content)
    try:
        whole = snapshot.read(disk, _PATH)
    except MetadataError:
        whole = None
    try:
        loose = snapshot.read(disk, _PATH, needs_footer=False)
    except MetadataError:
        loose = None
    assert whole is None or whole == loose, "a footer changes what a snapshot holds"
    try:
        snapshot.last_contained_ms(disk, _PATH)
    except MetadataError:
        return


def seeds() -> Iterator[bytes]:
    topic_id = bytes(range(16))
    records: list[WireStruct] = [
        FeatureLevelRecord("metadata.version", METADATA_VERSION),
        RegisterBrokerRecord(broker_id=1, broker_epoch=3, end_points=[BrokerEndpoint("P", "h", 9092, 0)], fenced=False),
        TopicRecord("a.b", topic_id),
        PartitionRecord(0, topic_id, [1], [1], leader=1, leader_epoch=0, directories=[topic_id]),
        PartitionChangeRecord(0, topic_id, isr=[1], leader=1),
        ConfigRecord(2, "a.b", "retention.ms", "5"),
        ClientQuotaRecord([EntityData("user", None)], "producer_byte_rate", 7.5, False),
    ]
    values = [encode_value(record, METADATA_VERSION) for record in records]
    yield bytes([_RECORDS]) + b"".join(map(block, values))
    for version in (7, 14, 20, 30):
        yield bytes([_RECORDS]) + b"".join(block(encode_value(record, version)) for record in records)
    for kind in range(30):  # a frame of each kind, for the fuzzer to fill
        yield bytes([_RECORDS]) + block(values[2]) + block(bytes((1, kind, 0)) + bytes(40))
    controls = [
        build_control([(SNAPSHOT_HEADER, SnapshotHeaderRecord(last_contained_log_timestamp=4))], 1),
        build_records(records, METADATA_VERSION, 1),
        build_control([(SNAPSHOT_FOOTER, SnapshotFooterRecord())], 1),
    ]
    yield bytes([_SNAPSHOT]) + b"".join(b"\0" + block(batch) for batch in controls)
    for kind in range(2, 7):
        yield bytes([_CONTROLS, 1]) + block(bytes((0, 0, 0, kind))) + bytes(30)
        yield bytes([_CONTROLS, 0]) + block(bytes((0, 0, 0, kind)))

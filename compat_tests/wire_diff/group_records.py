"""The records that a broker wrote about a group: its records in `__consumer_offsets`, in their order, as plain values.

The broker's choices are masked: hashes of topics, which depend on their ids, versions of the metadata, and times. Partitions, and
neighbouring records of one kind with different keys, are sorted: Kafka has them in the order of hash tables of random ids.
"""

from __future__ import annotations

import importlib
from itertools import groupby
from struct import unpack_from
from typing import Any, Final

from compat_tests.wire import Wire
from compat_tests.wire_diff.same import normalise
from ottla.wire.records import decode_records

TOPIC: Final = "__consumer_offsets"
SCHEMAS: Final = {
    2: "group_metadata",
    3: "consumer_group_metadata",
    4: "consumer_group_partition_metadata",
    5: "consumer_group_member_metadata",
    6: "consumer_group_target_assignment_metadata",
    7: "consumer_group_target_assignment_member",
    8: "consumer_group_current_member_assignment",
    10: "share_group_member_metadata",
    11: "share_group_metadata",
    12: "share_group_target_assignment_metadata",
    13: "share_group_target_assignment_member",
    14: "share_group_current_member_assignment",
    15: "share_group_state_partition_metadata",
    16: "consumer_group_regular_expression",
}
"""By the api key of the record's key. Committed offsets have tests of their own."""
MASKED: Final = ("metadata_hash", "version", "assignment_timestamp", "timestamp", "current_state_timestamp", "leader")

PARTITIONS: Final = ("topic_partitions", "assigned_partitions", "partitions_pending_revocation")


def written(wire: Wire, group: str) -> list[Any]:
    """(schema, key, value or None) of every record of the group, oldest first. Kafka puts several operations into one batch."""
    found: list[Any] = []
    for header, batch in wire.batches(TOPIC):
        records = () if header.is_control else decode_records(bytes(batch))
        found += [each for record in records if (each := _read(record.key, record.value, group)) is not None]
    runs = groupby(found, lambda record: record[0])
    return [record for _, run in runs for record in sorted(run, key=lambda record: repr(normalise(record[1], wire.labels)))]


def _read(key: bytes | None, value: bytes | None, group: str) -> tuple[str, Any, Any] | None:
    if key is None:
        return None
    (kind,) = unpack_from(">h", key)
    if kind not in SCHEMAS:
        return None
    name = f"ottla.wire.messages.internal.{SCHEMAS[kind]}"
    decoded, _ = importlib.import_module(f"{name}_key").DECODE[0](key, 2)
    if getattr(decoded, "group_id", getattr(decoded, "group", None)) != group:
        return None
    if value is None:
        return SCHEMAS[kind], decoded, None
    (version,) = unpack_from(">h", value)
    content, _ = importlib.import_module(f"{name}_value").DECODE[version](value, 2)
    for field in PARTITIONS:
        for part in getattr(content, field, ()):
            epochs = getattr(part, "assignment_epochs", None) or [0] * len(part.partitions)
            pairs = sorted(zip(part.partitions, epochs, strict=True))
            part.partitions = [index for index, _ in pairs]
            if getattr(part, "assignment_epochs", None):
                part.assignment_epochs = [epoch for _, epoch in pairs]
    for field in MASKED:
        if getattr(content, field, None):
            setattr(content, field, "<set>")
    return SCHEMAS[kind], decoded, content

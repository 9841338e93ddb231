"""The records that a broker wrote about a group: its records in `__consumer_offsets`, in their order, as plain values.

The broker's choices are masked, and no more than that. A hash of topics depends on their ids, so it becomes the names of the
topics whose hash it is, by the ids of that broker. A time becomes `<now>` if it is about that of the test, and the version of the
metadata `<version>` if the metadata can be so far. Partitions, and neighbouring records of one kind with different keys, are
sorted: Kafka has them in the order of hash tables of random ids.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from itertools import combinations, groupby
from struct import unpack_from
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from compat_tests.wire import Wire
from compat_tests.wire_diff.same import is_now, normalise
from ottla.server.group.modern.metadata_hash import group_hash, topic_hash
from ottla.wire.messages.internal.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
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
TIMES: Final = ("assignment_timestamp", "current_state_timestamp", "timestamp")
MOST_VERSION: Final = 1_000_000
"""The metadata of a broker of the tests have fewer records."""
_NOWHERE: Final = SimpleNamespace(replicas=())
PARTITIONS: Final = ("topic_partitions", "assigned_partitions", "partitions_pending_revocation")


class _Hashed(NamedTuple):
    """A topic as its hash takes it."""

    name: str
    topic_id: bytes
    partitions: dict[int, Any]


def topics_by_hash(wire: Wire) -> dict[int, str]:
    """Returns the names of the topics that a group may read, by the hash that the group then has: of all sets of the topics that
    the test has made. None of the brokers has a rack."""
    hashes: dict[str, int] = {}
    for name, topic_id in wire.topic_ids.items():
        count = len(wire.metadata(name).topics[0].partitions)
        hashes[name] = topic_hash(_Hashed(name, topic_id, dict.fromkeys(range(count), _NOWHERE)), lambda _: None)
    sets = (chosen for count in range(1, len(hashes) + 1) for chosen in combinations(sorted(hashes), count))
    return {group_hash({name: hashes[name] for name in chosen}): f"<hash of {', '.join(chosen)}>" for chosen in sets}


def masked(content: Any, hashes: Mapping[int, str]) -> Any:
    """Returns a record's value with the masks above, field by field."""
    for field in TIMES:
        if is_now(getattr(content, field, None)):
            setattr(content, field, "<now>")
    if getattr(content, "metadata_hash", None):
        content.metadata_hash = hashes.get(content.metadata_hash, content.metadata_hash)
    if isinstance(content, ConsumerGroupRegularExpressionValue) and 0 < content.version < MOST_VERSION:
        content.version = "<version>"  # type: ignore[assignment]  # a mask is no number
    return content


def written(wire: Wire, group: str) -> list[Any]:
    """(schema, key, value or None) of every record of the group, oldest first. Kafka puts several operations into one batch."""
    found: list[Any] = []
    hashes = topics_by_hash(wire)
    for header, batch in wire.batches(TOPIC):
        records = () if header.is_control else decode_records(bytes(batch))
        found += [each for record in records if (each := _read(record.key, record.value, group, hashes)) is not None]
    runs = groupby(found, lambda record: record[0])
    return [record for _, run in runs for record in sorted(run, key=lambda record: repr(normalise(record[1], wire.labels)))]


def _read(key: bytes | None, value: bytes | None, group: str, hashes: Mapping[int, str]) -> tuple[str, Any, Any] | None:
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
    return SCHEMAS[kind], decoded, masked(content, hashes)

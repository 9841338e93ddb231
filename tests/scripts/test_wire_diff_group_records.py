"""compat_tests/wire_diff/group_records.py: what is masked in a group's records, and what just beside it is not."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from compat_tests.wire_diff.group_records import MOST_VERSION, TIMES, masked, topics_by_hash
from ottla.server.group.modern.metadata_hash import group_hash, topic_hash
from ottla.wire.messages.internal.consumer_group_metadata_value import ConsumerGroupMetadataValue
from ottla.wire.messages.internal.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from ottla.wire.messages.internal.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)
from ottla.wire.messages.internal.group_metadata_value import GroupMetadataValue, MemberMetadata

IDS = {"t": b"\1" * 16, "u": b"\2" * 16}
PARTITIONS = {"t": 2, "u": 1}


def wire() -> Any:
    """Returns the part of a Wire that is asked: its topics with their partitions."""
    counted = {name: [SimpleNamespace(topics=[SimpleNamespace(partitions=[None] * count)])] for name, count in PARTITIONS.items()}
    return SimpleNamespace(topic_ids=IDS, metadata=lambda name: counted[name][0])


def hash_of(*names: str, ids: dict[str, bytes] = IDS, more: int = 0) -> int:
    hashes = {}
    for name in names:
        nowhere = dict.fromkeys(range(PARTITIONS[name] + more), SimpleNamespace(replicas=(1,)))
        topic: Any = SimpleNamespace(name=name, topic_id=ids[name], partitions=nowhere)
        hashes[name] = topic_hash(topic, lambda _: None)
    return group_hash(hashes)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (hash_of("t"), "<hash of t>"),
        (hash_of("u", "t"), "<hash of t, u>"),
        (0, 0),
        (hash_of("t") + 1, hash_of("t") + 1),
        (hash_of("t", more=1), hash_of("t", more=1)),
        (hash_of("t", ids={"t": b"\3" * 16}), hash_of("t", ids={"t": b"\3" * 16})),
    ],
    ids=["of a topic", "of two", "of none", "of nothing", "of more partitions", "of another id"],
)
def test_a_hash_becomes_the_topics_whose_hash_it_is(value: int, shown: object) -> None:
    assert masked(ConsumerGroupMetadataValue(3, value), topics_by_hash(wire())).metadata_hash == shown


@pytest.mark.parametrize(("value", "shown"), [(1, "<version>"), (MOST_VERSION, MOST_VERSION), (0, 0), (-1, -1)])
def test_the_version_of_the_metadata(value: int, shown: object) -> None:
    found = masked(ConsumerGroupRegularExpressionValue(["t"], value, 5), {})
    assert (found.topics, found.version, found.timestamp) == (["t"], shown, 5)


def test_a_time_is_that_of_the_test() -> None:
    now_ms = round(time.time() * 1000)
    for time_ms, shown in ((now_ms, "<now>"), (0, 0), (-1, -1), (now_ms - 3_600_000, now_ms - 3_600_000)):
        records = [
            ConsumerGroupTargetAssignmentMetadataValue(1, time_ms),
            ConsumerGroupRegularExpressionValue([], 0, time_ms),
            GroupMetadataValue(current_state_timestamp=time_ms),
        ]
        found = [getattr(masked(each, {}), field) for each in records for field in TIMES if hasattr(each, field)]
        assert found == [shown] * 3


def test_the_leader_of_a_classic_group_is_compared() -> None:
    members = [MemberMetadata(member_id=each) for each in ("a", "b")]
    assert masked(GroupMetadataValue(leader="b", members=members), {}).leader == "b"

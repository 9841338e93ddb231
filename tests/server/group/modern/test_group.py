"""These tests cover the choice of the group that a record of a newer protocol is replayed into."""

from __future__ import annotations

import pytest

from ottla.server.group.classic.group import ClassicGroup
from ottla.server.group.consumer import records
from ottla.server.group.consumer.group import ConsumerGroup
from ottla.server.group.group import Group
from ottla.server.group.modern.group import group_of
from ottla.server.group.streams.group import StreamsGroup

RECORD = records.epoch("g", 1, 0)
TOMBSTONE = records.epoch_tombstone("g")


def test_a_first_record_makes_the_group_and_the_next_finds_it() -> None:
    groups: dict[str, Group] = {}
    made = group_of(groups, RECORD, ConsumerGroup)
    assert isinstance(made, ConsumerGroup)
    assert groups == {"g": made}
    assert group_of(groups, RECORD, ConsumerGroup) is made
    assert group_of(groups, TOMBSTONE, ConsumerGroup) is made


def test_a_tombstone_of_what_is_not_there_makes_nothing() -> None:
    groups: dict[str, Group] = {}
    assert group_of(groups, TOMBSTONE, ConsumerGroup) is None
    assert groups == {}


def test_a_group_that_holds_only_offsets_is_replaced() -> None:
    simple = ClassicGroup("g", 0)
    groups: dict[str, Group] = {"g": simple}
    with pytest.raises(ValueError, match="a record of a consumer group is for the classic group g"):
        group_of(groups, TOMBSTONE, ConsumerGroup)
    assert groups == {"g": simple}
    assert isinstance(group_of(groups, RECORD, ConsumerGroup), ConsumerGroup)


def test_a_group_of_another_kind_is_not() -> None:
    joined = ClassicGroup("g", 0)
    joined.protocol_type = "consumer"
    for there in (joined, StreamsGroup("g")):
        with pytest.raises(ValueError, match=f"a record of a consumer group is for the {there.kind.value} group g"):
            group_of({"g": there}, RECORD, ConsumerGroup)

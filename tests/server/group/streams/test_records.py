"""These tests encode and decode the records of streams groups, and read what older brokers wrote."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.server.group.records import GroupRecord, ProtocolRecord, decode, encode_batch
from ottla.server.group.streams import records
from ottla.server.group.streams.member import Endpoint, MemberState, StreamsMember
from ottla.server.group.streams.tasks import HeldTasks, Tasks
from ottla.wire.messages.internal import streams_group_current_member_assignment_value as current_value
from ottla.wire.records import decode_records

MEMBER = StreamsMember(
    "m",
    epoch=7,
    previous_epoch=6,
    state=MemberState.UNREVOKED_TASKS,
    instance_id="i",
    rack_id="r",
    client_id="c",
    client_host="/1.2.3.4",
    rebalance_timeout_ms=60_000,
    topology_epoch=3,
    process_id="p",
    endpoint=Endpoint("host", 65_535),
    client_tags={"zone": "z", "cluster": "c"},
    held=HeldTasks({"0": {2: 5, 10: 7}}, {"1": frozenset({4})}, {"1": frozenset({5})}),
    to_revoke=HeldTasks({"1": {0: 4}}, {}, {"0": frozenset({1})}),
)


def stored(record: GroupRecord) -> ProtocolRecord:
    """Returns a record as it is read back from the log."""
    (read,) = decode_records(encode_batch([record], 1))
    assert read.key is not None
    known = decode(read.key, read.value)
    assert isinstance(known, ProtocolRecord)
    return known


def value_of(record: GroupRecord) -> Any:
    """Returns the value of a record as it is read back from the log, which is of the record's own schema."""
    return stored(record).value


def test_a_member_in_two_records() -> None:
    metadata, current = stored(records.member_record("g", MEMBER)), stored(records.current_record("g", MEMBER))
    assert (metadata.group_id, metadata.kind.value) == ("g", "streams")
    again = StreamsMember("m").with_metadata(value_of(metadata)).with_assignment(value_of(current))
    assert again == MEMBER


def test_a_dynamic_member_has_little() -> None:
    plain = StreamsMember("m", client_id="c", client_host="/h", process_id="p", rebalance_timeout_ms=1, topology_epoch=0)
    assert StreamsMember("m").with_metadata(value_of(records.member_record("g", plain))) == plain


def test_lists_are_in_order() -> None:
    value = stored(records.current_record("g", MEMBER)).value
    assert isinstance(value, current_value.StreamsGroupCurrentMemberAssignmentValue)
    assert [(each.partitions, each.assignment_epochs) for each in value.active_tasks] == [([2, 10], [5, 7])]
    tags = value_of(records.member_record("g", MEMBER)).client_tags
    assert [tag.key for tag in tags] == ["cluster", "zone"]


def test_targets() -> None:
    target = Tasks({"0": frozenset({1, 2})}, {"1": frozenset({0})}, {"2": frozenset({3})})
    assert records.read_target(value_of(records.target_record("g", "m", target))) == target


@pytest.mark.parametrize(
    "metadata",
    [records.GroupMetadata(), records.GroupMetadata(9, -(2**63), 3, {"num.standby.replicas": "1"}, 4, 5)],
    ids=["as it begins", "full"],
)
def test_group_metadata(metadata: records.GroupMetadata) -> None:
    assert records.read_metadata(value_of(records.metadata_record("g", metadata))) == metadata


@pytest.mark.parametrize("epochs", [None, [3]], ids=["none, as before Kafka 4.3", "too few"])
def test_without_epochs_of_tasks_the_members_own_stands_for_them(epochs: list[int] | None) -> None:
    value = current_value.StreamsGroupCurrentMemberAssignmentValue(
        9, 8, MemberState.STABLE, [current_value.TaskIds("0", [1, 2], epochs)]
    )
    assert StreamsMember("m").with_assignment(value).held.active == {"0": {1: 9, 2: 9}}


def test_a_state_of_tomorrow() -> None:
    value = current_value.StreamsGroupCurrentMemberAssignmentValue(9, 8, 77)
    assert StreamsMember("m").with_assignment(value).state is MemberState.UNKNOWN


def test_tombstones_take_a_group_apart_from_its_members_down() -> None:
    kinds = [type(each.key).__name__.removeprefix("StreamsGroup") for each in records.group_tombstones("g", ["m"])]
    assert kinds == [
        *("CurrentMemberAssignmentKey", "TargetAssignmentMemberKey", "TargetAssignmentMetadataKey"),
        *("MemberMetadataKey", "MetadataKey", "TopologyKey"),
    ]

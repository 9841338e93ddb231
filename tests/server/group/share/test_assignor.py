"""These tests cover the assignor `simple` with cases by hand; test_assignor_oracle.py compares it with Kafka's own in long random
walks.
"""

from __future__ import annotations

import pytest

from ottla.server.base.turns import at_once
from ottla.server.group.modern.assignor import Assignment, AssignorError, GroupAssignment, GroupSpec, MemberSpec
from ottla.server.group.share import assignor
from ottla.server.group.share.assignor import Initialized

T, U = bytes(15) + b"\x01", bytes(15) + b"\x02"


def spec(
    wanted: dict[str, list[bytes]], counts: dict[bytes, int], had: dict[str, Assignment] | None = None, *, alike: bool = True
) -> GroupSpec:
    members = {member: MemberSpec(topics, (had or {}).get(member, {})) for member, topics in wanted.items()}
    return GroupSpec(members, counts, alike, lambda topic_id, partition: False)


def assign(group: GroupSpec, initialized: Initialized) -> GroupAssignment:
    return at_once(assignor.assign(group, initialized))


def all_of(counts: dict[bytes, int]) -> dict[bytes, frozenset[int]]:
    return {topic_id: frozenset(range(count)) for topic_id, count in counts.items()}


def sizes(assigned: dict[str, Assignment]) -> list[int]:
    return [sum(len(partitions) for partitions in assigned.get(member, {}).values()) for member in ("a", "b", "c")]


def test_partitions_are_shared_out_evenly() -> None:
    counts = {T: 6}
    assigned = assign(spec({"a": [T], "b": [T], "c": [T]}, counts), all_of(counts))
    assert sizes(assigned) == [2, 2, 2]
    assert sorted(index for target in assigned.values() for index in target[T]) == list(range(6))


def test_with_more_members_than_partitions_each_partition_has_several() -> None:
    counts = {T: 1}
    assigned = assign(spec({"a": [T], "b": [T], "c": [T]}, counts), all_of(counts))
    assert assigned == {"a": {T: frozenset({0})}, "b": {T: frozenset({0})}, "c": {T: frozenset({0})}}


def test_only_partitions_that_have_state_are_given_out() -> None:
    assigned = assign(spec({"a": [T]}, {T: 4}), {T: frozenset({1, 3, 9})})
    assert assigned == {"a": {T: frozenset({1, 3})}}
    assert assign(spec({"a": [T]}, {T: 4}), {}) == {"a": {}}


def test_nobody_is_given_what_it_does_not_subscribe_to() -> None:
    counts = {T: 2, U: 2}
    assigned = assign(spec({"a": [T], "b": [T, U]}, counts, alike=False), all_of(counts))
    assert U not in assigned["a"]
    assert assigned["b"][U] == {0, 1}
    assert assigned["a"][T] | assigned["b"][T] == {0, 1}
    assert not assigned["a"][T] & assigned["b"][T]


def test_a_topic_that_is_not_wanted_any_more_goes() -> None:
    counts = {T: 1, U: 1}
    had: dict[str, Assignment] = {"a": {U: frozenset({0})}}
    assert assign(spec({"a": [T]}, counts, had), all_of(counts)) == {"a": {T: frozenset({0})}}


def test_what_a_member_has_stays_with_it_until_another_needs_a_share() -> None:
    counts = {T: 4}
    had: dict[str, Assignment] = {"a": {T: frozenset({0, 1, 2, 3})}}
    assert assign(spec({"a": [T]}, counts, had), all_of(counts)) == had
    assigned = assign(spec({"a": [T], "b": [T]}, counts, had), all_of(counts))
    assert sizes(assigned)[:2] == [2, 2]
    assert assigned["a"][T] < had["a"][T]
    assert assigned["a"][T] | assigned["b"][T] == {0, 1, 2, 3}


def test_without_subscriptions_there_is_nothing_to_assign() -> None:
    assert assign(spec({"a": [], "b": []}, {}), {}) == {}


@pytest.mark.parametrize("alike", [True, False])
def test_a_topic_that_does_not_exist_is_an_error(alike: bool) -> None:
    with pytest.raises(AssignorError):
        assign(spec({"a": [T]}, {}, alike=alike), {T: frozenset({0})})

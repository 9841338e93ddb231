"""Tests of what scripts/coordinator_moves.py and its parts in compat_tests decide without a cluster: what was lost or read again,
and whether two clusters ended in the same state."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from compat_tests.cluster.coordinators import _classic_share
from compat_tests.cluster.mixed import Mixed
from compat_tests.cluster.work_of_groups import ClassicGroup, ShareGroup
from ottla.wire.messages.describe_groups import DescribedGroupMember
from scripts.coordinator_moves import differences


@pytest.fixture
def cluster(tmp_path: Path) -> Mixed:
    """Of which nothing runs."""
    return Mixed(tmp_path, ["ottla", "ottla", "kafka"])


class Committed:
    """Coordinators that have these offsets of a group."""

    def __init__(self, **offsets: int) -> None:
        self.offsets = {("classic-in", int(name[1:])): offset for name, offset in offsets.items()}

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        return self.offsets


def group(cluster: Mixed, coordinators: Any) -> ClassicGroup:
    """Seven records of which each was read once: three, two and two of three partitions."""
    made = ClassicGroup(cluster)
    made.coordinators = coordinators
    made.fed = 7
    made.seen.update((number % 3, number // 3) for number in range(7))
    return made


def test_what_was_read_once_and_committed_passes(cluster: Mixed) -> None:
    made = group(cluster, Committed(p0=3, p1=2, p2=2))
    assert made.faults() == []
    assert made.lost({0: 3, 1: 2, 2: 2}) == []


def test_a_commit_that_is_gone_is_lost(cluster: Mixed) -> None:
    made = group(cluster, Committed(p0=2, p1=2))
    assert made.lost({0: 3, 1: 2, 2: 0}) == ["classic: 3 of partition 0 was committed, and it is 2"]
    assert made.lost({2: 1}) == ["classic: 1 of partition 2 was committed, and it is None"]
    assert "is committed of" in made.faults()[0]


def test_records_that_were_read_again_or_never_are_found(cluster: Mixed) -> None:
    made = group(cluster, Committed(p0=3, p1=2, p2=2))
    made.seen[1, 1] += 1
    del made.seen[2, 0]
    assert made.faults() == [
        "classic: 1 records were never read, the first is (2, 0)",
        "classic: 1 records were read again, the first is (1, 1)",
    ]


class Answering:
    """A share consumer whose acknowledgements are answered with nothing wrong."""

    def commit_sync(self, timeout: float) -> dict[Any, Any]:
        return {}


def test_a_shared_record_that_comes_after_its_acknowledgement_is_found(cluster: Mixed) -> None:
    made = ShareGroup(cluster)
    consumer: Any = Answering()
    made._acknowledge(consumer, {(0, 0), (0, 1)})
    made._acknowledge(consumer, {(0, 2)})
    assert made._doubled == []
    made._acknowledge(consumer, {(0, 1), (0, 3)})
    assert made._doubled == [(0, 1)]
    assert made.done == 4


def test_the_share_of_a_classic_member_is_what_its_assignment_names() -> None:
    topics = [(b"first", [0, 2]), (b"second", [1])]
    assignment = struct.pack(">hi", 3, len(topics)) + b"".join(
        struct.pack(f">h{len(name)}si{len(numbers)}i", len(name), name, len(numbers), *numbers) for name, numbers in topics
    )
    member = DescribedGroupMember(member_assignment=assignment + struct.pack(">i", -1))
    assert (_classic_share(member), _classic_share(DescribedGroupMember())) == (3, 0)


def test_clusters_differ_in_outcomes_and_in_epochs() -> None:
    kafka = {"classic": {"state": "Stable", "epochs": 0}, "streams": {"state": "Stable", "epochs": 2}}
    assert differences({"ook": kafka | {"streams": {"state": "Stable", "epochs": 0}}, "kkk": kafka}) == [
        "streams: ook ends with {'state': 'Stable', 'epochs': 0}, kkk with {'state': 'Stable', 'epochs': 2}"
    ]
    assert differences({"ook": kafka, "kkk": kafka}) == ["ook, streams: 2 new epochs"]
    assert differences({"kkk": kafka}) == []

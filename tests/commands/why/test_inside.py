"""Tests of what a broker saw inside, put to the facts of a group: whose fetches are taken for the group's own."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.commands.clients.partition import Partition
from ottla.commands.why.facts import Fetched
from ottla.commands.why.inside import LATELY_MS, with_inside
from ottla.commands.why.verdicts import judge
from tests.commands.why.test_verdicts import group, partition

NOW_MS = 1_000_000


def seen(committed_ms: int | None) -> dict[str, Any]:
    """Returns what a broker saw if a client, the member of another group for one, reads the partition up to its end."""
    fetch = {"client_id": "app", "host": "10.0.0.7", "topic": "orders", "partition": 0, "times": 5, "is_out_of_range": False}
    position = {"topic": "orders", "partition": 0, "committed_ms": committed_ms}
    return {
        "fetches": [{**fetch, "first_offset": 95, "last_offset": 100, "max_bytes": 1 << 20, "is_read_committed": False}],
        "offsets": [position],
        "same_rebalance": True,
        **{name: [] for name in ("commits", "clients", "sharers", "members", "throttled", "timers", "awaited")},
    }


@pytest.mark.parametrize(
    ("committed_ms", "reason"),
    [(NOW_MS - LATELY_MS, "no-member"), (None, "no-member"), (NOW_MS - LATELY_MS + 1, "behind")],
)
def test_a_group_without_members_is_not_taken_for_read_because_others_read_its_partitions(
    committed_ms: int | None, reason: str
) -> None:
    left = partition(partition=Partition("orders", 0), member=None, fetched=None)
    facts = with_inside(group(left, members=(), state="Empty", now_ms=NOW_MS), seen(committed_ms))
    assert judge(facts).reason == reason


def test_a_member_is_told_from_others_by_its_client() -> None:
    one = with_inside(group(partition(fetched=None), now_ms=NOW_MS), seen(None)).partitions[0]
    assert one.member is not None
    assert (one.member.client_id, one.fetched) == ("app", Fetched(5, 95, 100, False, 1 << 20, False))

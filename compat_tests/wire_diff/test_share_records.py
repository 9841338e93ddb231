"""Tests of what share groups leave in the logs: their records in `__consumer_offsets`, and those of the share coordinator, one by
one.

Heartbeats that change nothing leave nothing, so polling for the share coordinator's work does not show. Every scenario has one
topic: of several, Kafka's order depends on their ids.
"""

from __future__ import annotations

from typing import Any

import pytest

from compat_tests.wire import Wire
from compat_tests.wire_diff.group_records import written
from compat_tests.wire_diff.same import check, is_now
from compat_tests.wire_diff.test_share_groups import ShareGroup
from ottla.server.share_state.records import decode
from ottla.server.share_state.state import ShareState
from ottla.wire.records import decode_records

STATE_TOPIC = "__share_group_state"


def kept(group: ShareGroup) -> list[Any]:
    """Records of the group in `__share_group_state`, by partition of the topic, oldest first. Of times about now, it is
    compared how much later the last is than the first."""
    found: list[Any] = []
    for _, batch in group.wire.batches(STATE_TOPIC):
        for record in decode_records(bytes(batch)):
            name, change = decode(record.key or b"", record.value) or (None, None)
            if name is None or name.group_id != group.group:
                continue
            if isinstance(change, ShareState) and is_now(change.created_ms):
                change = change._replace(created_ms=0, written_ms=change.written_ms - change.created_ms)
            found.append((name.partition, type(change).__name__, change))
    return sorted(found, key=lambda each: each[0])


def a_member_comes_and_goes(group: ShareGroup) -> None:
    group.enter()
    group.beat()
    group.beat(topics=[group.topic])
    group.beat(epoch=-1)


def members_share(group: ShareGroup) -> None:
    """One partition, so that everybody has the same."""
    only = group.create("only")
    group.enter("a", only)
    for member in ("b", "c"):
        group.join(member, only)
        for each in list(group.epochs):
            group.beat(each)
    group.beat("b", -1)
    group.beat("a")


def subscriptions_change(group: ShareGroup) -> None:
    group.enter()
    group.beat(topics=[group.topic, group.wire.name("missing")])
    group.beat(topics=[group.wire.name("missing")])
    group.beat(rack="r")
    group.beat(topics=[group.topic])


def offsets_are_set_and_deleted(group: ShareGroup) -> None:
    group.alter((group.topic, {0: 5}))
    group.alter((group.topic, {0: 7, 1: 3}), (group.wire.name("missing"), {0: 1}))
    group.forget(group.wire.name("missing"))
    group.forget(group.topic)
    group.alter((group.topic, {1: 3}))
    group.delete()


def a_group_is_deleted(group: ShareGroup) -> None:
    group.enter()
    group.delete()
    group.beat(epoch=-1)
    group.delete()


def leaders_write(group: ShareGroup) -> None:
    group.alter((group.topic, {0: 0}))
    group.state.read(0, 1)
    group.state.read(0, 1)
    group.state.write((0, 9, 0, 1), (3, 4, 2, 1), leader_epoch=1, state_epoch=1, complete=2)
    group.state.write((0, 2, 2, 1), leader_epoch=1, state_epoch=2, start=5, complete=0)
    group.state.write((0, 9, 2, 2), leader_epoch=2, state_epoch=1, start=3, complete=4)
    group.state.read(0, 3)
    group.state.delete(0)


SCENARIOS = [
    a_member_comes_and_goes,
    members_share,
    subscriptions_change,
    offsets_are_set_and_deleted,
    a_group_is_deleted,
    leaders_write,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[scenario.__name__ for scenario in SCENARIOS])
def test_share_records(wires: dict[str, Wire], scenario: Any) -> None:
    def seen(wire: Wire) -> Any:
        group = ShareGroup(wire)
        scenario(group)
        found = [written(wire, group.group), kept(group)]
        assert all(found), found
        return found

    check(wires, f"share records: {scenario.__name__}", seen)

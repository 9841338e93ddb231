"""Directories with consumer groups whose members are still there: one broker stops, the other goes on, and the members, who send
the same heartbeats as before, notice nothing. The group's epoch stays what it was, so the hash of its topics is the same at both.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from compat_tests.directory_swap import KILL, STOP, Directory
from compat_tests.waiting import wait_for
from compat_tests.wire import Wire
from compat_tests.wire_diff.consumers import Consumer, described
from compat_tests.wire_diff.same import differences, normalise

ROUNDS = ("kafka", "ottla", "kafka", "ottla")
SETTINGS = {"broker.rack": "r1"}


def settled(wire: Wire, group: str, members: list[Consumer], partitions: int) -> Any:
    def stable() -> bool:
        for member in members:
            member.owning()
        state = described(wire, group).groups[0].group_state
        return bool(state == "Stable") and sum(len(p) for m in members for p in m.assigned.values()) == partitions

    wait_for(stable, f"{group} is stable")
    return normalise(described(wire, group), {})


@pytest.mark.parametrize("end", [KILL, STOP])
@pytest.mark.parametrize("first", [0, 1], ids=["from kafka", "from ottla"])
def test_members_go_on_as_if_nothing_had_happened(first: int, end: str, tmp_path: Path) -> None:
    directory = Directory(tmp_path / "directory", SETTINGS)
    members: list[Consumer] = []
    shown: list[Any] = []
    for turn, kind in enumerate(ROUNDS[first:]):
        with directory.served_by(kind, end) as served:
            wire = served.wire
            wire.warm_up()
            group, pattern = wire.name("live"), f"{wire.name('t')}[0-9]"
            if not turn:
                wire.create("t1", 5)
                wire.create("u", 3)
                for name, topics, regex in (("m1", [wire.name("u")], None), ("m2", [], pattern), ("m3", [], pattern)):
                    members.append(Consumer(wire, group, name, f"i-{name}" if name == "m2" else None))
                    assert members[-1].join(topics, subscribed_topic_regex=regex).error_code == 0
                settled(wire, group, members, 8)
            for member in members:
                member.wire = wire
            wait_for(lambda: members[0].owning().error_code == 0, "the group is loaded")
            found = settled(wire, group, members, 8)
            assert not shown or not differences(shown[-1], found), f"{kind} goes on"
            members[0].leave()
            members[0].join([wire.name("u")])
            shown.append(settled(wire, group, members, 8))
    epochs = [each["groups"][0]["group_epoch"] for each in shown]
    assert epochs == sorted(set(epochs)), "each turn has gone on"

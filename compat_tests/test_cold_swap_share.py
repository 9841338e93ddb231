"""Share groups when the data directory changes hands: the group, its members and what it did with records are there again.

Each broker in turn is killed with kill -9 or stopped, and what it showed last is what the next one shows first: the group's
epochs, members and assignments, where it is in partitions, and the states of single records. Then the next one goes on with all
of it: the member it found goes on with its heartbeats, new states are laid over old ones, older leaders stay fenced. A snapshot
every third write, so that both kinds of records change hands.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from compat_tests.directory_swap import KILL, STOP, Directory
from compat_tests.waiting import wait_for
from compat_tests.wire import Wire
from compat_tests.wire_diff.same import normalise
from compat_tests.wire_diff.test_share_groups import ShareGroup
from compat_tests.wire_diff.test_share_state import ShareState

SETTINGS: Final = {"share.coordinator.snapshot.update.records.per.snapshot": "3", "group.share.assignment.interval.ms": "0"}
ALTERED: Final = "altered"


class Holding(ShareGroup):
    """The group as a broker that takes over finds it."""

    def __init__(self, wire: Wire, found: ShareGroup | None = None) -> None:
        if found is None:
            super().__init__(wire)
            return
        self.wire, self.topic, self.topic_id, self.group = wire, found.topic, found.topic_id, found.group
        self.epochs = dict(found.epochs)
        self.state = ShareState.__new__(ShareState)
        self.state.wire, self.state.topic, self.state.topic_id, self.state.group = wire, self.topic, self.topic_id, self.group
        for partition in (0, 1):
            wait_for(partial(self.state.is_served, partition), "there is a share coordinator")
        wait_for(lambda: self.describe().groups[0].error_code == 0, "there is a group coordinator")

    def shown(self) -> Any:
        altered = self.wire.name(ALTERED)
        found = [self.describe(self.group, altered), self.listed(), self.offsets(), self.offsets(group=altered)]
        return normalise([*found, self.state.seen(0), self.state.seen(1)], {})


def begin(group: Holding) -> None:
    group.enter()
    group.state.read(0, 1)
    group.state.write((0, 9, 0, 1), (10, 14, 2, 1), leader_epoch=1, state_epoch=9, complete=5)
    group.alter((group.topic, {0: 3, 1: 4}), group=group.wire.name(ALTERED))


def go_on(group: Holding, turn: int) -> None:
    """Heartbeats in the member's epoch, another member, states over those that were found, and refusals of what is over."""
    answer = group.beat()
    assert (answer.error_code, answer.member_epoch) == (0, group.epochs["m"]), answer
    joined = group.join(f"turn-{turn}")
    assert joined.error_code == 0, joined
    for each in range(turn + 2):
        wrote = group.state.write((each, each, 2, 1 + turn), start=turn, leader_epoch=turn, state_epoch=9, complete=each)
        assert wrote.results[0].partitions[0].error_code == 0, wrote
    assert group.state.read(0, turn - 1).results[0].partitions[0].error_code == 74, "an older leader"
    assert group.state.read(0, turn + 1).results[0].partitions[0].error_code == 0
    altered = group.alter((group.topic, {0: 10 * turn}), group=group.wire.name(ALTERED))
    assert altered.responses[0].partitions[0].error_code == 0, altered


@pytest.mark.parametrize("end", [KILL, STOP])
@pytest.mark.parametrize("first", ["kafka", "ottla"])
def test_share_groups_change_hands(first: str, end: str, tmp_path: Path) -> None:
    directory = Directory(tmp_path / "directory", SETTINGS)
    second = "ottla" if first == "kafka" else "kafka"
    group, left = None, None
    for turn, kind in enumerate((first, second, first)):
        with directory.served_by(kind, end) as served:
            served.wire.warm_up()
            group = Holding(served.wire, group)
            if turn == 0:
                begin(group)
            else:
                assert group.shown() == left, f"{kind} found something else"
                go_on(group, turn)
            left = group.shown()


def test_ottla_finds_its_own_after_kill_9(tmp_path: Path) -> None:
    directory = Directory(tmp_path / "directory", SETTINGS)
    group, left = None, None
    for turn in range(4):
        with directory.served_by("ottla", KILL) as served:
            served.wire.warm_up()
            group = Holding(served.wire, group)
            if turn == 0:
                begin(group)
            else:
                assert group.shown() == left
                go_on(group, turn)
            left = group.shown()

"""Random walks of a share group's members: whatever they say in whichever order, both brokers answer the same, and leave the same
records. One partition, so that who has it does not depend on the topic's id; its state is begun before anybody joins, and never
deleted, so that nothing happens beside the requests.
"""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest

from compat_tests.waiting import wait_for
from compat_tests.wire import Wire
from compat_tests.wire_diff.group_records import written
from compat_tests.wire_diff.same import check
from compat_tests.wire_diff.test_share_groups import ShareGroup
from compat_tests.wire_diff.test_share_records import kept

STEPS = 80


def walk(group: ShareGroup, seed: int) -> Any:
    chance = random.Random(seed)
    only, missing = group.create("only"), group.wire.name("missing")
    subscriptions = [[only], [missing], [only, missing], []]
    answers: list[Any] = [group.alter((only, {0: 0}))]
    wait_for(lambda: bool(group.offsets().groups[0].topics), "the group knows that its partition has state")
    for _ in range(STEPS):
        member = chance.choice("abcd")
        epoch = group.epochs.get(member, 0)
        step = chance.randrange(12)
        if step < 3:
            answers.append(group.join(member, *chance.choice(subscriptions[:3])))
        elif step < 6:
            answers.append(group.beat(member))
        elif step < 8:
            answers.append(group.beat(member, topics=chance.choice(subscriptions)))
        elif step == 8:
            answers.append(group.beat(member, chance.choice((epoch - 1, epoch + 1, epoch - 2, 0, -1))))
        elif step == 9:
            answers.append(group.beat(member, -1))
            group.epochs.pop(member, None)
        elif step == 10:
            answers += [group.describe(), group.offsets()]
        elif group.describe().groups[0].members:
            refused = (group.delete, partial(group.forget, only), partial(group.alter, (only, {0: epoch})))
            answers.append(chance.choice(refused)())
    return [*answers, group.describe(), group.listed(), written(group.wire, group.group), kept(group)]


@pytest.mark.parametrize("seed", range(4))
def test_walks(wires: dict[str, Wire], seed: int) -> None:
    check(wires, f"random walk {seed} of a share group", lambda wire: walk(ShareGroup(wire), seed))

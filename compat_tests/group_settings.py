"""Settings of groups, over a raw connection, as soon as they hold."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from typing import Final

from compat_tests.waiting import wait_for
from compat_tests.wire import Wire
from ottla.wire.messages import describe_configs, incremental_alter_configs

_GROUP: Final = 32
_SET: Final = 0
_LATER: Final = cycle(range(5001, 15000))
"""A change is only seen where the value is not the one of before."""


def set_group(wire: Wire, group: str, named: Mapping[str, str]) -> None:
    """Sets settings of a group, by name, and waits until they hold.

    Kafka describes a setting a moment before its coordinator goes by it. It hands one change of the metadata after the other to
    all its parts, so a setting counts everywhere once a later change can be seen: that of a group that nobody is in.
    """
    _set_and_see(wire, group, named)
    see_a_later_change(wire, group)


def see_a_later_change(wire: Wire, group: str) -> None:
    """Waits until a setting of the group that can be described counts everywhere."""
    _set_and_see(wire, f"{group}-after", {"streams.heartbeat.interval.ms": str(next(_LATER))})


def _set_and_see(wire: Wire, group: str, named: Mapping[str, str]) -> None:
    changes = [incremental_alter_configs.AlterableConfig(name, _SET, value) for name, value in named.items()]
    resource = incremental_alter_configs.AlterConfigsResource(_GROUP, group, changes)
    answer = wire.call(incremental_alter_configs.IncrementalAlterConfigsRequest([resource]), 1)
    assert answer.responses[0].error_code == 0, answer
    asked = describe_configs.DescribeConfigsRequest([describe_configs.DescribeConfigsResource(_GROUP, group, list(named))])

    def holds() -> bool:
        found = {each.name: each.value for each in wire.call(asked, 4).results[0].configs}
        return found == named

    wait_for(holds, f"{group} has its settings")

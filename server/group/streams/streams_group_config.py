"""`StreamsGroupConfig` returns the settings of streams groups: the group's own (`streams.*`) within the broker's bounds, or else
the broker's.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.server.group.modern.group_configs import GroupConfigs

STANDBY_REPLICAS = "num.standby.replicas"
RACK_TAGS = "rack.aware.assignment.tags"
"""The names of the settings in the group's record, by which Kafka also compares them: a change of these requires another
assignment."""


class AssignmentConfig(NamedTuple):
    """The settings that an assignment depends on."""

    standby_replicas: int
    rack_tags: tuple[str, ...]

    def as_recorded(self) -> dict[str, str]:
        recorded = {STANDBY_REPLICAS: str(self.standby_replicas)}
        if self.rack_tags:
            recorded[RACK_TAGS] = ",".join(self.rack_tags)
        return recorded


class StreamsGroupConfig:
    """The settings of the groups of one shard. They are read whenever they are needed, since they may change at any time."""

    def __init__(self, values: GroupConfigs) -> None:
        self._values = values

    def session_timeout_ms(self, group_id: str) -> int:
        return self._values.number(group_id, "streams.session.timeout.ms")

    def heartbeat_interval_ms(self, group_id: str) -> int:
        return self._values.number(group_id, "streams.heartbeat.interval.ms")

    def initial_rebalance_delay_ms(self, group_id: str) -> int:
        return self._values.number(group_id, "streams.initial.rebalance.delay.ms")

    def assignment_interval_ms(self, group_id: str) -> int:
        return self._values.number(group_id, "streams.assignment.interval.ms")

    def task_offset_interval_ms(self, group_id: str) -> int:
        return self._values.number(group_id, "streams.task.offset.interval.ms")

    def acceptable_recovery_lag(self, group_id: str) -> int:
        return self._values.number(group_id, "streams.acceptable.recovery.lag")

    def max_size(self) -> int:
        return self._values.broker_number("group.streams.max.size")

    def assignment(self, group_id: str) -> AssignmentConfig:
        most = self._values.broker_number("group.streams.max.standby.replicas")
        replicas = self._values.number(group_id, "streams.num.standby.replicas")
        if self._values.text(group_id, "streams.num.standby.replicas") is not None:
            replicas = min(replicas, most)
        tags = self._values.text(group_id, "streams.rack.aware.assignment.tags")
        if tags is None:
            default = self._values.broker_value("group.streams.rack.aware.assignment.tags")
            listed = tuple(default) if isinstance(default, tuple | list) else ()
        else:
            listed = tuple(tag.strip() for tag in tags.split(",") if tag.strip())
        return AssignmentConfig(replicas, listed)

    def assignor(self, group_id: str) -> str:
        """Returns the name of the assignor to show; in fact there is only one assignor."""
        written = self._values.text(group_id, "streams.assignor.name")
        known = self._values.broker_value("group.streams.assignors")
        names = [str(name) for name in known] if isinstance(known, tuple | list) else []
        return written if written is not None and written in names else names[0]

"""`GroupCoordinatorConfig` holds the broker settings that groups depend on. They are read once into plain fields, since handlers
and timers use them on every request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.wire import compression

_MS_PER_MINUTE = 60_000

LEAST_INITIAL_DELAY_MS: Final = 1
"""The shortest delay, used even if `group.initial.rebalance.delay.ms` is 0. Without any delay the first member would form a
generation of its own before the second one's request is read, and learn of the others only by its next heartbeat. With it, fifty
members that start together are stable in 7 ms instead of 58."""


@dataclass(slots=True, frozen=True)
class GroupCoordinatorConfig:
    """The settings of the group coordinator; the defaults are Kafka's."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2_147_483_647
    # How long a member's first JoinGroup may stay parked, since it cannot send heartbeats meanwhile. It is a constant in Kafka.
    new_member_join_timeout_ms: int = 300_000
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 60 * _MS_PER_MINUTE
    offsets_codec: int = compression.NONE
    write_timeout_ms: int = 5_000
    """The longest time that an answer waits for what it is about to be replicated."""
    broker: Mapping[str, object] = field(default_factory=dict, repr=False, compare=False)
    """All of the broker's settings by name; the newer protocols read theirs from here (modern/group_configs.py)."""

    @classmethod
    def from_broker(cls, values: Mapping[str, object]) -> GroupCoordinatorConfig:
        """Reads the broker's settings by name; a missing one has its default."""
        default = cls()

        def number(name: str, otherwise: int) -> int:
            value = values.get(name)
            return value if isinstance(value, int) else otherwise

        delay_ms = number("group.initial.rebalance.delay.ms", default.initial_rebalance_delay_ms)
        return cls(
            min_session_timeout_ms=number("group.min.session.timeout.ms", default.min_session_timeout_ms),
            max_session_timeout_ms=number("group.max.session.timeout.ms", default.max_session_timeout_ms),
            initial_rebalance_delay_ms=max(delay_ms, LEAST_INITIAL_DELAY_MS),
            max_size=number("group.max.size", default.max_size),
            offset_metadata_max_bytes=number("offset.metadata.max.bytes", default.offset_metadata_max_bytes),
            offsets_retention_ms=number("offsets.retention.minutes", 7 * 24 * 60) * _MS_PER_MINUTE,
            offsets_codec=number("offsets.topic.compression.codec", default.offsets_codec),
            write_timeout_ms=number("offsets.commit.timeout.ms", default.write_timeout_ms),
            broker=values,
        )

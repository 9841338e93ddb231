"""`ShareGroupConfig` holds those settings of a share group that matter where its records are: its own, kept within the broker's
bounds, or else the broker's.

`share.auto.offset.reset` says where a group begins in a partition for which no state is stored: `earliest` is the log's start,
`latest` its end, and `by_duration:` with an ISO 8601 duration is that long ago.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.server.settings.group_settings import GROUP_SETTINGS

EARLIEST: Final = "earliest"
LATEST: Final = "latest"

_DURATION: Final = re.compile(
    r"by_duration:P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>[\d.]+)S)?)?",
    re.ASCII | re.IGNORECASE,
)
_MS: Final = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1000}


_BOUNDED: Final = {
    "share.delivery.count.limit": (
        "group.share.delivery.count.limit",
        "group.share.min.delivery.count.limit",
        "group.share.max.delivery.count.limit",
    ),
    "share.partition.max.record.locks": (
        "group.share.partition.max.record.locks",
        "group.share.min.partition.max.record.locks",
        "group.share.max.partition.max.record.locks",
    ),
    "share.record.lock.duration.ms": (
        "group.share.record.lock.duration.ms",
        "group.share.min.record.lock.duration.ms",
        "group.share.max.record.lock.duration.ms",
    ),
}
"""For each setting of a group, the broker's settings of its default, its lowest and its highest value."""


@dataclass(slots=True, frozen=True)
class ShareGroupConfig:
    """The settings of one share group, with the broker's defaults and bounds applied."""

    delivery_count_limit: int
    max_record_locks: int
    record_lock_duration_ms: int
    renew_enabled: bool
    read_committed: bool
    offset_reset: str
    dead_letter_topic: str = ""
    """The topic for dead letters, the records that the group gives up; empty if there is none."""
    copies_dead_letters: bool = False

    @classmethod
    def of_group(cls, own: Mapping[str, str], broker: Mapping[str, Any]) -> ShareGroupConfig:
        """Returns the settings of a group: `own` are the texts that were set for it, `broker` the broker's values."""

        def bounded(name: str) -> int:
            default, low, high = _BOUNDED[name]
            if name not in own:
                return int(broker[default])
            return int(min(max(int(own[name]), broker[low]), broker[high]))

        def plain(name: str) -> Any:
            setting = GROUP_SETTINGS[name]
            return setting.parse(own[name]) if name in own else setting.default

        return cls(
            delivery_count_limit=bounded("share.delivery.count.limit"),
            max_record_locks=bounded("share.partition.max.record.locks"),
            record_lock_duration_ms=bounded("share.record.lock.duration.ms"),
            renew_enabled=plain("share.renew.acknowledge.enable"),
            read_committed=plain("share.isolation.level") == "read_committed",
            offset_reset=plain("share.auto.offset.reset"),
            dead_letter_topic=plain("errors.deadletterqueue.topic.name"),
            copies_dead_letters=plain("errors.deadletterqueue.copy.record.enable"),
        )


def duration_ms(offset_reset: str) -> int:
    """Returns the milliseconds of a `by_duration:` setting."""
    match = _DURATION.fullmatch(offset_reset)
    assert match is not None, offset_reset
    return sum(int(float(text) * _MS[unit]) for unit, text in match.groupdict().items() if text is not None)

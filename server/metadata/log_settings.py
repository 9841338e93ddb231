"""The settings of the metadata log, which is no topic's: the broker's `metadata.log.*` stand in the place of a topic's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.log.config import LogConfig
from ottla.log.config_def import LONG_MAX

_SEGMENT_SETTINGS: Final = {
    "metadata.log.segment.bytes": "segment.bytes",
    "metadata.log.segment.ms": "segment.ms",
    "internal.metadata.log.segment.bytes": "internal.segment.bytes",
}


def metadata_log_config(values: Mapping[str, object]) -> LogConfig:
    """Returns the settings of the metadata log, which keeps everything until a snapshot replaces it."""
    overrides = {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "message.timestamp.after.max.ms": str(LONG_MAX),
    }
    for name, ours in _SEGMENT_SETTINGS.items():
        value = values.get(name)
        if value is not None:
            overrides[ours] = str(value)
    return LogConfig.from_overrides(overrides)

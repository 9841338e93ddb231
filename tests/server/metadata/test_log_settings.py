"""The settings of the metadata log."""

from __future__ import annotations

from ottla.server.metadata.log_settings import metadata_log_config
from ottla.server.settings.broker_config import BrokerConfig


def test_segments_of_the_metadata_log_end_by_settings_of_their_own_and_are_kept_for_snapshots_to_end() -> None:
    settings = {"metadata.log.segment.bytes": "9000000", "metadata.log.segment.ms": "5", "log.retention.ms": "7"}
    made = metadata_log_config(BrokerConfig.from_mapping(settings)[0].values)
    assert (made.segment_bytes, made.segment_ms, made.retention_ms, made.retention_bytes) == (9_000_000, 5, -1, -1)
    assert made.cleanup_policy == {"delete"}

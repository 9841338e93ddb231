"""`FetchSettings`: the settings of Kafka that say how a follower fetches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ottla.server.peers.peer import PeerSettings


class FetchSettings(NamedTuple):
    """The settings of one broker's fetchers, in their units."""

    node_id: int
    fetchers_per_leader: int
    max_bytes: int
    max_partition_bytes: int
    min_bytes: int
    max_wait_ms: int
    request_timeout_ms: int
    backoff_ms: int
    quota_windows: int
    quota_window_s: int
    peer: PeerSettings

    @classmethod
    def from_broker(cls, node_id: int, values: Mapping[str, Any]) -> FetchSettings:
        """Reads the broker's settings, given by name."""
        return cls(
            node_id,
            fetchers_per_leader=values["num.replica.fetchers"],
            max_bytes=values["replica.fetch.response.max.bytes"],
            max_partition_bytes=values["replica.fetch.max.bytes"],
            min_bytes=values["replica.fetch.min.bytes"],
            max_wait_ms=values["replica.fetch.wait.max.ms"],
            request_timeout_ms=values["replica.socket.timeout.ms"],
            backoff_ms=values["replica.fetch.backoff.ms"],
            quota_windows=values["replication.quota.window.num"],
            quota_window_s=values["replication.quota.window.size.seconds"],
            peer=PeerSettings.from_broker(values),
        )

"""Reads the settings of the broker that its sockets depend on."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from ottla.log.config_def import ConfigError
from ottla.server.settings.broker_settings import BROKER_SETTINGS, LISTENER_PREFIX
from ottla.server.settings.rules import limit_of_address

UNLIMITED: Final = 2**31 - 1
KAFKA_BUFFER_BYTES: Final = 102_400
"""Kafka's default size of both socket buffers."""


class SocketSettings(NamedTuple):
    """Holds the values at one moment. A buffer of -1 bytes leaves its size to the kernel, which adapts it to demand; -1 queued
    bytes mean that there is no limit.
    """

    max_request_bytes: int = 104_857_600
    max_idle_ms: int = 600_000
    max_connections: int = 2_147_483_647
    max_connections_per_ip: int = 2_147_483_647
    per_ip_overrides: Mapping[str, int] = MappingProxyType({})
    max_queued_requests: int = 500
    max_queued_bytes: int = -1
    backlog: int = 50
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    failure_delay_ms: int = 100
    """The time from a failed authentication to the closing of the connection."""

    @classmethod
    def from_broker(cls, values: Mapping[str, Any]) -> SocketSettings:
        """Reads the broker's settings, given by name; a missing one has its default.

        An explicit buffer size keeps the kernel from adapting the buffer to demand, so Kafka's default of 100 KiB, which nobody
        chose, counts as none.
        """
        default = cls()

        def number(name: str, otherwise: int) -> int:
            value = values.get(name)
            return value if isinstance(value, int) else otherwise

        def buffer(name: str) -> int:
            size = number(name, -1)
            return -1 if size == KAFKA_BUFFER_BYTES else size

        return cls(
            max_request_bytes=number("socket.request.max.bytes", default.max_request_bytes),
            max_idle_ms=number("connections.max.idle.ms", default.max_idle_ms),
            max_connections=number("max.connections", default.max_connections),
            max_connections_per_ip=number("max.connections.per.ip", default.max_connections_per_ip),
            per_ip_overrides=_overrides(values.get("max.connections.per.ip.overrides")),
            max_queued_requests=number("queued.max.requests", default.max_queued_requests),
            max_queued_bytes=number("queued.max.request.bytes", default.max_queued_bytes),
            backlog=number("socket.listen.backlog.size", default.backlog),
            send_buffer_bytes=buffer("socket.send.buffer.bytes"),
            receive_buffer_bytes=buffer("socket.receive.buffer.bytes"),
            failure_delay_ms=number("connection.failed.authentication.delay.ms", default.failure_delay_ms),
        )

    def max_from(self, host: str) -> int:
        """Returns how many connections a client address may have."""
        return self.per_ip_overrides.get(host, self.max_connections_per_ip)


def max_own_connections(listener: str, texts: Mapping[str, str]) -> int:
    """Returns the most connections that one listener may have, by `listener.name.<name>.max.connections` among the texts of the
    broker's settings. A text that does not parse is ignored, as the broker's own are."""
    setting = BROKER_SETTINGS["max.connections"]
    text = texts.get(f"{LISTENER_PREFIX}{listener.lower()}.{setting.name}")
    try:
        value = setting.default if text is None else setting.parse(text)
    except ConfigError:
        value = setting.default
    return value if isinstance(value, int) else UNLIMITED


def _overrides(text: str | None) -> dict[str, int]:
    """Reads `max.connections.per.ip.overrides`, which is "address:count,address:count".

    A malformed part is ignored: a broker with other rules let it be set at run time.
    """
    return dict(limit for limit in map(limit_of_address, (text or "").split(",")) if limit is not None)

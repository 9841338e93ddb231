"""The broker settings that sockets depend on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.server.settings.rules import limit_of_address

KAFKA_BUFFER_BYTES: Final = 102_400
"""Kafka's default of both buffers' sizes."""


@dataclass(slots=True, frozen=True)
class SocketSettings:
    """The values of one moment. A buffer of -1 bytes leaves its size to the kernel, which goes by demand; -1 queued bytes are no
    bound."""

    max_request_bytes: int = 104_857_600
    max_idle_ms: int = 600_000
    max_connections: int = 2_147_483_647
    max_connections_per_ip: int = 2_147_483_647
    per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    max_queued_requests: int = 500
    max_queued_bytes: int = -1
    backlog: int = 50
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1

    @classmethod
    def from_broker(cls, values: Mapping[str, Any]) -> SocketSettings:
        """Returns what the broker's settings by name say; a missing one has its default.

        A size that is set keeps the kernel from sizing by demand, so Kafka's default of 100 KiB, which nobody chose, sets none.
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
        )

    def max_from(self, host: str) -> int:
        """Returns how many connections there may be from this address."""
        return self.per_ip_overrides.get(host, self.max_connections_per_ip)


def _overrides(text: str | None) -> dict[str, int]:
    """Reads `max.connections.per.ip.overrides`, which is "address:count,address:count".

    A part that is malformed counts as not there: somebody with other rules wrote it while their broker ran.
    """
    return dict(limit for limit in map(limit_of_address, (text or "").split(",")) if limit is not None)

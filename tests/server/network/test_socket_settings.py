"""The broker's settings as sockets need them."""

from __future__ import annotations

from ottla.server.network.socket_settings import KAFKA_BUFFER_BYTES, SocketSettings


def test_settings_from_the_broker() -> None:
    settings = SocketSettings.from_broker(
        {
            "socket.request.max.bytes": 1000,
            "max.connections.per.ip.overrides": "127.0.0.1:3, ::1 : +4,nobody,-:x,a:-1,b:2000000000",
            "socket.send.buffer.bytes": KAFKA_BUFFER_BYTES,
            "socket.receive.buffer.bytes": 5000,
        }
    )
    assert settings.max_request_bytes == 1000
    assert settings.max_idle_ms == 600_000
    assert (settings.max_from("127.0.0.1"), settings.max_from("::1"), settings.max_from("1.1.1.1")) == (3, 4, 2**31 - 1)
    assert settings.max_from("b") == 2_000_000_000
    assert (settings.send_buffer_bytes, settings.receive_buffer_bytes) == (-1, 5000)

"""Metrics on and off: where they are served, and what is said where they cannot be."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import Awaitable, Callable

import pytest

from ottla.log.config_def import ConfigError
from ottla.server.broker.broker import Broker
from tests.fakes import NOW_MS
from tests.memdisk import MemDisk
from tests.server.broker.whole_broker import config
from tests.server.metrics.served import get, metrics_config, parsed


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(scenario(), 30)

    asyncio.run(bounded())


def test_off_unless_a_port_is_set() -> None:
    async def scenario() -> None:
        broker = Broker(config(), disk=MemDisk(lambda: NOW_MS))
        await broker.start()
        assert broker.metrics_url is None
        await broker.stop()

    run(scenario)


def test_on_loopback_at_a_free_port_until_the_stop() -> None:
    async def scenario() -> None:
        broker = metrics_config()
        await broker.start()
        url = broker.metrics_url
        assert url is not None
        assert url.startswith("http://127.0.0.1:")
        assert "ottla_info" in parsed((await get(url, "/metrics")).body)
        reader, idle = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        idle.write(b"GET")
        await get(url, "/healthz")  # by when the idle one is served, too
        assert broker.sources is not None
        assert broker.sources.serving
        await broker.stop()
        assert not broker.sources.serving
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""  # its end, and not that of its patience
        with pytest.raises(ConnectionRefusedError):
            await get(url, "/metrics")
        idle.close()
        with contextlib.suppress(ConnectionResetError):  # or the broker's end came first
            await idle.wait_closed()

    run(scenario)


@pytest.mark.parametrize(("host", "shown"), [("::1", "[::1]"), ("", "localhost"), ("0.0.0.0", "0.0.0.0")])
def test_another_host(host: str, shown: str) -> None:
    async def scenario() -> None:
        broker = metrics_config(ottla_metrics_host=host)
        await broker.start()
        assert broker.metrics_url is not None
        assert broker.metrics_url.startswith(f"http://{shown}:")
        assert (await get(broker.metrics_url, "/healthz")).status == 200
        await broker.stop()

    run(scenario)


def test_an_address_in_use_keeps_the_broker_from_starting_and_names_the_setting() -> None:
    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            broker = Broker(config(ottla_metrics_port=str(port)), disk=MemDisk(lambda: NOW_MS))
            with pytest.raises(ConfigError, match=rf"^ottla.metrics.port: 127.0.0.1:{port}: Address already in use; choose"):
                await broker.start()
        assert not broker.listeners[0].accepting

    run(scenario)


@pytest.mark.parametrize(
    ("module", "package", "importer"),
    [
        ("prometheus_client", "prometheus-client", "ottla.server.metrics.exposition"),
        ("h11", "h11", "ottla.server.http.responder"),
    ],
)
def test_a_missing_package_is_named_with_the_remedy(
    module: str, package: str, importer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, importer, raising=False)
    monkeypatch.setitem(sys.modules, module, None)

    async def scenario() -> None:
        with pytest.raises(ConfigError, match=rf"^ottla.metrics.port: .*{module}.*: pip install {package}$"):
            await metrics_config().start()

    run(scenario)

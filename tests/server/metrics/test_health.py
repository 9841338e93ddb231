"""Tests of what keeps a broker from being ready, each with its reason."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable

import pytest

from ottla.server.broker.broker import Broker
from ottla.server.metrics.health import reasons_not_ready
from ottla.server.metrics.sources import Sources
from tests.server.metrics.served import get, metrics_config


def check(scenario: Callable[[Broker, Sources], None]) -> None:
    async def started() -> None:
        broker = metrics_config()
        await broker.start()
        try:
            assert broker.sources is not None
            assert reasons_not_ready(broker.sources) == []
            scenario(broker, broker.sources)
        finally:
            await broker.stop()

    asyncio.run(asyncio.wait_for(started(), 30))


def test_a_failed_log_directory() -> None:
    def scenario(broker: Broker, sources: Sources) -> None:
        (directory,) = sources.logs.directories
        directory.on_failure = None
        directory.fail("appending", OSError(errno.EIO, "Input/output error"))
        (reason,) = reasons_not_ready(sources)
        assert reason.startswith("/data is offline: appending: ")
        directory.failed = None  # for a clean stop

    check(scenario)


def test_a_closed_listener() -> None:
    def scenario(broker: Broker, sources: Sources) -> None:
        broker.listeners[0].stop_accepting()
        assert reasons_not_ready(sources) == ["listener PLAINTEXT does not accept connections"]

    check(scenario)


def test_a_broker_that_is_starting_stopping_unknown_or_fenced() -> None:
    def scenario(broker: Broker, sources: Sources) -> None:
        sources.serving = False
        brokers = sources.context.metadata.brokers
        known = brokers[1]
        brokers[1] = known._replace(fenced=True)
        assert reasons_not_ready(sources) == ["the broker is starting or stopping", "this broker is fenced"]
        del brokers[1]
        sources.serving = True
        assert reasons_not_ready(sources) == ["this broker is not registered in the metadata"]
        brokers[1] = known

    check(scenario)


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_over_http(path: str) -> None:
    async def scenario() -> None:
        broker = metrics_config()
        await broker.start()
        assert (await get(broker.metrics_url, path)).status == 200
        assert broker.sources is not None
        broker.sources.serving = False
        answer = await get(broker.metrics_url, path)
        assert (answer.status, answer.body) == (
            (503, b"the broker is starting or stopping\n") if path == "/readyz" else (200, b"alive\n")
        )
        await broker.stop()

    asyncio.run(asyncio.wait_for(scenario(), 30))

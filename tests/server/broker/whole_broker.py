"""The common part of the tests of a whole broker: its configuration, its disk in memory, and a loop to run it in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ottla.server.settings.broker_config import BrokerConfig
from tests.fakes import NOW_MS
from tests.memdisk import MemDisk


def config(**settings: str) -> BrokerConfig:
    """Returns the configuration of a broker on a free port, with these settings in place of its own, named with underscores."""
    texts = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@localhost:9093",
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": "/data",
    }
    made, unknown = BrokerConfig.from_mapping(texts | {name.replace("_", "."): value for name, value in settings.items()})
    assert not unknown
    return made


def disk() -> MemDisk:
    """Returns an empty disk in memory."""
    return MemDisk(lambda: NOW_MS)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    """Runs a scenario in an event loop of its own, for at most 30 seconds."""

    async def bounded() -> None:
        await asyncio.wait_for(scenario(), 30)

    asyncio.run(bounded())

"""The first half of a start: whose directories these are, and what is made of them."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from ottla.log.config import LogConfig
from ottla.log.errors import InconsistentMetadata
from ottla.log.management.manager import LogManager
from ottla.server.base.network import OsNetwork
from ottla.server.base.randomness import from_seed, random_uuid
from ottla.server.broker.start import (
    format_directories,
    make_context,
    open_cluster,
    open_partitions,
    share_client_memory,
    start_replicas,
)
from ottla.server.partitions.fetch_sessions import UNLIMITED
from ottla.server.settings.broker_config import BrokerConfig
from ottla.wire.primitives import uuid_to_text
from tests.fakes import CALLER, NOW_MS, ManualClock
from tests.memdisk import MemDisk

WANTED = "b3R0bGFDb21wYXRUZXN0cw"
OTHER = "AAAAAAAAAAAAAAAAAAAAAQ"


def config(log_dirs: str = "/data", listeners: str = "PLAINTEXT://127.0.0.1:0") -> BrokerConfig:
    return BrokerConfig.from_mapping({"node.id": "1", "log.dirs": log_dirs, "listeners": listeners})[0]


def manager(disk: MemDisk, used: BrokerConfig) -> LogManager:
    logs = LogManager(disk, used.log_dirs, lambda: NOW_MS, LogConfig.from_overrides({}, used.values), random=Random())
    logs.lock()
    return logs


def formatted(disk: MemDisk, log_dirs: str, cluster_id: str | None) -> str:
    logs = manager(disk, config(log_dirs))
    try:
        return format_directories(logs, config(log_dirs), cluster_id, from_seed(7), OsNetwork())
    finally:
        logs.close()


def test_empty_directories_get_the_cluster_asked_for_or_one_that_is_drawn() -> None:
    assert formatted(MemDisk(), "/data", WANTED) == WANTED
    assert formatted(MemDisk(), "/data", None) == uuid_to_text(random_uuid(from_seed(7)))


def test_formatted_directories_keep_their_cluster_and_give_it_to_those_beside_them() -> None:
    disk = MemDisk()
    assert formatted(disk, "/one", WANTED) == WANTED
    assert formatted(disk, "/one,/two", None) == WANTED
    assert formatted(disk, "/two", None) == WANTED


def test_directories_of_another_cluster_or_of_two_are_refused() -> None:
    disk = MemDisk()
    formatted(disk, "/one", WANTED)
    formatted(disk, "/two", OTHER)
    with pytest.raises(InconsistentMetadata, match=f"/one belongs to cluster {WANTED}, not to {OTHER}"):
        formatted(disk, "/one", OTHER)
    with pytest.raises(InconsistentMetadata, match="different clusters"):
        formatted(disk, "/one,/two", None)


@pytest.mark.parametrize("log_dirs", ["/data", "/one,/two"])
def test_the_parts_of_a_broker_that_leads_what_it_holds(log_dirs: str) -> None:
    async def scenario() -> None:
        used, disk, clock = config(log_dirs), MemDisk(), ManualClock()
        logs = manager(disk, used)
        cluster_id = format_directories(logs, used, None, from_seed(1), OsNetwork())
        await open_partitions(logs)
        cluster = await open_cluster(logs, disk, used, cluster_id, clock, from_seed(1), OsNetwork())
        context = make_context(used, cluster, logs, clock, from_seed(1))
        await cluster.register([])
        start_replicas(context, cluster, logs)
        assert context.metadata is cluster.image
        assert context.controller is cluster.controller
        assert (context.log_dirs is None) == (log_dirs == "/data")
        context.controller.create_in_background(["t"], CALLER)
        clock.advance()
        replica = context.replicas.get("t", 0)
        assert replica is not None
        assert replica.is_leader
        if context.log_dirs is not None:
            await context.log_dirs.stop()
        logs.close()

    asyncio.run(scenario())


def test_fetch_sessions_get_a_quarter_of_the_memory_for_clients() -> None:
    assert share_client_memory({"ottla.client.memory.bytes": -1}) == (UNLIMITED, UNLIMITED)
    assert share_client_memory({"ottla.client.memory.bytes": 101}) == (25, 76)

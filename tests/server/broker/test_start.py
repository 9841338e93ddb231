"""The first half of a start: whose directories these are, and what is made of them."""

from __future__ import annotations

import asyncio
from random import Random
from unittest.mock import patch

import pytest

from ottla.log.config import LogConfig
from ottla.log.errors import InconsistentMetadata
from ottla.log.management.manager import LogManager
from ottla.server.base.network import OsNetwork
from ottla.server.base.randomness import from_seed, random_uuid
from ottla.server.broker.broker import Broker
from ottla.server.broker.start import (
    check_membership,
    format_directories,
    make_context,
    open_cluster,
    open_partitions,
    share_client_memory,
    start_replicas,
)
from ottla.server.metadata.cluster import CannotJoin
from ottla.server.partitions.fetch_sessions import UNLIMITED
from ottla.server.quorum import first_contact
from ottla.server.requests.context import BrokerContext
from ottla.server.settings.broker_config import BrokerConfig
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.primitives import uuid_to_text
from tests.fakes import CALLER, NOW_MS, ManualClock
from tests.log.support import batch
from tests.memdisk import MemDisk
from tests.server.broker import whole_broker

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


def membership(disk: MemDisk, cluster_id: str | None, log_dirs: str = "/data,/more") -> list[str]:
    """Checks the membership of node 1 whose controllers are others; returns the cluster ids for which they were asked."""
    texts = {"process.roles": "broker", "controller.quorum.bootstrap.servers": "a:1", "node.id": "1", "log.dirs": log_dirs}
    used = BrokerConfig.from_mapping(texts | {"listeners": "PLAINTEXT://127.0.0.1:0"})[0]
    asked: list[str] = []

    async def ask(config: BrokerConfig, wanted: str, *others: object) -> None:
        asked.append(wanted)

    with patch.object(first_contact, "ask_for_cluster", ask):
        asyncio.run(check_membership(disk, used, cluster_id, ManualClock(), from_seed(7), OsNetwork()))
    return asked


def test_a_broker_of_others_controllers_draws_no_cluster_of_its_own() -> None:
    disk = MemDisk()
    with pytest.raises(CannotJoin, match=r"log.dirs: /data, /more is not formatted, .*ottla format --cluster-id.*--cluster-id"):
        membership(disk, None)
    assert membership(disk, WANTED) == [WANTED]
    assert disk.changes == 0, "nothing is written"


def test_the_controllers_are_asked_only_if_something_is_to_be_formatted() -> None:
    disk = MemDisk()
    formatted(disk, "/data", WANTED)
    assert membership(disk, None, "/data") == membership(disk, WANTED, "/data") == []
    assert membership(disk, None) == [WANTED], "a disk was added"
    with pytest.raises(InconsistentMetadata, match=f"/data, /more belongs to cluster {WANTED}, not to {OTHER}"):
        membership(disk, OTHER)
    meta = disk.read_bytes("/data/meta.properties").replace(b"node.id=1", b"node.id=2")
    disk.write_bytes("/data/meta.properties", meta)
    with pytest.raises(InconsistentMetadata, match="/data belongs to node 2 of cluster"):
        membership(disk, WANTED)
    assert not disk.exists("/more")


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


def test_the_shares_of_the_memory_for_clients_are_no_more_than_all_of_it() -> None:
    assert share_client_memory({"ottla.client.memory.bytes": -1}) == (UNLIMITED,) * 3
    assert share_client_memory({"ottla.client.memory.bytes": 101}) == (50, 25, 25)


def test_a_start_knows_what_was_promised_before_it_knows_the_metadata() -> None:
    """A flipped bit after kill -9: where records are flushed before they are acknowledged, that is no torn tail."""

    async def started(disk: MemDisk) -> tuple[Broker, BrokerContext]:
        broker = Broker(whole_broker.config(), disk=disk)
        await broker.start()
        assert broker.context is not None
        return broker, broker.context

    async def scenario() -> None:
        disk = whole_broker.disk()
        broker, context = await started(disk)
        flushed = CreatableTopic("flushed", 1, 1, configs=[CreatableTopicConfig("flush.messages", "1")])
        await context.controller.create_topics(CreateTopicsRequest([flushed, CreatableTopic("plain", 1, 1)]), None)
        for topic in ("flushed", "plain"):
            replica = context.replicas.get(topic, 0)
            assert replica is not None
            for _ in range(3):
                replica.append(batch())
        await broker._close(clean=False)
        for topic in ("flushed", "plain"):
            path = f"/data/{topic}-0/{0:020d}.log"
            data = bytearray(disk.read_bytes(path))
            data[len(batch()) + 70] ^= 1
            disk.write_bytes(path, bytes(data))
        broker, context = await started(disk)
        assert context.replicas.get("flushed", 0) is None
        assert context.replicas.why_missing("flushed", 0) == ErrorCode.KAFKA_STORAGE_ERROR
        plain = context.replicas.get("plain", 0)
        assert plain is not None
        assert plain.log.log_end_offset == 1
        assert [name for name in disk.list("/data/plain-0") if ".damaged" in name] == [f"{0:020d}.log.{len(batch())}.damaged"]
        await broker.stop()

    whole_broker.run(scenario)

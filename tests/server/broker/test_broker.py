"""The whole broker on a disk in memory and real sockets: identity, restarts, failures, and that nothing is left open."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable
from typing import Any
from unittest.mock import patch

import pytest

from ottla.log.errors import InconsistentMetadata, LogDirLocked
from ottla.server.base.randomness import from_seed
from ottla.server.broker.broker import Broker
from ottla.server.partitions.fetch_sessions import PARTITION_BYTES
from ottla.server.requests.session import Session
from ottla.server.share.sessions import SessionKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import create_topics, find_coordinator, incremental_alter_configs, join_group, metadata
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.metadata_records import MetadataError
from tests.asking import ask
from tests.fakes import MACHINE, ManualClock, NotingNetwork
from tests.memdisk import MemDisk
from tests.server.broker.whole_broker import config, disk, run

OTHER_CLUSTER = "AAAAAAAAAAAAAAAAAAAAAQ"


def listeners_at(taken: socket.socket) -> str:
    """Returns the setting `listeners` of a broker that wants the port of this socket."""
    return f"PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}"


def test_it_serves_on_the_port_that_was_free_and_says_so() -> None:
    async def scenario() -> None:
        broker = Broker(config(), disk=disk())
        await broker.start()
        assert broker.port > 0
        assert broker.bootstrap == f"127.0.0.1:{broker.port}"
        answer = await ask(broker.port, metadata, 5, metadata.MetadataRequest(topics=None))
        assert [(each.node_id, each.host, each.port) for each in answer.brokers] == [(1, "127.0.0.1", broker.port)]
        assert answer.cluster_id == broker.cluster_id != ""
        await broker.stop()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", broker.port)

    run(scenario)


def test_the_network_is_the_one_that_it_was_given() -> None:
    async def scenario() -> None:
        network = NotingNetwork()
        settings = config(listeners="PLAINTEXT://:0", ottla_metrics_port="0")
        broker = Broker(settings, disk=disk(), network=network)
        await broker.start()
        assert broker.bootstrap == f"{MACHINE}:{broker.port}"
        await broker.stop()
        trial, listener, metrics = [("bind", "")], [("bind", ""), ("serve", 50)], [("bind", "127.0.0.1"), ("serve", 100)]
        assert network.asked == [*trial, *listener, ("own_host", None), *metrics]

    run(scenario)


def test_one_seed_gives_the_same_ids_in_every_run() -> None:
    async def ids(seed: int) -> list[Any]:
        clock = ManualClock()
        settings = config(offsets_topic_num_partitions="1", log_roll_jitter_ms="1000000000")
        broker = Broker(settings, disk=disk(), clock=clock, random=from_seed(seed))
        await broker.start()
        made = await ask(broker.port, create_topics, 7, CreateTopicsRequest([CreatableTopic(name, 2, 1) for name in "ab"], 1000))
        assert broker.context is not None
        broker_image = broker.context.metadata.brokers[1]
        await ask(broker.port, find_coordinator, 2, find_coordinator.FindCoordinatorRequest("g"))
        clock.advance()  # the topic for offsets is made
        join = join_group.JoinGroupRequest("g", 10_000, 10_000, "", None, "consumer")
        join.protocols = [join_group.JoinGroupRequestProtocol("range", b"")]
        member_id = (await ask(broker.port, join_group, 4, join)).member_id
        log = broker.context.replicas.logs.logs["a", 1]
        drawn = [broker.cluster_id, broker_image.incarnation_id, *broker_image.log_dirs, *(each.topic_id for each in made.topics)]
        drawn += [member_id, log.segments.active.jitter_ms]
        await broker.stop()
        return drawn

    async def scenario() -> None:
        first = await ids(7)
        assert len(set(map(str, first))) == 7
        assert await ids(7) == first
        assert not set(map(str, await ids(8))) & set(map(str, first))

    run(scenario)


@pytest.mark.parametrize("crash", [False, True])
def test_topics_and_cluster_id_survive_a_stop_and_a_crash(crash: bool) -> None:
    async def scenario() -> None:
        storage = disk()
        first = Broker(config(), disk=storage)
        await first.start()
        request = CreateTopicsRequest([CreatableTopic("kept", 3, 1)], 1000)
        assert (await ask(first.port, create_topics, 4, request)).topics[0].error_code == 0
        if crash:
            storage.crash()
        else:
            await first.stop()
        second = Broker(config(), disk=storage)
        await second.start()
        answer = await ask(second.port, metadata, 5, metadata.MetadataRequest(topics=None))
        assert [(topic.name, len(topic.partitions)) for topic in answer.topics] == [("kept", 3)]
        assert second.cluster_id == first.cluster_id
        await second.stop()
        if crash:
            for listener in first.listeners:
                await listener.close(0)

    run(scenario)


def test_a_directory_of_another_cluster_is_refused_and_left_as_it_is() -> None:
    async def scenario() -> None:
        storage = disk()
        first = Broker(config(), disk=storage)
        await first.start()
        await first.stop()
        stranger = Broker(config(), disk=storage, cluster_id=OTHER_CLUSTER)
        with pytest.raises(InconsistentMetadata, match=OTHER_CLUSTER):
            await stranger.start()
        again = Broker(config(), disk=storage)  # the lock was given back
        await again.start()
        assert again.cluster_id == first.cluster_id
        await again.stop()

    run(scenario)


def test_the_cluster_id_asked_for_formats_an_empty_directory() -> None:
    async def scenario() -> None:
        broker = Broker(config(), disk=disk(), cluster_id=OTHER_CLUSTER)
        await broker.start()
        assert broker.cluster_id == OTHER_CLUSTER
        await broker.stop()

    run(scenario)


def test_two_brokers_on_one_directory() -> None:
    async def scenario() -> None:
        storage = disk()
        first = Broker(config(), disk=storage)
        await first.start()
        with pytest.raises(LogDirLocked):
            await Broker(config(), disk=storage).start()
        await first.stop()

    run(scenario)


def test_a_start_whose_port_is_taken_formats_nothing() -> None:
    async def scenario() -> None:
        storage = disk()
        with socket.create_server(("127.0.0.1", 0)) as taken:
            with pytest.raises(OSError, match="in use"):
                await Broker(config(listeners=listeners_at(taken)), disk=storage).start()
        assert storage.list("/data") == [".lock"]

    run(scenario)


def test_nobody_is_let_in_before_the_broker_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = Broker._begin_passes

    def last_step(self: Broker, *parts: Any) -> None:
        begin(self, *parts)
        for listener in self.listeners:
            assert not listener.accepting
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", listener.port))

    monkeypatch.setattr(Broker, "_begin_passes", last_step)

    async def scenario() -> None:
        places = "PLAINTEXT://127.0.0.1:0,SECOND://127.0.0.1:0"
        protocols = "PLAINTEXT:PLAINTEXT,SECOND:PLAINTEXT,CONTROLLER:PLAINTEXT"
        broker = Broker(config(listeners=places, listener_security_protocol_map=protocols), disk=disk())
        await broker.start()
        for listener in broker.listeners:
            assert listener.accepting
            assert (await ask(listener.port, metadata, 5, metadata.MetadataRequest(topics=None))).brokers
        await broker.stop()

    run(scenario)


def test_an_address_in_use_leaves_nothing_open() -> None:
    async def scenario() -> None:
        storage = disk()
        with socket.create_server(("127.0.0.1", 0)) as taken:
            with pytest.raises(OSError) as refused:
                await Broker(config(listeners=listeners_at(taken)), disk=storage).start()
            assert refused.value.errno == errno.EADDRINUSE
        broker = Broker(config(), disk=storage)
        await broker.start()
        await broker.stop()

    run(scenario)


@pytest.mark.parametrize("clean", [True, False])
def test_others_are_asked_to_lead_while_clients_are_still_served(clean: bool) -> None:
    async def scenario() -> None:
        broker = Broker(config(), disk=disk())
        await broker.start()
        assert broker.cluster is not None
        seen: list[tuple[str, bool]] = []

        def note(step: str) -> Callable[[], Awaitable[None]]:
            async def noting() -> None:
                (listener,) = broker.listeners
                seen.append((step, listener.accepting))
                if listener.accepting:
                    assert (await ask(broker.port, metadata, 5, metadata.MetadataRequest(topics=None))).brokers

            return noting

        with patch.multiple(broker.cluster, begin_leaving=note("begins"), leave=note("leaves")):
            await broker._close(clean=clean)
        assert seen == ([("begins", True), ("leaves", False)] if clean else [])

    run(scenario)


def test_after_a_stop_nothing_is_due_any_more() -> None:
    async def scenario() -> None:
        clock = ManualClock()
        broker = Broker(config(offsets_topic_num_partitions="1"), disk=disk(), clock=clock)
        await broker.start()
        assert broker.context is not None
        request = find_coordinator.FindCoordinatorRequest("g")
        await ask(broker.port, find_coordinator, 2, request)
        clock.advance()  # the topic for offsets is made
        assert (await ask(broker.port, find_coordinator, 2, request)).error_code == 0
        join = join_group.JoinGroupRequest("g", 10_000, 10_000, "", None, "consumer")
        join.protocols = [join_group.JoinGroupRequestProtocol("range", b"")]
        passes = clock.waiting
        assert (await ask(broker.port, join_group, 4, join)).error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert clock.waiting > passes  # the new id is kept for a while
        await broker.stop()
        assert clock.waiting == 0

    run(scenario)


def test_a_stop_that_is_given_up_leaves_nothing_open_either() -> None:
    async def scenario() -> None:
        storage = disk()
        broker = Broker(config(ottla_metrics_port="0"), disk=storage)
        await broker.start()
        assert broker.metrics_url is not None
        metrics_port = int(broker.metrics_url.rpartition(":")[2])
        in_work = asyncio.ensure_future(asyncio.Event().wait())
        broker.listeners[0].keep(in_work)  # the stop waits for it
        stopping = asyncio.ensure_future(broker.stop())
        asyncio.get_running_loop().call_soon(stopping.cancel)
        with pytest.raises(asyncio.CancelledError):
            await stopping
        for port in (broker.port, metrics_port):
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", port)
        in_work.cancel()
        again = Broker(config(), disk=storage)  # the lock was given back
        await again.start()
        await again.stop()

    run(scenario)


METADATA_LOG = "/data/__cluster_metadata-0/00000000000000000000.log"


async def run_with_topics(storage: MemDisk, *, crash: bool) -> None:
    broker = Broker(config(), disk=storage)
    await broker.start()
    for name in ("first", "second"):
        request = CreateTopicsRequest([CreatableTopic(name, 1, 1)], 1000)
        assert (await ask(broker.port, create_topics, 4, request)).topics[0].error_code == 0
    if not crash:
        await broker.stop()
        return
    storage.crash()
    for listener in broker.listeners:
        await listener.close(0)


def test_damage_inside_the_metadata_log_is_refused_and_nothing_is_cut() -> None:
    async def scenario() -> None:
        storage = disk()
        await run_with_topics(storage, crash=True)
        good = storage.read_bytes(METADATA_LOG)
        bad = bytearray(good)
        bad[70] ^= 1
        storage.write_bytes(METADATA_LOG, bytes(bad))
        with pytest.raises(MetadataError, match="is damaged at position 0"):
            await Broker(config(), disk=storage).start()
        assert storage.read_bytes(METADATA_LOG) == bytes(bad)
        storage.write_bytes(METADATA_LOG, good + b"\0" * 30)  # a torn last append is no damage
        broker = Broker(config(), disk=storage)
        await broker.start()
        assert broker.context is not None
        assert set(broker.context.metadata.topics) == {"first", "second"}
        await broker.stop()

    run(scenario)


def test_partitions_without_metadata_are_refused() -> None:
    async def scenario() -> None:
        storage = disk()
        await run_with_topics(storage, crash=False)
        storage.write_bytes(METADATA_LOG, b"")
        with pytest.raises(MetadataError, match="there are 2 partitions beside it"):
            await Broker(config(), disk=storage).start()

    run(scenario)


def test_settings_of_the_broker_that_change_count_at_once_and_after_a_restart() -> None:
    async def scenario() -> None:
        memory = disk()
        broker = Broker(config(), disk=memory)
        await broker.start()
        changes = [
            incremental_alter_configs.AlterableConfig("max.connections.per.ip", 0, "1"),
            incremental_alter_configs.AlterableConfig("producer.id.expiration.ms", 0, "77"),
        ]
        resource = incremental_alter_configs.AlterConfigsResource(4, "1", changes)
        request = incremental_alter_configs.IncrementalAlterConfigsRequest([resource])
        assert (await ask(broker.port, incremental_alter_configs, 0, request)).responses[0].error_code == 0
        for _ in range(2):
            assert broker.listeners[0].settings.max_connections_per_ip == 1
            assert broker.context is not None
            assert {log.producer_expiration_ms for log in broker.context.replicas.logs.logs.values()} == {77}
            await broker.stop()
            broker = Broker(config(), disk=memory)
            await broker.start()
        await broker.stop()

    run(scenario)


def test_the_settings_of_memory_reach_connections_sessions_and_partitions() -> None:
    async def scenario() -> tuple[int, ...]:
        limits = {"ottla_client_memory_bytes": "8000000", "socket_request_max_bytes": "2000000"}
        broker = Broker(config(**limits, ottla_producer_ids_per_partition="77"), disk=disk())
        await broker.start()
        assert broker.context is not None
        memory = broker.listeners[0].context.memory
        log = broker.context.replicas.logs.logs[("__cluster_metadata", 0)]
        assert log.producers.total is not None
        producers = log.producers.limit, log.producers.total.limit
        result = memory.limit, memory.reserve, broker.context.fetch_sessions.max_bytes, *producers
        await broker.stop()
        return result

    assert asyncio.run(scenario()) == (4_000_000, 2_000_000, 2_000_000, 77, 2_000_000 // 512)


def test_what_share_sessions_hold_is_taken_from_fetch_sessions() -> None:
    async def scenario() -> tuple[int, int, int]:
        broker = Broker(config(ottla_client_memory_bytes="8000000"), disk=disk())
        await broker.start()
        assert broker.context is not None
        fetch_sessions, sessions = broker.context.fetch_sessions, broker.context.share_partitions().sessions
        before = fetch_sessions._max_partitions
        named = {(b"t" * 16, index): "t" for index in range(1000)}
        sessions.open(SessionKey("g", "m"), named, Session("PLAINTEXT", "127.0.0.1"), 9)
        result = sessions.max_bytes, sessions.held_bytes, (before - fetch_sessions._max_partitions) * PARTITION_BYTES
        await broker.stop()
        return result

    assert asyncio.run(scenario()) == (1_000_000, 300_000, 300_000)

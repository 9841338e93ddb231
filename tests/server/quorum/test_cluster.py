"""QuorumCluster as a whole: a broker joins a controller over real connections, and leaves it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.log.config import LogConfig
from ottla.log.management.manager import LogManager
from ottla.server.base.clock import LoopClock
from ottla.server.base.network import OsNetwork
from ottla.server.base.randomness import from_seed
from ottla.server.metadata.cluster import CannotJoin
from ottla.server.metadata.image import Endpoint
from ottla.server.metadata.staging import FEW_RECORDS
from ottla.server.quorum.cluster import QuorumCluster, _longest_pause_ms, open_quorum, quorum_addresses
from ottla.server.quorum.finder import Address
from ottla.server.settings.broker_config import BrokerConfig
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest
from ottla.wire.messages.internal.partition_record import PartitionRecord
from ottla.wire.metadata_records import MetadataError, build_encoded
from tests.memdisk import MemDisk
from tests.server.metadata.support import CLUSTER_ID, NOW_MS
from tests.server.quorum.controller_node import ControllerNode
from tests.server.quorum.leaders_log import LEADER_ID, PATH, topic

NODE_ID = 7
ENDPOINT = Endpoint("PLAINTEXT", "broker.test", 9092, 0)


class Rig:
    """A controller and a broker's half that joins it. `open` again is another start."""

    def __init__(self, controller: ControllerNode, **settings: str) -> None:
        self.controller = controller
        self.disk = MemDisk(lambda: NOW_MS)
        self.settings = settings
        self.failures: list[str] = []
        self.cluster: QuorumCluster
        self.logs: LogManager

    def open(self, cluster_id: str = CLUSTER_ID, node_id: int = NODE_ID) -> QuorumCluster:
        texts = {
            "process.roles": "broker",
            "node.id": str(node_id),
            "log.dirs": "/data,/more",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self.controller.port}",
            "broker.heartbeat.interval.ms": "50",
            "broker.session.timeout.ms": "5000",
        }
        config, unknown = BrokerConfig.from_mapping(
            texts | {name.replace("_", "."): text for name, text in self.settings.items()}
        )
        assert not unknown
        values = LogConfig.from_overrides({}, config.values)
        self.logs = LogManager(self.disk, config.log_dirs, lambda: NOW_MS, values, random=from_seed(2))
        self.logs.lock()
        self.logs.format(cluster_id, node_id)
        self.logs.open_all()
        self.cluster = open_quorum(self.logs, self.disk, config, cluster_id, LoopClock(), from_seed(1), OsNetwork())
        self.cluster.on_failure = self.failures.append
        return self.cluster

    async def join(self) -> int:
        epoch = await self.cluster.register([ENDPOINT], rack="r")
        await self.cluster.ready()
        return epoch

    async def leave(self) -> None:
        await self.cluster.begin_leaving()
        await self.cluster.leave()
        await self.close(clean=True)

    async def close(self, *, clean: bool = False) -> None:
        await self.cluster.close()
        self.logs.close(clean, self.cluster.image.brokers[NODE_ID].epoch if NODE_ID in self.cluster.image.brokers else -1)

    async def until(self, condition: Callable[[], Any]) -> None:
        """Waits for what comes over real connections."""
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def joins(scenario: Callable[[Rig], Awaitable[object]], **settings: str) -> Rig:
    async def main() -> Rig:
        controller = ControllerNode()
        await controller.start()
        rig = Rig(controller, **settings)
        rig.open()
        try:
            await asyncio.wait_for(scenario(rig), 60)
        finally:
            await rig.close()
            await controller.close()
        assert asyncio.all_tasks() <= {asyncio.current_task()}, "a task is left"
        return rig

    rig = asyncio.run(main())
    assert not [each for each in threading.enumerate() if each.name == "heartbeat"]
    return rig


def test_a_life() -> None:
    async def scenario(rig: Rig) -> None:
        assert rig.cluster.image.highest_offset == -1, "nothing goes over the network before"
        epoch = await rig.cluster.register([ENDPOINT], rack="r")
        (registration,) = rig.controller.of(BrokerRegistrationRequest)
        assert (registration.broker_id, registration.cluster_id, registration.rack) == (NODE_ID, CLUSTER_ID, "r")
        assert [(each.name, each.host, each.port) for each in registration.listeners] == [("PLAINTEXT", "broker.test", 9092)]
        assert set(registration.log_dirs) == set(rig.logs.directory_ids.values())
        assert registration.previous_broker_epoch == -1
        broker = rig.cluster.image.brokers[NODE_ID]
        assert (broker.epoch, broker.fenced, rig.controller.fenced) == (epoch, True, True)
        await rig.until(lambda: rig.controller.of(BrokerHeartbeatRequest))  # a thread sends them
        await rig.cluster.ready()
        assert not rig.cluster.image.brokers[NODE_ID].fenced
        rig.controller.write(topic("t"))
        await rig.until(lambda: "t" in rig.cluster.image.topics)
        await rig.cluster.begin_leaving()
        beats = rig.controller.of(BrokerHeartbeatRequest)
        assert beats[0].want_fence
        assert beats[-1].want_shut_down
        assert {each.broker_epoch for each in beats} == {epoch}
        await rig.cluster.leave()

    rig = joins(scenario)
    assert rig.failures == []
    assert f'"leaderId":{LEADER_ID}'.encode() in rig.disk.read_bytes(f"{PATH}/quorum-state")


def test_how_close_it_is_to_its_controllers() -> None:
    async def scenario(rig: Rig) -> None:
        assert rig.cluster.tie() is None, "it has not registered"
        await rig.join()
        tie = rig.cluster.tie()
        assert tie is not None
        assert 0 <= tie.heartbeat_age_s <= tie.longest_gap_s < 60
        assert 0 <= tie.metadata_age_s < 60
        assert tie.last_applied_ms == rig.cluster._log.last_append_ms != 0

    joins(scenario)


def test_after_a_clean_stop_the_broker_says_which_epoch_it_had() -> None:
    async def scenario(rig: Rig) -> None:
        first = await rig.join()
        await rig.leave()
        rig.open()
        second = await rig.join()
        registrations = rig.controller.of(BrokerRegistrationRequest)
        assert [each.previous_broker_epoch for each in registrations] == [-1, first]
        assert registrations[0].incarnation_id == registrations[1].incarnation_id, "the seed is the same"
        assert second > first
        await rig.close()
        rig.open()
        await rig.join()
        assert rig.controller.of(BrokerRegistrationRequest)[2].previous_broker_epoch == -1, "it was not stopped in order"

    joins(scenario)


def test_controllers_of_another_cluster() -> None:
    async def scenario(rig: Rig) -> None:
        await rig.close()
        rig.disk = MemDisk(lambda: NOW_MS)
        rig.open("AAAAAAAAAAAAAAAAAAAAAw")
        with pytest.raises(CannotJoin, match="another cluster than AAAAAAAAAAAAAAAAAAAAAw"):
            await rig.cluster.register([ENDPOINT])
        assert rig.controller.asked == []

    joins(scenario)


def test_a_registration_that_is_refused() -> None:
    async def scenario(rig: Rig) -> None:
        rig.controller.refuses[BrokerRegistrationRequest] = ErrorCode.UNSUPPORTED_VERSION
        with pytest.raises(CannotJoin):
            await rig.cluster.register([ENDPOINT])

    joins(scenario)


def test_a_record_that_is_not_known_ends_the_broker() -> None:
    async def scenario(rig: Rig) -> None:
        await rig.join()
        rig.controller.log.add(build_encoded([b"\1\xe7\7\0"], NOW_MS))
        rig.controller.wake()
        await rig.until(lambda: rig.failures)
        assert "kind 999" in rig.failures[0]

    joins(scenario)


def test_a_record_that_is_not_known_ends_a_start() -> None:
    async def scenario(rig: Rig) -> None:
        rig.controller.log.add(build_encoded([b"\1\xe7\7\0"], NOW_MS))
        with pytest.raises(MetadataError, match="kind 999"):
            await rig.cluster.register([ENDPOINT])

    joins(scenario)


def test_a_directory_that_fails_is_said_by_the_heartbeat() -> None:
    async def scenario(rig: Rig) -> None:
        await rig.join()
        rig.cluster.lose_directories({"/more"}, {})
        failed = rig.logs.directory_ids["/more"]
        await rig.until(lambda: rig.controller.of(BrokerHeartbeatRequest)[-1].offline_log_dirs == [failed])

    joins(scenario)


def test_a_replica_s_directory_is_told_with_the_broker_s_epoch() -> None:
    async def scenario(rig: Rig) -> None:
        epoch = await rig.join()
        rig.cluster.assign_directories([(b"t" * 16, 0, rig.logs.directory_ids["/more"])])
        await rig.until(lambda: rig.controller.of(AssignReplicasToDirsRequest))
        told = rig.controller.of(AssignReplicasToDirsRequest)[0]
        assert (told.broker_id, told.broker_epoch) == (NODE_ID, epoch)

    joins(scenario)


def test_the_copy_gets_snapshots_of_its_own() -> None:
    async def scenario(rig: Rig) -> None:
        await rig.join()
        (snapshots,) = rig.cluster.passes()
        work = snapshots.action()
        assert isinstance(work, Awaitable)
        await work
        assert [name for name in rig.disk.list(PATH) if name.endswith(".checkpoint")]
        await rig.leave()
        rig.open()
        assert NODE_ID in rig.cluster.image.brokers, "before anything went over the network"

    joins(scenario, metadata_log_max_record_bytes_between_snapshots="1")


def test_a_heartbeat_names_no_change_that_is_still_going_out() -> None:
    """They let another broker stop once all others know who leads its partitions."""

    async def scenario(rig: Rig) -> None:
        await rig.join()
        image, heartbeat = rig.cluster.image, rig.cluster._heartbeat
        assert heartbeat is not None
        before = image.highest_offset
        rig.controller.write(*(topic(f"t-{number}") for number in range(FEW_RECORDS + 1)))
        seen: list[int] = []

        def lose_leader(event: object) -> None:
            rig.cluster._lose_leader(Address("other.test", 9093))
            seen.append(heartbeat.metadata_offset)

        image.subscribe(lose_leader)
        await rig.until(lambda: len(seen) == FEW_RECORDS + 1)
        assert set(seen) == {before}
        await rig.until(lambda: heartbeat.metadata_offset == image.highest_offset)

    joins(scenario)


def test_no_snapshot_is_made_of_a_change_that_is_still_going_out() -> None:
    async def scenario(rig: Rig) -> None:
        await rig.join()
        (snapshots,) = rig.cluster.passes()
        rig.cluster.image.is_reporting = True
        assert snapshots.action() is None
        rig.cluster.image.is_reporting = False
        work = snapshots.action()
        assert isinstance(work, Awaitable)
        await work

    joins(scenario, metadata_log_max_record_bytes_between_snapshots="1")


def test_after_it_stood_still_it_is_in_doubt_until_a_heartbeat_and_metadata_came() -> None:
    async def scenario(rig: Rig) -> None:
        doubts: list[bool] = []
        rig.cluster.on_doubt = doubts.append
        look = rig.cluster.look
        assert look is not None
        look()  # before there is a session
        await rig.join()
        look()
        assert doubts == []
        rig.controller.refuses[BrokerHeartbeatRequest] = ErrorCode.STALE_BROKER_EPOCH
        rig.cluster._absence._ran_at -= 5  # of a session of 5 s
        look()
        assert doubts == [True]
        beats = len(rig.controller.of(BrokerHeartbeatRequest))
        await rig.until(lambda: len(rig.controller.of(BrokerHeartbeatRequest)) > beats + 2)
        rig.controller.write(topic("t"))
        await rig.until(lambda: "t" in rig.cluster.image.topics)
        assert doubts == [True], "no heartbeat was answered"
        del rig.controller.refuses[BrokerHeartbeatRequest]
        await rig.until(lambda: doubts == [True, False])

    joins(scenario)


def test_a_broker_without_room_is_fenced_until_it_has_some() -> None:
    async def scenario(rig: Rig) -> None:
        doubts: list[bool] = []
        rig.cluster.on_doubt = doubts.append
        await rig.join()
        both = [NODE_ID, NODE_ID + 1]
        partition = PartitionRecord(0, topic("t").topic_id, both, both, leader=NODE_ID, directories=[bytes(16)] * 2)
        rig.controller.write(topic("t"), partition)
        await rig.until(lambda: "t" in rig.cluster.image.topics)

        def set_full(full: bool) -> None:
            for directory in rig.logs.directories:
                directory.full = full
            rig.cluster._let_others_lead()

        set_full(True)
        assert doubts == [True]
        await rig.until(lambda: rig.controller.of(BrokerHeartbeatRequest)[-1].want_fence)
        await rig.until(lambda: rig.cluster.image.brokers[NODE_ID].fenced)
        set_full(True)
        assert doubts == [True]
        set_full(False)
        await rig.until(lambda: doubts == [True, False])
        assert not rig.controller.of(BrokerHeartbeatRequest)[-1].want_fence
        assert not rig.cluster.image.brokers[NODE_ID].fenced

    joins(scenario)


def test_the_longest_pause_leaves_a_session_no_time_to_end() -> None:
    def longest(session_ms: int, interval_ms: int) -> int:
        return _longest_pause_ms({"broker.session.timeout.ms": session_ms, "broker.heartbeat.interval.ms": interval_ms})

    assert longest(9000, 2000) == 6000
    assert longest(1000, 500) == 2000, "what says that the loop runs comes every second"


def test_controllers_that_do_not_let_it_go_are_not_waited_for_once_they_are_silent(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.join()
        rig.controller.lets_go = False
        leaving = asyncio.ensure_future(rig.cluster.begin_leaving())
        await rig.until(lambda: rig.controller.of(BrokerHeartbeatRequest)[-1].want_shut_down)
        assert not leaving.done()
        await rig.controller.close()
        await leaving
        await rig.cluster.leave()

    joins(scenario, broker_session_timeout_ms="3000")
    assert "do not let this broker go in time" in caplog.text


@pytest.mark.parametrize("joined", [True, False])
def test_it_need_not_ask_to_be_let_go(joined: bool) -> None:
    async def scenario(rig: Rig) -> None:
        if joined:
            await rig.join()
        await rig.cluster.begin_leaving()
        assert not [each for each in rig.controller.of(BrokerHeartbeatRequest) if each.want_shut_down]

    joins(scenario, controlled_shutdown_enable="false" if joined else "true")


def test_addresses_of_controllers() -> None:
    config, _ = BrokerConfig.from_mapping(
        {
            "process.roles": "broker",
            "node.id": "7",
            "controller.quorum.voters": "1@a:1,2@[::1]:2",
            "controller.quorum.bootstrap.servers": "c:3,[fe80::1]:4",
        }
    )
    assert quorum_addresses(config) == ({1: ("a", 1), 2: ("::1", 2)}, [("c", 3), ("fe80::1", 4)])

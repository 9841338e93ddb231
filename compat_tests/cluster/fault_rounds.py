"""Something befalls one broker of a cluster under load, round after round: is every acknowledged record there, and how long is a
partition without a leader? scripts/cluster_faults.py plays rounds on mixed clusters, test_fault_rounds.py the short ones.

    kill        SIGKILL; started again when the others lead
    stop        SIGTERM, which lets the broker hand its leaderships over; started again
    pause       SIGSTOP until its session is over and somebody else leads, and a while longer; then SIGCONT
    cut         no packet from it or to it reaches another node, until somebody else leads and a while longer
    cut-from    the same for packets from it only
    cut-to      the same for packets to it only
    full        its file system has no room until others lead, and a while longer; it is started again if it ends of that

The topic has a partition for each broker, three replicas of each, and min.insync.replicas=2; a broker leads one partition when
something befalls it. An idempotent producer writes to all partitions all the time, and a reader reads them (traffic.py). After
each round all replicas have to be in sync, and after the last one they have to be the same bytes.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Final, NamedTuple

from confluent_kafka import KafkaException

from compat_tests.cluster.mixed import Mixed
from compat_tests.cluster.networks import OF_NETWORKS, Networks
from compat_tests.cluster.nodes import connect
from compat_tests.cluster.traffic import Traffic
from compat_tests.rooms import Room
from compat_tests.waiting import wait_for
from compat_tests.wire import Connection
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

FAULTS: Final = ("kill", "stop", "pause", *OF_NETWORKS, "full")
TOPIC: Final = "promised"
SESSION_S: Final = 6.0
"""The time for which the controller waits for a heartbeat."""
_LONGER_S: Final = 2.0
"""The time for which a broker stays away after others lead what it led."""
_LEADER_S: Final = 90.0
_BACK_S: Final = 120.0
_LOOK_S: Final = 0.02
_METADATA_VERSION: Final = 9
_BYTES_A_SECOND, _RECORD_BYTES = 60_000, 200


def settings(session_s: float = SESSION_S) -> dict[str, str]:
    """Returns the settings of all nodes of such a cluster."""
    return {
        "broker.session.timeout.ms": str(round(session_s * 1000)),
        "broker.heartbeat.interval.ms": "500",
        "replica.lag.time.max.ms": "3000",
        "replica.fetch.backoff.ms": "200",
    }


class Round(NamedTuple):
    """`kind`: of the broker that was hit. `leader_s`: seconds until all others knew a new leader of its partition. `outage_s`:
    the longest time without an acknowledgement in that partition, in which clients have a share."""

    fault: str
    kind: str
    leader_s: float
    outage_s: float


class Rounds:
    """A cluster that runs, and its load. `networks` is needed for cuts, and `rooms` for full disks: one for each broker."""

    def __init__(self, cluster: Mixed, networks: Networks | None = None, rooms: Mapping[int, Room] | None = None) -> None:
        self.cluster = cluster
        nodes = list(cluster.brokers)
        self.assignment = [nodes[at:] + nodes[:at] for at in range(len(nodes))]
        self.traffic = Traffic(
            cluster.bootstrap,
            TOPIC,
            len(nodes),
            _BYTES_A_SECOND,
            _RECORD_BYTES,
            socket_timeout_ms=10_000,
            topic_metadata_refresh_interval_ms=1_000,
        )
        self._networks, self._rooms = networks, rooms or {}

    @contextmanager
    def under_load(self) -> Iterator[None]:
        """The topic is there, and the load goes on while it is entered. Raises AssertionError in the end unless all is there that
        was promised, and all replicas are the same."""
        self.cluster.create(TOPIC, self.assignment, min_insync_replicas="2", segment_bytes=str(1 << 20))
        with self.traffic:
            yield
        self.cluster.wait_until_equal(TOPIC, self.assignment)

    def play(self, fault: str, node: int) -> Round:
        """Has a fault befall a broker that leads a partition, and returns when all is well again."""
        self.traffic.wait_for_more()
        began = time.monotonic()
        leader_s = self._befall(fault, node)
        self._wait_until_well()
        self.traffic.wait_for_more()
        return Round(fault, self.cluster.brokers[node].kind, leader_s, self.traffic.longest_outage_s(self._led_by(node), began))

    def _led_by(self, node: int) -> int:
        """Returns the partition that a broker leads when all is well."""
        return [replicas[0] for replicas in self.assignment].index(node)

    def _befall(self, fault: str, node: int) -> float:
        broker = self.cluster.brokers[node]
        assert broker.process is not None
        with closing(_Watch(self.cluster, node, self._led_by(node))) as watch:
            match fault:
                case "kill":
                    broker.kill()
                    leader_s = watch.wait_for_leader()
                    broker.start()
                case "stop":
                    broker.process.send_signal(signal.SIGTERM)
                    leader_s = watch.wait_for_leader()
                    broker.process.wait(_BACK_S)
                    self.cluster.stop_in_order(node)
                    broker.start()
                case "pause":
                    broker.process.send_signal(signal.SIGSTOP)
                    try:
                        leader_s = watch.wait_for_leader()
                        time.sleep(_LONGER_S)
                    finally:
                        broker.process.send_signal(signal.SIGCONT)
                case "full":
                    self._rooms[node].take()
                    watch.restart()
                    try:
                        leader_s = watch.wait_for_leader()
                        time.sleep(_LONGER_S)
                    finally:
                        self._rooms[node].give_back()
                case _:
                    assert self._networks is not None, "the nodes are not in networks of their own"
                    with self._networks.cut(node, OF_NETWORKS[fault]):
                        leader_s = watch.wait_for_leader()
                        time.sleep(_LONGER_S)
            return leader_s

    def _wait_until_well(self) -> None:
        """Waits until all replicas are in sync, and gives each partition back to its first one."""
        last = ""

        def well() -> bool:
            nonlocal last
            self._revive()
            state = self.cluster.state(TOPIC)
            last = str(state)
            if [isr for _, isr in state] != [sorted(replicas) for replicas in self.assignment]:
                return False
            try:
                self.cluster.elect_preferred(TOPIC, len(self.assignment))
            except KafkaException as error:
                last = str(error)
                return False
            return True

        wait_for(well, lambda: f"{last}\n{self.cluster.tails()}", _BACK_S)
        self.cluster.wait_for_leaders(TOPIC, [replicas[0] for replicas in self.assignment])

    def _revive(self) -> None:
        """Starts brokers that have ended for want of room: Apache Kafka does where it has no other log directory."""
        for broker in self.cluster.brokers.values():
            if self._rooms and broker.process is not None and broker.process.poll() is not None:
                broker.kill()
                broker.start()


class _Watch:
    """Asks all brokers but one who leads a partition."""

    def __init__(self, cluster: Mixed, node: int, partition: int) -> None:
        self._node, self._partition = node, partition
        self._connections = [connect(broker) for other, broker in cluster.brokers.items() if other != node]
        self._began = time.monotonic()

    def restart(self) -> None:
        self._began = time.monotonic()

    def wait_for_leader(self) -> float:
        """Waits until everyone who was asked knows another leader than the one that is not asked; returns seconds since the watch
        began."""
        for connection in self._connections:
            while (leader := self._leader(connection)) in (-1, self._node):
                assert time.monotonic() < self._began + _LEADER_S, f"broker {self._node} is down, and the leader is {leader}"
                time.sleep(_LOOK_S)
        return time.monotonic() - self._began

    def _leader(self, connection: Connection) -> int:
        (topic,) = connection.call(MetadataRequest([MetadataRequestTopic(name=TOPIC)]), _METADATA_VERSION).topics
        return next(int(each.leader_id) for each in topic.partitions if each.partition_index == self._partition)

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

"""Moves the leader of a partition in a running cluster, by what Kafka has for it: another order of the replicas, and an election.

An election makes the first replica the leader if it is in sync. So the replica that is to lead is put first, which copies
nothing, and then elected.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from ottla.commands.clients.client import Cluster
from ottla.commands.clients.direct import Connection, connect
from ottla.commands.cluster.errors import ClusterError
from ottla.commands.output import Failure
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import alter_partition_reassignments as reassign
from ottla.wire.messages import elect_leaders, metadata

SECONDS: Final = 30.0
"""The time that the cluster may take for a move."""
_LOOK_SECONDS: Final = 0.02
_PREFERRED: Final = 0
_SETTLES: Final = frozenset({ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, ErrorCode.NOT_CONTROLLER})
"""The answers to an election before the new order is everywhere."""


def move_leader(bootstrap: str, topic: str, partition: int, to: int) -> None:
    """Makes a broker the leader of a partition, and returns when the cluster's metadata say so. `bootstrap` are the addresses of
    brokers that are up, `host:port`.

    Raises ClusterError if the broker has no replica that is in sync, and if the cluster does not answer or refuses.
    """
    try:
        with _any_of(bootstrap) as connection:
            found = _look(connection, topic, partition)
            if found.leader_id == to:
                return
            name = f"{topic}-{partition}"
            if to not in found.replica_nodes:
                raise ClusterError(f"broker {to} has no replica of {name}; the replicas are on {found.replica_nodes}")
            if to not in found.isr_nodes:
                raise ClusterError(f"broker {to} is not in sync in {name}, so it cannot lead; in sync are {found.isr_nodes}")
            _put_first(connection, topic, partition, [to, *(each for each in found.replica_nodes if each != to)])
            _wait(lambda: _look(connection, topic, partition).replica_nodes[0] == to, f"the replicas of {name} are in that order")
            _wait(lambda: _elected(connection, topic, partition), f"broker {to} is elected in {name}")
            _wait(lambda: _look(connection, topic, partition).leader_id == to, f"broker {to} leads {name}")
    except Failure as failure:
        raise ClusterError(str(failure)) from failure


@contextmanager
def _any_of(bootstrap: str) -> Iterator[Connection]:
    """Connects to the first broker that answers. Raises Failure of the last one if none does."""
    cluster = Cluster({"bootstrap.servers": bootstrap})
    failure = Failure("no broker is up")
    with ExitStack() as stack:
        for address in filter(None, bootstrap.split(",")):
            host, _, port = address.rpartition(":")
            try:
                connection = stack.enter_context(connect(cluster, host, int(port)))
            except Failure as error:
                failure = error
            else:
                yield connection
                return
        raise failure


def _look(connection: Connection, topic: str, partition: int) -> metadata.MetadataResponsePartition:
    """Returns a partition as a broker knows it. Raises ClusterError if there is none."""
    request = metadata.MetadataRequest([metadata.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    found: metadata.MetadataResponsePartition
    for found in connection.call(request).topics[0].partitions:
        if found.partition_index == partition:
            return found
    raise ClusterError(f"there is no partition {topic}-{partition}")


def _put_first(connection: Connection, topic: str, partition: int, replicas: list[int]) -> None:
    wanted = reassign.ReassignableTopic(topic, [reassign.ReassignablePartition(partition, replicas)])
    answer = connection.call(reassign.AlterPartitionReassignmentsRequest(topics=[wanted]))
    partitions = [each for found in answer.responses for each in found.partitions]
    for each in (answer, *partitions):
        if each.error_code:
            raise ClusterError(f"{topic}-{partition}: {each.error_message or ErrorCode(each.error_code).name}")


def _elected(connection: Connection, topic: str, partition: int) -> bool:
    """Holds an election; returns False if it is too early for that."""
    wanted = elect_leaders.TopicPartitions(topic, [partition])
    answer = connection.call(elect_leaders.ElectLeadersRequest(_PREFERRED, [wanted]))
    results = [each for found in answer.replica_election_results for each in found.partition_result]
    for each in (answer, *results):
        if each.error_code in _SETTLES:
            return False
        if each.error_code and each.error_code != ErrorCode.ELECTION_NOT_NEEDED:
            raise ClusterError(f"{topic}-{partition}: {each.error_message or ErrorCode(each.error_code).name}")
    return True


def _wait(condition: Callable[[], bool], what: str) -> None:
    """Asks until it is so. Raises ClusterError if that takes too long."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() >= deadline:
            raise ClusterError(f"not within {SECONDS:.0f} s: {what}")
        time.sleep(_LOOK_SECONDS)

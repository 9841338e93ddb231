"""AlterReplicaLogDirs v1-2 moves partitions of this broker to another of its log directories, in the background (KIP-113).

- Success means that the move has begun. DescribeLogDirs shows the copy and how far it lags, until the copy takes the partition's
  place. A request for yet another directory starts the move afresh; a request for the directory that holds the partition cancels
  the move.
- For a partition that does not exist or is not on this broker the request fails, but the directory is remembered: if the
  partition comes later, it is created there.
- A partition that is named for several directories goes to the last of them. Paths are compared as written: absolute, as in
  log.dirs.
- Errors of each partition: 57 LOG_DIR_NOT_FOUND; 56 KAFKA_STORAGE_ERROR if that directory, the partition's own or any other is
  offline; 3 UNKNOWN_TOPIC_OR_PARTITION; 9 REPLICA_NOT_AVAILABLE if other brokers hold it; 17 INVALID_TOPIC_EXCEPTION if the
  topic's name is too long for the directory of a copy.
"""

from __future__ import annotations

from ottla.log.errors import LogError
from ottla.log.names import future_name_fits
from ottla.server.base.errors import code_of
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, take_steps
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Need, Operation, Resource, Whole
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

TRAITS = Traits(Whole(Need(Operation.ALTER, Resource.CLUSTER)))


PARTITIONS_A_STEP = 100
"""So many partitions begin to move before others may come first."""


def handle(
    body: AlterReplicaLogDirsRequest, request: Request
) -> AlterReplicaLogDirsResponse | Promise[AlterReplicaLogDirsResponse]:
    return take_steps(_move_all(body, request), request.broker.clock)


def _move_all(body: AlterReplicaLogDirsRequest, request: Request) -> Steps[AlterReplicaLogDirsResponse]:
    wanted: dict[str, dict[int, str]] = {}
    for directory in body.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                wanted.setdefault(topic.name, {})[index] = directory.path
    results: list[AlterReplicaLogDirTopicResult] = []
    left = PARTITIONS_A_STEP
    for name, indexes in wanted.items():
        results.append(AlterReplicaLogDirTopicResult(name, []))
        for index, path in indexes.items():
            if not left:
                yield None
                left = PARTITIONS_A_STEP
            left -= 1
            results[-1].partitions.append(AlterReplicaLogDirPartitionResult(index, _move(name, index, path, request)))
    return AlterReplicaLogDirsResponse(results=results)


def _move(topic: str, index: int, path: str, request: Request) -> ErrorCode:
    """Begins to move one partition to the directory `path`; returns its error code."""
    broker = request.broker
    logs = broker.replicas.logs
    if not future_name_fits(topic, index):
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    directory = next((found for found in logs.directories if found.path == path and path in broker.config.log_dirs), None)
    if directory is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    replica = broker.replicas.get(topic, index)
    if directory.failed is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if replica is None:
        code = broker.replicas.why_missing(topic, index)
        if code is not ErrorCode.KAFKA_STORAGE_ERROR:
            logs.prefer(topic, index, path)
        return ErrorCode.REPLICA_NOT_AVAILABLE if code is ErrorCode.NOT_LEADER_OR_FOLLOWER else code
    if broker.log_dirs is not None:  # otherwise there is only one directory
        try:
            broker.log_dirs.move(replica, path)
        except LogError as error:
            return code_of(error)
    return ErrorCode.NONE

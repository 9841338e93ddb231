"""DescribeLogDirs v1-5 says what each entry of log.dirs holds and how full it is (KIP-113, KIP-827, KIP-1066).

- Every directory is in the answer. Null `topics` ask for all partitions in it; a list asks for those that it names. Partitions
  that are not here are left out without an error. The metadata log is never listed.
- The size of a partition is that of its segments. Its `offset_lag` is the distance from its end to the high watermark: 0 where
  this broker leads, -1 for a log that belongs to no topic.
- A copy on its way from another directory (AlterReplicaLogDirs) is marked as future, and its lag is the distance to the end of
  the partition's log.
- v4 adds total and usable bytes of the file system. v5 adds `is_cordoned`: cordoned.log.dirs keeps new partitions out.
- Errors of each directory: 56 KAFKA_STORAGE_ERROR, without partitions and with -1 for the bytes.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from ottla.log.disk.checkpoint import TopicPartition
from ottla.log.disk.directory import LogDirectory
from ottla.log.errors import StorageError
from ottla.log.partition import PartitionLog
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, take_steps
from ottla.server.metadata.names import CLUSTER_METADATA
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Need, Operation, Resource, Whole
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from ottla.log.management.moving import FutureLog

TRAITS = Traits(Whole(Need(Operation.DESCRIBE, Resource.CLUSTER)))

NO_LAG_KNOWN = -1
PARTITIONS_A_STEP = 100
"""So many partitions are looked at before others may come first."""


def handle(body: DescribeLogDirsRequest, request: Request) -> DescribeLogDirsResponse | Promise[DescribeLogDirsResponse]:
    return take_steps(_describe(body, request), request.broker.clock)


def _describe(body: DescribeLogDirsRequest, request: Request) -> Steps[DescribeLogDirsResponse]:
    logs = request.broker.replicas.logs
    asked: Container[TopicPartition] = logs.logs
    if body.topics is not None:
        asked = {(topic.topic, index) for topic in body.topics for index in topic.partitions}
    found: dict[str, list[PartitionLog]] = {path: [] for path in request.broker.config.log_dirs}
    for at, (name, log) in enumerate(list(logs.logs.items())):
        if at and at % PARTITIONS_A_STEP == 0:
            yield None
        if name in asked and name[0] != CLUSTER_METADATA and log.directory.path in found:
            found[log.directory.path].append(log)
    futures = [future for name, future in logs.futures.items() if name in asked]
    results = []
    for directory in logs.directories:
        if directory.path in found:
            result = yield from _directory(directory, found[directory.path], futures, request)
            results.append(result)
    return DescribeLogDirsResponse(results=results)


def _directory(
    directory: LogDirectory, logs: list[PartitionLog], futures: list[FutureLog], request: Request
) -> Steps[DescribeLogDirsResult]:
    """Makes steps that describe one directory, with those of its partitions and copies that the request asks for."""
    try:
        directory.check()
        total_bytes, usable_bytes = directory.disk.space(directory.path)
    except (StorageError, OSError):
        return DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, directory.path)
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for at, log in enumerate(logs):
        if at and at % PARTITIONS_A_STEP == 0:
            yield None
        if log.closed:  # it was deleted meanwhile
            continue
        claimed = request.broker.replicas.get(log.topic, log.partition) is not None
        lag = max(log.high_watermark - log.log_end_offset, 0) if claimed else NO_LAG_KNOWN
        topics.setdefault(log.topic, []).append(DescribeLogDirsPartition(log.partition, log.size_bytes, lag))
    for future in futures:
        log = future.log
        if log.directory is directory:
            copy = DescribeLogDirsPartition(log.partition, log.size_bytes, future.lag, True)
            topics.setdefault(log.topic, []).append(copy)
    return DescribeLogDirsResult(
        ErrorCode.NONE,
        directory.path,
        [DescribeLogDirsTopic(name, partitions) for name, partitions in topics.items()],
        total_bytes,
        usable_bytes,
        directory.path in request.broker.replicas.logs.cordoned,
    )

"""A broker with several log directories on a disk in memory, and what tests ask of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from ottla.log.disk.directory import LogDirectory
from ottla.log.partition import PartitionLog
from ottla.server.broker.broker import Broker
from ottla.server.handlers import alter_replica_log_dirs, describe_log_dirs
from ottla.server.requests.request import Request
from ottla.server.requests.session import Session
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsPartition, DescribeLogDirsRequest, DescribeLogDirsResponse
from tests.fakes import CALLER, NOW_MS
from tests.memdisk import MemDisk
from tests.server.broker.whole_broker import config

ONE, TWO, THREE = "/one", "/two", "/three"
LIMIT_S = 30


def disk() -> MemDisk:
    return MemDisk(lambda: NOW_MS)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), LIMIT_S))


async def started(storage: MemDisk, *directories: str, **settings: str) -> Broker:
    broker = Broker(config(log_dirs=",".join(directories or (ONE, TWO)), **settings), disk=storage)
    await broker.start()
    await turns()
    return broker


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def created(broker: Broker, name: str = "t", partitions: int = 1, **configs: str) -> None:
    assert broker.context is not None
    asked = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
    request = CreateTopicsRequest([CreatableTopic(name, partitions, 1, configs=asked)])
    answer = await broker.context.controller.create_topics(request, CALLER)
    assert answer.topics[0].error_code == 0, answer.topics[0].error_message
    await turns()


def log_of(broker: Broker, name: str = "t", index: int = 0) -> PartitionLog:
    assert broker.context is not None
    replica = broker.context.replicas.get(name, index)
    assert replica is not None
    return replica.log


def place(broker: Broker, name: str = "t", index: int = 0) -> str:
    return log_of(broker, name, index).directory.path


def other(path: str) -> str:
    return TWO if path == ONE else ONE


def directory_in_metadata(broker: Broker, name: str = "t", index: int = 0) -> str | None:
    """Returns the path of the directory that the metadata names."""
    assert broker.context is not None
    partition = broker.context.metadata.partition(name, index)
    assert partition is not None
    ids = broker.context.replicas.logs.directory_ids
    return next((path for path, directory_id in ids.items() if (directory_id,) == partition.directories), None)


def append(broker: Broker, records: bytes, name: str = "t", index: int = 0) -> None:
    assert broker.context is not None
    replica = broker.context.replicas.get(name, index)
    assert replica is not None
    replica.append(records)


def contents(log: PartitionLog) -> list[bytes]:
    return list(log.iterate_batches(log.log_start_offset))


def alter(broker: Broker, path: str, *partitions: int, name: str = "t", version: int = 2) -> list[int]:
    """Returns the error codes by partition."""
    request = AlterReplicaLogDirsRequest([AlterReplicaLogDir(path, [AlterReplicaLogDirTopic(name, list(partitions or (0,)))])])
    answer = alter_replica_log_dirs.handle(request, context(broker, version))
    assert isinstance(answer, AlterReplicaLogDirsResponse)  # there are few partitions
    return [partition.error_code for topic in answer.results for partition in topic.partitions]


def context(broker: Broker, version: int) -> Any:
    assert broker.context is not None
    return Request(broker.context, Session("PLAINTEXT", "127.0.0.1"), 34, version, 1, "client")


def described(broker: Broker) -> dict[str, list[DescribeLogDirsPartition]]:
    answer = describe_log_dirs.handle(DescribeLogDirsRequest(None), context(broker, 5))
    assert isinstance(answer, DescribeLogDirsResponse)  # there are few partitions
    return {result.log_dir: [p for topic in result.topics for p in topic.partitions] for result in answer.results}


async def until(condition: Callable[[], object]) -> None:
    """Lets the loop turn until the condition is true; `run` has the deadline."""
    while not condition():
        await turns(1)


async def moved(broker: Broker, path: str, name: str = "t", index: int = 0) -> None:
    await until(lambda: place(broker, name, index) == path)


def directory_at(broker: Broker, path: str) -> LogDirectory:
    assert broker.context is not None
    return next(directory for directory in broker.context.replicas.logs.directories if directory.path == path)


def names(storage: MemDisk, path: str, ending: str) -> list[str]:
    return [name for name in storage.list(path) if name.endswith(ending)]

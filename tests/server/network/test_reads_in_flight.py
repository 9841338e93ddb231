"""A fetch of 100 MB that its client reads slowly, while what it reads is taken away: rolled, deleted, compacted, moved, its
descriptor given up. It gets every byte of what was there when it asked, and nobody waits for it.

The client's receive buffer is small and it reads only the answer's first bytes, so all the rest is still to be sent when the log
changes: by sendfile, from the file that the read opened.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from ottla.log.management.passes import run_pass
from ottla.log.partition import PartitionLog
from ottla.server.broker.broker import Broker
from ottla.server.handlers import alter_replica_log_dirs
from ottla.server.partitions.cleaning import LogCleaner, ThreadWorker
from ottla.server.partitions.replica import HIGH_WATERMARK
from ottla.wire.messages import fetch
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.primitives import Buffer
from tests.fakes import CALLER
from tests.log.support import batch
from tests.server.broker.whole_broker import config

SIZE_MB: Final = 100
VERSION: Final = 12
LIMIT_S: Final = 60
MINUTE_MS: Final = 60_000

TakeAway = Callable[[Broker, PartitionLog], Awaitable[None]]


async def rolled(broker: Broker, log: PartitionLog) -> None:
    log.roll()
    replica(broker).append(batch(1))


async def records_deleted(broker: Broker, log: PartitionLog) -> None:
    await rolled(broker, log)
    replica(broker).delete_records_before(HIGH_WATERMARK)
    assert log.apply_retention(log.now_ms()) > 0
    assert run_pass(log.directory.removals(log.now_ms() + 2 * MINUTE_MS)) > 0


async def too_old(broker: Broker, log: PartitionLog) -> None:
    assert log.apply_retention(log.now_ms() + log.config.retention_ms + 10 * MINUTE_MS) == 1
    assert run_pass(log.directory.removals(log.now_ms() + 2 * MINUTE_MS)) > 0


async def compacted(broker: Broker, log: PartitionLog) -> None:
    """All records have one key: of the segment one is left."""
    await rolled(broker, log)
    log.roll()
    before = log.size_bytes
    values = broker.config.values
    assert broker.context is not None
    disk, clock = log.directory.disk, broker.context.clock
    cleaning = LogCleaner(logs(broker), disk, clock, Random(1), lambda: values, lambda: ThreadWorker(disk, clock))
    await cleaning.run_pass()
    cleaning.stop()
    assert log.size_bytes < before / 10
    run_pass(log.directory.removals(log.now_ms() + 2 * MINUTE_MS))


async def topic_deleted(broker: Broker, log: PartitionLog) -> None:
    assert broker.context is not None
    await broker.context.controller.delete_topics(DeleteTopicsRequest([DeleteTopicState("t")], timeout_ms=1000), CALLER)
    assert log.closed
    assert run_pass(log.directory.removals(log.now_ms() + 2 * MINUTE_MS)) > 0


async def moved(broker: Broker, log: PartitionLog) -> None:
    (target,) = [directory.path for directory in logs(broker).directories if directory is not log.directory]
    request = AlterReplicaLogDirsRequest([AlterReplicaLogDir(target, [AlterReplicaLogDirTopic("t", [0])])])
    answer = alter_replica_log_dirs.handle(request, context(broker))
    assert isinstance(answer, AlterReplicaLogDirsResponse)
    assert answer.results[0].partitions[0].error_code == 0
    assert broker.context is not None
    assert broker.context.log_dirs is not None
    await asyncio.wait(list(broker.context.log_dirs._moves.values()))
    assert log.closed
    assert not replica(broker).log.closed
    assert run_pass(log.directory.removals(log.now_ms() + 2 * MINUTE_MS)) > 0


async def descriptor_given_up(broker: Broker, log: PartitionLog) -> None:
    """Other logs' files push the one that is being read out of the descriptors that are kept."""
    files = logs(broker).open_files
    files.limit = 1
    segment = log.segments.first
    assert segment.file is not None
    assert broker.context is not None
    other = broker.context.replicas.get("u", 0)
    assert other is not None
    for _ in range(5):  # each opens a file, and the oldest goes
        other.append(batch(1))
        other.log.roll()
    assert segment.file is None


def logs(broker: Broker) -> Any:
    assert broker.context is not None
    return broker.context.replicas.logs


def replica(broker: Broker) -> Any:
    assert broker.context is not None
    return broker.context.replicas.get("t", 0)


def context(broker: Broker) -> Any:
    from ottla.server.requests.request import Request
    from ottla.server.requests.session import Session

    assert broker.context is not None
    return Request(broker.context, Session("PLAINTEXT", "127.0.0.1"), 34, 2, 1, "client")


async def filled(broker: Broker) -> PartitionLog:
    """Topics t, with 100 MB in one segment, and u."""
    assert broker.context is not None
    compact = [CreatableTopicConfig("cleanup.policy", "compact,delete"), CreatableTopicConfig("min.cleanable.dirty.ratio", "0")]
    request = CreateTopicsRequest([CreatableTopic("t", 1, 1, configs=compact), CreatableTopic("u", 1, 1)])
    await broker.context.controller.create_topics(request, CALLER)
    now_ms = replica(broker).log.now_ms()
    for number in range(SIZE_MB):
        replica(broker).append(batch(1, value=bytes([number]) * 1_000_000, timestamp_ms=now_ms))
    log = replica(broker).log
    assert isinstance(log, PartitionLog)
    return log


def frame() -> bytes:
    topic = FetchTopic(topic="t", partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=2**31 - 1)])
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=2**31 - 1, topics=[topic])
    body = [b"\0"]  # the header's tags
    fetch.ENCODE_REQUEST[VERSION](request, body)
    whole = struct.pack(">hhi", fetch.API_KEY, VERSION, 7) + b"\xff\xff" + b"".join(body)
    return struct.pack(">i", len(whole)) + whole


class SlowClient:
    """A transport that reads when the test makes it."""

    def __init__(self, port: int) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setblocking(False)

    async def read(self, count: int) -> bytes:
        loop, pieces = asyncio.get_running_loop(), []
        while count:
            piece = await loop.sock_recv(self.socket, min(count, 1 << 20))
            assert piece, "the connection was closed"
            pieces.append(piece)
            count -= len(piece)
        return b"".join(pieces)


WAYS: Final = (rolled, records_deleted, too_old, compacted, topic_deleted, moved, descriptor_given_up)


@pytest.mark.parametrize("take_away", WAYS, ids=[way.__name__ for way in WAYS])
def test_it_gets_what_was_there(take_away: TakeAway, tmp_path: Path) -> None:
    async def scenario() -> None:
        directories = f"{tmp_path / 'one'},{tmp_path / 'two'}"
        broker = Broker(config(log_dirs=directories, fetch_max_bytes=str(2**31 - 1), socket_send_buffer_bytes="4096"))
        await broker.start()
        log = await filled(broker)
        expected = b"".join(log.iterate_batches(0))
        client = SlowClient(broker.port)
        try:
            await asyncio.get_running_loop().sock_sendall(client.socket, frame())
            (size,) = struct.unpack(">i", await client.read(4))
            assert size > len(expected) > SIZE_MB * 1_000_000
            await take_away(broker, log)
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
            answer = await client.read(size)
        finally:
            client.socket.close()
        decoded = fetch.DECODE_RESPONSE[VERSION](answer, 5)[0]
        records = decoded.responses[0].partitions[0].records
        assert isinstance(records, Buffer)
        assert bytes(records) == expected
        await broker.stop()

    asyncio.run(asyncio.wait_for(scenario(), LIMIT_S))

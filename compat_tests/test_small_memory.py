"""A broker that may have 512 MiB takes the largest batches that it admits, and is asked for times in them, by many at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from compat_tests.brokers import CLASSES, Address
from compat_tests.wire import TIME_MS, Connection, Wire, batch
from ottla.wire.compression import ZSTD
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import list_offsets, produce

MIB: Final = 1 << 20
MEMORY: Final = 512 * MIB
UNFOLDED: Final = 60 * MIB
"""A little below the default of max.decompressed.message.bytes."""
CLIENTS: Final = 20
LARGE: Final = batch(bytes(UNFOLDED), codec=ZSTD)
TOO_LARGE: Final = batch(bytes(2 * UNFOLDED), codec=ZSTD)


@pytest.fixture
def address(tmp_path: Path) -> Iterator[Address]:
    """A broker of ottla: a JVM reserves more than that before it does anything."""
    broker = CLASSES["ottla"](tmp_path / "ottla", {"auto.create.topics.enable": "false"})
    broker.inside = ("prlimit", f"--data={MEMORY}", "--")
    broker.start()
    assert broker.process is not None
    yield Address(broker.kind, broker.port, broker.process.pid, str(broker.log_file))
    broker.stop()


def produced(topic: str, records: bytes) -> produce.ProduceRequest:
    return produce.ProduceRequest(
        None, -1, 30_000, [produce.TopicProduceData(topic, bytes(16), [produce.PartitionProduceData(0, records)])]
    )


def by_time(topic: str) -> list_offsets.ListOffsetsRequest:
    partition = list_offsets.ListOffsetsPartition(0, -1, TIME_MS)
    return list_offsets.ListOffsetsRequest(-1, 0, [list_offsets.ListOffsetsTopic(topic, [partition])])


def test_many_large_batches_at_once_fit_into_512_mib(address: Address) -> None:
    wire = Wire(address, "small")
    topic = wire.create("t")
    clients = [Connection(address) for _ in range(CLIENTS)]
    codes = {LARGE: ErrorCode.NONE, TOO_LARGE: ErrorCode.MESSAGE_TOO_LARGE}
    for records, code in codes.items():
        for client in clients:
            client.send(produced(topic, records), 9)
        for client in clients:
            answer = client.answer(produce, 9)
            assert answer.responses[0].partition_responses[0].error_code == code
    for client in clients:
        client.send(by_time(topic), 8)
    for client in clients:
        partition = client.answer(list_offsets, 8).topics[0].partitions[0]
        assert (partition.error_code, partition.offset, partition.timestamp) == (ErrorCode.NONE, 0, TIME_MS)
        client.close()
    assert wire.end_offsets(topic, [0]).topics[0].partitions[0].offset == CLIENTS
    wire.close()

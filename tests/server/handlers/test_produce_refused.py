"""Tests of what is left of batches that a thread has refused: nothing, even before the garbage collector comes."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from ottla.log.errors import LogError
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Workers
from ottla.server.handlers import produce
from ottla.wire.compression import ZSTD, CompressionError
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.records import Record, build_batch
from tests.fakes import NOW_MS, MemoryBroker, Threads

MIB = 1 << 20
PARTITIONS = 3


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        pytest.param({"ottla.max.decompressed.batch.bytes": str(3 * MIB)}, ErrorCode.MESSAGE_TOO_LARGE, id="batch"),
        pytest.param({"log.message.timestamp.after.max.ms": "1"}, ErrorCode.INVALID_TIMESTAMP, id="timestamp"),
    ],
)
def test_an_error_goes_with_the_answer(settings: dict[str, str], code: ErrorCode) -> None:
    """The error would hold the decoder and what it has put out: with 200 partitions, some hundred megabytes."""
    broker = MemoryBroker({"t": PARTITIONS}, settings)
    threads = Threads()
    broker.context.existing_workers = Workers(threads.run)
    bomb = build_batch([Record(0, NOW_MS + 3_600_000, b"k", bytes(4 * MIB), [])], codec=ZSTD)
    data = [PartitionProduceData(index, bomb) for index in range(PARTITIONS)]
    body = ProduceRequest(None, -1, 1000, [TopicProduceData("t", partition_data=data)])
    gc.collect()
    gc.disable()
    before = {id(each) for each in gc.get_objects() if isinstance(each, LogError | CompressionError)}  # of other tests
    try:
        answer: Any = produce.handle(body, broker.request(9))
        assert isinstance(answer, Promise)
        while threads.jobs:
            threads.end_first()
            broker.clock.advance(0)
        codes = [each.error_code for topic in answer.result().responses for each in topic.partition_responses]
        left = [each for each in gc.get_objects() if isinstance(each, LogError | CompressionError) and id(each) not in before]
    finally:
        gc.enable()
    assert codes == [code] * PARTITIONS
    assert left == []

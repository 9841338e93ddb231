"""A flipped bit in what a coordinator loads is never served: not a wrong offset, not an older one, not a group that never was.

Apache Kafka loads all of this without comparing it with the CRCs, and answers from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.server.metrics.coordinator_rows import COORDINATOR_ROWS
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import init_producer_id, offset_commit, offset_fetch, read_share_group_state
from tests.fakes import NOW_MS
from tests.memdisk import MemDisk
from tests.server.broker.asked import INTERNAL, TOPIC, Asked, codes


def fetch(asked: Asked) -> Any:
    wanted = offset_fetch.OffsetFetchRequestTopics(TOPIC, asked.topic_id, [0])
    return offset_fetch.OffsetFetchRequest(groups=[offset_fetch.OffsetFetchRequestGroup("g", None, -1, [wanted])])


def begin_again(asked: Asked) -> Any:
    return init_producer_id.InitProducerIdRequest("tx", 60_000)


def read_state(asked: Asked) -> Any:
    wanted = read_share_group_state.ReadStateData(asked.topic_id, [read_share_group_state.PartitionData(0, 0)])
    return read_share_group_state.ReadShareGroupStateRequest("shared", [wanted])


@pytest.mark.parametrize(
    ("topic", "request_of"),
    [("__consumer_offsets", fetch), ("__transaction_state", begin_again), ("__share_group_state", read_state)],
)
def test_a_coordinator_answers_nothing_from_damaged_bytes(
    topic: str, request_of: Callable[[Asked], Any], caplog: pytest.LogCaptureFixture
) -> None:
    """The stop was clean, so that no recovery looks at the bytes; after a kill -9 it keeps the partition offline."""

    async def scenario() -> None:
        disk = MemDisk(lambda: NOW_MS)
        first = Asked(disk)
        await first.start()
        await first.make_everything()
        partition = offset_commit.OffsetCommitRequestPartition(0, 1049)
        await first.ask(offset_commit.OffsetCommitRequest("g", topics=[first.committed([partition])]))
        assert set(codes(await first.ask(request_of(first)))) == {ErrorCode.NONE}
        await first.broker.stop()
        path = f"/data/{topic}-0/00000000000000000000.log"
        data = bytearray(disk.read_bytes(path))
        data[61 + 12] ^= 1
        disk.write_bytes(path, bytes(data))
        again = Asked(disk)
        await again.start()
        answer = await again.ask(request_of(again))
        assert ErrorCode.NOT_COORDINATOR in codes(answer), answer
        ((_, _, _, _, rows),) = COORDINATOR_ROWS
        sources: Any = SimpleNamespace(context=again.broker.context)
        assert dict(rows(sources)) == {(name,): name == topic for name in INTERNAL}
        await again.broker.stop()

    asyncio.run(scenario())
    begins = f"partition 0 of {topic} cannot be loaded: /data/{topic}-0/"
    told = [message for message in caplog.messages if message.startswith(begins)]
    assert len(told) == 1, caplog.messages
    assert told[0].endswith(f"ottla log repair --skip /data/{topic}-0")

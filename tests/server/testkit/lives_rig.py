"""A broker with lives, on a disk in memory, and what a test asks of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from ottla.log.disk.files import Disk
from ottla.server.base.clock import LoopClock
from ottla.server.base.randomness import from_seed
from ottla.server.partitions.replica import Replica
from ottla.server.testkit.calls.control import find_call
from ottla.server.testkit.disk.memory_disk import remove_for_good
from ottla.server.testkit.given import Given
from ottla.server.testkit.kit import Kit
from ottla.server.testkit.lives.homes import Home, Scratch
from ottla.server.testkit.lives.lives import Lives
from ottla.wire.messages import fetch, list_offsets, metadata, produce
from tests.asking import ask
from tests.log.support import batch
from tests.server.broker.whole_broker import config, disk
from tests.server.testkit.under_test import answer_header, frame_of


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    """Runs a scenario in an event loop of its own."""
    asyncio.run(asyncio.wait_for(scenario(), 30))


class Client:
    """A client whose connection stays open; it asks one thing at a time."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id

    async def connect(self, port: int) -> Client:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", port)
        return self

    async def ask(self, messages: Any, version: int, request: Any) -> Any:
        frame = frame_of(messages, version, request, self._client_id)
        self._writer.write(len(frame).to_bytes(4, "big") + frame)
        answer = await self._reader.readexactly(int.from_bytes(await self._reader.readexactly(4), "big"))
        return messages.DECODE_RESPONSE[version](answer, answer_header(messages, version))[0]

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


def fetch_of_orders() -> fetch.FetchRequest:
    """Waits a minute for records in partition 0 of the topic `orders`."""
    partition = fetch.FetchPartition(0, partition_max_bytes=1000)
    return fetch.FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=[fetch.FetchTopic("orders", partitions=[partition])])


class Rig:
    """A kit whose broker has begun its first life."""

    def __init__(self, home: Home | None = None, on: Disk | None = None, cluster_id: str | None = None, **settings: str) -> None:
        self.disk = on or disk()
        self.removed: list[str] = []
        scratch = Scratch("/kit", self.remove)
        clock, random = LoopClock(), from_seed(20)
        self.kit = Kit(clock, random)
        defaults = {"log_dirs": scratch.first(), "offsets_topic_num_partitions": "1", "transaction_state_log_num_partitions": "1"}
        first = config(**(defaults | settings))
        self.lives = self.kit.lives = Lives(
            clock, random, self.kit.around, first, self.disk, home or scratch, cluster_id=cluster_id
        )

    async def park_fetch(self, client: Client, body: fetch.FetchRequest) -> asyncio.Task[Any]:
        """Has a client fetch where nothing is; the answer to come, once the broker has the request."""
        came = self.wait(request={"api": "Fetch"})
        fetching = self.background(client.ask(fetch, 4, body))
        await came
        assert not fetching.done()
        return fetching

    def remove(self, path: str) -> None:
        self.removed.append(path)
        remove_for_good(self.disk, path)

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        """Calls a function of the kit as HTTP does."""
        call, variables = find_call(method, path)
        answer = call.function(self.kit, Given(variables, body))
        return await answer if isinstance(answer, Awaitable) else answer

    def wait(self, timeout_ms: int = 600_000, **until: Any) -> asyncio.Task[Any]:
        """A wait that has begun when the loop has had a turn. It looks once more at its end, long after that of a test."""
        return self.background(self.call("POST", "/v1/wait", {"until": until, "timeout_ms": timeout_ms}))

    @staticmethod
    def background(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Something that goes on beside the test."""
        return asyncio.ensure_future(work)

    @property
    def port(self) -> int:
        return self.lives.broker.port

    async def topics(self) -> list[str]:
        answer = await ask(self.port, metadata, 5, metadata.MetadataRequest(topics=None))
        return sorted(topic.name for topic in answer.topics)

    async def produce(self, topic: str, **of_batch: Any) -> int:
        """Appends a batch and returns its base offset."""
        answer = await self._produce(topic, **of_batch)
        assert answer.error_code == 0
        return int(answer.base_offset)

    async def produce_error(self, topic: str, **of_batch: Any) -> int:
        """Appends a batch, if that succeeds, and returns the error code."""
        return int((await self._produce(topic, **of_batch)).error_code)

    async def _produce(self, topic: str, **of_batch: Any) -> Any:
        data = produce.PartitionProduceData(0, batch(**of_batch))
        body = produce.ProduceRequest(None, -1, 1000, [produce.TopicProduceData(topic, partition_data=[data])])
        return (await ask(self.port, produce, 9, body)).responses[0].partition_responses[0]

    def place_of(self, topic: str, partition: int) -> str:
        """Returns the directory of a partition."""
        return str(self.lives.context.replicas.logs.logs[topic, partition].path)

    def replica(self, topic: str, index: int = 0) -> Replica:
        """Returns the replica of a partition, which must exist."""
        replica = self.lives.context.replicas.get(topic, index)
        assert replica is not None
        return replica

    async def offset(self, topic: str, at: int) -> int:
        """Returns the first offset of partition 0 with -2, and its end with -1."""
        partition = list_offsets.ListOffsetsPartition(0, timestamp=at)
        body = list_offsets.ListOffsetsRequest(-1, 0, [list_offsets.ListOffsetsTopic(topic, [partition])])
        answer = (await ask(self.port, list_offsets, 5, body)).topics[0].partitions[0]
        assert answer.error_code == 0
        return int(answer.offset)


@asynccontextmanager
async def living(
    home: Home | None = None, on: Disk | None = None, cluster_id: str | None = None, **settings: str
) -> AsyncIterator[Rig]:
    """A rig from the start of its first life to the end of its last."""
    rig = Rig(home, on, cluster_id, **settings)
    await rig.lives.start()
    try:
        yield rig
    finally:
        await rig.lives.stop(clean=False)

"""Tests of what a client gets of an answer whose bytes a fault changes, and of the answers before and behind it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.server.dispatch.routes import Dispatch
from ottla.server.testkit.faults.frames import Frames
from ottla.testing import Broker
from ottla.wire.messages import create_topics, fetch, metadata, produce
from tests.log.support import batch
from tests.server.testkit.under_test import frame_of, under_test

LIMIT_SECONDS = 30
Frame = tuple[int, bytes]


def topics() -> bytes:
    return frame_of(
        create_topics, 7, create_topics.CreateTopicsRequest([create_topics.CreatableTopic("t", 1, 1)], 1000), "app", 0
    )


def producing() -> bytes:
    data = [produce.TopicProduceData("t", partition_data=[produce.PartitionProduceData(0, batch(1))])]
    return frame_of(produce, 9, produce.ProduceRequest(None, -1, 1000, data), "app", 2)


def fetching(max_wait_ms: int = 0) -> bytes:
    partition = fetch.FetchPartition(0, partition_max_bytes=1 << 20)
    asked = fetch.FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20, session_epoch=-1)
    asked.topics = [fetch.FetchTopic("t", partitions=[partition])]
    return frame_of(fetch, 12, asked, "app", 2)


def asking(correlation_id: int) -> bytes:
    return frame_of(metadata, 12, metadata.MetadataRequest([]), "app", correlation_id)


class Client:
    """A connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self._writer = writer

    def send(self, *frames: bytes) -> None:
        """Sends frames in one write."""
        self._writer.write(b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames))

    async def receive(self) -> bytes:
        """The next answer, without its size."""
        size = int.from_bytes(await asyncio.wait_for(self.reader.readexactly(4), LIMIT_SECONDS), "big")
        return await asyncio.wait_for(self.reader.readexactly(size), LIMIT_SECONDS)

    async def rest(self) -> bytes:
        """All that comes until the connection ends."""
        return await asyncio.wait_for(self.reader.read(), LIMIT_SECONDS)

    def close(self) -> None:
        self._writer.close()


async def connect(broker: Broker) -> Client:
    return Client(*await asyncio.open_connection("127.0.0.1", broker.port))


async def three_answers(broker: Broker, middle: bytes) -> list[bytes]:
    """Returns what comes for three requests that are sent at once."""
    client = await connect(broker)
    client.send(asking(1), middle, asking(3))
    answers = [await client.receive() for _ in range(3)]
    client.close()
    return answers


REQUESTS = {"Metadata": asking(2), "Produce": producing(), "Fetch": fetching()}


@pytest.mark.parametrize("api", REQUESTS)
@pytest.mark.parametrize(
    "action", [{"corrupt": "correlation_id"}, {"corrupt": "truncate"}, {"corrupt": "flip"}, {"drip": {"bytes": 7, "every_ms": 1}}]
)
def test_the_middle_of_three_is_changed_and_none_overtakes_another(api: str, action: dict[str, Any]) -> None:
    async def scenario() -> None:
        async with Broker(seed=1) as broker:
            client = await connect(broker)
            client.send(topics(), producing())
            await client.receive()
            await client.receive()
            client.close()
            sound = await three_answers(broker, REQUESTS[api])
            fault = broker.fault(api=api, on_call=2 if api == "Metadata" else 1, **action)
            before, changed, behind = await three_answers(broker, REQUESTS[api])
            assert (before, behind) == (sound[0], sound[2])
            assert fault.hits == 1
            if "drip" in action:
                assert len(changed) == len(sound[1])
                assert changed[:4] == sound[1][:4]
            elif action["corrupt"] == "correlation_id":
                assert changed[:4] != sound[1][:4]
                assert len(changed) == len(sound[1])
            elif action["corrupt"] == "truncate":
                assert len(changed) == 4 + (len(sound[1]) - 4) // 2
            else:
                assert len(changed) == len(sound[1])
                assert changed[:4] == sound[1][:4]
                if api == "Metadata":  # in the others offsets and times differ
                    assert sum(a != b for a, b in zip(changed, sound[1], strict=True)) == 1

    asyncio.run(scenario())


def test_a_frame_that_says_it_is_longer_has_the_client_wait() -> None:
    async def scenario() -> None:
        async with Broker(seed=1) as broker:
            sound = (await three_answers(broker, asking(2)))[1]
            broker.fault(api="Metadata", corrupt="length")
            client = await connect(broker)
            client.send(asking(2))
            size = int.from_bytes(await client.reader.readexactly(4), "big")
            assert size > len(sound)
            assert await client.reader.readexactly(len(sound)) == sound
            client.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("request_frame", [asking(2), fetching(20)], ids=["at once", "later"])
def test_half_an_answer_and_then_a_reset(request_frame: bytes) -> None:
    async def scenario() -> None:
        async with Broker() as broker:
            client = await connect(broker)
            client.send(topics())
            await client.receive()
            broker.fault(cut_after=6)
            client.send(request_frame)
            assert len(await client.reader.readexactly(6)) == 6
            with pytest.raises(ConnectionResetError):
                await client.rest()
            client.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(("how", "error"), [("close", None), ("reset", ConnectionResetError)])
@pytest.mark.parametrize("act", ["before", "after"])
def test_a_disconnect_ends_the_connection_in_place_of_an_answer(how: str, error: type[Exception] | None, act: str) -> None:
    async def scenario() -> None:
        async with Broker() as broker:
            client = await connect(broker)
            client.send(topics())
            await client.receive()
            broker.fault(api="Produce", disconnect=how, act=act)
            client.send(producing())
            if error is None:
                assert await client.rest() == b""
            else:
                with pytest.raises(error):
                    await client.rest()
            client.close()
            client = await connect(broker)
            client.send(fetching())
            answer = fetch.DECODE_RESPONSE[12](await client.receive(), 5)[0]
            assert bool(answer.responses[0].partitions[0].records) == (act == "after")
            client.close()

    asyncio.run(scenario())


def test_a_delay_is_a_delay_and_the_request_behind_it_waits() -> None:
    async def scenario() -> None:
        async with Broker() as broker:
            for act in ("before", "after"):
                broker.fault(api="Metadata", delay_ms=30, jitter_ms=10, act=act)
                started = asyncio.get_running_loop().time()
                answers = await three_answers(broker, asking(2))
                assert [int.from_bytes(answer[:4], "big") for answer in answers] == [1, 2, 3]
                assert asyncio.get_running_loop().time() - started >= 0.03

    asyncio.run(scenario())


def test_a_client_in_a_black_hole_keeps_its_connection_and_others_are_served() -> None:
    async def scenario() -> None:
        async with Broker() as broker:
            fault = broker.fault(client_id="app", blackhole=True, times=-1)
            lost = await connect(broker)
            lost.send(asking(1), asking(2))
            other = await connect(broker)
            other.send(frame_of(metadata, 12, metadata.MetadataRequest([]), "other", 5))
            assert (await other.receive())[:4] == bytes((0, 0, 0, 5))
            await broker.aio.fault(observe=True)
            assert fault.hits == 1  # the second waits for the first
            assert len(broker._running().listeners[0].connections) == 2
            lost.close()
            other.close()

    asyncio.run(scenario())


def test_without_a_fault_that_changes_bytes_an_answer_passes_as_it_is() -> None:
    async def scenario() -> None:
        async with under_test() as test:
            dispatch = Dispatch(test.context, test.broker.chain)
            frames = Frames(dispatch, test.kit.rewrites, test.kit)
            served = [each(asking(1), test.session) for each in (frames.serve, frames.serve_again, dispatch.serve)]
            assert served[0] == served[1] == served[2]
            assert isinstance(test.broker.listeners[0].dispatch, Frames)

    asyncio.run(scenario())

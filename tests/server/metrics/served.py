"""A broker with metrics under some traffic, and a client of its pages."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from prometheus_client.metrics_core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families

from ottla.server.broker.broker import Broker
from ottla.wire.messages import (
    alter_client_quotas,
    create_topics,
    fetch,
    get_telemetry_subscriptions,
    list_offsets,
    metadata,
    offset_commit,
    produce,
    push_telemetry,
)
from tests.asking import ask
from tests.fakes import NOW_MS
from tests.log.support import batch
from tests.memdisk import MemDisk
from tests.otlp import metrics_data, point, text, total
from tests.server.broker.whole_broker import config

LIMIT_SECONDS = 30


class Answer(NamedTuple):
    status: int
    fields: dict[str, str]
    body: bytes


async def send(url: str, request: bytes) -> Answer:
    """Raw bytes to where a URL points; the answer, once the server closes."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    writer.write(request)
    raw = await asyncio.wait_for(reader.read(), LIMIT_SECONDS)
    writer.close()
    head, _, body = raw.partition(b"\r\n\r\n")
    status, *fields = head.decode().split("\r\n")
    pairs = (field.partition(": ") for field in fields)
    return Answer(int(status.split()[1]), {name.lower(): value for name, _, value in pairs}, body)


async def get(url: str | None, path: str, method: str = "GET") -> Answer:
    assert url is not None
    return await send(url, f"{method} {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode())


def parsed(text: bytes) -> dict[str, Family]:
    """Families by name, as the library's own parser reads them."""
    return {family.name: family for family in text_string_to_metric_families(text.decode())}


def metrics_config(**settings: str) -> Broker:
    """Not started yet; on a disk in memory."""
    return Broker(config(ottla_metrics_port="0", **settings), disk=MemDisk(lambda: NOW_MS))


async def traffic(broker: Broker) -> None:
    """Two topics, three records in, twice out, a group of offsets, and errors of three kinds; by clients with quotas."""
    port = broker.port
    keys = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
    ops = [alter_client_quotas.OpData(key, 1e9) for key in keys]
    everybody = alter_client_quotas.RequestEntryData([alter_client_quotas.RequestEntityData("user", None)], ops)
    await ask(port, alter_client_quotas, 1, alter_client_quotas.AlterClientQuotasRequest([everybody]))
    topics = [create_topics.CreatableTopic("orders", 2, 1), create_topics.CreatableTopic("quiet", 1, 1)]
    await ask(port, create_topics, 4, create_topics.CreateTopicsRequest(topics, 1000))
    await ask(port, metadata, 5, metadata.MetadataRequest(topics=None))
    records = batch(3)
    for batches in (records, records[:-1]):
        data = [produce.PartitionProduceData(0, batches)]
        await ask(
            port, produce, 8, produce.ProduceRequest(None, -1, 1000, [produce.TopicProduceData("orders", partition_data=data)])
        )
    for offset in (0, 1, 99):
        wanted = [fetch.FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)]
        request = fetch.FetchRequest(max_bytes=1 << 20, topics=[fetch.FetchTopic("orders", partitions=wanted)])
        await ask(port, fetch, 11, request)
    nowhere = [list_offsets.ListOffsetsTopic("nowhere", [list_offsets.ListOffsetsPartition(0)])]
    await ask(port, list_offsets, 4, list_offsets.ListOffsetsRequest(-1, 0, nowhere))
    commits = [offset_commit.OffsetCommitRequestPartition(0, 1), offset_commit.OffsetCommitRequestPartition(1, 0)]
    committed = offset_commit.OffsetCommitRequest(
        "readers", -1, topics=[offset_commit.OffsetCommitRequestTopic("orders", partitions=commits)]
    )
    assert await coordinated(broker, committed)


async def telling(broker: Broker) -> asyncio.StreamWriter:
    """A client that pushed a number of its own; it is known for as long as its connection is open."""
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
    instance_id = b"a client's own 1"

    async def answer_to(messages: Any, request: Any) -> Any:
        body: list[bytes] = [b"\0"]
        messages.ENCODE_REQUEST[0](request, body)
        frame = messages.API_KEY.to_bytes(2, "big") + bytes(6) + b"\0\x06teller" + b"".join(body)
        writer.write(len(frame).to_bytes(4, "big") + frame)
        answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        return messages.DECODE_RESPONSE[0](answer, 5)[0]

    request = get_telemetry_subscriptions.GetTelemetrySubscriptionsRequest(instance_id)
    wanted = await answer_to(get_telemetry_subscriptions, request)
    pushed = metrics_data(total("requests", point(3, {"node": text("1")})))
    answer = await answer_to(
        push_telemetry, push_telemetry.PushTelemetryRequest(instance_id, wanted.subscription_id, False, 0, pushed)
    )
    assert (wanted.error_code, answer.error_code) == (0, 0)
    return writer


async def coordinated(broker: Broker, request: offset_commit.OffsetCommitRequest) -> bool:
    """Commits once there is a place for offsets, which FindCoordinator makes."""
    from ottla.wire.messages import find_coordinator

    await ask(broker.port, find_coordinator, 2, find_coordinator.FindCoordinatorRequest("readers"))
    answer = await ask(broker.port, offset_commit, 7, request)
    return all(partition.error_code == 0 for topic in answer.topics for partition in topic.partitions)

"""Produce, Fetch and ApiVersions of a broker in memory, through the codecs, at any version."""

from __future__ import annotations

import importlib
from typing import Any

from ottla.wire.api import BY_MODULE
from ottla.wire.frame import decode_whole
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.fakes import MemoryBroker


def versions(module: str) -> range:
    api = BY_MODULE[module]
    return range(api.min_version, api.max_version + 1)


def over_the_wire(table: Any, back: Any, message: Any) -> Any:
    parts: list[Any] = []
    table(message, parts)
    return decode_whole(back, b"".join(part.read() if hasattr(part, "read") else part for part in parts))


def call(broker: MemoryBroker, module: str, version: int, request: Any) -> Any:
    """Returns what the client reads; None where there is no answer, a future where it has to wait."""
    messages = importlib.import_module(f"ottla.wire.messages.{module}")
    handler = importlib.import_module(f"ottla.server.handlers.{module}")
    received = over_the_wire(messages.ENCODE_REQUEST[version], messages.DECODE_REQUEST[version], request)
    answer = handler.handle(received, broker.request(version, messages.API_KEY))
    if answer is None or hasattr(answer, "add_done_callback"):
        return answer
    return read(module, version, answer)


def read(module: str, version: int, answer: Any) -> Any:
    messages = importlib.import_module(f"ottla.wire.messages.{module}")
    return over_the_wire(messages.ENCODE_RESPONSE[version], messages.DECODE_RESPONSE[version], answer)


def named(topic: str, version: int, ids_since: int = 13) -> tuple[str, bytes]:
    """(name, id) as a request of this version has them."""
    return ("", MemoryBroker.topic_id(topic)) if version >= ids_since else (topic, bytes(16))


def produce_request(
    topic: str, batches: dict[int, bytes | None], version: int = 9, acks: int = -1, transactional_id: str | None = None
) -> ProduceRequest:
    data = [PartitionProduceData(index, records) for index, records in batches.items()]
    return ProduceRequest(transactional_id, acks, 1000, [TopicProduceData(*named(topic, version), data)])


def produce(broker: MemoryBroker, topic: str, records: bytes | None, version: int = 9, index: int = 0, **options: Any) -> Any:
    """The one partition's answer."""
    answer = call(broker, "produce", version, produce_request(topic, {index: records}, version, **options))
    ((response,),) = (each.partition_responses for each in answer.responses)
    return response


def fetch_request(
    topic: str,
    offsets: dict[int, int],
    version: int = 12,
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    isolation_level: int = 0,
    replica_id: int = -1,
    session: tuple[int, int] = (0, -1),
    **fields: Any,
) -> FetchRequest:
    """`fields` are those of each FetchPartition."""
    partitions = [
        FetchPartition(index, fetch_offset=offset, partition_max_bytes=partition_max_bytes, **fields)
        for index, offset in offsets.items()
    ]
    return FetchRequest(
        replica_id=replica_id if version < 15 else -1,
        replica_state=ReplicaState(replica_id, -1) if version >= 15 and replica_id >= 0 else None,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(*named(topic, version), partitions)] if partitions else [],
    )


def fetch(broker: MemoryBroker, topic: str, offset: int = 0, version: int = 12, **options: Any) -> Any:
    """The one partition's data."""
    answer = call(broker, "fetch", version, fetch_request(topic, {0: offset}, version, **options))
    assert answer.error_code == 0
    ((data,),) = (each.partitions for each in answer.responses)
    return data

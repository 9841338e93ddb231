"""CPU time of the codecs on the two hot APIs: python -m scripts.bench.codec

1x1 is one topic with one partition (1,000 B of records in Produce, 64 KiB in the Fetch response); 10x10 is ten topics
of ten partitions (100 B each). "parts" is the list of buffers that `writelines` and `sendfile` take, "joined" adds
the copy into one piece. Best of 80 rounds, in CPU microseconds a message.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ottla.wire.header import decode_request_header, encode_request_header
from ottla.wire.messages import fetch, produce

ROUNDS = 80
SECONDS_A_ROUND = 0.004


def best(call: Callable[[], object]) -> float:
    """Returns CPU microseconds of one call, the best of ROUNDS rounds."""
    count, spent = 1, 0.0
    while spent < SECONDS_A_ROUND:
        count *= 2
        spent = _spent(call, count)
    return min(_spent(call, count) for _ in range(ROUNDS)) / count * 1e6


def _spent(call: Callable[[], object], count: int) -> float:
    start = time.process_time()
    for _ in range(count):
        call()
    return time.process_time() - start


def messages(side: int) -> list[tuple[str, Any, Any, int]]:
    """Returns (name, module side, message, version) for `side` topics with `side` partitions each."""
    records = bytes(1000 if side == 1 else 100)
    fetched = bytes(65536 if side == 1 else 100)
    numbers = range(side)
    topics = [f"topic-{n}" for n in numbers]
    produced = [
        produce.TopicProduceData(name=t, partition_data=[produce.PartitionProduceData(index=p, records=records) for p in numbers])
        for t in topics
    ]
    wanted = [
        fetch.FetchTopic(topic=t, partitions=[fetch.FetchPartition(partition=p, partition_max_bytes=1 << 20) for p in numbers])
        for t in topics
    ]
    answers = [
        fetch.FetchableTopicResponse(
            topic=t, partitions=[fetch.PartitionData(partition_index=p, records=fetched) for p in numbers]
        )
        for t in topics
    ]
    acks = [
        produce.TopicProduceResponse(name=t, partition_responses=[produce.PartitionProduceResponse(index=p) for p in numbers])
        for t in topics
    ]
    return [
        ("decode Produce v9", produce, produce.ProduceRequest(acks=-1, timeout_ms=30000, topic_data=produced), 9),
        ("decode Fetch v12", fetch, fetch.FetchRequest(max_wait_ms=500, min_bytes=1, topics=wanted), 12),
        ("encode Fetch response v12", fetch, fetch.FetchResponse(responses=answers), 12),
        ("encode Produce response v9", produce, produce.ProduceResponse(responses=acks), 9),
    ]


def encoded(table: Any, message: Any, version: int) -> bytes:
    parts: list[Any] = []
    table[version](message, parts)
    return b"".join(parts)


def row(name: str, module: Any, message: Any, version: int) -> str:
    if name.startswith("decode"):
        raw = encoded(module.ENCODE_REQUEST, message, version)
        decode = module.DECODE_REQUEST[version]
        shared = bytearray(raw)
        return f"{best(lambda: decode(raw, 0)):8.2f} from bytes {best(lambda: decode(shared, 0)):8.2f} from a bytearray"
    encode = module.ENCODE_RESPONSE[version]
    joined = best(lambda: encoded(module.ENCODE_RESPONSE, message, version))
    return f"{best(lambda: encode(message, [])):8.2f} parts      {joined:8.2f} joined"


def main() -> None:
    for side in (1, 10):
        for name, module, message, version in messages(side):
            print(f"{side}x{side}".ljust(6), name.ljust(28), row(name, module, message, version))
    raw = encode_request_header(1, 12, 7, "a-client")
    print("".ljust(6), "decode request header v2".ljust(28), f"{best(lambda: decode_request_header(raw, 0)):8.2f}")


if __name__ == "__main__":
    main()

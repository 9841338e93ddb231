"""A Produce that comes as `bytes` (a short read) and one that comes as a view (a long read) get the same answer and leave the
same log: random requests of all versions, with batches that are plain, compressed, idempotent or broken, in frames that may be
broken, too."""

from __future__ import annotations

import random
from typing import Any, cast

import pytest

from ottla.server.base.errors import CloseConnection
from ottla.server.dispatch.route import Waiting
from ottla.server.dispatch.routes import Dispatch
from ottla.wire.header import encode_request_header
from ottla.wire.messages import produce as messages
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.fakes import NOW_MS, MemoryBroker
from tests.log.support import batch
from tests.server.handlers.data_calls import named, versions
from tests.wire.changed_batches import changed

TOPICS: dict[str, dict[str, Any]] = {
    "plain": {},
    "compact": {"cleanup_policy": "compact"},
    "stamped": {"message_timestamp_type": "LogAppendTime"},
    "packed": {"compression_type": "lz4"},
    "narrow": {"max_message_bytes": "300", "message_timestamp_before_max_ms": "1000", "message_timestamp_after_max_ms": "1000"},
    "flushed": {"flush_messages": "3"},
}

BROKEN: dict[str, tuple[int, ...]] = {
    "base_offset": (5,),
    "records_count": (0, 2),
    "last_offset_delta": (9,),
    "attributes": (5, 0x08, 0x10, 0x20),
    "magic": (1, 3),
    "crc": (7,),
    "batch_length": (-1, 20),
    "max_timestamp": (3,),
    "base_timestamp": (2**62,),
    "producer_id": (9,),
}
"""Fields of a batch's header with values that are wrong, or rare."""


def broken_in_the_header(seeded: random.Random, records: bytes) -> bytes:
    field = seeded.choice(list(BROKEN))
    value = seeded.choice(BROKEN[field])
    return changed(records, **{field: value})


def records_of(seeded: random.Random, sequences: dict[int, int]) -> bytes | None:
    producer_id = seeded.choice((-1, -1, 7, 8))
    sequence, count = sequences.get(producer_id, 0), seeded.choice((1, 1, 3))
    records = batch(
        count,
        timestamp_ms=NOW_MS + seeded.choice((0, 0, -5000, 5000)),
        step_ms=seeded.choice((0, 1, -1)),
        value=b"v" * seeded.choice((0, 10, 400)),
        producer=(producer_id, seeded.choice((0, 0, 0, 1)), sequence) if producer_id >= 0 else None,
        codec=seeded.choice((0, 0, 0, 1, 3, 4)),
    )
    if seeded.random() < 0.7:
        sequences[producer_id] = sequence + seeded.choice((count, count, count, 0, 9))
    if seeded.random() < 0.25:
        return broken_in_the_header(seeded, records)
    match seeded.randrange(20):
        case 0:
            return None
        case 1:
            return records[: seeded.randrange(len(records))]
        case 2:
            return records + seeded.choice((records, b"\0", records[:30]))
        case 3:
            at = seeded.randrange(61, len(records))
            return records[:at] + seeded.randbytes(1) + records[at + 1 :]
    return records


def frame_of(seeded: random.Random, version: int, sequences: dict[int, int]) -> bytes:
    name = seeded.choice([*TOPICS, *TOPICS, "missing", "__consumer_offsets"])
    data = [
        PartitionProduceData(seeded.choice((0, 0, 0, 1, -1)), records_of(seeded, sequences))
        for _ in range(seeded.choice((1, 1, 1, 1, 0, 2)))
    ]
    request = ProduceRequest(None, seeded.choice((-1, -1, 1, 0, 5)), 1000, [TopicProduceData(*named(name, version), data)])
    parts: list[Any] = [encode_request_header(0, version, seeded.randrange(1 << 31), seeded.choice((None, "", "me")))]
    messages.ENCODE_REQUEST[version](request, parts)
    frame = b"".join(parts)
    match seeded.randrange(25):
        case 0:
            return frame[: seeded.randrange(len(frame))]
        case 1:
            return frame + b"\0"
        case 2:
            at = seeded.randrange(4, min(60, len(frame)))
            return frame[:at] + seeded.randbytes(1) + frame[at + 1 :]
    return frame


def outcome(dispatch: Dispatch, broker: MemoryBroker, frame: Any, session: Any) -> Any:
    try:
        answer = dispatch.serve(frame, session)
    except CloseConnection as reason:
        return str(reason).partition(" does not decode: ")[:2]  # what follows is Python's word for it, which depends on the type
    if isinstance(answer, Waiting):
        broker.clock.advance()
        return "later", answer.route.finish(cast(Any, answer.answer), answer)
    return answer


def logs_of(broker: MemoryBroker) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for replica in broker.replicas:
        log = replica.log
        producers = [(each.producer_id, each.producer_epoch, each.batches) for each in log.producers]
        batches = [bytes(each) for each in log.segments.batches(0, log.log_end_offset)]
        found[f"{replica.topic}-{replica.partition}"] = batches, log.log_end_offset, log.high_watermark, producers
    return found


@pytest.mark.parametrize("version", versions("produce"))
def test_bytes_and_views_of_the_same_requests_give_the_same_answers_and_logs(version: int) -> None:
    brokers = [MemoryBroker({}) for _ in range(2)]
    for broker in brokers:
        for name, settings in TOPICS.items():
            broker.create_topic(name, 2, **settings)
    dispatches = [Dispatch(broker.context) for broker in brokers]
    sessions = [broker.session() for broker in brokers]
    seeded, sequences = random.Random(version), dict[int, int]()
    kinds = set[type]()
    for _ in range(150):
        frame = frame_of(seeded, version, sequences)
        view = memoryview(bytearray(frame))
        ours = outcome(dispatches[0], brokers[0], frame, sessions[0])
        theirs = outcome(dispatches[1], brokers[1], view, sessions[1])
        assert ours == theirs
        kinds.add(type(ours))
    assert logs_of(brokers[0]) == logs_of(brokers[1])
    assert {bytes, tuple, type(None)} <= kinds
    assert sum(end for _, end, _, _ in logs_of(brokers[0]).values()) > 20

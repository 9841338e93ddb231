"""The codecs of a Produce about one partition agree with the generated ones, on every request and answer, valid or broken."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ottla.wire import single_produce
from ottla.wire.frame import MALFORMED
from ottla.wire.messages import produce as generated
from ottla.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

VERSIONS = range(generated.MIN_VERSION, generated.MAX_VERSION + 1)
BY_ID = 13
FLEXIBLE = 9


def encoded(encode: Any, message: Any) -> bytes:
    parts: list[bytes] = []
    encode(message, parts)
    return b"".join(parts)


def topic_names(seeded: random.Random, version: int) -> tuple[str, bytes]:
    if version >= BY_ID:
        return "", seeded.randbytes(16)
    return "".join(seeded.choices("aé𝄞-", k=seeded.choice((0, 1, 11, 127, 128, 300)))), bytes(16)


def request(seeded: random.Random, version: int, topics: int = 1, partitions: int = 1) -> ProduceRequest:
    def data() -> PartitionProduceData:
        size = seeded.choice((0, 1, 126, 127, 128, 170, 16_383, 16_384, 40_000))
        return PartitionProduceData(seeded.choice((0, 3, -1, 2**31 - 1)), seeded.randbytes(size))

    transactional_id = seeded.choice((None, None, "", "t-1", "é" * 100))
    acks, timeout_ms = seeded.choice((-1, 0, 1, 7)), seeded.choice((0, 1500, -1))
    each = [TopicProduceData(*topic_names(seeded, version), [data() for _ in range(partitions)]) for _ in range(topics)]
    return ProduceRequest(transactional_id, acks, timeout_ms, each)


def outcome(decode: Any, frame: bytes, pos: int) -> Any:
    """What decoding gives: the message in plain values, with its end, or that the bytes are malformed."""
    try:
        message, end = decode(frame, pos)
    except MALFORMED:
        return "malformed"
    topics = [
        (
            each.name,
            each.topic_id,
            [(data.index, None if data.records is None else bytes(data.records)) for data in each.partition_data],
        )
        for each in message.topic_data
    ]
    return message.transactional_id, message.acks, message.timeout_ms, topics, end


def taken(frame: bytes, pos: int, version: int) -> bool:
    """Whether the codecs here read the request by themselves."""
    if version < FLEXIBLE:
        return single_produce.read_fixed(frame, pos) is not None
    return single_produce.read_flexible(frame, pos, version >= BY_ID) is not None


@pytest.mark.parametrize("version", VERSIONS)
def test_requests_about_one_partition_are_read_in_one_piece(version: int) -> None:
    seeded = random.Random(version)
    for _ in range(60):
        head = seeded.randbytes(seeded.choice((0, 10, 25)))
        frame = head + encoded(generated.ENCODE_REQUEST[version], request(seeded, version))
        assert taken(frame, len(head), version)
        wanted = outcome(generated.DECODE_REQUEST[version], frame, len(head))
        assert outcome(single_produce.DECODE_REQUEST[version], frame, len(head)) == wanted
        assert outcome(single_produce.DECODE_REQUEST[version], memoryview(bytearray(frame)), len(head)) == wanted  # type: ignore[arg-type]  # `Any` above


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("topics", "partitions"), [(0, 0), (1, 0), (1, 2), (2, 1)])
def test_other_requests_are_left_to_the_generated_codecs(version: int, topics: int, partitions: int) -> None:
    seeded = random.Random(version)
    frame = encoded(generated.ENCODE_REQUEST[version], request(seeded, version, topics, partitions))
    assert not taken(frame, 0, version)
    wanted = outcome(generated.DECODE_REQUEST[version], frame, 0)
    assert outcome(single_produce.DECODE_REQUEST[version], frame, 0) == wanted != "malformed"


@pytest.mark.parametrize("version", VERSIONS)
def test_broken_requests_meet_the_same_end(version: int) -> None:
    """Cut short, lengthened, or with bytes changed where lengths and counts are."""
    seeded = random.Random(100 + version)
    seen = {"malformed": 0, "decoded": 0}
    for _ in range(1500):
        drawn = request(seeded, version)
        drawn.topic_data[0].partition_data[0].records = seeded.choice((None, b"", b"0123456789"))
        frame = bytearray(encoded(generated.ENCODE_REQUEST[version], drawn))
        for _ in range(seeded.choice((1, 1, 2))):
            frame[seeded.randrange(len(frame))] = seeded.choice((0, 1, 2, 3, 127, 128, 255, seeded.randrange(256)))
        match seeded.randrange(4):
            case 0:
                del frame[seeded.randrange(len(frame)) :]
            case 1:
                frame += seeded.randbytes(seeded.choice((1, 2, 30)))
        wanted = outcome(generated.DECODE_REQUEST[version], bytes(frame), 0)
        assert outcome(single_produce.DECODE_REQUEST[version], bytes(frame), 0) == wanted, frame
        seen["malformed" if wanted == "malformed" else "decoded"] += 1
    assert min(seen.values()) > 50, seen


def test_every_cut_is_judged_alike() -> None:
    seeded = random.Random(5)
    for version in VERSIONS:
        drawn = request(seeded, version)
        drawn.topic_data[0].partition_data[0].records = b"records"
        frame = encoded(generated.ENCODE_REQUEST[version], drawn)
        for end in range(len(frame)):
            wanted = outcome(generated.DECODE_REQUEST[version], frame[:end], 0)
            assert outcome(single_produce.DECODE_REQUEST[version], frame[:end], 0) == wanted


def answer(seeded: random.Random, version: int, **words: Any) -> ProduceResponse:
    numbers = (
        seeded.choice((0, 2, 87)),
        seeded.choice((0, -1, 2**62)),
        seeded.choice((-1, 1_700_000_000_000)),
        seeded.choice((-1, 5)),
    )
    partition = PartitionProduceResponse(seeded.choice((0, 9)), *numbers, **words)
    return ProduceResponse([TopicProduceResponse(*topic_names(seeded, version), [partition])], seeded.choice((0, 1234)))


@pytest.mark.parametrize("version", VERSIONS)
def test_answers_have_the_generated_bytes(version: int) -> None:
    seeded = random.Random(version)
    both = single_produce.ENCODE_RESPONSE[version], generated.ENCODE_RESPONSE[version]
    for _ in range(60):
        plain = answer(seeded, version)
        assert single_produce.single_answer(plain) is plain.responses[0].partition_responses[0]
        ours, wanted = (encoded(encode, plain) for encode in both)
        assert ours == wanted


@pytest.mark.parametrize("version", VERSIONS)
def test_answers_with_words_are_left_to_the_generated_codecs(version: int) -> None:
    seeded = random.Random(version)
    wordy = [
        answer(seeded, version, record_errors=[BatchIndexAndErrorMessage(3, "why")]),
        answer(seeded, version, error_message="because"),
        answer(seeded, version, current_leader=LeaderIdAndEpoch(4, 5)),
        answer(seeded, version),
        ProduceResponse([]),
        ProduceResponse([TopicProduceResponse("t", bytes(16), [])]),
        ProduceResponse([TopicProduceResponse("t", bytes(16), [PartitionProduceResponse(each) for each in range(2)])]),
        ProduceResponse([TopicProduceResponse("t", bytes(16), [PartitionProduceResponse()]) for _ in range(2)]),
    ]
    wordy[3].node_endpoints = [NodeEndpoint(1, "host", 9092)]
    for response in wordy:
        assert single_produce.single_answer(response) is None
        ours = encoded(single_produce.ENCODE_RESPONSE[version], response)
        assert ours == encoded(generated.ENCODE_RESPONSE[version], response)

"""Frames that are no messages, for every layout: one of MALFORMED or a wrong final position, never anything else, and
never memory by a declared size."""

from __future__ import annotations

import contextlib
import random
import struct
import tracemalloc

import pytest

from ottla.wire.frame import MALFORMED, decode_whole
from ottla.wire.messages import add_raft_voter, fetch, join_group, metadata, produce
from tests.wire.layouts import Layout, all_layouts

# Lengths that lie: compact ones of 5 bytes (2^35 - 1 and 2^31 - 1), an int32, and minus five.
FORGED = [bytes.fromhex(text) for text in ("ffffffff7f", "ffffffff07", "7fffffff", "fffffffb")]
MOST_BYTES = 1 << 20  # what the decoding of a frame of some hundred bytes may take


def complete_frame(layout: Layout) -> bytes:
    return layout.bytes(layout.draw("malformed", complete=True))


def test_a_truncated_message_is_malformed() -> None:
    for layout in all_layouts():
        raw = complete_frame(layout)
        for cut in range(len(raw)):
            with pytest.raises(MALFORMED):
                decode_whole(layout.decode, raw[:cut])


def test_trailing_bytes_are_malformed() -> None:
    for layout in all_layouts():
        raw = layout.bytes(layout.draw("trailing"))
        decode_whole(layout.decode, raw)
        with pytest.raises(MALFORMED):
            decode_whole(layout.decode, raw + b"\0")


def test_corrupted_messages_raise_nothing_but_malformed() -> None:
    source = random.Random("corrupted")
    for layout in all_layouts():
        raw = complete_frame(layout)
        for _ in range(40 if raw else 0):
            bad = bytearray(raw)
            for _ in range(source.choice((1, 1, 2, 8))):
                bad[source.randrange(len(bad))] = source.choice((0, 1, 0x7F, 0x80, 0xFF, source.randrange(256)))
            attempt(layout, bad)


def test_forged_lengths_allocate_nothing() -> None:
    tracemalloc.start()
    try:
        for layout in all_layouts():
            raw = complete_frame(layout)
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            for position in range(len(raw)):
                for forged in FORGED:
                    attempt(layout, bytearray(raw[:position] + forged + raw[position + 1 :]))
            _, peak = tracemalloc.get_traced_memory()
            assert peak - before < MOST_BYTES, layout.name
    finally:
        tracemalloc.stop()


def attempt(layout: Layout, frame: bytearray) -> None:
    with contextlib.suppress(*MALFORMED):
        decode_whole(layout.decode, frame)


@pytest.mark.parametrize(
    ("decode", "frame"),
    [
        pytest.param(produce.DECODE_REQUEST[3], struct.pack(">hhiih", -1, 1, 0, 1, -5), id="string of -5 bytes"),
        pytest.param(produce.DECODE_REQUEST[3], struct.pack(">hhii", -1, 1, 0, -2), id="array of -2 elements"),
        pytest.param(produce.DECODE_REQUEST[9], b"\0\0\1\0\0\0\0\0", id="compact array that may not be null"),
        pytest.param(join_group.DECODE_RESPONSE[6], b"\0" * 10 + b"\0\0\0\0\0\0", id="compact string that may not be null"),
        pytest.param(add_raft_voter.DECODE_REQUEST[0], b"\0\xff\xff\xff\xff\x0f" + b"\0" * 40, id="compact array, 2^32 elements"),
        pytest.param(metadata.DECODE_REQUEST[12], b"\xff\xff\xff\xff\xff\x01", id="varint of 6 bytes"),
    ],
)
def test_lengths_that_cannot_be(decode: object, frame: bytes) -> None:
    assert callable(decode)
    with pytest.raises(MALFORMED):
        decode_whole(decode, frame)


def test_a_tag_that_announces_another_size_is_malformed() -> None:
    raw = encoded(fetch.FetchRequest(cluster_id="c"))
    at = raw.index(b"\1\0\2\2c")  # one tagged field, number 0, two bytes: the compact string "c"
    for size in (1, 3):
        with pytest.raises(MALFORMED):
            decode_whole(fetch.DECODE_REQUEST[12], raw[: at + 2] + bytes((size,)) + raw[at + 3 :] + b"\0" * (size - 2))


def test_unknown_tags_are_stepped_over() -> None:
    request = fetch.FetchRequest(cluster_id="c", topics=[fetch.FetchTopic("t", partitions=[fetch.FetchPartition(3)])])
    raw = encoded(request)
    at = raw.index(b"\1\0\2\2c")
    more = raw[:at] + b"\3\0\2\2c" + b"\x63\3abc" + b"\xff\x7f\0"
    assert decode_whole(fetch.DECODE_REQUEST[12], more) == request


def encoded(request: fetch.FetchRequest) -> bytes:
    parts: list[bytes] = []
    fetch.ENCODE_REQUEST[12](request, parts)
    return b"".join(parts)

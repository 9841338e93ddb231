"""wire/compression.py: round trips, the foreign forms of each codec, bombs and damaged streams."""

from __future__ import annotations

import gzip
import random
import subprocess
import sys
import tracemalloc
import zlib
from contextlib import suppress
from typing import Any

import cramjam
import pytest
import zstandard
from lz4 import frame

from ottla.wire import compression
from ottla.wire.compression import (
    GZIP,
    LZ4,
    NONE,
    PIECE_BYTES,
    SNAPPY,
    ZSTD,
    CompressionError,
    compress,
    decompress,
    decompressed_pieces,
)

CODECS = [GZIP, SNAPPY, LZ4, ZSTD]
SEEDED = random.Random(3)
TEXTS = {
    "empty": b"",
    "one byte": b"x",
    "repeated": b"hello " * 5000,
    "random": SEEDED.randbytes(100_000),
    "zeros over several steps": bytes(3_000_000),
}


@pytest.mark.parametrize("codec", [NONE, *CODECS])
@pytest.mark.parametrize("name", TEXTS)
def test_round_trip_from_and_to_any_buffer(codec: int, name: str) -> None:
    text = TEXTS[name]
    packed = compress(codec, memoryview(bytearray(text)))
    assert decompress(codec, memoryview(bytearray(packed)), len(text)) == text


@pytest.mark.parametrize("codec", [NONE, *CODECS])
def test_one_byte_above_the_bound_is_refused(codec: int) -> None:
    for text in TEXTS.values():
        if text:
            with pytest.raises(CompressionError):
                decompress(codec, compress(codec, text), len(text) - 1)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("cut", [1, 3, 9, 200])
def test_a_stream_cut_short_is_refused(codec: int, cut: int) -> None:
    packed = compress(codec, TEXTS["random"])
    with pytest.raises(CompressionError):
        decompress(codec, packed[:-cut], 1_000_000)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\xff" * 40, b"plain text that no codec wrote", b"\x82SNAPPY\x00", b"\x1f\x8b\x08"]
)
def test_what_the_codec_did_not_write_is_refused(codec: int, data: bytes) -> None:
    if codec == SNAPPY and data == b"\0":
        assert decompress(codec, data, 10) == b""  # a raw block of no bytes
        return
    with pytest.raises(CompressionError):
        decompress(codec, data, 1_000_000)


@pytest.mark.parametrize("codec", CODECS)
def test_damaged_streams_raise_compression_error_or_decode_within_the_bound(codec: int) -> None:
    seeded = random.Random(codec)
    for text in (b"hello " * 300, seeded.randbytes(500)):
        packed = compress(codec, text)
        for _ in range(2000):
            damaged = bytearray(packed)
            for _ in range(seeded.randrange(1, 4)):
                damaged[seeded.randrange(len(damaged))] = seeded.randrange(256)
            try:
                assert len(decompress(codec, damaged, 4000)) <= 4000
            except CompressionError:
                continue


@pytest.mark.parametrize("codec", [5, 6, 7, -1])
def test_numbers_without_codec_are_refused(codec: int) -> None:
    with pytest.raises(CompressionError):
        compress(codec, b"x")
    with pytest.raises(CompressionError):
        decompress(codec, b"x", 10)


def bomb(codec: int) -> bytes:
    """A gigabyte of zeros (snappy, which packs worse: 256 MiB), made without having it in memory."""
    zeros = bytes(1 << 20)
    if codec == GZIP:
        return gzip.compress(bytes(64 << 20)) * 16
    if codec == SNAPPY:
        block = bytes(cramjam.snappy.compress_raw(bytes(1 << 20)))
        return compress(SNAPPY, b"") + (len(block).to_bytes(4, "big") + block) * 256
    if codec == LZ4:
        framed: bytes = frame.compress(bytes(64 << 20))
        return framed * 16
    encoder = zstandard.ZstdCompressor().compressobj()
    return b"".join(encoder.compress(zeros) for _ in range(1024)) + encoder.flush()


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_costs_no_more_than_the_bound(codec: int) -> None:
    packed = bomb(codec)
    tracemalloc.start()
    try:
        with pytest.raises(CompressionError, match="more than 5000000"):
            decompress(codec, packed, 5_000_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 48 << 20, f"{peak:,} bytes for a bound of 5,000,000"


@pytest.mark.parametrize("codec", CODECS)
def test_decompressing_takes_the_memory_of_the_result_once(codec: int) -> None:
    size = 24 << 20
    packed = compress(codec, bytes(size))
    tracemalloc.start()
    try:
        assert len(decompress(codec, packed, size)) == size
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < size * 1.3, f"{peak:,} bytes for a result of {size:,}"  # a buffer that grows has an eighth to spare


@pytest.mark.parametrize("codec", [NONE, *CODECS])
@pytest.mark.parametrize("name", TEXTS)
def test_pieces_are_small_and_together_the_whole(codec: int, name: str) -> None:
    text = TEXTS[name]
    pieces = list(decompressed_pieces(codec, compress(codec, text), len(text)))
    assert b"".join(pieces) == text
    assert max(map(len, pieces), default=0) <= PIECE_BYTES


@pytest.mark.parametrize("codec", CODECS)
def test_who_stops_early_has_not_paid_for_the_rest(codec: int) -> None:
    packed = bomb(codec)
    tracemalloc.start()
    try:
        pieces = decompressed_pieces(codec, packed, 1 << 40)
        assert len(next(pieces)) + len(next(pieces)) <= 2 * PIECE_BYTES
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20, f"{peak:,} bytes for two pieces"


class Fed:
    """Counts the bytes that are given to a decoder, whether it consumes them or not."""

    def __init__(self, decoder: Any) -> None:
        self._decoder = decoder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._decoder, name)

    total = 0

    def decompress(self, data: Any, *args: Any, **more: Any) -> bytes:
        Fed.total += len(data)
        part: bytes = self._decoder.decompress(data, *args, **more)
        return part


@pytest.mark.parametrize("content", [b"", b"x"])
def test_many_small_gzip_members_are_linear(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    count, member = 3_000, gzip.compress(content)
    make = zlib.decompressobj
    monkeypatch.setattr(zlib, "decompressobj", lambda bits: Fed(make(bits)))
    Fed.total = 0
    assert decompress(GZIP, member * count, count) == content * count
    assert Fed.total < 64 * 1024 + count * 300, f"{Fed.total:,} bytes were fed, of {len(member) * count:,}"


@pytest.mark.parametrize("content", [b"", b"x"])
def test_many_small_lz4_frames_are_linear(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    """The decoder takes what it is given without copying it, and says how much it used; the other one keeps the rest."""
    count, one = 3_000, frame.compress(content, store_size=False)
    make, chunk, used = frame.LZ4FrameDecompressor, frame.decompress_chunk, 0

    def counted(context: Any, data: memoryview, max_length: int) -> tuple[bytes, int, bool]:
        nonlocal used
        part, read, ended = chunk(context, data, max_length=max_length)
        used += read
        return part, read, ended

    monkeypatch.setattr(frame, "LZ4FrameDecompressor", lambda: Fed(make()))
    monkeypatch.setattr(frame, "decompress_chunk", counted)
    Fed.total = 0
    assert decompress(LZ4, one * count, count) == content * count
    assert Fed.total + used < 2 * len(one) * count, f"{Fed.total + used:,} bytes were fed, of {len(one) * count:,}"


def zstd_frames(seeded: random.Random) -> tuple[bytes, bytes]:
    """Frames with everything that a header may have, and blocks of all kinds; and what they stand for."""
    frames, text = [], []
    for _ in range(seeded.randrange(1, 6)):
        part = seeded.choice(
            (b"", b"x", bytes(seeded.randrange(400_000)), seeded.randbytes(seeded.randrange(300_000)), b"ab" * 999)
        )
        level, checked = seeded.choice((-5, 1, 3, 9)), seeded.random() < 0.5
        with_size = seeded.random() < 0.5
        encoder = zstandard.ZstdCompressor(level, write_content_size=with_size, write_checksum=checked)
        if with_size:
            frames.append(encoder.compress(part))
        else:
            stream = encoder.compressobj()
            cut = seeded.randrange(len(part) + 1)
            flushed = stream.compress(part[:cut]) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
            frames.append(flushed + stream.compress(part[cut:]) + stream.flush())
        text.append(part)
        if seeded.random() < 0.3:
            skipped = seeded.randbytes(seeded.randrange(100))
            frames.append(bytes([0x50 + seeded.randrange(16)]) + b"\x2a\x4d\x18" + len(skipped).to_bytes(4, "little") + skipped)
    return b"".join(frames), b"".join(text)


@pytest.mark.parametrize("seed", range(15))
def test_zstd_frames_of_every_form(seed: int) -> None:
    seeded = random.Random(seed)
    packed, text = zstd_frames(seeded)
    pieces = list(decompressed_pieces(ZSTD, packed, len(text)))
    assert b"".join(pieces) == text
    assert max(map(len, pieces)) <= PIECE_BYTES
    whole = zstandard.ZstdDecompressor()
    for _ in range(30):
        cut = packed[: seeded.randrange(len(packed))]
        with whole.stream_reader(cut, read_across_frames=True) as reader, suppress(zstandard.ZstdError):
            rest = reader.read()
            try:
                assert decompress(ZSTD, cut, len(text)) == rest  # it ends with a frame
            except CompressionError:
                assert len(rest) <= len(text)


def test_snappy_does_not_believe_a_declared_size() -> None:
    declared = b"\xff\xff\xff\xff\x07"  # 2 GiB
    with pytest.raises(CompressionError, match="cannot stand for"):
        decompress(SNAPPY, declared + b"\0" * 20, 1 << 40)
    with pytest.raises(CompressionError, match="cannot stand for"):
        decompress(SNAPPY, compress(SNAPPY, b"") + (25).to_bytes(4, "big") + declared + b"\0" * 20, 1 << 40)


def test_zstd_does_not_believe_a_declared_size() -> None:
    honest = zstandard.ZstdCompressor(write_content_size=True).compress(b"x" * 300)
    lying = honest.replace((300 - 256).to_bytes(2, "little"), b"\xff\xff", 1)
    assert lying != honest
    with pytest.raises(CompressionError):
        decompress(ZSTD, lying, 1 << 40)


def test_snappy_raw_blocks_and_the_java_stream_are_both_read() -> None:
    text = TEXTS["repeated"]
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(text)), len(text)) == text
    stream = compress(SNAPPY, text)
    assert stream.startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    assert decompress(SNAPPY, stream + stream, 2 * len(text)) == text * 2


@pytest.mark.parametrize("length", [-1, 5, 2**31 - 1])
def test_snappy_block_lengths_are_checked(length: int) -> None:
    with pytest.raises(CompressionError):
        decompress(SNAPPY, compress(SNAPPY, b"") + length.to_bytes(4, "big", signed=True) + b"\x01\x00x", 100)


def test_several_members_and_frames_in_a_row() -> None:
    for codec in (GZIP, LZ4, ZSTD):
        assert decompress(codec, compress(codec, b"one ") + compress(codec, b"two"), 7) == b"one two"


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_bytes_behind_the_stream_are_refused(codec: int) -> None:
    with pytest.raises(CompressionError):
        decompress(codec, compress(codec, b"text") + b"and more", 100)


@pytest.mark.parametrize(("codec", "levels"), [(GZIP, [-1, 1, 9]), (LZ4, [1, 9, 17]), (ZSTD, [-131072, 1, 3, 22])])
def test_every_level_of_the_settings_works(codec: int, levels: list[int]) -> None:
    text = TEXTS["repeated"]
    assert {decompress(codec, compress(codec, text, level), len(text)) for level in levels} == {text}


def test_levels_have_an_effect() -> None:
    text = b"".join(b"%d," % (i * i) for i in range(20_000))
    for codec, low, high in ((GZIP, 1, 9), (LZ4, 9, 17), (ZSTD, 1, 19)):
        assert len(compress(codec, text, high)) < len(compress(codec, text, low))


def test_lz4_frames_are_those_that_kafka_writes() -> None:
    info = frame.get_frame_info(compress(LZ4, b"x" * 1000))
    assert (info["block_linked"], info["content_size"], info["content_checksum"], info["block_size_id"]) == (False, 0, False, 4)


def test_codec_libraries_are_imported_when_first_needed() -> None:
    code = (
        "import sys, ottla.wire.records, ottla.log.validate; "
        "print([name for name in ('lz4', 'zstandard', 'cramjam') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_names_are_those_of_the_setting() -> None:
    assert list(compression.NAMES.values()) == ["none", "gzip", "snappy", "lz4", "zstd"]

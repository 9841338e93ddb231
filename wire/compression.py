"""The codecs of record batches: gzip, snappy, lz4, zstd, with a bound on the size of the output.

The records of a batch are compressed as one stream, and the codec's number is in the batch's attributes. The formats are:

- gzip (1): RFC 1952, possibly several members.
- snappy (2): either one raw block or the stream of xerial's snappy-java, `82 "SNAPPY" 00`, two int32 versions, then (int32
  length, raw block)…. Java clients write the stream, librdkafka both, and everyone reads both. ottla writes the stream.
- lz4 (3): the LZ4 frame format, with the header checksum where the frame format has it (it was elsewhere before batches of
  version 2). ottla writes what Kafka writes: independent blocks of 64 KiB, with neither checksum nor size of the content.
- zstd (4): frames of RFC 8878, usually without a content size, because producers stream.

Bytes from outside may declare any size, so that is not trusted: decoding goes in steps, memory grows with the output, and one
byte above `max_bytes` ends it with CompressionError. A raw snappy block has to be decoded in one piece, but its declared size is
accepted only as far as the format can expand (a copy of 64 bytes takes 3).

The codec libraries are imported when first needed, because together they take more start-up time than the rest of `wire`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from struct import Struct, error
from typing import Final

from ottla.wire.primitives import Buffer

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4
NAMES: Final = {NONE: "none", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}
NUMBERS: Final = {name: number for number, name in NAMES.items()}

MAX_DECOMPRESSED_BYTES: Final = 256 * 1024 * 1024
"""The bound for one batch. Kafka bounds only single records (max.decompressed.message.bytes); one event loop needs this, too."""

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + Struct(">ii").pack(1, 1)
_XERIAL_BLOCK: Final = 32 * 1024
_SNAPPY_EXPANSION: Final = 22
_INT32: Final = Struct(">i")

_STEP: Final = 1024 * 1024  # bytes that a decoder may put out at once
_ZSTD_SLICE: Final = 1024  # a zstd block of 4 bytes can stand for 128 KiB: 1 KiB of input is at most 32 MiB of output
_LZ4_DEFAULT_LEVEL: Final = 9


class CompressionError(ValueError):
    """The codec cannot decode the bytes, or they decode to more than the bound, or no codec has the number."""


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Returns `data` compressed by `codec` (1-4; 0 copies it). `level` is that of compression.<codec>.level, None for Kafka's
    default. Raises CompressionError for an unknown codec."""
    try:
        encode = _COMPRESS[codec]
    except KeyError:
        raise CompressionError(f"no codec has the number {codec}") from None
    return encode(data, level)


def decompress(codec: int, data: Buffer, max_bytes: int) -> bytes:
    """Returns what `data` decompresses to. Raises CompressionError if it does not decode or gives more than `max_bytes`."""
    try:
        decode = _DECOMPRESS[codec]
    except KeyError:
        raise CompressionError(f"no codec has the number {codec}") from None
    return decode(data, max_bytes)


def _too_large(max_bytes: int) -> CompressionError:
    return CompressionError(f"more than {max_bytes} bytes come out")


def _copy(data: Buffer, _level: int | None) -> bytes:
    return bytes(data)


def _bounded_copy(data: Buffer, max_bytes: int) -> bytes:
    if len(data) > max_bytes:
        raise _too_large(max_bytes)
    return bytes(data)


def _gzip(data: Buffer, level: int | None) -> bytes:
    encoder = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, 31)
    return encoder.compress(data) + encoder.flush()


def _gunzip(data: Buffer, max_bytes: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    rest: Buffer = data
    while True:  # for each member
        decoder = zlib.decompressobj(31)
        while not decoder.eof:
            try:
                part = decoder.decompress(rest, _STEP)
            except zlib.error as problem:
                raise CompressionError(f"gzip: {problem}") from None
            size += len(part)
            if size > max_bytes:
                raise _too_large(max_bytes)
            parts.append(part)
            rest = decoder.unconsumed_tail
            if not part and not rest and not decoder.eof:
                raise CompressionError("gzip: the stream is cut short")
        rest = decoder.unused_data
        if not rest:
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _snappy(data: Buffer, _level: int | None) -> bytes:
    from cramjam import snappy

    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for at in range(0, len(view), _XERIAL_BLOCK):
        block = bytes(snappy.compress_raw(view[at : at + _XERIAL_BLOCK]))
        parts += (_INT32.pack(len(block)), block)
    return b"".join(parts)


def _unsnappy(data: Buffer, max_bytes: int) -> bytes:
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _unsnappy_block(view, max_bytes)
    parts: list[bytes] = []
    size = 0
    at = len(_XERIAL_HEADER)
    if len(view) < at:
        raise CompressionError("snappy: the stream's header is cut short")
    while at < len(view):
        if bytes(view[at : at + len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:  # streams may be concatenated
            at += len(_XERIAL_HEADER)
            continue
        try:
            (length,) = _INT32.unpack_from(view, at)
        except error:
            raise CompressionError("snappy: the stream is cut short") from None
        at += _INT32.size
        if length < 0 or length > len(view) - at:
            raise CompressionError(f"snappy: a block of {length} bytes where {len(view) - at} are left")
        size += _declared_size(view[at : at + length])
        if size > max_bytes:
            raise _too_large(max_bytes)
        parts.append(_unsnappy_block(view[at : at + length], max_bytes))
        at += length
    return b"".join(parts)


def _unsnappy_block(block: memoryview, max_bytes: int) -> bytes:
    from cramjam import DecompressionError, snappy

    declared = _declared_size(block)
    if declared > max_bytes:
        raise _too_large(max_bytes)
    if declared > len(block) * _SNAPPY_EXPANSION:
        raise CompressionError(f"snappy: {len(block)} bytes cannot stand for {declared}")
    try:
        return bytes(snappy.decompress_raw(block, output_len=declared))
    except (DecompressionError, ValueError) as problem:
        raise CompressionError(f"snappy: {problem}") from None


def _declared_size(block: memoryview) -> int:
    """Returns the size with which a raw block begins: a varint of at most five bytes."""
    value = 0
    for index in range(min(5, len(block))):
        value |= (block[index] & 127) << (7 * index)
        if block[index] < 128:
            return value
    raise CompressionError("snappy: a block without a size")


def _lz4(data: Buffer, level: int | None) -> bytes:
    from lz4 import frame

    # Kafka's default level 9 stands for the fast compressor, any other level for the high compressor at that level.
    mapped = 0 if level in {None, _LZ4_DEFAULT_LEVEL} else max(3, min(level or 0, 16))
    compressed: bytes = frame.compress(
        data, compression_level=mapped, block_size=frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False
    )
    return compressed


def _unlz4(data: Buffer, max_bytes: int) -> bytes:
    from lz4 import frame

    parts: list[bytes] = []
    size = 0
    rest: Buffer = data
    while True:  # for each frame
        decoder = frame.LZ4FrameDecompressor()
        feed: Buffer = rest
        while not decoder.eof:
            try:
                part = decoder.decompress(feed, max_length=min(_STEP, max_bytes - size + 1))
            except (RuntimeError, EOFError, ValueError) as problem:
                raise CompressionError(f"lz4: {problem}") from None
            size += len(part)
            if size > max_bytes:
                raise _too_large(max_bytes)
            parts.append(part)
            feed = b""
            if not part and decoder.needs_input and not decoder.eof:
                raise CompressionError("lz4: the stream is cut short")
        rest = decoder.unused_data or b""
        if not rest:
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _zstd(data: Buffer, level: int | None) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=3 if level is None else level, write_content_size=False).compress(data)


def _unzstd(data: Buffer, max_bytes: int) -> bytes:
    import zstandard

    view = memoryview(data)
    decoders = zstandard.ZstdDecompressor()
    parts: list[bytes] = []
    size = 0
    decoder = decoders.decompressobj()
    for at in range(0, len(view), _ZSTD_SLICE):
        rest: Buffer = view[at : at + _ZSTD_SLICE]
        while rest:
            if decoder.eof:  # another frame follows
                decoder = decoders.decompressobj()
            try:
                part = decoder.decompress(rest)
            except zstandard.ZstdError as problem:
                raise CompressionError(f"zstd: {problem}") from None
            size += len(part)
            if size > max_bytes:
                raise _too_large(max_bytes)
            parts.append(part)
            rest = decoder.unused_data if decoder.eof else b""
    if not decoder.eof:
        raise CompressionError("zstd: the stream is cut short")
    return parts[0] if len(parts) == 1 else b"".join(parts)


_COMPRESS: Final[dict[int, Callable[[Buffer, int | None], bytes]]] = {
    NONE: _copy,
    GZIP: _gzip,
    SNAPPY: _snappy,
    LZ4: _lz4,
    ZSTD: _zstd,
}
_DECOMPRESS: Final[dict[int, Callable[[Buffer, int], bytes]]] = {
    NONE: _bounded_copy,
    GZIP: _gunzip,
    SNAPPY: _unsnappy,
    LZ4: _unlz4,
    ZSTD: _unzstd,
}

"""The codecs of record batches: gzip, snappy, lz4, zstd, with a bound on the size of the output.

The records of a batch are compressed as one stream, and the codec's number is in the batch's attributes. The formats are:

- gzip (1): RFC 1952, possibly several members.
- snappy (2): either one raw block or the stream of xerial's snappy-java, `82 "SNAPPY" 00`, two int32 versions, then (int32
  length, raw block)…. Java clients write the stream, librdkafka both, and everyone reads both. ottla writes the stream.
- lz4 (3): the LZ4 frame format, with the header checksum where the frame format has it (it was elsewhere before batches of
  version 2). ottla writes what Kafka writes: independent blocks of 64 KiB, with neither checksum nor size of the content.
- zstd (4): frames of RFC 8878, usually without a content size, because producers stream.

Bytes from outside may declare any size, so that is not trusted. `decompressed_pieces` decodes in steps of at most 256 KiB and
ends with TooLarge above `max_bytes`. Whoever takes piece after piece never holds all of them, and whoever stops early has not
paid for the rest. A raw snappy block has to be decoded in one go, but its declared size is accepted only as far as the format can
expand (a copy of 64 bytes takes 3). For a zstd frame with a large window the library itself keeps as much of the output as the
window spans, so at most the bound. The time is linear in the input even if that is a hundred thousand empty members or frames.

The codec libraries are imported when first needed, because together they take more start-up time than the rest of `wire`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from io import BytesIO
from itertools import chain
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

MAX_DECOMPRESSED_BYTES: Final = 64 * 1024 * 1024
"""The default of ottla.max.decompressed.batch.bytes, the bound for the records of one batch, which Kafka does not have. A batch
is at most 1 MiB by default (max.message.bytes), and JSON shrinks to a tenth or a thirtieth; a broker in 512 MiB survives it."""

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + Struct(">ii").pack(1, 1)
_XERIAL_BLOCK: Final = 32 * 1024
_SNAPPY_EXPANSION: Final = 22
_SNAPPY_BLOCKS: Final = 256  # how many are decoded in one step, which are 8 MiB of the usual ones
_INT32: Final = Struct(">i")

PIECE_BYTES: Final = 256 * 1024
"""The number of bytes that come out in one step, except that a raw snappy block is decoded in one."""
_FEED: Final = 64 * 1024  # how much goes in in one step, and so how long a step without output takes
_NEXT_MEMBER_FEED: Final = 256  # zlib copies what it was fed behind the end of a member, so a later one begins with little
_ZSTD_BLOCK: Final = 128 * 1024  # what a block gives at most
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE: Final = b"\x2a\x4d\x18"  # after a byte 0x50 to 0x5f: bytes to pass over, whose size follows
_ZSTD_DICTIONARY_ID: Final = (0, 1, 2, 4)  # its size in a frame's header, by bits 0 and 1 of the descriptor
_ZSTD_CONTENT_SIZE: Final = (0, 2, 4, 8)  # likewise, by bits 6 and 7
_LZ4_DEFAULT_LEVEL: Final = 9


class CompressionError(ValueError):
    """The codec cannot decode the bytes, or they decode to more than the bound (TooLarge), or no codec has the number."""


class TooLarge(CompressionError):
    """The bytes may be sound, but they decode to more than the caller's bound."""


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Returns `data` compressed by `codec` (1-4; 0 copies it). `level` is that of compression.<codec>.level, None for Kafka's
    default. Raises CompressionError for an unknown codec."""
    try:
        encode = _COMPRESS[codec]
    except KeyError:
        raise CompressionError(f"no codec has the number {codec}") from None
    return encode(data, level)


def decompress(codec: int, data: Buffer, max_bytes: int) -> bytes:
    """Returns what `data` decompresses to, which is in memory only once. Raises CompressionError if it does not decode, and
    TooLarge if it gives more than `max_bytes`."""
    pieces = decompressed_pieces(codec, data, max_bytes)
    first = next(pieces, b"")
    second = next(pieces, None)
    return first if second is None else joined(chain((first, second), pieces))


def joined(pieces: Iterator[bytes]) -> bytes:
    """Returns the pieces as one; if nobody else holds them, they are in memory only once."""
    whole = BytesIO()
    for piece in pieces:
        whole.write(piece)
    return whole.getvalue()  # no copy: it hands out its own buffer


def decompressed_pieces(codec: int, data: Buffer, max_bytes: int) -> Iterator[bytes]:
    """Yields what `data` decompresses to, in pieces of at most PIECE_BYTES, some of which may be empty. Every step takes a
    bounded time. Raises CompressionError where it does not decode, and TooLarge where it gives more than `max_bytes`."""
    try:
        decode = _DECOMPRESS[codec]
    except KeyError:
        raise CompressionError(f"no codec has the number {codec}") from None
    return decode(data, max_bytes)


def _too_large(max_bytes: int) -> TooLarge:
    return TooLarge(f"more than {max_bytes} bytes come out")


def _copy(data: Buffer, _level: int | None) -> bytes:
    return bytes(data)


def _uncompressed(data: Buffer, max_bytes: int) -> Iterator[bytes]:
    if len(data) > max_bytes:
        raise _too_large(max_bytes)
    return _in_pieces(memoryview(data))


def _in_pieces(view: memoryview) -> Iterator[bytes]:
    for at in range(0, len(view), PIECE_BYTES):
        yield bytes(view[at : at + PIECE_BYTES])


def _gzip(data: Buffer, level: int | None) -> bytes:
    encoder = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, 31)
    return encoder.compress(data) + encoder.flush()


def _gunzip(data: Buffer, max_bytes: int) -> Iterator[bytes]:
    view = memoryview(data)
    at = size = 0
    feed_bytes = _FEED
    while True:  # for each member
        decoder = zlib.decompressobj(31)
        while not decoder.eof:
            feed: Buffer = decoder.unconsumed_tail
            if not feed:
                feed = view[at : at + feed_bytes]
                at += len(feed)
                feed_bytes = min(2 * feed_bytes, _FEED)
            try:
                part = decoder.decompress(feed, PIECE_BYTES)
            except zlib.error as problem:
                raise CompressionError(f"gzip: {problem}") from None
            size += len(part)
            if size > max_bytes:
                raise _too_large(max_bytes)
            if not part and not feed and not decoder.eof:
                raise CompressionError("gzip: the stream is cut short")
            yield part
        at -= len(decoder.unused_data)
        if at == len(view):
            return
        feed_bytes = _NEXT_MEMBER_FEED


def _snappy(data: Buffer, _level: int | None) -> bytes:
    from cramjam import snappy

    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for at in range(0, len(view), _XERIAL_BLOCK):
        block = bytes(snappy.compress_raw(view[at : at + _XERIAL_BLOCK]))
        parts += (_INT32.pack(len(block)), block)
    return b"".join(parts)


def _unsnappy(data: Buffer, max_bytes: int) -> Iterator[bytes]:
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        yield from _in_pieces(_unsnappy_block(view, max_bytes, max_bytes))
        return
    at = len(_XERIAL_HEADER)
    if len(view) < at:
        raise CompressionError("snappy: the stream's header is cut short")
    size = gathered_bytes = 0
    gathered: list[memoryview] = []  # blocks are small, and a piece may hold several
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
        block = _unsnappy_block(view[at : at + length], max_bytes - size, max_bytes)
        at += length
        size += len(block)
        if gathered_bytes + len(block) > PIECE_BYTES or len(gathered) >= _SNAPPY_BLOCKS:
            yield b"".join(gathered)
            gathered, gathered_bytes = [], 0
        if len(block) > PIECE_BYTES:
            yield from _in_pieces(block)
        else:
            gathered.append(block)
            gathered_bytes += len(block)
    yield b"".join(gathered)


def _unsnappy_block(block: memoryview, left: int, max_bytes: int) -> memoryview:
    """Returns the content of a raw block. `left` is how much may still come out of `max_bytes`."""
    from cramjam import DecompressionError, snappy

    declared = _declared_size(block)
    if declared > left:
        raise _too_large(max_bytes)
    if declared > len(block) * _SNAPPY_EXPANSION:
        raise CompressionError(f"snappy: {len(block)} bytes cannot stand for {declared}")
    try:
        return memoryview(snappy.decompress_raw(block, output_len=declared))
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


def _unlz4(data: Buffer, max_bytes: int) -> Iterator[bytes]:
    from lz4 import frame

    view = memoryview(data)
    context = frame.create_decompression_context()
    at = size = 0
    while True:  # for each frame
        ended = False
        while not ended:
            try:
                part, read, ended = frame.decompress_chunk(context, view[at : at + _FEED], max_length=PIECE_BYTES)
            except (RuntimeError, EOFError, ValueError) as problem:
                raise CompressionError(f"lz4: {problem}") from None
            at += read
            size += len(part)
            if size > max_bytes:
                raise _too_large(max_bytes)
            if not part and not read and not ended:
                raise CompressionError("lz4: the stream is cut short")
            yield part
        if at == len(view):
            return


def _zstd(data: Buffer, level: int | None) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=3 if level is None else level, write_content_size=False).compress(data)


def _unzstd(data: Buffer, max_bytes: int) -> Iterator[bytes]:
    import zstandard

    decoder = zstandard.ZstdDecompressor().decompressobj(read_across_frames=True)
    size = 0
    for feed in _zstd_slices(memoryview(data)):
        try:
            part = decoder.decompress(feed)
        except zstandard.ZstdError as problem:
            raise CompressionError(f"zstd: {problem}") from None
        size += len(part)
        if size > max_bytes:
            raise _too_large(max_bytes)
        yield part


def _zstd_slices(data: memoryview) -> Iterator[memoryview]:
    """Yields frames in slices that end where blocks end and stand for at most PIECE_BYTES, because the decoder puts out all that
    it is fed: a block of 4 bytes can give 128 KiB. Raises CompressionError where no whole frame begins."""
    begin = at = most = 0
    end = len(data)
    try:
        while at < end or end == 0:
            magic = bytes(data[at : at + 4])
            if magic[1:] == _ZSTD_SKIPPABLE and magic[0] >> 4 == 5:
                at += 8 + int.from_bytes(data[at + 4 : at + 8], "little")
                continue
            if magic != _ZSTD_MAGIC[: max(1, end - at)]:
                raise CompressionError(f"zstd: no frame begins at byte {at}")
            descriptor = data[at + 4]
            is_single = descriptor >> 5 & 1  # then there is no window, and a content size even if bits 6 and 7 are 0
            sizes = _ZSTD_DICTIONARY_ID[descriptor & 3] + (_ZSTD_CONTENT_SIZE[descriptor >> 6] or is_single)
            at += 6 - is_single + sizes
            last = 0
            while not last:
                block = data[at] | data[at + 1] << 8 | data[at + 2] << 16
                last, kind, size = block & 1, block >> 1 & 3, block >> 3
                gives = _ZSTD_BLOCK if kind == 2 else size
                if begin < at and (most + gives > PIECE_BYTES or at - begin >= _FEED):
                    yield data[begin:at]
                    begin, most = at, 0
                most += gives
                at += 3 + (1 if kind == 1 else size)
            at += 4 * (descriptor >> 2 & 1)  # the checksum
    except IndexError:
        at = end + 1
    if at > end:
        raise CompressionError("zstd: the stream is cut short")
    yield data[begin:]


_COMPRESS: Final[dict[int, Callable[[Buffer, int | None], bytes]]] = {
    NONE: _copy,
    GZIP: _gzip,
    SNAPPY: _snappy,
    LZ4: _lz4,
    ZSTD: _zstd,
}
_DECOMPRESS: Final[dict[int, Callable[[Buffer, int], Iterator[bytes]]]] = {
    NONE: _uncompressed,
    GZIP: _gunzip,
    SNAPPY: _unsnappy,
    LZ4: _unlz4,
    ZSTD: _unzstd,
}

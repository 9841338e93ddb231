"""The codecs of record batches (wire/compression.py), and records piece by piece (wire/record_pieces.py): an input is a codec, a
bound, and bytes that are decompressed, or compressed first.

- What decompresses, piece by piece, is what the codec's library makes of the whole; what does not decompress raises
  CompressionError, and then the library cannot read it to its end either. With the step sizes of the broker and with small ones,
  at whose borders everything happens sooner.
- No piece is larger than a step, and no more comes out than the bound: with TooLarge the library gives more indeed.
- The pieces of records, one after the other, are the whole, and hold the same records.
- What is compressed decompresses to the same, at every level, with the bound exactly met; one byte below it is TooLarge.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Iterator
from typing import Final

import lz4.frame
import zstandard
from cramjam import DecompressionError, snappy

from ottla.wire import compression, kernel
from ottla.wire.compression import GZIP, LZ4, PIECE_BYTES, SNAPPY, ZSTD, CompressionError, TooLarge, decompressed_pieces
from ottla.wire.record_pieces import record_pieces
from ottla.wire.records import Record, encode_records
from tests.fuzz.draw import Draw

_CODECS: Final = (GZIP, SNAPPY, LZ4, ZSTD)
_BOUNDS: Final = (0, 1, 100, 5_000, 100_000, 1 << 20)
_LEVELS: Final = {GZIP: (None, 1, 6, 9), SNAPPY: (None,), LZ4: (None, 1, 9, 12), ZSTD: (None, -5, 1, 9)}
_SMALL_STEPS: Final = {"PIECE_BYTES": 64, "_FEED": 48, "_NEXT_MEMBER_FEED": 16, "_SNAPPY_BLOCKS": 2}
_ZSTD_BLOCK: Final = 128 * 1024  # of a compressed block, all comes out at once
_LARGEST: Final = 8 << 20
"""More than this the library is not asked for: the bound is far below."""


def check(data: bytes) -> None:
    draw = Draw(data)
    codec = draw.one_of(_CODECS)
    bound = draw.one_of(_BOUNDS)
    choices = draw.byte()
    if choices & 1:
        _check_compressed(codec, draw.one_of(_LEVELS[codec]), draw.rest())
        return
    with _small_steps() if choices & 2 else contextlib.nullcontext():
        _check_any(codec, draw.rest(), bound)


@contextlib.contextmanager
def _small_steps() -> Iterator[None]:
    before = {name: getattr(compression, name) for name in _SMALL_STEPS}
    for name, size in _SMALL_STEPS.items():
        setattr(compression, name, size)
    try:
        yield
    finally:
        for name, size in before.items():
            setattr(compression, name, size)


def _check_any(codec: int, packed: bytes, bound: int) -> None:
    most = max(compression.PIECE_BYTES, _ZSTD_BLOCK if codec == ZSTD else 0)
    expected = _whole(codec, packed)
    pieces: list[bytes] = []
    try:
        for piece in decompressed_pieces(codec, packed, bound):
            assert len(piece) <= most, f"a piece of {len(piece)} bytes, {most} are a step"
            pieces.append(piece)
            assert sum(map(len, pieces)) <= bound, f"more than {bound} bytes came out"
    except TooLarge:
        # A raw block of snappy says its size, and is refused for that before it is looked at.
        assert codec == SNAPPY or expected is None or len(expected) > bound, f"{len(expected)} bytes are too many for {bound}"
    except CompressionError:
        assert expected is None, f"the library reads {len(expected)} bytes"
    else:
        assert expected is not None, "the library cannot read this"
        assert b"".join(pieces) == expected, "the library reads something else"
        _check_record_pieces(codec, packed, expected)


def _check_record_pieces(codec: int, packed: bytes, whole: bytes) -> None:
    found: list[tuple[bytes, int]] = []
    try:
        found.extend(record_pieces(codec, packed, len(whole), len(whole)))
    except TooLarge:
        # Something in it claims more than the section holds: it is cut short, or there is something that is no record. What
        # follows that goes by where the pieces end, for nothing says where the next record would be.
        assert _records(whole, len(whole)) is None, "all of the records fit"
        return
    assert b"".join(piece[:end] for piece, end in found) == whole, "the pieces are not the whole"
    pieces = [_records(piece, end) for piece, end in found]
    expected = _records(whole, len(whole))
    if expected is None:
        assert None in pieces, "the pieces hold only records, and the whole does not"
    else:
        assert [record for records in pieces for record in ([b"?"] if records is None else records)] == expected, (
            "the pieces hold other records"
        )


def _records(section: bytes, end: int) -> list[bytes] | None:
    """Returns the bytes of each record in section[:end], or None if it holds something else."""
    try:
        return [section[found[0] : found[1]] for found in kernel.spans(section, 0, end)]
    except ValueError:
        return None


def _check_compressed(codec: int, level: int | None, text: bytes) -> None:
    packed = compression.compress(codec, text, level)
    assert compression.decompress(codec, packed, len(text)) == text
    if text:
        try:
            compression.decompress(codec, packed, len(text) - 1)
        except TooLarge:
            return
        raise AssertionError(f"{len(text)} bytes come out where {len(text) - 1} are allowed")


# What the libraries make of a whole. None: they cannot read it to its end. Very large outputs are cut off.


def _whole(codec: int, packed: bytes) -> bytes | None:
    return _WHOLE[codec](packed)


def _gunzip(packed: bytes) -> bytes | None:
    out, rest = b"", packed
    while rest or not packed:
        decoder = zlib.decompressobj(31)
        try:
            out += decoder.decompress(rest, _LARGEST)
        except zlib.error:
            return None
        if len(out) >= _LARGEST:
            return out
        if not decoder.eof:
            return None
        rest = decoder.unused_data
    return out


def _unsnappy(packed: bytes) -> bytes | None:
    magic = b"\x82SNAPPY\x00"
    if not packed.startswith(magic):
        return _unsnappy_block(packed)
    out, at = b"", 16
    if len(packed) < at:
        return None
    while at < len(packed):
        if packed.startswith(magic, at):
            at += 16
            continue
        size = int.from_bytes(packed[at : at + 4], "big", signed=True)
        if len(packed) - at < 4 or not 0 <= size <= len(packed) - at - 4:
            return None
        block = _unsnappy_block(packed[at + 4 : at + 4 + size])
        if block is None:
            return None
        out += block
        at += 4 + size
    return out


def _unsnappy_block(block: bytes) -> bytes | None:
    try:
        if snappy.decompress_raw_len(block) > _LARGEST:
            return None
        return bytes(snappy.decompress_raw(block))
    except (DecompressionError, ValueError):
        return None


def _unlz4(packed: bytes) -> bytes | None:
    out, rest = b"", packed
    while rest or not packed:
        decoder = lz4.frame.LZ4FrameDecompressor()
        try:
            out += bytes(decoder.decompress(rest, _LARGEST))
        except (RuntimeError, EOFError, ValueError):
            return None
        if len(out) >= _LARGEST:
            return out
        if not decoder.eof:
            return None
        rest = bytes(decoder.unused_data or b"")
    return out


def _unzstd(packed: bytes) -> bytes | None:
    out, rest = b"", packed
    while rest or not packed:
        decoder = zstandard.ZstdDecompressor().decompressobj()
        try:
            out += decoder.decompress(rest)
        except zstandard.ZstdError:
            return None
        if not decoder.eof:
            return None
        rest = decoder.unused_data
    return out


_WHOLE: Final[dict[int, Callable[[bytes], bytes | None]]] = {GZIP: _gunzip, SNAPPY: _unsnappy, LZ4: _unlz4, ZSTD: _unzstd}


def seeds() -> Iterator[bytes]:
    record = Record(0, 1, b"k", b"value " * 9, [("h", None)])
    texts = (b"", b"x", bytes(300), encode_records([record] * 6, 0), bytes(PIECE_BYTES + 5))
    for number, codec in enumerate(_CODECS):
        for text in texts[:-1] if codec == SNAPPY else texts:  # snappy shrinks nothing to less than a twentieth
            for choices in (0, 2):
                yield bytes((number, len(_BOUNDS) - 1, choices)) + compression.compress(codec, text)
        yield bytes((number, 2, 2)) + 2 * compression.compress(codec, texts[2])
        yield bytes((number, 0, 1, 1)) + texts[3]
    yield bytes((1, 4, 0)) + bytes(snappy.compress_raw(texts[3]))
    checked = zstandard.ZstdCompressor(write_checksum=True, write_content_size=True).compress(texts[3])
    yield bytes((3, 4, 2)) + checked + b"\x50\x2a\x4d\x18\3\0\0\0abc" + checked

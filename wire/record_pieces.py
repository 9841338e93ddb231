"""The records of a batch, piece by piece: whoever walks over them needs memory for a piece, not for the batch.

A decoder puts out pieces that end anywhere (`wire.compression.decompressed_pieces`); here they are cut anew, between records, so
that the loops of wire/kernel.py can walk over each. Only a record that is larger than a piece is put together, once, and only if
its length is within the bound for a record. A batch that fits into one piece, as nearly all do, is passed on as it came.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Final

from ottla.wire import kernel
from ottla.wire.compression import MAX_DECOMPRESSED_BYTES, NONE, TooLarge, decompressed_pieces
from ottla.wire.primitives import Buffer

_LENGTH_BYTES: Final = 5  # of a record's length, at most


class RecordTooLarge(TooLarge):
    """A record is larger than the caller's bound for one record."""


def record_pieces(
    codec: int, section: Buffer, max_bytes: int = MAX_DECOMPRESSED_BYTES, max_record_bytes: int = MAX_DECOMPRESSED_BYTES
) -> Iterator[tuple[bytes, int]]:
    """Yields (piece, end) so that the piece[:end] one after the other are the records of a batch's records section, each piece
    with whole records. What is left at the end of a section that is cut short is in the last piece.

    A step takes a bounded time, so a piece may also hold nothing. The bounds are for compressed records; plain ones are in memory
    already. Raises TooLarge if there are more than `max_bytes`,
    RecordTooLarge for a record that is larger than `max_record_bytes` and than a piece, and CompressionError.
    """
    if codec == NONE:
        max_bytes = max_record_bytes = len(section)
    pieces = decompressed_pieces(codec, section, max_bytes)
    piece = next(pieces, b"")
    for following in pieces:
        _, end, needed = kernel.whole_records(piece, 0, len(piece))
        yield piece, end
        rest = piece[end:]
        if needed <= len(rest) + len(following):
            piece = rest + following
            continue
        if needed > max_record_bytes + _LENGTH_BYTES:
            raise RecordTooLarge(f"a record of about {needed} bytes, {max_record_bytes} are allowed")
        if needed > max_bytes:
            raise TooLarge(f"more than {max_bytes} bytes come out")
        whole = BytesIO()
        whole.write(rest)
        whole.write(following)
        for following in pieces:  # noqa: PLW2901 - both loops take from the same pieces
            whole.write(following)
            if whole.tell() >= needed:
                break
            yield b"", 0
        piece = whole.getvalue()
    yield piece, len(piece)

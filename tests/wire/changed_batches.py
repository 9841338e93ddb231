"""Batches with other header fields or another section of records, and a CRC that fits: what a wrong client might send."""

from __future__ import annotations

from struct import Struct

from crc32c import crc32c

from ottla.wire.batch import CRC_START, HEADER_SIZE, LENGTH_OVERHEAD, read_header

_HEADER = Struct(">qiibIhiqqqhii")


def changed(batch: bytes, **fields: int) -> bytes:
    """The batch with other header fields and a CRC that fits them, unless the CRC is one of them."""
    header = read_header(batch).replace(**fields)
    data = _HEADER.pack(*header.fields()) + batch[HEADER_SIZE:]
    if "crc" in fields:
        return data
    crc = crc32c(data[CRC_START : header.batch_length + LENGTH_OVERHEAD])
    return _HEADER.pack(*header.replace(crc=crc).fields()) + batch[HEADER_SIZE:]


def with_section(batch: bytes, section: bytes, **fields: int) -> bytes:
    """The batch with other bytes after the header, and a size and CRC to match."""
    return changed(batch[:HEADER_SIZE] + section, batch_length=HEADER_SIZE - LENGTH_OVERHEAD + len(section), **fields)

"""Sends regions of log files: straight from the file to the socket where that is possible, piece by piece where it is not."""

from __future__ import annotations

import asyncio
import os
from typing import Final

from ottla.log.disk.files import FileSlice
from ottla.log.errors import StorageError

PIECE_BYTES: Final = 256 * 1024
TLS_PIECE_BYTES: Final = 64 * 1024
"""The number of bytes that are read and encrypted at a time: larger pieces take OpenSSL's buffers through more memory than the
caches hold."""


def send_some(part: FileSlice, descriptor: int, transport: asyncio.Transport) -> None:
    """Sends the beginning of a region and cuts it off the region: with sendfile if the transport is empty, else one piece."""
    source = part.descriptor() if descriptor >= 0 and transport.get_write_buffer_size() == 0 else -1
    if source >= 0:
        try:
            sent = os.sendfile(descriptor, source, part.position, part.length)
        except BlockingIOError:
            pass
        else:
            if sent == 0:
                raise StorageError(f"{part!r} was truncated while it was being sent")
            part.position += sent
            part.length -= sent
            return
    piece = FileSlice(part.file, part.position, min(part.length, PIECE_BYTES if descriptor >= 0 else TLS_PIECE_BYTES))
    transport.write(piece.read())
    part.position += piece.length
    part.length -= piece.length

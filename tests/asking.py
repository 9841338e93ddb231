"""A client of one request, for tests of a whole broker."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.wire.api import APIS


async def ask(port: int, messages: Any, version: int, request: Any) -> Any:
    """One request on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    flexible = version >= APIS[messages.API_KEY].flexible_from
    body: list[bytes] = [b"\0"] if flexible else []
    messages.ENCODE_REQUEST[version](request, body)
    header = messages.API_KEY.to_bytes(2, "big") + version.to_bytes(2, "big") + (7).to_bytes(4, "big") + b"\xff\xff"
    frame = header + b"".join(body)
    writer.write(len(frame).to_bytes(4, "big") + frame)
    answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
    writer.close()
    await writer.wait_closed()
    assert answer[:4] == (7).to_bytes(4, "big")
    return messages.DECODE_RESPONSE[version](answer, 5 if flexible else 4)[0]

"""One request through its codec, its handler and its codec again, as dispatch would carry it, at any version."""

from __future__ import annotations

import asyncio
import inspect
from importlib import import_module
from typing import Any

from ottla.server.requests.kept_answers import Encoded
from ottla.wire.frame import decode_whole
from ottla.wire.primitives import WireStruct
from tests.server.metadata.support import Node


def call(node: Node, api: str, request: WireStruct, version: int, listener: str = "PLAINTEXT") -> Any:
    """The answer as the client decodes it; what its version does not have is at its default."""
    messages = import_module(f"ottla.wire.messages.{api}")
    handler = import_module(f"ottla.server.handlers.{api}")
    out: list[Any] = []
    messages.ENCODE_REQUEST[version](request, out)
    received = decode_whole(messages.DECODE_REQUEST[version], b"".join(out))
    answer = asyncio.run(answered(node, handler, received, node.context(version, listener)))
    out = [answer.body] if isinstance(answer, Encoded) else []
    if not out:
        messages.ENCODE_RESPONSE[version](answer, out)
    return decode_whole(messages.DECODE_RESPONSE[version], b"".join(out))


async def answered(node: Node, handler: Any, body: Any, request: Any) -> Any:
    """Returns what the handler answers, at once or in later turns."""
    answer = handler.handle(body, request)
    if not inspect.isawaitable(answer):
        return answer
    waiting = asyncio.ensure_future(_result(answer))
    while not waiting.done():
        node.clock.run()
        await asyncio.sleep(0)
    return waiting.result()


async def _result(answer: Any) -> Any:
    return await answer

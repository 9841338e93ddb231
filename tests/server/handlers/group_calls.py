"""Handlers of the group APIs as the wire sees them: the request goes through its codec, and so does the answer."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

from ottla.wire.api import BY_MODULE
from tests.server.group.fakes import Broker


def versions(module: str) -> range:
    api = BY_MODULE[module]
    return range(api.min_version, api.max_version + 1)


def call(broker: Broker, module: str, version: int, request: Any) -> Any:
    """Returns what a client of this version reads after sending `request`; fails if the answer does not come at once."""
    messages = importlib.import_module(f"ottla.wire.messages.{module}")
    handler = importlib.import_module(f"ottla.server.handlers.{module}")
    sent = encoded(messages.ENCODE_REQUEST[version], request)
    received, end = messages.DECODE_REQUEST[version](sent, 0)
    assert end == len(sent)
    answer = handler.handle(received, broker.context(version))
    if isinstance(answer, asyncio.Future):
        broker.clock.advance(0)
        answer = answer.result()
    body = encoded(messages.ENCODE_RESPONSE[version], answer)
    read, end = messages.DECODE_RESPONSE[version](body, 0)
    assert end == len(body)
    return read


def encoded(encode: Any, message: Any) -> bytes:
    parts: list[Any] = []
    encode(message, parts)
    return b"".join(parts)

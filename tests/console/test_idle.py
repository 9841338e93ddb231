"""A console that nobody looks at ends, and one with an open stream does not."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from ottla.console.idle import Idle
from tests.in_loop import in_loop

AFTER_S: Final = 0.05


@in_loop
async def test_it_ends_when_nobody_has_asked_and_not_while_a_stream_is_open() -> None:
    opened, closes = asyncio.Event(), asyncio.Event()
    over: list[float] = []
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()

    async def stream(*_: Any) -> None:
        opened.set()
        await closes.wait()

    def note() -> None:
        over.append(loop.time())
        ended.set()

    idle = Idle(stream, after_s=AFTER_S)
    idle.begin(note)
    streaming = asyncio.ensure_future(idle({}, None, None))  # type: ignore[arg-type]  # which the stream does not use
    await opened.wait()
    later = asyncio.Event()
    loop.call_later(AFTER_S, later.set)  # after what `begin` waits for
    await later.wait()
    assert not over
    since = loop.time()
    closes.set()
    await streaming
    assert not over
    await asyncio.wait_for(ended.wait(), 30)
    assert over[0] - since >= 0.04

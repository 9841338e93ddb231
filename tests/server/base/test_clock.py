"""The clock of the event loop, and that the server has no other."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path

from ottla.server.base.clock import Clock, LoopClock

SERVER = Path(__file__).parents[3] / "server"


def test_the_loop_s_clock_goes_on_and_tells_the_time() -> None:
    async def scenario() -> None:
        clock: Clock = LoopClock()
        seconds, ticks = clock.monotonic(), clock.ticks_ns()
        rang = asyncio.Event()
        clock.call_later(3600, rang.set).cancel()
        clock.call_later(0.001, rang.set)
        await rang.wait()
        assert clock.monotonic() > seconds
        assert clock.ticks_ns() > ticks
        assert abs(clock.now_ms() - time.time() * 1000) < 60_000

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_nothing_else_in_the_server_reads_the_time() -> None:
    calls = re.compile(r"\b(time\.(time|time_ns|monotonic)|perf_counter(_ns)?|from time import|datetime\.now|loop\.time)\b")
    using = {path.relative_to(SERVER).as_posix() for path in SERVER.rglob("*.py") if calls.search(path.read_text())}
    assert using == {"base/clock.py", "partitions/cleaning.py"}, "but for the throttle of a thread, which says why"

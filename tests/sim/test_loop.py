"""The loop with a virtual clock, and the network in memory: what a simulated broker stands on."""

from __future__ import annotations

import asyncio
import contextvars
from random import Random
from typing import Any

import pytest

from tests.sim.loop import Idle, VirtualClock, VirtualLoop
from tests.sim.network import Link, Port, Receiver


@pytest.fixture
def loop() -> Any:
    loop = VirtualLoop(Random(1))
    yield loop
    loop.close()


def test_an_hour_passes_at_once_and_in_order(loop: VirtualLoop) -> None:
    seen: list[tuple[str, float]] = []

    async def sleep(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        seen.append((name, loop.time()))

    async def both() -> None:
        await asyncio.gather(sleep("late", 3600.0), sleep("early", 0.5))

    loop.run_until_complete(both())
    assert seen == [("early", 0.5), ("late", 3600.0)]


def test_a_wait_for_nothing_ends(loop: VirtualLoop) -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    waiting = loop.create_task(wait())
    with pytest.raises(Idle):
        loop.run_until_complete(waiting)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(waiting)


def test_jobs_of_threads_run_in_an_order_that_the_seed_decides() -> None:
    def order(seed: int) -> list[int]:
        loop = VirtualLoop(Random(seed))
        done: list[int] = []

        async def run() -> None:
            await asyncio.gather(*(loop.run_in_executor(None, done.append, job) for job in range(8)))

        loop.run_until_complete(run())
        loop.close()
        return done

    assert order(1) == order(1)
    assert order(1) != order(2)


def test_a_failing_job_raises_where_it_is_waited_for(loop: VirtualLoop) -> None:
    async def run() -> None:
        await loop.run_in_executor(None, int, "x")

    with pytest.raises(ValueError, match="invalid literal"):
        loop.run_until_complete(run())


def test_the_clock_of_a_life_stops_with_it(loop: VirtualLoop) -> None:
    clock = VirtualClock(loop)
    ran: list[str] = []
    clock.call_later(1.0, lambda: ran.append("before"))
    clock.call_later(3.0, lambda: ran.append("after"))
    loop.call_later(2.0, setattr, clock, "alive", False)
    loop.run_until_complete(asyncio.sleep(4.0))
    assert ran == ["before"]
    assert clock.now_ms() == VirtualClock.START_MS + 4000


# The network


class Echo(asyncio.BufferedProtocol):
    """Sends back what comes, and notes what happens to it."""

    def __init__(self) -> None:
        self.happened: list[object] = []
        self.buffer = memoryview(bytearray(4))

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.set_write_buffer_limits(high=8, low=0)

    def get_buffer(self, sizehint: int) -> Any:
        return self.buffer

    def buffer_updated(self, count: int) -> None:
        self.transport.write(bytes(self.buffer[:count]))

    def pause_writing(self) -> None:
        self.happened.append("full")

    def resume_writing(self) -> None:
        self.happened.append("empty")

    def eof_received(self) -> None:
        self.happened.append("end of input")

    def connection_lost(self, error: Exception | None) -> None:
        self.happened.append(type(error))


class Noting(Receiver):
    def __init__(self) -> None:
        self.data = b""
        self.ended = False

    def received(self, data: bytes) -> None:
        self.data += data

    def lost(self) -> None:
        self.ended = True


class Pair:
    """A client connected with an Echo."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.echo = Echo()
        self.port = Port(loop, Random(1), contextvars.copy_context())
        self.client = Noting()
        self.link: Link = loop.run_until_complete(self._connect())

    async def _connect(self) -> Link:
        server = await self.port.serve(lambda: self.echo, self.port.bind("sim", 1), 10)
        with pytest.raises(ConnectionRefusedError):
            self.port.connect(self.client)
        await server.start_serving()
        return self.port.connect(self.client)

    def wait(self) -> None:
        self.loop.run_until_complete(asyncio.sleep(10.0))


def test_bytes_arrive_in_order_later(loop: VirtualLoop) -> None:
    pair = Pair(loop)
    for at in range(50):
        pair.link.send(b"%03d," % at)
    assert pair.client.data == b""
    pair.wait()
    assert pair.client.data == b"".join(b"%03d," % at for at in range(50))
    assert pair.echo.happened[:2] == ["full", "empty"]


def test_a_cut_ends_both_sides_in_the_middle(loop: VirtualLoop) -> None:
    pair = Pair(loop)
    pair.link.cut_after(5)
    pair.link.send(b"0123456789")
    pair.wait()
    assert b"01234".startswith(pair.client.data)
    assert pair.client.ended
    assert pair.echo.happened[-1] is ConnectionResetError


def test_a_link_that_swallows_says_nothing(loop: VirtualLoop) -> None:
    pair = Pair(loop)
    pair.link.swallow()
    pair.link.send(b"0123")
    pair.wait()
    assert (pair.client.data, pair.client.ended, pair.echo.happened) == (b"", False, [])


def test_who_closes_half_still_gets_the_answer(loop: VirtualLoop) -> None:
    pair = Pair(loop)
    pair.link.send(b"0123")
    pair.link.half_close()
    pair.wait()
    assert pair.client.data == b"0123"
    assert pair.client.ended
    assert pair.echo.happened == ["end of input", type(None)]


def test_what_was_sent_before_a_death_arrives_and_nothing_after(loop: VirtualLoop) -> None:
    pair = Pair(loop)
    pair.echo.transport.write(b"sent")
    pair.port.die()
    pair.echo.transport.write(b"late")
    pair.link.send(b"0123")
    pair.wait()
    assert (pair.client.data, pair.client.ended) == (b"sent", True)
    assert type(None) not in pair.echo.happened


def test_reading_pauses(loop: VirtualLoop) -> None:
    pair = Pair(loop)
    pair.echo.transport.pause_reading()
    pair.link.send(b"0123")
    pair.wait()
    assert pair.client.data == b""
    pair.echo.transport.resume_reading()
    pair.wait()
    assert pair.client.data == b"0123"


class Caller(asyncio.BufferedProtocol):
    """A broker's end of a link that it opened; it notes what comes."""

    def __init__(self) -> None:
        self.buffer = bytearray(3)
        self.data = b""
        self.ends = 0
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data += bytes(self.buffer[:nbytes])

    def connection_lost(self, error: Exception | None) -> None:
        self.ends += 1


def test_a_broker_connects_to_another(loop: VirtualLoop) -> None:
    pair, caller = Pair(loop), Caller()
    port = Port(loop, Random(2), contextvars.copy_context(), {"other": pair.port})
    with pytest.raises(OSError, match="no host elsewhere"):
        loop.run_until_complete(port.connect_to(Caller, "elsewhere", 1))
    loop.run_until_complete(port.connect_to(lambda: caller, "other", 1))
    caller.transport.write(b"0123456789")
    pair.wait()
    assert (caller.data, caller.ends) == (b"0123456789", 0)
    caller.transport.close()
    caller.transport.abort()
    pair.wait()
    assert caller.ends == 1
    assert pair.echo.happened[-1] is type(None)


def test_the_other_broker_s_end_reaches_who_connected_and_a_dead_one_learns_nothing(loop: VirtualLoop) -> None:
    pair, callers = Pair(loop), [Caller(), Caller()]
    ports = [Port(loop, Random(at), contextvars.copy_context(), {"other": pair.port}) for at in range(2)]
    for port, caller in zip(ports, callers, strict=True):
        loop.run_until_complete(port.connect_to(lambda caller=caller: caller, "other", 1))  # type: ignore[misc]  # a default of its own
    ports[1].die()
    callers[1].transport.write(b"late")
    pair.port.die()
    pair.wait()
    assert [caller.ends for caller in callers] == [1, 0]
    with pytest.raises(ConnectionRefusedError):
        loop.run_until_complete(ports[0].connect_to(Caller, "other", 1))

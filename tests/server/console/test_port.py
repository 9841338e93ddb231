"""The port while nobody looks, the process that a connection starts, and what becomes of both."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ottla.server.base.clock import LoopClock
from ottla.server.console.child import environment_of, launch
from ottla.server.console.port import DEATHS, DEATHS_WITHIN_S, MOST_REFUSED, REFUSAL, ConsolePort
from ottla.server.inspect.subject import Subject
from tests.in_loop import in_loop

NO_BROKER: Any = None
PRINTS = "import os; os.write({}, ' '.join(os.listdir('/proc/self/fd')).encode()); os._exit(7)"


class Clock(LoopClock):
    """A clock that a test may move; it waits in real time."""

    def __init__(self) -> None:
        super().__init__()
        self.later = 0.0
        real = self.monotonic
        self.monotonic = lambda: real() + self.later
        self._due: list[Callable[[], None]] = []

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Any:
        self._due.append(callback)
        return super().call_later(seconds, callback)

    def run_later(self) -> None:
        """Calls at once what was to be called later."""
        due, self._due = self._due, []
        for each in due:
            each()


async def turns(count: int = 10) -> None:
    """Lets the loop look so often at what can be read: a connection has come when `connect` returns."""
    for _ in range(count):
        await asyncio.sleep(0)


class FakeProcess:
    pid = 1

    def __init__(self) -> None:
        self.code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.calls: list[str] = []
        self.heeds = True

    async def wait(self) -> int:
        return await self.code

    def terminate(self) -> None:
        self.calls.append("terminate")
        if self.heeds:
            self.end(0)

    def kill(self) -> None:
        self.calls.append("kill")
        self.end(-9)

    def end(self, code: int) -> None:
        if not self.code.done():
            self.code.set_result(code)


class Rig:
    """A port with processes that a test ends."""

    def __init__(self) -> None:
        self.listening = socket.socket()
        self.listening.bind(("127.0.0.1", 0))
        self.listening.listen(8)
        self.listening.setblocking(False)
        self.address = self.listening.getsockname()
        self.processes: list[FakeProcess] = []
        self.channels: list[socket.socket] = []
        self.started = asyncio.Event()
        self.clock = Clock()
        self.port = ConsolePort(self.listening, Subject(lambda: NO_BROKER, self.clock), self.clock, self.launch)
        self.port.watch(lambda: {"token": "secret"})

    def launch(self, words: Sequence[str], environment: Mapping[str, str], descriptors: Sequence[int]) -> FakeProcess:
        assert "secret" not in repr((words, environment))
        assert descriptors[0] == self.listening.fileno()
        channel = socket.socket(fileno=os.dup(descriptors[1]))
        channel.setblocking(False)
        self.channels.append(channel)
        self.processes.append(FakeProcess())
        self.started.set()
        return self.processes[-1]

    async def next_process(self) -> FakeProcess:
        await asyncio.wait_for(self.started.wait(), 30)
        self.started.clear()
        return self.processes[-1]

    def connect(self) -> socket.socket:
        found = socket.create_connection(self.address)
        found.setblocking(False)
        return found

    async def close(self) -> None:
        await self.port.close()
        for channel in self.channels:
            channel.close()


@in_loop
async def test_the_first_connection_starts_a_process_which_is_told_all_over_the_channel() -> None:
    rig = Rig()
    await asyncio.sleep(0)
    assert not rig.processes
    with rig.connect():
        process = await rig.next_process()
        told = await asyncio.get_running_loop().sock_recv(rig.channels[0], 1000)
        assert json.loads(told) == {"token": "secret"}
        accepted, _ = rig.listening.accept()  # the connection was left to the process
        accepted.close()
        with rig.connect():  # nobody looks while it runs
            await turns()
            assert len(rig.processes) == 1
            process.end(-9)
            await rig.next_process()  # the connection that waits starts the next
            assert await asyncio.get_running_loop().sock_recv(rig.channels[0], 1000) == b""
    await rig.close()
    assert rig.processes[1].calls == ["terminate"]
    assert rig.listening.fileno() == -1


@in_loop
async def test_what_dies_thrice_in_a_minute_is_not_started_for_a_while() -> None:
    rig, loop = Rig(), asyncio.get_running_loop()
    with rig.connect():
        for _ in range(DEATHS):
            (await rig.next_process()).end(1)
        with rig.connect() as refused:
            await loop.sock_sendall(refused, b"GET / HTTP/1.1\r\n\r\n")
            assert await asyncio.wait_for(loop.sock_recv(refused, 4096), 30) == REFUSAL
        assert len(rig.processes) == DEATHS
        rig.clock.later = DEATHS_WITHIN_S + 1
        with rig.connect():
            await rig.next_process()
    await rig.close()


@in_loop
async def test_a_process_that_does_not_heed_is_killed_and_one_that_cannot_be_started_is_a_death(monkeypatch: Any) -> None:
    rig = Rig()
    monkeypatch.setattr("ottla.server.console.port.STOP_S", 0.01)
    with rig.connect():
        process = await rig.next_process()
        process.heeds = False
        await rig.close()
    assert process.calls[-1] == "kill"
    assert process.calls[0] == "terminate"


@in_loop
async def test_a_stop_during_the_start_of_a_process_is_no_error(caplog: Any) -> None:
    rig = Rig()
    with rig.connect():
        rig.port._asked()
        await asyncio.sleep(0)
        await rig.close()
    assert (rig.processes, caplog.messages) == ([], [])


@in_loop
async def test_what_cannot_be_started_is_refused_in_the_end() -> None:
    rig, loop = Rig(), asyncio.get_running_loop()

    def fail(*_: Any) -> FakeProcess:
        raise OSError("no more processes")

    rig.port._launch = fail
    with rig.connect() as refused:
        await loop.sock_sendall(refused, b"GET / HTTP/1.1\r\n\r\n")
        assert await asyncio.wait_for(loop.sock_recv(refused, 4096), 30) == REFUSAL
    await rig.close()


@in_loop
async def test_after_a_bug_the_port_is_watched_again_and_no_process_is_left(monkeypatch: Any) -> None:
    rig = Rig()
    with rig.connect():
        process = await rig.next_process()
        process.code.set_exception(ValueError("a bug"))
        monkeypatch.setattr(process, "end", lambda code: None)
        await rig.next_process()
    assert process.calls == ["kill"]
    await rig.close()


@in_loop
async def test_without_descriptors_the_port_is_left_alone_for_a_while() -> None:
    """A connection that cannot be accepted stays there, and the loop would find it again with every turn."""
    rig, loop = Rig(), asyncio.get_running_loop()
    with rig.connect():
        for _ in range(DEATHS):
            (await rig.next_process()).end(1)
    await turns()  # that one has been refused
    tries: list[None] = []

    class Spent:
        """The socket in a process that has no descriptor left."""

        fileno, close = rig.listening.fileno, rig.listening.close

        def accept(self) -> Any:
            tries.append(None)
            raise OSError(errno.EMFILE, "Too many open files")

    spent: Any = Spent()
    rig.port._listening = spent
    with rig.connect() as refused:
        await turns(100)
        assert len(tries) == 1
        rig.port._listening = rig.listening
        rig.clock.run_later()
        assert await asyncio.wait_for(loop.sock_recv(refused, 4096), 30) == REFUSAL
    await rig.close()


@in_loop
async def test_only_so_many_refused_connections_are_open_at_a_time() -> None:
    rig, loop = Rig(), asyncio.get_running_loop()
    with rig.connect():
        for _ in range(DEATHS):
            (await rig.next_process()).end(1)
    refused = []
    for _ in range(MOST_REFUSED + 5):
        refused.append(rig.connect())
        assert await asyncio.wait_for(loop.sock_recv(refused[-1], 4096), 30) == REFUSAL
        assert len(rig.port._refused) <= MOST_REFUSED
    for each in refused:
        each.close()
    await rig.close()
    assert not rig.port._refused


@in_loop
async def test_a_process_inherits_what_is_meant_and_its_end_is_noticed() -> None:
    kept, lent = os.pipe()
    leaked = os.dup(lent)
    os.set_inheritable(leaked, True)
    try:
        process = launch((sys.executable, "-S", "-c", PRINTS.format(lent)), {}, (lent,))
        assert await asyncio.wait_for(process.wait(), 30) == 7
        os.close(lent)
        there = {int(number) for number in os.read(kept, 4096).split()}
        assert lent in there
        assert leaked not in there
    finally:
        for each in (kept, leaked):
            os.close(each)


def test_the_environment_has_no_secrets_and_finds_what_the_broker_finds() -> None:
    given = {"PATH": "/bin", "KAFKA_SSL_KEYSTORE_PASSWORD": "x", "OTTLA_TOKEN": "x", "LC_ALL": "C", "KRB5_CONFIG": "/k"}
    found = environment_of(given, ["/a", "b"])
    assert found.pop("PYTHONPATH") == f"/a:{os.path.abspath('b')}"
    assert found == {"PATH": "/bin", "LC_ALL": "C", "KRB5_CONFIG": "/k", "PYTHONUNBUFFERED": "1"}

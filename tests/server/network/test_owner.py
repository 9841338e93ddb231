"""A connection owned by something that has what `Owner` names and nothing else: so connections stand below listeners."""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import Any

import pytest

from ottla.server.base.network import OsNetwork
from ottla.server.network.connection import Connection
from ottla.server.network.context import NetworkContext
from ottla.server.network.limited_log import LINES, LOG_SPAN_S
from ottla.server.network.listener import Listener
from ottla.server.network.owner import Owner, Serves
from ottla.server.network.socket_settings import SocketSettings
from ottla.server.requests.session import Session
from ottla.wire.primitives import Buffer
from tests.fakes import FakeTransport, MemoryBroker
from tests.server.network.peer import EchoDispatch, framed, turn


class Least:
    """Owns connections; refuses them for a reason while there is one."""

    __slots__ = ("admitted", "context", "dispatch", "forgotten", "name", "refusal", "settings", "tasks")

    def __init__(self, dispatch: Serves) -> None:
        broker = MemoryBroker({})
        self.name = "INTERNAL"
        self.context = NetworkContext(broker.clock, broker.context.purgatory, OsNetwork())
        self.dispatch = dispatch
        self.settings = SocketSettings()
        self.admitted: list[Connection] = []
        self.forgotten: list[Connection] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.refusal: str | None = None

    def admit(self, connection: Any) -> str | None:
        self.admitted.append(connection)
        return self.refusal

    def log_refusal(self, peer: str, why: str) -> None: ...

    def log_closing(self, level: int, peer: str, why: str) -> None:
        logging.getLogger("ottla.server.listener").log(level, "closed the connection of %s: %s", peer, why)

    def forget(self, connection: Any) -> None:
        self.forgotten.append(connection)

    def keep(self, task: asyncio.Task[Any]) -> None:
        self.tasks.append(task)


class NotingDispatch(EchoDispatch):
    """Notes whose requests it served."""

    def __init__(self) -> None:
        super().__init__()
        self.sessions: list[Session] = []

    def serve(self, frame: Buffer, session: Session) -> Any:
        self.sessions.append(session)
        return super().serve(memoryview(frame), session)


def connected(owner: Owner) -> tuple[Connection, FakeTransport]:
    connection, transport = Connection(owner), FakeTransport(("10.0.0.7", 4321))
    transport.protocol = connection
    connection.connection_made(transport)
    return connection, transport


def send(connection: Connection, data: bytes) -> None:
    connection.get_buffer(-1)[: len(data)] = data
    connection.buffer_updated(len(data))


def test_an_owner_admits_serves_and_forgets() -> None:
    dispatch = NotingDispatch()
    owner = Least(dispatch)
    connection, transport = connected(owner)
    assert owner.admitted == [connection]
    send(connection, framed(b"hello"))
    assert transport.sent == framed(b"hello")
    (session,) = dispatch.sessions
    assert (session.listener, session.client_host) == ("INTERNAL", "10.0.0.7")
    assert owner.forgotten == []
    connection.connection_lost(None)
    assert owner.forgotten == [connection]
    assert session.is_closed


def test_a_connection_that_is_not_admitted_is_ended_unread() -> None:
    owner = Least(NotingDispatch())
    owner.refusal = "the house is full"
    _, transport = connected(owner)
    assert transport.aborted


def test_an_owner_holds_the_task_of_a_request_whose_client_has_gone() -> None:
    async def main() -> None:
        dispatch = NotingDispatch()
        owner = Least(dispatch)
        connection, transport = connected(owner)
        send(connection, framed(b"task"))
        connection.connection_lost(None)
        (task,) = owner.tasks
        dispatch.promises[0].set_result(b"done")
        await turn()
        assert task.done()
        assert transport.sent == b""

    asyncio.run(main())


def test_a_listener_is_an_owner() -> None:
    broker = MemoryBroker({})
    context = NetworkContext(broker.clock, broker.context.purgatory, OsNetwork())
    owner: Owner = Listener("A", context, NotingDispatch(), SocketSettings())
    assert all(hasattr(owner, name) for name in Owner.__annotations__)
    methods = {name: method for name, method in vars(Owner).items() if inspect.isfunction(method) and name[0] != "_"}
    assert methods.keys() == {"admit", "forget", "keep", "log_closing", "log_refusal"}
    for name, method in methods.items():
        assert inspect.signature(method).parameters.keys() == inspect.signature(getattr(Listener, name)).parameters.keys()


def test_a_crowd_of_bad_clients_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    broker = MemoryBroker({})
    context = NetworkContext(broker.clock, broker.context.purgatory, OsNetwork())
    listener = Listener("A", context, NotingDispatch(), SocketSettings())
    for port in range(LINES + 3):
        listener.log_closing(logging.INFO, f"10.0.0.1:{port}", "it is bad")
    assert caplog.messages == [f"closed the connection of 10.0.0.1:{port}: it is bad" for port in range(LINES)]
    broker.clock.advance(LOG_SPAN_S)
    assert caplog.messages[LINES:] == ["3 more clients of listener A had their connections closed"]

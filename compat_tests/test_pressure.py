"""Thousands of clients that open, send half a request and stay: the others are served, and the half requests are whole when the
rest comes; and the limits on connections. Same for both brokers, each with a broker of its own.

How fast the others are served beside them is a figure of scripts/bench/compare.py.
"""

from __future__ import annotations

import resource
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any, Final

import pytest

from compat_tests.brokers import Address
from compat_tests.reference.kafka import HOST, BrokerProcess
from compat_tests.waiting import wait_for
from compat_tests.wire import CLIENT_ID, CLOSED, Connection, Wire, batch, encode
from ottla.wire.messages import api_versions

CONNECTIONS: Final = 5_000
IDLE_MS: Final = "2000"
REQUEST: Final = encode(api_versions.ApiVersionsRequest(), 0, 1, CLIENT_ID)
FRAME: Final = struct.pack(">i", len(REQUEST)) + REQUEST
HALF: Final = len(FRAME) // 2


@pytest.fixture
def many_files() -> Iterator[None]:
    """This process holds one end of each connection."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert before[1] > CONNECTIONS + 500, "the hard limit on open files is too low for this test"
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def address_of(broker: BrokerProcess) -> Address:
    assert broker.process is not None
    return Address(broker.kind, broker.port, broker.process.pid, str(broker.log_file))


def answered(connection: socket.socket) -> bool:
    """An ApiVersions answer without error."""
    connection.settimeout(30)
    head = connection.recv(10, socket.MSG_WAITALL)
    return len(head) == 10 and struct.unpack_from(">ih", head, 4) == (1, 0)


def test_half_requests_disturb_nobody_and_may_be_finished(
    fresh_broker: Callable[..., BrokerProcess], many_files: None, unique: Callable[[str], str]
) -> None:
    broker = fresh_broker(socket_listen_backlog_size="1000")
    with ExitStack() as open_ones:
        stuck = [open_ones.enter_context(socket.create_connection((HOST, broker.port), timeout=30)) for _ in range(CONNECTIONS)]
        for number, connection in enumerate(stuck):
            connection.sendall(FRAME[: 1 + number % (len(FRAME) - 1)])  # cut at every place, in the size as well
        wire = Wire(address_of(broker), unique("pressure"))
        topic = wire.create("served")
        for number in range(100):
            answer = wire.produce(topic, batch(b"%d" % number))
            assert answer.responses[0].partition_responses[0].error_code == 0
        wire.close()
        for number, connection in enumerate(stuck):
            connection.sendall(FRAME[1 + number % (len(FRAME) - 1) :])
        assert sum(map(answered, stuck)) == CONNECTIONS


def test_a_connection_in_half_a_request_is_closed_when_idle(fresh_broker: Callable[..., BrokerProcess]) -> None:
    broker = fresh_broker(connections_max_idle_ms=IDLE_MS)
    connection = Connection(address_of(broker))
    connection.send_raw(FRAME[:HALF])
    assert connection.receive(60) == CLOSED


@pytest.mark.parametrize("limit", ["max_connections", "max_connections_per_ip"])
def test_connections_are_limited(fresh_broker: Callable[..., BrokerProcess], limit: str) -> None:
    """Over max.connections Kafka lets a connection wait until there is room, and ottla closes it at once; nobody serves it."""
    broker = fresh_broker(**{limit: "5"})

    def served(timeout_s: float) -> socket.socket | None:
        connection = socket.create_connection((HOST, broker.port), timeout=30)
        with suppress(ConnectionError, TimeoutError):
            connection.sendall(FRAME)
            connection.settimeout(timeout_s)
            if connection.recv(4, socket.MSG_WAITALL):
                return connection
        connection.close()
        return None

    inside: list[Any] = []

    def one_more() -> bool:
        if (found := served(30)) is None:
            return False
        inside.append(found)
        return True

    for _ in range(5):  # patiently: an answer that is only slow, or a place not yet free of the fixture's first call, is no limit
        wait_for(one_more, "five are served")
    assert served(2) is None
    inside.pop().close()
    wait_for(one_more, "there is room again")
    for connection in inside:
        connection.close()

"""The bench of what a neighbour notices of attacks, and what memory they take: the attack list of compat_tests/security, again
and again.

A neighbour asks every two milliseconds (neighbour.py). Its p99 while strangers attack for some seconds stands beside its p99 in
the seconds before, when nobody else asked anything. Memory is the largest that the broker had while an attack ran, above what it
had before; a broker keeps some of it for the next time, so the first round has the largest.
"""

from __future__ import annotations

import socket
import statistics
import struct
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from compat_tests.certificates import client_context
from compat_tests.reference.kafka import HOST
from compat_tests.security import test_attack_list as attack_list
from compat_tests.security.test_attack_list import OpenHouse, crowd, frames, hello
from compat_tests.test_sasl_wire import ALICE, S256
from compat_tests.topics import make_topics
from compat_tests.waiting import wait_for
from ottla.wire.compression import NAMES
from ottla.wire.messages import api_versions, produce, sasl_authenticate, sasl_handshake
from scripts.bench.compare import settle
from scripts.bench.security_costs.neighbour import Neighbour
from scripts.bench.security_costs.table import Figures, Row
from scripts.bench.stalls import forget_peak, peak_mib

SECONDS: Final = 4.0
"""The time for which each attack is repeated."""
WAITING: Final = "ottla_tls_waiting_handshakes"
Attack = Callable[[OpenHouse], None]


def half_open_handshakes(house: OpenHouse) -> None:
    _end(crowd(house.tls_port, attack_list.HALF_OPEN, hello()))


def silent_logins(house: OpenHouse) -> None:
    _end(crowd(house.login_port, 1000, b""))


def half_open_logins(house: OpenHouse) -> None:
    said = frames(
        (sasl_handshake.SaslHandshakeRequest(S256), 1),
        (sasl_authenticate.SaslAuthenticateRequest(b"n,,n=carol,r=" + b"x" * 200), 2),
    )
    _end(crowd(house.login_port, attack_list.HALF_OPEN // 10, said))


def announced_frames(house: OpenHouse) -> None:
    _end(crowd(house.login_port, 200, struct.pack(">i", attack_list.ANNOUNCED) + bytes(1000)))


def long_words(house: OpenHouse) -> None:
    clients = crowd(house.login_port, 100, frames((api_versions.ApiVersionsRequest("x" * 30_000, "1" * 30_000), 3)))
    for each in clients:
        each.recv(4, socket.MSG_WAITALL)
    _end(clients)


def wrong_passwords(house: OpenHouse) -> None:
    for _ in range(20):
        talk = attack_list.begun(house)
        talk.scram_final(password="x")
        talk.connection.close()


def garbage(house: OpenHouse) -> None:
    """Sends plain text to the TLS listener."""
    _end(crowd(house.tls_port, 200, b"GET / HTTP/1.1\r\n\r\n"))


def whole_handshakes(house: OpenHouse) -> None:
    """Has clients finish their handshakes, and leave."""
    context = client_context(attack_list.ROOT)
    for _ in range(50):
        sock = socket.create_connection((HOST, house.tls_port), 60, source_address=(attack_list.CROWD, 0))
        context.wrap_socket(sock, server_hostname="localhost").close()


def bombs(codec: int) -> Attack:
    """Sends batches that unfold to a hundred times their size, from a client with the right to write."""
    data = attack_list.bomb(codec)

    def attack(house: OpenHouse) -> None:
        client = attack_list.user(house, ALICE)
        topics = [produce.TopicProduceData(attack_list.TOPIC, partition_data=[produce.PartitionProduceData(0, data)])]
        request: Any = produce.ProduceRequest(None, -1, 30_000, topics)
        for _ in range(10):
            client.call(request, 9)
        client.close()

    return attack


ATTACKS: Final[dict[str, Attack]] = {
    "nothing": lambda _: time.sleep(1),
    "10,000 half-open TLS handshakes": half_open_handshakes,
    "whole TLS handshakes, one after the other": whole_handshakes,
    "plain text at the TLS listener": garbage,
    "1,000 connections that never log in": silent_logins,
    "1,000 logins half done": half_open_logins,
    "wrong passwords of SCRAM": wrong_passwords,
    "200 frames of 100 MB announced before a login": announced_frames,
    "names of 30 kB before a login": long_words,
    **{f"bombs of {NAMES[codec]}": bombs(codec) for codec in attack_list.BOMBS},
}


def _rows() -> list[Row]:
    rows = []
    for name in ATTACKS:
        rows.append(Row(f"{name}: the neighbour's p99", "during", f"{name} p99", "ms", "before", at_most=2.0))
        rows.append(Row("the same: memory", "during", f"{name} mib", "MiB", absolute=attack_list.MOST_GROWTH / 2**20))
    return rows


ROWS: Final = tuple(_rows())


def _end(clients: list[socket.socket]) -> None:
    for each in clients:
        each.close()


def _repeat(attack: Attack, house: OpenHouse) -> None:
    """Attacks for SECONDS, at least once."""
    until = time.monotonic() + SECONDS
    while True:
        attack(house)
        if time.monotonic() > until:
            return


def _p99_ms(neighbour: Neighbour, meanwhile: Callable[[], None]) -> float:
    """Returns the p99 of the neighbour's waits while something else goes on."""
    neighbour.waits_s()
    meanwhile()
    return statistics.quantiles(neighbour.waits_s(), n=100)[98] * 1e3


def measure(directory: Path, rounds: int) -> Figures:
    """Returns the figures of ROWS. Raises BrokerFailed."""
    found: Figures = defaultdict(list)
    directory.mkdir(parents=True)
    house = OpenHouse(directory)
    house.start()
    try:
        make_topics(house.broker.bootstrap, 1, attack_list.TOPIC)
        house.greet_the_neighbour()
        assert house.broker.process is not None
        pid = house.broker.process.pid
        neighbour = Neighbour(pid, house.tls_port)
        try:
            neighbour.waits_s()
            for number in range(rounds):
                for name, attack in ATTACKS.items():
                    wait_for(lambda: house.number(WAITING, "TLS") == 0, "the last attack's handshakes have ended")
                    settle([house.broker])
                    before = _p99_ms(neighbour, lambda: time.sleep(SECONDS / 2))
                    resident = forget_peak(pid)
                    during = _p99_ms(neighbour, partial(_repeat, attack, house))
                    grown = peak_mib(pid) - resident
                    found["before", f"{name} p99"].append(before)
                    found["during", f"{name} p99"].append(during)
                    found["during", f"{name} mib"].append(grown)
                    print(f"{number + 1}: {name}: {before:.2f} ms before, {during:.2f} ms, {grown:.1f} MiB", flush=True)
        finally:
            neighbour.end()
    finally:
        house.stop()
    return found

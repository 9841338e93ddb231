"""Tests of how fast connections may come: who has to wait for how long, and who is turned away. The clock stands still between
them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.server.base.network import OsNetwork
from ottla.server.network.connection_rates import UNLIMITED, Admission, ConnectionRates
from ottla.server.network.socket_settings import SocketSettings
from ottla.server.quotas.ledger import FEW
from ottla.server.quotas.rates import Rate, Windows
from tests.fakes import ManualClock, NotingNetwork
from tests.server.network.peer import Peer, framed

IN_TIME = Admission(0, refused=False)
ME = "127.0.0.1"


class Rates(ConnectionRates):
    def __init__(self, protected: str | None = None, **limits: int) -> None:
        """A connection a second for the broker, and for the listeners A and B, where nothing else is said."""
        self.clock = ManualClock()
        super().__init__(Windows(11, 1000), self.clock, OsNetwork(), protected)
        self.set_rates(limits.pop("broker", UNLIMITED), {"A": UNLIMITED, "B": UNLIMITED} | limits)

    def waits(self, listener: str, count: int) -> list[int]:
        admissions = [self.admit(listener, ME) for _ in range(count)]
        assert not any(admission.refused for admission in admissions)
        return [admission.wait_ms for admission in admissions]


def test_without_limits_nobody_waits() -> None:
    assert Rates().waits("A", 1000) == [0] * 1000


def test_a_listener_takes_those_over_its_rate_one_by_one() -> None:
    """A wait is one window at most, and the next connection is not looked at before it is over."""
    rates = Rates(A=1)
    assert rates.waits("A", 13) == [0] * 10 + [1000, 2000, 3000]
    assert rates.waits("B", 20) == [0] * 20
    rates.clock.advance(2.5)
    assert rates.waits("A", 1) == [1500]


def test_the_rate_of_the_broker_counts_for_all_listeners() -> None:
    rates = Rates(broker=1)
    assert rates.waits("A", 5) + rates.waits("B", 6) == [0] * 10 + [1000]


def test_the_listener_of_brokers_is_free_of_it() -> None:
    rates = Rates("B", broker=1)
    assert rates.waits("B", 20) == [0] * 20
    assert rates.waits("A", 11) == [0] * 10 + [1000]


def test_an_address_over_its_quota_is_turned_away_and_counts_for_nobody() -> None:
    rates = Rates(A=1)
    rates.set_quota(ME, 1)
    assert [rates.admit("B", ME) for _ in range(12)] == [IN_TIME] * 10 + [Admission(1000, refused=True)] * 2
    assert rates.admit("A", ME) == Admission(1000, refused=True)
    assert rates.admit("A", "127.0.0.2") == IN_TIME
    assert [rates.admit("A", f"10.0.0.{number}") for number in range(9)] == [IN_TIME] * 9
    assert rates.admit("A", "10.0.0.9") == Admission(1000, refused=False), "those turned away gave back one place each, no more"
    rates.clock.advance(5)
    assert [rates.admit("B", ME).refused for _ in range(50)] == [True] * 50
    rates.clock.advance(6)
    assert rates.admit("B", ME) == IN_TIME


def test_every_address_has_the_default_for_itself() -> None:
    rates = Rates()
    rates.set_quota(None, 1)
    rates.set_quota(ME, 2)
    for host, count in (("10.0.0.1", 10), ("10.0.0.2", 10), (ME, 20)):
        admissions = [rates.admit("A", host) for _ in range(count + 1)]
        assert admissions[:-1] == [IN_TIME] * count
        assert admissions[-1].refused
    assert rates.limited
    rates.set_quota(ME, None)
    assert rates.admit("A", ME).refused
    rates.set_quota(None, None)
    assert not rates.limited
    assert rates.admit("A", ME) == IN_TIME


@pytest.mark.parametrize(
    ("name", "host"), [("::1", "::1"), ("0:0::0:1", "::1"), ("::ffff:10.0.0.1", "10.0.0.1"), ("2001:DB8::7", "2001:db8::7")]
)
def test_addresses_are_the_same_however_they_are_written(name: str, host: str) -> None:
    rates = Rates()
    rates.set_quota(name, 1)
    assert [rates.admit("A", host).refused for _ in range(11)] == [False] * 10 + [True]


@pytest.mark.parametrize(("host", "refused"), [("localhost", True), ("no..host", False)])
def test_a_host_stands_for_its_address(host: str, refused: bool) -> None:
    async def run() -> bool:
        rates = Rates()
        rates.set_quota(host, 1)
        await asyncio.gather(*rates._hosts.values())
        return any(rates.admit("A", address).refused for address in (ME, "::1") for _ in range(11))

    assert asyncio.run(run()) is refused


def test_a_host_that_loses_its_quota_leaves_others_of_its_address_theirs() -> None:
    async def scenario() -> list[int]:
        network = NotingNetwork(one="10.0.0.7", other="10.0.0.7")
        rates = ConnectionRates(Windows(11, 1000), ManualClock(), network)
        seen = []
        for name, limit in (
            ("10.0.0.7", 3),
            ("one", 1),
            ("other", 2),
            ("other", None),
            ("other", 2),
            ("one", None),
            ("other", 4),
        ):
            rates.set_quota(name, limit)
            await asyncio.gather(*rates._hosts.values())
            seen.append(rates.limit_of("10.0.0.7"))
        rates.set_quota("other", None)
        return [*seen, rates.limit_of("10.0.0.7"), rates.limit_of("10.0.0.8")]

    assert asyncio.run(scenario()) == [3, 1, 2, 1, 2, 2, 4, 3, UNLIMITED]


def test_a_host_that_is_being_looked_up_has_the_quota_that_was_set_last() -> None:
    async def scenario() -> None:
        rates = ConnectionRates(Windows(11, 1000), ManualClock(), NotingNetwork(one="10.0.0.7"))
        rates.set_quota("one", 1)
        rates.set_quota("one", None)
        rates.set_quota("one", 2)
        assert rates.limited
        await asyncio.gather(*rates._hosts.values())
        assert (rates.limit_of("10.0.0.7"), rates._hosts) == (2, {})
        rates.set_quota("one", None)
        assert not rates.limited

    asyncio.run(scenario())


def test_hosts_are_looked_up_by_what_the_owner_gives() -> None:
    async def scenario() -> list[bool]:
        rates = ConnectionRates(Windows(11, 1000), ManualClock(), NotingNetwork(somewhere="::ffff:10.0.0.7"))
        for host in ("nowhere", "somewhere"):
            rates.set_quota(host, 1)
        await asyncio.gather(*rates._hosts.values())
        return [rates.admit("A", "10.0.0.7").refused for _ in range(11)]

    assert asyncio.run(scenario()) == [False] * 10 + [True]


def test_addresses_that_were_quiet_are_forgotten() -> None:
    rates = Rates()
    rates.set_quota(None, 1)
    for number in range(FEW):
        rates.admit("A", f"10.0.{number // 256}.{number % 256}")
    rates.clock.advance(11)
    rates.admit("A", ME)
    assert list(rates._addresses) == [ME]


def test_addresses_are_looked_at_again_when_there_are_twice_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    monkeypatch.setattr(Rate, "is_idle", lambda _, now_ms: looks.append(now_ms))
    rates = Rates()
    rates.set_quota(None, 1)
    for number in range(2 * FEW + 1):
        rates.admit("A", f"10.0.{number // 256}.{number % 256}")
    assert len(looks) == FEW + 2 * FEW


# At a listener


class LimitedPeer(Peer):
    def __init__(self) -> None:
        super().__init__()
        rates = self.listener.rates = ConnectionRates(Windows(2, 1000), self.broker.clock, OsNetwork())
        rates.set_quota("10.0.0.9", 1)
        rates.set_rates(UNLIMITED, {"PLAINTEXT": 2})


def test_a_connection_that_has_to_wait_is_served_later() -> None:
    peer = LimitedPeer()
    for _ in range(2):
        assert peer.connect()[1].reading
    peer.connection, peer.transport = peer.connect()
    assert not peer.transport.reading
    peer.broker.clock.advance(1)
    assert peer.transport.reading
    peer.send(framed(b"hello"))
    assert peer.received() == [b"hello"]


def test_a_connection_that_is_turned_away_is_closed_later(caplog: Any) -> None:
    peer = LimitedPeer()
    assert peer.connect("10.0.0.9")[1].reading
    refused, transport = peer.connect("10.0.0.9")
    assert "10.0.0.9 opens connections too fast" in caplog.text
    assert (transport.reading, transport.closed, peer.listener.refused) == (False, False, 1)
    assert refused not in peer.listener.connections
    peer.broker.clock.advance(1)
    assert transport.aborted
    refused.connection_lost(None)
    assert peer.listener._turned_away == set()
    assert len(peer.listener.connections) == 2
    peer.broker.clock.advance(10)


def test_one_connection_too_many_is_refused_at_once_and_has_no_turn(caplog: pytest.LogCaptureFixture) -> None:
    peer = LimitedPeer()
    peer.connect()
    peer.listener.settings = SocketSettings(max_connections=2)
    for _ in range(3):
        assert peer.connect()[1].aborted
    assert "max.connections (2) is reached" in caplog.text
    peer.listener.settings = SocketSettings()
    assert [peer.connect()[1].reading for _ in range(2)] == [True, False]
    assert len(peer.listener.connections) == 4


def test_a_listener_that_closes_does_not_wait_for_those_turned_away() -> None:
    peer = LimitedPeer()
    peer.connect("10.0.0.9")
    transports = [peer.connect("10.0.0.9")[1] for _ in range(3)]
    for connection in list(peer.listener.connections):
        connection.connection_lost(None)
    asyncio.run(peer.listener.close(0))
    assert all(transport.aborted for transport in transports)

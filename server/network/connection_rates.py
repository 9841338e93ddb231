"""Limits how fast new connections may come (KIP-612): to the broker, to each listener, and from each address.

`max.connection.creation.rate` is the limit of the broker, and of each listener that has none of its own
(`listener.name.<name>.max.connection.creation.rate`). A connection above this limit is delayed: nothing of it is read until its
turn, and later connections to the same listener come after it. If there are several listeners, the one that brokers use among
themselves is subject only to its own limit.

`connection_creation_rate` is a quota of one address, or of every address. A connection above this quota is refused: after the
delay that the quota demands it is closed unread, and it counts for none of the limits.

No delay is longer than one window (`quota.window.size.seconds`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final, NamedTuple

from ottla.server.base.clock import Clock
from ottla.server.base.network import Network
from ottla.server.metadata.quotas import CONNECTION_CREATION_RATE, IP, Entity, is_address
from ottla.server.quotas.ledger import FEW
from ottla.server.quotas.rates import Rate, Windows

logger = logging.getLogger("ottla.server.quotas")

UNLIMITED: Final = 2**31 - 1


class Admission(NamedTuple):
    """Says what happens to a new connection: it is served after `wait_ms`, or, if it is `refused`, closed then."""

    wait_ms: int
    refused: bool


class _Limit:
    """Holds a rate of connections, and the limit per second."""

    __slots__ = ("limit", "rate")

    def __init__(self, windows: Windows) -> None:
        self.limit = UNLIMITED
        self.rate = Rate(windows)

    def count(self, now_ms: int, longest_ms: int) -> int:
        """Counts a new connection; returns how many ms it has to wait."""
        self.rate.record(1, now_ms)
        return min(self.rate.throttle_time_ms(self.limit, now_ms), longest_ms)

    def take_back(self, now_ms: int) -> None:
        self.rate.record(-1, now_ms)


class ConnectionRates:
    """Holds the connection rates of one broker.

    `protected` is the listener that brokers use among themselves, if there are several.
    """

    def __init__(self, windows: Windows, clock: Clock, network: Network, protected: str | None = None) -> None:
        self._windows = windows
        self._clock = clock
        self._protected = protected
        self._network = network
        self._broker = _Limit(windows)
        self._listeners: dict[str, _Limit] = {}
        self._free_ms: dict[str, int] = {}  # when a listener takes its next connection
        self._of_address: dict[str, int] = {}
        self._of_others = UNLIMITED
        self._addresses: dict[str, Rate] = {}
        self._look_at = FEW
        self._hosts: set[asyncio.Task[None]] = set()

    def set_rates(self, broker: int, listeners: Mapping[str, int]) -> None:
        """Sets the limits of connections per second: that of the broker, and those of listeners by their names."""
        self._broker.limit = broker
        for name, limit in listeners.items():
            self._listeners.setdefault(name, _Limit(self._windows)).limit = limit

    def set_quotas(self, quotas: Mapping[Entity, Mapping[str, float]]) -> None:
        """Sets the quotas of addresses, which are among `quotas`. A host name is looked up first, which takes a moment."""
        self._of_address = {}
        self._of_others = UNLIMITED
        for task in self._hosts:
            task.cancel()
        for ((kind, name), *_), values in quotas.items():
            limit = values.get(CONNECTION_CREATION_RATE)
            if kind != IP or limit is None:
                continue
            if name is None:
                self._of_others = int(limit)
            elif is_address(name):
                self._of_address[_plain(name)] = int(limit)
            else:
                task = asyncio.ensure_future(self._look_up(name, int(limit)))
                self._hosts.add(task)
                task.add_done_callback(self._hosts.discard)

    async def _look_up(self, host: str, limit: int) -> None:
        try:
            address = await self._network.address_of(host)
        except (OSError, UnicodeError) as error:
            logger.error("the quota of host %s has no effect, because its address cannot be looked up: %s", host, error)
        else:
            self._of_address[_plain(address)] = limit

    def admit(self, listener: str, host: str) -> Admission:
        """Counts a new connection from `host` to a listener; returns what happens to it."""
        now_ms = int(self._clock.monotonic() * 1000)
        turn_ms = max(now_ms, self._free_ms.get(listener, 0))
        counted = [self._listeners[listener]] if listener in self._listeners else []
        if listener != self._protected:
            counted.append(self._broker)
        waits = [limit.count(turn_ms, self._windows.size_ms) for limit in counted]
        turn_ms_after = self._free_ms[listener] = turn_ms + max(waits, default=0)
        refused_ms = self._refused_for(host, turn_ms_after)
        if refused_ms:
            for limit in counted:
                limit.take_back(turn_ms)
        return Admission(turn_ms_after - now_ms + refused_ms, bool(refused_ms))

    def _refused_for(self, host: str, now_ms: int) -> int:
        """Counts a connection against the quota of its address; returns 0 to admit it, or in how many ms to close it."""
        limit = self._of_address.get(host, self._of_others)
        if limit == UNLIMITED:
            return 0
        rate = self._addresses.get(host)
        if rate is None:
            if len(self._addresses) >= self._look_at:
                self._addresses = {each: rate for each, rate in self._addresses.items() if not rate.is_idle(now_ms)}
                self._look_at = max(FEW, 2 * len(self._addresses))
            rate = self._addresses[host] = Rate(self._windows)
        rate.record(1, now_ms)
        refused_ms = min(rate.throttle_time_ms(limit, now_ms), self._windows.size_ms)
        if refused_ms:
            rate.record(-1, now_ms)
        return refused_ms


def _plain(address: str) -> str:
    """Returns an address in the form in which connections have it."""
    parsed = ip_address(address)
    mapped = getattr(parsed, "ipv4_mapped", None)
    return str(mapped or parsed)

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
from ottla.server.metadata.quotas import is_address
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
        """The quotas of those that are named by their addresses."""
        self._of_host: dict[str, dict[str, int]] = {}
        """The quotas of hosts that were looked up, by address and name; of several the latest counts."""
        self._of_others = UNLIMITED
        self._addresses: dict[str, Rate] = {}
        self._look_at = FEW
        self._looked_up: dict[str, str] = {}
        """The addresses of hosts with a quota."""
        self._hosts: dict[str, asyncio.Task[None]] = {}
        """The hosts that are being looked up."""

    def set_rates(self, broker: int, listeners: Mapping[str, int]) -> None:
        """Sets the limits of connections per second: that of the broker, and those of listeners by their names."""
        self._broker.limit = broker
        for name, limit in listeners.items():
            self._listeners.setdefault(name, _Limit(self._windows)).limit = limit

    def set_quota(self, name: str | None, limit: int | None) -> None:
        """Sets the quota of an address, of a host, or with the name None of all others; the limit None takes it away. A host
        name is looked up first, which takes a moment."""
        if name is None:
            self._of_others = UNLIMITED if limit is None else limit
        elif is_address(name):
            if limit is None:
                self._of_address.pop(_plain(name), None)
            else:
                self._of_address[_plain(name)] = limit
        else:
            self._forget_host(name)
            if limit is not None:
                self._hosts[name] = asyncio.ensure_future(self._look_up(name, limit))

    @property
    def limited(self) -> bool:
        """Returns whether any address, or host, has a quota."""
        return bool(self._of_address or self._looked_up or self._hosts) or self._of_others != UNLIMITED

    def limit_of(self, address: str) -> int:
        """Returns the quota of an address, which a host name may have given it."""
        hosts = self._of_host.get(address)
        return next(reversed(hosts.values())) if hosts else self._of_address.get(address, self._of_others)

    def _forget_host(self, host: str) -> None:
        task = self._hosts.pop(host, None)
        if task is not None:
            task.cancel()
        address = self._looked_up.pop(host, None)
        if address is not None:
            del self._of_host[address][host]
            if not self._of_host[address]:
                del self._of_host[address]

    async def _look_up(self, host: str, limit: int) -> None:
        try:
            address = await self._network.address_of(host)
        except (OSError, UnicodeError) as error:
            logger.error("the quota of host %s has no effect, because its address cannot be looked up: %s", host, error)
        else:
            self._looked_up[host] = _plain(address)
            self._of_host.setdefault(self._looked_up[host], {})[host] = limit
        self._hosts.pop(host, None)

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
        limit = self.limit_of(host)
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

"""`Fetchers`: has every partition that another broker leads fetched from there, as the metadata says who leads what.

`update` is called with each replica whose role may have changed. One that is a follower goes to a fetcher of its leader, chosen
by a hash among `num.replica.fetchers`; a new leader epoch begins it anew there, and a change of the in-sync replicas changes
nothing. A fetcher runs as long as it has partitions: it ends in the next turn of the event loop after the last one is gone, so
that a partition that changes its epoch does not cost a connection.

A fetcher that ends because of a bug is replaced after a pause, which grows with each time in a row: what it was asked for may
have changed by then, and partitions that nobody fetches would fall out of the in-sync replicas.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from typing import TYPE_CHECKING, Final

from ottla.server.partitions.roles import Follower
from ottla.server.peers.backoff import Backoff
from ottla.server.peers.peer import Peer
from ottla.server.replication.fetcher import Address, Fetcher
from ottla.server.replication.following import Following, State
from ottla.server.replication.throttle import Throttle

if TYPE_CHECKING:
    from random import Random

    from ottla.server.base.clock import Clock
    from ottla.server.base.network import Network
    from ottla.server.metadata.image import MetadataImage
    from ottla.server.partitions.replica import Replica
    from ottla.server.replication.following import Key
    from ottla.server.replication.settings import FetchSettings
    from ottla.server.security.client import ClientSecurity

LONGEST_PAUSE_MS: Final = 30_000
"""The longest pause before a fetcher is replaced that ended because of a bug. One that runs for so long was not the same bug."""
NAMES_LOGGED: Final = 20
"""So many of its partitions are named then."""
FetcherId = tuple[int, int]
"""A leader, and the number of one of its fetchers."""

logger = logging.getLogger("ottla.server.replication")


class Fetchers:
    """All fetchers of this broker; see the module's docstring. `listener` is the name of the one by which brokers talk to each
    other, and `security` how to connect to it. It needs a running event loop."""

    def __init__(
        self,
        settings: FetchSettings,
        listener: str,
        image: MetadataImage,
        clock: Clock,
        random: Random,
        network: Network,
        security: ClientSecurity | None = None,
    ) -> None:
        self._settings = settings
        self._listener = listener
        self._image = image
        self._clock = clock
        self._random = random
        self._network = network
        self._security = security
        self._followings: dict[Key, Following] = {}
        self._fetchers: dict[FetcherId, Fetcher] = {}
        self._tasks: dict[Fetcher, asyncio.Task[None]] = {}
        self._bugs: dict[FetcherId, tuple[int, float]] = {}  # how often in a row a fetcher ended, and when it last did
        self._pauses = Backoff(settings.backoff_ms, LONGEST_PAUSE_MS, random)
        self._idle: set[FetcherId] = set()
        self._ending: set[asyncio.Future[None]] = set()
        self._past_bytes_in = 0
        self._closing = False
        self.throttle = Throttle(settings.node_id, clock, settings.quota_windows, settings.quota_window_s)
        """The limit on what may be fetched for replicas of `follower.replication.throttled.replicas`."""

    def __len__(self) -> int:
        """Returns how many partitions are followed."""
        return len(self._followings)

    @property
    def bytes_in(self) -> int:
        """Returns how many bytes of records came from leaders since the start."""
        return self._past_bytes_in + sum(fetcher.bytes_in for fetcher in self._fetchers.values())

    def max_lag(self) -> int:
        """Returns how many offsets the partition that is furthest behind is behind its leader's high watermark."""
        return max((fetcher.lag() for fetcher in self._fetchers.values()), default=0)

    def stopped(self) -> int:
        """Returns how many partitions are followed and not fetched any more, until something changes."""
        return sum(following.state is State.STOPPED for following in self._followings.values())

    def update(self, replica: Replica) -> None:
        """Takes over a replica's role, after any change."""
        key = replica.topic_id, replica.partition
        current = self._followings.get(key)
        role = replica.role
        if isinstance(role, Follower) and not self._closing:
            if (
                current is not None
                and current.replica is replica
                and (current.leader, current.leader_epoch) == (role.leader, replica.leader_epoch)
            ):
                return
            self._drop(current)
            self._follow(Following(replica, role.leader))
        elif current is not None and current.replica is replica:
            self._drop(current)

    def begin_anew(self, replica: Replica) -> None:
        """Fetches a replica from its log's end, which was cut. What is under way for it changes nothing more."""
        current = self._followings.get((replica.topic_id, replica.partition))
        if current is not None and current.replica is replica:
            self._drop(current)
        self.update(replica)

    def resize(self, fetchers_per_leader: int) -> None:
        """Spreads the partitions anew over another number of fetchers (`num.replica.fetchers`)."""
        if fetchers_per_leader == self._settings.fetchers_per_leader:
            return
        followed = list(self._followings.values())
        for following in followed:
            self._drop(following)
        self._settings = self._settings._replace(fetchers_per_leader=fetchers_per_leader)
        for following in followed:
            self._follow(Following(following.replica, following.leader))

    def _follow(self, following: Following) -> None:
        self._followings[following.key] = following
        name = self._fetcher_of(following)
        fetcher = self._fetchers.get(name)
        if fetcher is None:
            fetcher = self._fetchers[name] = self._start(*name)
        fetcher.add(following)

    def _drop(self, following: Following | None) -> None:
        if following is None:
            return
        del self._followings[following.key]
        name = self._fetcher_of(following)
        fetcher = self._fetchers[name]
        fetcher.remove(following.key)
        if not len(fetcher):
            if not self._idle:
                self._clock.call_later(0, self._end_idle)
            self._idle.add(name)

    def _fetcher_of(self, following: Following) -> FetcherId:
        number = zlib.crc32(following.name.encode()) % self._settings.fetchers_per_leader
        return following.leader, number

    def _start(self, leader: int, number: int) -> Fetcher:
        client_id = f"broker-{self._settings.node_id}-fetcher-{number}"

        def connect(address: Address) -> Peer:
            return Peer(
                *address,
                client_id,
                network=self._network,
                clock=self._clock,
                random=self._random,
                settings=self._settings.peer,
                security=self._security,
            )

        fetcher = Fetcher(
            lambda: self._address_of(leader), connect, self._settings, self._clock, self._broker_epoch, self.throttle
        )
        task = self._tasks[fetcher] = asyncio.ensure_future(fetcher.run())
        task.add_done_callback(lambda done: self._ended((leader, number), fetcher, done))
        return fetcher

    def _address_of(self, broker_id: int) -> Address | None:
        broker = self._image.brokers.get(broker_id)
        endpoint = broker.endpoints.get(self._listener) if broker is not None else None
        return None if endpoint is None else (endpoint.host, endpoint.port)

    def _broker_epoch(self) -> int:
        broker = self._image.brokers.get(self._settings.node_id)
        return -1 if broker is None else broker.epoch

    # Fetchers that end because of a bug

    def _ended(self, name: FetcherId, fetcher: Fetcher, task: asyncio.Task[None]) -> None:
        del self._tasks[fetcher]
        if task.cancelled() or (error := task.exception()) is None or self._closing:
            return
        now = self._clock.monotonic()
        times, last = self._bugs.get(name, (0, now))
        times = times if now - last < 2 * LONGEST_PAUSE_MS / 1000 else 0  # the last pause is a part of that
        self._bugs[name] = times + 1, now
        pause_s = self._pauses.seconds(times)
        followed = [following.name for following in self._followed_by(name)]
        names = ", ".join(followed[:NAMES_LOGGED]) + (
            f" and {len(followed) - NAMES_LOGGED} more" if len(followed) > NAMES_LOGGED else ""
        )
        text = "a fetcher from broker %d ended because of a bug; for %.1f s these partitions are not fetched: %s"
        logger.error(text, name[0], pause_s, names, exc_info=error)
        self._close(fetcher)
        self._clock.call_later(pause_s, lambda: self._replace(name, fetcher))

    def _replace(self, name: FetcherId, fetcher: Fetcher) -> None:
        """Has another fetcher go on for one that has ended, unless its partitions are gone."""
        if self._closing or self._fetchers.get(name) is not fetcher:
            return
        self._past_bytes_in += fetcher.bytes_in
        self._fetchers[name] = self._start(*name)
        for following in self._followed_by(name):
            self._follow(Following(following.replica, following.leader))

    def _followed_by(self, name: FetcherId) -> list[Following]:
        return [following for following in self._followings.values() if self._fetcher_of(following) == name]

    # The end

    def _close(self, fetcher: Fetcher) -> None:
        self._ending.add(ending := asyncio.ensure_future(fetcher.close()))
        ending.add_done_callback(self._ending.discard)

    def _end_idle(self) -> None:
        for name in self._idle:
            fetcher = self._fetchers.get(name)
            if fetcher is not None and not len(fetcher):
                del self._fetchers[name]
                self._past_bytes_in += fetcher.bytes_in
                self._close(fetcher)
        self._idle.clear()

    async def close(self) -> None:
        """Fetches no more. When this returns, nothing is under way, and the logs may be closed."""
        self._closing = True
        running = [*self._tasks.values(), *self._ending]
        for fetcher in list(self._tasks):
            await fetcher.close()
        if running:
            await asyncio.wait(running)

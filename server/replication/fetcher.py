"""`Fetcher`: fetches from one leader for the partitions that it is given, over one connection, for as long as there are any.

It goes in rounds, with one request at a time: partitions whose pause is over come back; those that have to be cut or looked up
first are; then one Fetch names what has changed (fetch_session.py), the leader holds it until there are records, and the answer
is carried out partition by partition (leader_answers.py). Between slices of the answer the event loop has a turn, so that clients
go first. Flushes that `flush.messages` makes due are done before the next Fetch, because that acknowledges what it does not ask
for.

A request without an answer is followed by a pause (`replica.fetch.backoff.ms`), and the next Fetch begins a new session. Where
the leader is, the metadata says at each request, so a leader that came back at another address is found there.

A replica that `follower.replication.throttled.rate` holds for (throttle.py) is left out for a window of the quota when that is
used up, unless it has all that is replicated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.log.errors import NoRoom, StorageError
from ottla.server.base.clock import TURN_NS
from ottla.server.base.scheduler import flush_in_thread
from ottla.server.base.turns import in_runs
from ottla.server.peers.outcomes import PeerError
from ottla.server.replication.fetch_session import FetchSession
from ottla.server.replication.following import State
from ottla.server.replication.leader_answers import SLICE_BYTES, begin, name_of, take
from ottla.server.replication.range_lookup import EPOCHS_SINCE, Range, look_up
from ottla.server.replication.throttle import UNLIMITED
from ottla.server.replication.truncation import fit_into
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import FetchRequest, ReplicaState

if TYPE_CHECKING:
    from ottla.server.base.clock import Clock
    from ottla.server.peers.peer import Peer
    from ottla.server.replication.following import Following, Key
    from ottla.server.replication.settings import FetchSettings
    from ottla.server.replication.throttle import Throttle
    from ottla.wire.messages.fetch import FetchResponse, PartitionData

OLDEST_FETCH: Final = 13
"""The oldest version that names topics by id; Kafka 4.0 has newer ones."""
START_OFFSETS_SECONDS: Final = 1.0
"""The time between the fetcher's looks at the log starts of all its partitions, which retention moves without its
knowing."""
LOOKED_UP_AT_ONCE: Final = 1_000
"""So many partitions a request about their ranges names, which takes a millisecond or two to make."""

Address = tuple[str, int]

logger = logging.getLogger("ottla.server.replication")


class Fetcher:
    """Fetches from one leader; see the module's docstring. `address` says where the leader is now, None if the metadata does not
    say, and `connect` makes a connection to an address. `broker_epoch` is this broker's, by which the leader knows its present
    life.
    """

    def __init__(
        self,
        address: Callable[[], Address | None],
        connect: Callable[[Address], Peer],
        settings: FetchSettings,
        clock: Clock,
        broker_epoch: Callable[[], int],
        throttle: Throttle,
    ) -> None:
        self._address = address
        self._connect = connect
        self._settings = settings
        self._clock = clock
        self._broker_epoch = broker_epoch
        self._throttle = throttle
        self._session = FetchSession()
        self._followings: dict[Key, Following] = {}
        self._set_back: dict[Key, Following] = {}
        """The partitions that are new, are to be cut, are looked up, or have a pause."""
        self._peer: Peer | None = None
        self._peer_at: Address | None = None
        self._wake = asyncio.Event()
        self._closing = False
        self._looked_at = 0.0
        self.bytes_in = 0
        """The number of bytes of records that have come."""

    def __len__(self) -> int:
        """Returns how many partitions are fetched."""
        return len(self._followings)

    def add(self, following: Following) -> None:
        """Fetches a partition from the next request on. An answer that is still to come was asked for before, perhaps by an
        earlier following of the same partition, so this one is asked for only when the answer has been carried out."""
        self._followings[following.key] = self._set_back[following.key] = following
        self._wake.set()

    def remove(self, key: Key) -> None:
        """Fetches a partition no longer. What is under way for it changes nothing more."""
        self._followings.pop(key, None)
        self._set_back.pop(key, None)
        self._session.forget(key)

    async def close(self) -> None:
        """Ends `run`, once what it does with the disk is done."""
        self._closing = True
        self._wake.set()
        if self._peer is not None:
            await self._peer.close()

    def lag(self) -> int:
        """Returns how many offsets the partition that is furthest behind was behind its leader's high watermark."""
        return max((following.lag or 0 for following in self._followings.values()), default=0)

    # Rounds

    async def run(self) -> None:
        """Fetches until `close`."""
        while not self._closing:
            self._wake.clear()
            await self._take_care_of_set_back()
            if not len(self._session):
                await self._rest(self._until_due())
                continue
            await self._look_at_starts()
            answer: FetchResponse | None = await self._ask(self._request(), OLDEST_FETCH)
            if answer is None:
                self._session.lose()
                await self._rest(self._settings.backoff_ms / 1000)
            elif self._session.accept(answer):
                await self._take(answer)
            else:
                logger.info("%s answers a Fetch with %s", self._name, name_of(answer.error_code))
                if answer.error_code != ErrorCode.FETCH_SESSION_ID_NOT_FOUND:  # it is gone, which is no reason to wait
                    await self._rest(self._settings.backoff_ms / 1000)

    async def _rest(self, seconds: float | None) -> None:
        """Returns after so long, or at once if a partition came or the fetcher is to end."""
        timer = self._clock.call_later(seconds, self._wake.set) if seconds is not None else None
        try:
            if not self._closing:
                await self._wake.wait()
        finally:
            if timer is not None:
                timer.cancel()

    @property
    def _name(self) -> str:
        return f"the leader at {self._peer.name}" if self._peer is not None else "the leader"

    async def _ask(self, request: Any, min_version: int) -> Any:
        """Returns the leader's answer, None if there is none."""
        address = self._address()
        if address is None:
            return None
        if address != self._peer_at:
            if self._peer is not None:
                await self._peer.close()
            if self._closing:  # nobody would close the next one
                return None
            self._peer, self._peer_at = self._connect(address), address
        assert self._peer is not None
        try:
            return await self._peer.call(request, self._settings.request_timeout_ms, min_version=min_version)
        except PeerError as error:
            if not self._closing:
                logger.info("cannot fetch from %s: %s", self._name, error)
            return None

    def _request(self) -> FetchRequest:
        settings, epoch = self._settings, self._broker_epoch()
        request = FetchRequest(
            replica_id=settings.node_id,  # below version 15, which has replica_state in its place
            replica_state=ReplicaState(settings.node_id, epoch),
            max_wait_ms=settings.max_wait_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.max_bytes,
        )
        self._session.fill(request)
        return request

    async def _look_at_starts(self) -> None:
        """Looks for log starts that have moved, if it is time to."""
        now = self._clock.monotonic()
        if now - self._looked_at < START_OFFSETS_SECONDS:
            return
        self._looked_at = now
        until = self._clock.ticks_ns() + TURN_NS
        for key, following in list(self._followings.items()):
            if self._followings.get(key) is not following:  # removed during another one's turn
                continue
            self._note(following)
            if self._clock.ticks_ns() >= until:
                await asyncio.sleep(0)
                until = self._clock.ticks_ns() + TURN_NS

    def _note(self, following: Following) -> None:
        """Has the next request say what has changed about a partition."""
        if following.state is State.FETCHING and self._is_held_back(following):
            following.delay(self._clock.monotonic() + self._settings.quota_window_s)
        if following.state is State.FETCHING:
            wanted = following.ask(self._settings.max_partition_bytes)
            if wanted is not None:
                self._session.want(following.key, wanted)
        else:
            following.asked = None
            self._session.forget(following.key)
            if following.state is not State.STOPPED:
                self._set_back[following.key] = following

    def _is_held_back(self, following: Following) -> bool:
        """Returns whether a partition is not to be fetched now, because the quota of replication is used up."""
        return following.lag != 0 and self._is_throttled(following) and self._throttle.is_exceeded()

    def _is_throttled(self, following: Following) -> bool:
        throttle = self._throttle
        return throttle.limit < UNLIMITED and throttle.covers(
            following.key[1], following.log.config.follower_replication_throttled_replicas
        )

    # Answers

    async def _take(self, answer: FetchResponse) -> None:
        since_turn, until = 0, self._clock.ticks_ns() + TURN_NS
        for topic in answer.responses:
            for data in topic.partitions:
                size = len(data.records or b"")
                self.bytes_in += size
                since_turn += size
                if since_turn > SLICE_BYTES or self._clock.ticks_ns() >= until:
                    await asyncio.sleep(0)  # before the look at what is followed, since this broker may lead it afterwards
                    since_turn, until = 0, self._clock.ticks_ns() + TURN_NS
                following = self._followings.get((topic.topic_id, data.partition_index))
                if following is None or following.asked is None or not following.expects(following.asked.fetch_offset):
                    continue
                await self._take_one(following, data)

    async def _take_one(self, following: Following, data: PartitionData) -> None:
        key = following.key
        try:
            for _ in take(following, data, self._delay_until()):
                await asyncio.sleep(0)
                if self._followings.get(key) is not following:
                    return
            if data.records and self._is_throttled(following):
                self._throttle.record(len(data.records))
            await self._flush(following)
        except Exception:
            logger.exception("%s is no longer fetched, because of a bug", following.name)
            following.stop()
        if self._followings.get(key) is following:
            self._note(following)

    async def _flush(self, following: Following) -> None:
        """Does the flush that `flush.messages` wants before the leader is told that the records are here."""
        log = following.log
        if not log.awaits_flush(log.log_end_offset):
            return
        try:
            job = log.start_flush()
            if job is not None:
                await flush_in_thread(job)
        except NoRoom:
            if following.state is State.FETCHING:
                following.delay(self._delay_until())
        except StorageError:  # logged where the directory went offline
            following.stop()

    # What cannot be fetched yet

    def _delay_until(self) -> float:
        return self._clock.monotonic() + self._settings.backoff_ms / 1000

    def _until_due(self) -> float | None:
        """Returns how long it is until the first pause ends, None if there is none."""
        due = [each.due for each in self._set_back.values() if each.state is State.DELAYED]
        return max(0.0, min(due) - self._clock.monotonic()) if due else None

    async def _take_care_of_set_back(self) -> None:
        """Ends pauses, cuts logs, and asks for the ranges of those that are not in their leader's."""
        now = self._clock.monotonic()
        until = self._clock.ticks_ns() + TURN_NS
        for key, following in list(self._set_back.items()):
            if self._set_back.get(key) is not following:  # removed during another one's turn
                continue
            if following.state is State.DELAYED and following.due <= now:
                following.resume()
            if following.state is State.TRUNCATING:
                begin(following, self._delay_until())
            self._put_forward(following)
            if self._clock.ticks_ns() >= until:
                await asyncio.sleep(0)
                until = self._clock.ticks_ns() + TURN_NS
        outside = [following for following in self._set_back.values() if following.state is State.LOOKING_UP]
        for run in in_runs(outside, LOOKED_UP_AT_ONCE):
            await self._look_up(run)

    def _put_forward(self, following: Following) -> None:
        """Fetches a partition again if nothing sets it back any more."""
        if self._followings.get(following.key) is following:
            self._set_back.pop(following.key, None)
            self._note(following)

    async def _look_up(self, outside: Sequence[Following]) -> None:
        async def ask(request: Any) -> Any:
            answer = await self._ask(request, EPOCHS_SINCE)
            if answer is None:
                raise PeerError(f"{self._name} did not answer")
            return answer

        try:
            ranges: Mapping[Key, Range] = await look_up(ask, self._settings.node_id, outside)
        except PeerError:
            ranges = {}
        for following in outside:
            if self._followings.get(following.key) is following:
                self._fit(following, ranges.get(following.key))
                self._put_forward(following)
                await asyncio.sleep(0)

    def _fit(self, following: Following, found: Range | None) -> None:
        """Brings a log into its leader's range."""
        try:
            if found is None or found.error_code not in (ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH):
                following.delay(self._delay_until())
            elif found.error_code == ErrorCode.FENCED_LEADER_EPOCH:
                following.stop()
            elif fit_into(following.log, found.start_offset, found.end_offset):
                following.fetch()
            else:
                following.delay(self._delay_until())
        except NoRoom:
            following.delay(self._delay_until())
        except StorageError as error:
            logger.error("%s is no longer fetched: %s", following.name, error)
            following.stop()

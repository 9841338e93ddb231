"""Fetch sessions (KIP-227): a consumer names its partitions once and afterwards only what changed, and so do our answers.

A fetch with session epoch 0 asks for a session: it names everything, and the answer carries an id. From then on each fetch has
the id and the next epoch, counted up by both sides, and lists only new or changed partitions and forgotten ones; the answer has
only partitions with news: records, an error, or a high watermark or log start that the client does not know.
Epoch -1 ends the session, if there is one, and is answered without one.

Partitions that returned records go to the end of the session, so that with a small `max.bytes` each has its turn.

There are `max.incremental.fetch.session.cache.slots` sessions. When all slots are taken, a new session evicts the one that was
unused longest, if that is more than two minutes; else, among those older than two minutes, the one with the fewest partitions, if
the new one has more. If neither exists, the client gets no session (id 0) and goes on naming everything.

Sessions may hold `max_bytes` together, counted as PARTITION_BYTES for each partition; a new one evicts others for that, too. If
one that grows finds no room, it ends, and its client is answered 70 FETCH_SESSION_ID_NOT_FOUND and begins with a full fetch. What
share sessions hold (server/share/sessions.py) is taken from that. In Kafka only their number is limited. As there, a session
outlives its connection: Kafka's own clients go on with it on another one if none of their fetches was under way when the first
was closed, say, because it was idle. But it is then the first to be evicted, however young it is: if a fetch was under way, they
ask for a new session.

Partitions that do not exist stay in a session, as in Kafka, because an answer has to say when they appear. But nobody needs a
session for many of them: one with more than UNKNOWN_KEPT, or with one that no topic can be called, is not begun or ends.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:  # this module is loaded with every broker, the messages of Fetch with the first one
    from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData

SESSIONLESS: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EVICTION_MS: Final = 120_000
TOPIC_IDS_SINCE: Final = 13
_MAX_INT32: Final = 0x7FFFFFFF
PARTITION_BYTES: Final = 400
"""The memory that a partition takes in a session: 330 bytes, measured with 20,000 in each, and some for the name of the topic."""
UNKNOWN_KEPT: Final = 100
UNLIMITED: Final = 1 << 62
_MAX_NAME: Final = 249
_UNKNOWN: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID})

Key = tuple[str | bytes, int]
"""A partition as the request names it: by the topic's name, or, from version 13 on, by its id."""


class Connection(Protocol):
    """Declares what is asked about the connection on which a session is used (server/requests/session.py)."""

    is_closed: bool


class CachedPartition:
    """A partition that a client fetches: the last request for it, and the offsets that the last answer gave (-1: no answer yet).

    `name` is the topic's name once it was looked up by its id; it stays when the topic is deleted.
    """

    __slots__ = ("high_watermark", "index", "log_start_offset", "name", "request", "settled", "topic")

    def __init__(self, topic: str | bytes, request: FetchPartition) -> None:
        self.topic = topic
        self.name: str | None = None
        self.index = request.partition
        self.request = request
        self.high_watermark = -1
        self.log_start_offset = -1
        self.settled: FetchPartition | None = None
        """The last request of a follower to which there was nothing to say: neither records nor an error, nor logs that part."""

    def remember(self, answer: PartitionData) -> bool:
        """Returns whether the answer says anything that the client does not know, and remembers what it says."""
        is_news = self.is_news(answer)
        # After an error the partition is in the next answer without one, whatever its high watermark. So it is after an answer
        # that the logs part: the follower cuts its log then, and takes over no offsets.
        is_taken_over = answer.error_code == ErrorCode.NONE and answer.diverging_epoch is None
        self.high_watermark = answer.high_watermark if is_taken_over else -1
        self.log_start_offset = answer.log_start_offset
        return is_news

    def is_news(self, answer: PartitionData) -> bool:
        """Returns whether the answer says anything that the client does not know."""
        return (
            bool(answer.records)
            or answer.error_code != ErrorCode.NONE
            or answer.high_watermark != self.high_watermark
            or answer.log_start_offset != self.log_start_offset
            or answer.preferred_read_replica >= 0
            or answer.diverging_epoch is not None
        )


Named = list[tuple[Key, CachedPartition]]
"""The partitions that a request names, in its order."""
Result = tuple[CachedPartition, "PartitionData"]


class FetchSession:
    """`epoch` is the one that the next request must have."""

    __slots__ = (
        "connection", "counted", "created_ms", "epoch", "grew", "last_used_ms", "partitions", "privileged", "session_id",
        "uses_topic_ids",
    )  # fmt: skip

    def __init__(
        self,
        session_id: int,
        partitions: dict[Key, CachedPartition],
        uses_topic_ids: bool,
        privileged: bool,
        now_ms: int,
        connection: Connection | None,
    ) -> None:
        self.session_id = session_id
        self.connection = connection
        """The connection that used it last; None if nobody says."""
        self.counted = len(partitions)
        """The number of its partitions that `FetchSessions.partition_count` includes."""
        self.grew = False
        """True if the current request added partitions, which may not exist."""
        self.partitions = partitions
        self.uses_topic_ids = uses_topic_ids
        self.privileged = privileged
        self.created_ms = self.last_used_ms = now_ms
        self.epoch = INITIAL_EPOCH + 1

    @property
    def is_orphaned(self) -> bool:
        """Returns whether the connection that used it last has gone."""
        return self.connection is not None and self.connection.is_closed

    @property
    def worth(self) -> tuple[bool, int]:
        """Says how much the session is worth keeping: followers' sessions before consumers', then larger ones before smaller
        ones.
        """
        return self.privileged, len(self.partitions)


class FetchContext:
    """One fetch between its request and its answer: it knows which partitions to read and which results go into the answer."""

    __slots__ = ("_create", "_end", "_epoch", "_session", "partitions")

    def __init__(
        self,
        partitions: dict[Key, CachedPartition],
        session: FetchSession | None = None,
        create: Callable[[FetchContext], int] | None = None,
        end: Callable[[FetchSession], None] | None = None,
    ) -> None:
        self.partitions = partitions
        self._session = session
        self._epoch = session.epoch if session is not None else 0
        self._create = create
        self._end = end

    @property
    def own_bytes(self) -> int:
        """Returns about how much memory its partitions take that belong to no session."""
        return 0 if self._session is not None else len(self.partitions) * PARTITION_BYTES

    def decide(self, results: Sequence[Result]) -> tuple[ErrorCode, int]:
        """Begins the session that the request asks for, or ends the one that it must not have, by what all its partitions were
        answered. Returns the error and the session's id for the answer.
        """
        session = self._session
        if session is None:
            if self._create is None or _too_many_unknown(results):
                self._create = None
                return ErrorCode.NONE, SESSIONLESS
            return ErrorCode.NONE, self._create(self)
        if session.epoch != self._epoch:  # a duplicate of this request overtook it
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.session_id
        if session.grew:
            session.grew = False
            if self._end is not None and _too_many_unknown(results):
                self._end(session)
        return ErrorCode.NONE, session.session_id

    def news(self, results: Sequence[Result]) -> Sequence[Result]:
        """Returns those of the results that go into the answer, in their order, and notes that the client knows them from now on.
        They may be any of those that `decide` got.
        """
        session = self._session
        if session is None:
            if self._create is not None:
                for cached, data in results:
                    cached.remember(data)
            return results
        responded = []
        partitions = session.partitions
        for result in results:
            cached, data = result
            if cached.remember(data):
                responded.append(result)
                if data.records:  # its next turn is after the others
                    key = (cached.topic, cached.index)
                    if partitions.pop(key, None) is not None:  # else it was forgotten meanwhile
                        partitions[key] = cached
        return responded

    def preview(self, results: Sequence[Result]) -> Sequence[Result]:
        """Returns the results that `news` would put into the answer, and changes nothing."""
        session = self._session
        if session is None:
            return results
        if session.epoch != self._epoch:
            return ()
        return [result for result in results if result[0].is_news(result[1])]

    def respond_empty(self) -> tuple[ErrorCode, int]:
        """Returns the error and the session's id for the empty answer to a throttled client (server/quotas), which gets
        everything later. It begins no session.
        """
        session = self._session
        if session is None:
            return ErrorCode.NONE, SESSIONLESS
        is_this = session.epoch == self._epoch
        return (ErrorCode.NONE if is_this else ErrorCode.INVALID_FETCH_SESSION_EPOCH), session.session_id


class FetchSessions:
    """All sessions of this broker, the least recently used first."""

    def __init__(self, slots: int, now_ms: Callable[[], int], rng: random.Random, max_bytes: int = UNLIMITED) -> None:
        self._slots = slots
        self.max_bytes = max_bytes
        self._max_partitions = max_bytes // PARTITION_BYTES
        self._now_ms = now_ms
        self._random = rng
        self._sessions: dict[int, FetchSession] = {}
        self.evictions = 0
        self.partition_count = 0
        """The number of partitions in all sessions."""

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def held_bytes(self) -> int:
        """Returns about how much memory the sessions take."""
        return self.partition_count * PARTITION_BYTES

    def lend(self, lent_bytes: int) -> None:
        """Leaves so many of the bytes to others from now on. What then has no room is evicted, however young it is: a client
        without a session names everything.
        """
        self._max_partitions = (self.max_bytes - lent_bytes) // PARTITION_BYTES
        while self.partition_count > self._max_partitions:
            others = list(self._sessions.values())
            self._remove(next((session for session in others if session.is_orphaned), others[0]).session_id)
            self.evictions += 1

    def __iter__(self) -> Iterator[FetchSession]:
        """Yields all sessions, the least recently used first."""
        yield from self._sessions.values()

    def find(self, session_id: int) -> FetchSession | None:
        """Returns a session, None if there is none of this id."""
        return self._sessions.get(session_id)

    def partitions_of(self, session_id: int) -> list[Key]:
        """Returns the partitions of a session, none if there is no such session."""
        session = self._sessions.get(session_id)
        return [] if session is None else list(session.partitions)

    def begin(
        self,
        request: FetchRequest,
        version: int,
        *,
        privileged: bool = False,
        connection: Connection | None = None,
        named: Named | None = None,
    ) -> FetchContext | ErrorCode:
        """Returns the context of a fetch in its session, or the error to answer if the session is not what the request
        assumes. `named` are the `_requested_partitions`, if they are known already.
        """
        by_id = version >= TOPIC_IDS_SINCE
        if named is None:
            named = _requested_partitions(request, version)
        epoch = request.session_epoch
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if request.session_id != SESSIONLESS:
                self._remove(request.session_id)
            partitions = dict(named)
            if epoch == FINAL_EPOCH:
                return FetchContext(partitions)
            return FetchContext(
                partitions, create=lambda fetching: self._create(fetching.partitions, by_id, privileged, connection)
            )
        session = self._sessions.get(request.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids != by_id:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        if not self._update(session, request, named):
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if not session.partitions:
            self._remove(session.session_id)
            return FetchContext(dict(named))  # as in Kafka, also what the request forgets at once
        session.connection = connection
        session.last_used_ms = self._now_ms()
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        session.epoch = epoch + 1 if epoch < _MAX_INT32 else 1
        return FetchContext(session.partitions, session, end=self._end)

    def _update(self, session: FetchSession, request: FetchRequest, named: Named) -> bool:
        """Adds, changes and removes what the request says. Returns False if there is no room for what it adds; then the session
        has ended.
        """
        partitions = session.partitions
        for key, cached in named:
            known = partitions.get(key)
            if known is None:
                partitions[key] = cached
            else:
                known.request = cached.request
        for forgotten in request.forgotten_topics_data:
            topic: str | bytes = forgotten.topic_id if session.uses_topic_ids else forgotten.topic
            for index in forgotten.partitions:
                partitions.pop((topic, index), None)
        added = len(partitions) - session.counted
        session.grew = added > 0
        session.counted += added
        self.partition_count += added
        while self.partition_count > self._max_partitions and added > 0:
            if not self._evict(self._now_ms(), session.worth, spared=session):
                self._remove(session.session_id)
                return False
        return True

    def _create(
        self, partitions: dict[Key, CachedPartition], by_id: bool, privileged: bool, connection: Connection | None
    ) -> int:
        """Creates a session. Returns its id, or SESSIONLESS if there is no room for it."""
        now_ms = self._now_ms()
        if len(partitions) > self._max_partitions:
            return SESSIONLESS
        while len(self._sessions) >= self._slots or self.partition_count + len(partitions) > self._max_partitions:
            if not self._evict(now_ms, (privileged, len(partitions))):
                return SESSIONLESS
        session_id = self._random.randint(1, _MAX_INT32)
        while session_id in self._sessions:
            session_id = self._random.randint(1, _MAX_INT32)
        self._sessions[session_id] = FetchSession(session_id, partitions, by_id, privileged, now_ms, connection)
        self.partition_count += len(partitions)
        return session_id

    def _end(self, session: FetchSession) -> None:
        self._remove(session.session_id)

    def _remove(self, session_id: int) -> None:
        """Forgets a session, if there is one."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.partition_count -= session.counted

    def _evict(self, now_ms: int, worth: tuple[bool, int], spared: FetchSession | None = None) -> bool:
        """Evicts a session other than `spared` for one of this worth; returns False if none has to give way to it."""
        others = [session for session in self._sessions.values() if session is not spared]
        if not others:
            return False
        victim = next((session for session in others if session.is_orphaned), others[0])
        if now_ms - victim.last_used_ms <= EVICTION_MS and not victim.is_orphaned:
            privileged, _ = worth
            evictable = [
                session
                for session in others
                if now_ms - session.created_ms > EVICTION_MS or (privileged and not session.privileged)
            ]
            if not evictable:
                return False
            victim = min(evictable, key=lambda session: session.worth)
            if worth <= victim.worth:
                return False
        self._remove(victim.session_id)
        self.evictions += 1
        return True


def _too_many_unknown(results: Sequence[Result]) -> bool:
    """Returns whether the results name too many partitions that do not exist for a session, or a name that no topic can have."""
    unknown = [cached for cached, data in results if data.error_code in _UNKNOWN]
    return len(unknown) > UNKNOWN_KEPT or any(len(cached.topic) > _MAX_NAME for cached in unknown)


def _requested_partitions(request: FetchRequest, version: int) -> Named:
    """Returns the partitions of the request, in its order. A partition named twice is in the list twice; the later
    entry counts.
    """
    named: Named = []
    for topic in request.topics:
        name_partitions(topic, topic.partitions, version, named)
    return named


def name_partitions(topic: FetchTopic, partitions: Sequence[FetchPartition], version: int, named: Named) -> None:
    """Adds partitions of one topic of a request to those that it names."""
    name: str | bytes = topic.topic_id if version >= TOPIC_IDS_SINCE else topic.topic
    named += [((name, partition.partition), CachedPartition(name, partition)) for partition in partitions]

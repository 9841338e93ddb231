"""Fetch sessions (KIP-227): a consumer names its partitions once and afterwards only what changed, and so do our answers.

A fetch with session epoch 0 asks for a session: it names everything, and the answer carries an id. From then on each fetch has
the id and the next epoch, counted up by both sides, and lists only new or changed partitions and forgotten ones; the answer has
only partitions with news: records, an error, or a high watermark or log start that the client does not know.
Epoch -1 ends the session, if there is one, and is answered without one.

Partitions that returned records go to the end of the session, so that with a small `max.bytes` each has its turn.

There are `max.incremental.fetch.session.cache.slots` sessions. When all slots are taken, a new session evicts the one that was
unused longest, if that is more than two minutes; else, among those older than two minutes, the one with the fewest partitions, if
the new one has more. If neither exists, the client gets no session (id 0) and goes on naming everything.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:  # this module is loaded with every broker, the messages of Fetch with the first one
    from ottla.wire.messages.fetch import FetchPartition, FetchRequest, PartitionData

SESSIONLESS: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EVICTION_MS: Final = 120_000
TOPIC_IDS_SINCE: Final = 13
_MAX_INT32: Final = 0x7FFFFFFF

Key = tuple[str | bytes, int]
"""A partition as the request names it: by the topic's name, or, from version 13 on, by its id."""


class CachedPartition:
    """A partition that a client fetches: the last request for it, and the offsets that the last answer gave (-1: no answer yet).

    `name` is the topic's name once it was looked up by its id; it stays when the topic is deleted.
    """

    __slots__ = ("high_watermark", "index", "log_start_offset", "name", "request", "topic")

    def __init__(self, topic: str | bytes, request: FetchPartition) -> None:
        self.topic = topic
        self.name: str | None = None
        self.index = request.partition
        self.request = request
        self.high_watermark = -1
        self.log_start_offset = -1

    def remember(self, answer: PartitionData) -> bool:
        """Returns whether the answer says anything that the client does not know, and remembers what it says."""
        is_news = self.is_news(answer)
        # After an error the partition is in the next answer without one, whatever its high watermark.
        self.high_watermark = answer.high_watermark if answer.error_code == ErrorCode.NONE else -1
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


Result = tuple[CachedPartition, "PartitionData"]


class SessionResponse(NamedTuple):
    """The part of an answer that the session decides."""

    error_code: ErrorCode
    session_id: int
    results: Sequence[Result]


class FetchSession:
    """`epoch` is the one that the next request must have."""

    __slots__ = ("created_ms", "epoch", "last_used_ms", "partitions", "privileged", "session_id", "uses_topic_ids")

    def __init__(
        self, session_id: int, partitions: dict[Key, CachedPartition], uses_topic_ids: bool, privileged: bool, now_ms: int
    ) -> None:
        self.session_id = session_id
        self.partitions = partitions
        self.uses_topic_ids = uses_topic_ids
        self.privileged = privileged
        self.created_ms = self.last_used_ms = now_ms
        self.epoch = INITIAL_EPOCH + 1

    @property
    def worth(self) -> tuple[bool, int]:
        """Says how much the session is worth keeping: followers' sessions before consumers', then larger ones before smaller
        ones.
        """
        return self.privileged, len(self.partitions)


class FetchContext:
    """One fetch between its request and its answer: it knows which partitions to read and which results go into the answer."""

    __slots__ = ("_create", "_epoch", "_session", "partitions")

    def __init__(
        self,
        partitions: dict[Key, CachedPartition],
        session: FetchSession | None = None,
        create: Callable[[FetchContext], int] | None = None,
    ) -> None:
        self.partitions = partitions
        self._session = session
        self._epoch = session.epoch if session is not None else 0
        self._create = create

    def respond(self, results: Sequence[Result]) -> SessionResponse:
        """Returns those of the results that go into the answer, in their order."""
        session = self._session
        if session is None:
            session_id = SESSIONLESS
            if self._create is not None:
                session_id = self._create(self)
                for cached, data in results:
                    cached.remember(data)
            return SessionResponse(ErrorCode.NONE, session_id, results)
        if session.epoch != self._epoch:  # a duplicate of this request overtook it
            return SessionResponse(ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.session_id, ())
        responded = []
        partitions = session.partitions
        for result in results:
            cached, data = result
            if cached.remember(data):
                responded.append(result)
                if data.records:  # its next turn is after the others
                    key = (cached.topic, cached.index)
                    partitions[key] = partitions.pop(key, cached)
        return SessionResponse(ErrorCode.NONE, session.session_id, responded)

    def preview(self, results: Sequence[Result]) -> Sequence[Result]:
        """Returns the results that `respond` would put into the answer, and changes nothing."""
        session = self._session
        if session is None:
            return results
        if session.epoch != self._epoch:
            return ()
        return [result for result in results if result[0].is_news(result[1])]

    def respond_empty(self) -> SessionResponse:
        """Returns an empty answer for a throttled client (server/quotas), which gets everything later. It begins no session."""
        session = self._session
        if session is None:
            return SessionResponse(ErrorCode.NONE, SESSIONLESS, ())
        is_this = session.epoch == self._epoch
        return SessionResponse(ErrorCode.NONE if is_this else ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.session_id, ())


class FetchSessions:
    """All sessions of this broker, the least recently used first."""

    def __init__(self, slots: int, now_ms: Callable[[], int], rng: random.Random) -> None:
        self._slots = slots
        self._now_ms = now_ms
        self._random = rng
        self._sessions: dict[int, FetchSession] = {}
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, request: FetchRequest, version: int, *, privileged: bool = False) -> FetchContext | ErrorCode:
        """Returns the context of a fetch in its session, or the error to answer if the session is not what the request
        assumes.
        """
        by_id = version >= TOPIC_IDS_SINCE
        epoch = request.session_epoch
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if request.session_id != SESSIONLESS:
                self._sessions.pop(request.session_id, None)
            partitions = dict(_requested_partitions(request, by_id))
            if epoch == FINAL_EPOCH:
                return FetchContext(partitions)
            return FetchContext(partitions, create=lambda fetching: self._create(fetching.partitions, by_id, privileged))
        session = self._sessions.get(request.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids != by_id:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        self._update(session, request, by_id)
        if not session.partitions:
            del self._sessions[session.session_id]
            return FetchContext(dict(_requested_partitions(request, by_id)))  # as in Kafka, also what the request forgets at once
        session.last_used_ms = self._now_ms()
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        session.epoch = epoch + 1 if epoch < _MAX_INT32 else 1
        return FetchContext(session.partitions, session)

    def _update(self, session: FetchSession, request: FetchRequest, by_id: bool) -> None:
        partitions = session.partitions
        for key, cached in _requested_partitions(request, by_id):
            known = partitions.get(key)
            if known is None:
                partitions[key] = cached
            else:
                known.request = cached.request
        for forgotten in request.forgotten_topics_data:
            topic: str | bytes = forgotten.topic_id if by_id else forgotten.topic
            for index in forgotten.partitions:
                partitions.pop((topic, index), None)

    def _create(self, partitions: dict[Key, CachedPartition], by_id: bool, privileged: bool) -> int:
        """Creates a session. Returns its id, or SESSIONLESS if there is no room for it."""
        now_ms = self._now_ms()
        if len(self._sessions) >= self._slots and not self._evict(now_ms, (privileged, len(partitions))):
            return SESSIONLESS
        session_id = self._random.randint(1, _MAX_INT32)
        while session_id in self._sessions:
            session_id = self._random.randint(1, _MAX_INT32)
        self._sessions[session_id] = FetchSession(session_id, partitions, by_id, privileged, now_ms)
        return session_id

    def _evict(self, now_ms: int, worth: tuple[bool, int]) -> bool:
        if not self._sessions:
            return False
        victim = next(iter(self._sessions.values()))
        if now_ms - victim.last_used_ms <= EVICTION_MS:
            privileged, _ = worth
            evictable = [
                session
                for session in self._sessions.values()
                if now_ms - session.created_ms > EVICTION_MS or (privileged and not session.privileged)
            ]
            if not evictable:
                return False
            victim = min(evictable, key=lambda session: session.worth)
            if worth <= victim.worth:
                return False
        del self._sessions[victim.session_id]
        self.evictions += 1
        return True


def _requested_partitions(request: FetchRequest, by_id: bool) -> list[tuple[Key, CachedPartition]]:
    """Returns the partitions of the request, in its order. A partition named twice is in the list twice; the later
    entry counts.
    """
    named: list[tuple[Key, CachedPartition]] = []
    for topic in request.topics:
        name: str | bytes = topic.topic_id if by_id else topic.topic
        named += [((name, partition.partition), CachedPartition(name, partition)) for partition in topic.partitions]
    return named

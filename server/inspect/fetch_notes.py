"""Notes about fetches that a watch of a group takes: from which offset on each client reads each partition, and how often.

A request costs what it says, not what its fetch session holds: the partitions that it names and forgets are noted, and of all
others only that the session was used. They are looked up when somebody asks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, Final

from ottla.wire.errors import ErrorCode
from ottla.wire.isolation import READ_COMMITTED

if TYPE_CHECKING:
    from ottla.server.partitions.fetch_sessions import CachedPartition, FetchSession
    from ottla.server.requests.context import BrokerContext

MOST_NOTED: Final = 20_000
"""So many partitions by client, and so many sessions; and so many partitions of sessions are looked at for one question."""
Client = tuple[str, str]
"""The client id and the host of a client."""
Place = tuple[str, int]


class Noted:
    """The notes about one client's fetches of one partition."""

    __slots__ = ("before", "first_offset", "is_out_of_range", "is_read_committed", "last_offset", "max_bytes", "times")

    def __init__(self, offset: int) -> None:
        self.times = 0
        self.before = 0
        """The number of uses of the client's session that are in `times` or came before the partition was in it."""
        self.first_offset = self.last_offset = offset
        self.max_bytes = 0
        self.is_out_of_range = self.is_read_committed = False

    def ask(self, asked: Any, max_bytes: int, *, is_read_committed: bool) -> None:
        """Notes what the client asks for now, by a FetchPartition."""
        self.last_offset = asked.fetch_offset
        self.max_bytes = min(max_bytes, asked.partition_max_bytes)
        self.is_read_committed = is_read_committed


class _Used:
    """A fetch session that was used during the watch: how often, and what its requests said of all partitions."""

    __slots__ = ("client", "is_read_committed", "max_bytes", "times")

    def __init__(self, client: Client) -> None:
        self.client = client
        self.times = 0
        self.max_bytes = 0
        self.is_read_committed = False

    def settle(self, noted: Noted) -> None:
        """Counts the uses that are not in a partition's `times` yet."""
        noted.times += max(0, self.times - noted.before)
        noted.before = self.times


def name_of(context: BrokerContext, topic: str | bytes) -> str:
    """Returns the name of a topic that a request has by name or id; an empty one if there is none of this id."""
    if isinstance(topic, str):
        return topic
    image = context.metadata.topics_by_id.get(topic)
    return "" if image is None else image.name


class FetchNotes:
    """Notes the fetches of these topics."""

    def __init__(self, context: BrokerContext, topics: frozenset[str]) -> None:
        self._context = context
        self._topics = topics
        self._noted: dict[tuple[Client, Place], Noted] = {}
        self._used: dict[int, _Used] = {}

    def note(self, client: Client, body: Any, *, by_id: bool) -> bool:
        """Notes a request before it is handled; returns whether it may concern these topics."""
        session = self._session(body, by_id)
        used = None if session is None else self._use(session, client, body)
        if session is not None and used is not None:
            for topic in body.forgotten_topics_data:
                key = topic.topic_id if by_id else topic.topic
                for place in self._places(key, topic.partitions):
                    self._forget(used, place, session.partitions.get((key, place[1])))
        concerns = used is not None
        for topic in body.topics:
            key = topic.topic_id if by_id else topic.topic
            asked = {each.partition: each for each in topic.partitions}
            for place in self._places(key, asked):
                concerns = True
                cached = None if session is None else session.partitions.get((key, place[1]))
                self._name(client, place, asked[place[1]], body, used, cached)
        return concerns

    def _session(self, body: Any, by_id: bool) -> FetchSession | None:
        """Returns the session that a request goes on with, None if it has none, or will be told that it may not."""
        session = self._context.fetch_sessions.find(body.session_id) if body.session_id > 0 else None
        goes_on = session is not None and session.epoch == body.session_epoch and session.uses_topic_ids == by_id
        return session if goes_on else None

    def _use(self, session: FetchSession, client: Client, body: Any) -> _Used | None:
        used = self._used.get(session.session_id)
        if used is None or used.client != client:
            if len(self._used) >= MOST_NOTED:
                return None
            used = self._used[session.session_id] = _Used(client)
        used.times += 1
        used.max_bytes = body.max_bytes
        used.is_read_committed = body.isolation_level == READ_COMMITTED
        return used

    def _places(self, topic: str | bytes, partitions: Collection[int]) -> Iterator[Place]:
        name = name_of(self._context, topic)
        if name in self._topics:
            for index in partitions:
                yield name, index

    def _find(self, client: Client, place: Place, offset: int) -> Noted | None:
        """Returns what is noted of a partition, from now on if there is nothing yet; None if that is too much."""
        found = self._noted.get((client, place))
        if found is None and len(self._noted) < MOST_NOTED:
            found = self._noted[client, place] = Noted(offset)
        return found

    def _name(
        self, client: Client, place: Place, asked: Any, body: Any, used: _Used | None, cached: CachedPartition | None
    ) -> None:
        noted = self._find(client, place, asked.fetch_offset if cached is None else cached.request.fetch_offset)
        if noted is None:
            return
        if used is None:
            noted.times += 1
            noted.before = 0  # the session that it begins is a new one
        elif cached is None:
            noted.before = used.times - 1
        noted.ask(asked, body.max_bytes, is_read_committed=body.isolation_level == READ_COMMITTED)

    def _forget(self, used: _Used, place: Place, cached: CachedPartition | None) -> None:
        """Notes a partition that leaves the session: how often it was fetched before this request."""
        if cached is None or used.times < 2:
            return
        noted = self._find(used.client, place, cached.request.fetch_offset)
        if noted is not None:
            used.settle(noted)
            noted.times -= 1
            noted.ask(cached.request, used.max_bytes, is_read_committed=used.is_read_committed)

    def note_answer(self, client: Client, answer: Any) -> None:
        """Notes which partitions are out of range. As long as one is, and once it is no more, a session's answers have it."""
        session = self._context.fetch_sessions.find(getattr(answer, "session_id", 0))
        for topic in getattr(answer, "responses", ()):
            key = topic.topic or topic.topic_id
            name = name_of(self._context, key)
            for each in topic.partitions if name in self._topics else ():
                is_out = each.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
                noted = self._noted.get((client, (name, each.partition_index)))
                cached = None if session is None else session.partitions.get((key, each.partition_index))
                if noted is None and is_out and cached is not None:
                    noted = self._find(client, (name, each.partition_index), cached.request.fetch_offset)
                if noted is not None:
                    noted.is_out_of_range = is_out

    def notes_of(self, clients: Collection[Client]) -> Iterator[tuple[Client, Place, Noted]]:
        """Yields what was seen so far of these clients, or if there are none, of all."""
        self._look_up(clients)
        for (client, place), noted in self._noted.items():
            if not clients or client in clients:
                yield client, place, noted

    def _look_up(self, clients: Collection[Client]) -> None:
        """Notes the partitions of sessions that no request named since the watch began."""
        left = MOST_NOTED
        for session_id, used in self._used.items():
            session = self._context.fetch_sessions.find(session_id) if not clients or used.client in clients else None
            for cached in () if session is None else session.partitions.values():
                left -= 1
                if left < 0:
                    return
                for place in self._places(cached.topic, (cached.index,)):
                    noted = self._find(used.client, place, cached.request.fetch_offset)
                    if noted is not None:
                        used.settle(noted)
                        noted.ask(cached.request, used.max_bytes, is_read_committed=used.is_read_committed)

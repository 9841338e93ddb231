"""Share sessions (KIP-932): a member names the partitions that it fetches once, and afterwards only what changed.

A session is identified by group and member; there is no other id. A ShareFetch with epoch 0 opens it and replaces any session
before it. From then on each ShareFetch and ShareAcknowledge has the next epoch, counted up by both sides (after the greatest
int32 comes 1); a ShareFetch lists added and forgotten partitions. Epoch -1 ends the session, and so does the end of the
connection that opened it.

An answer within a session contains only partitions with records or an error, those that were just added, and those that had an
error before. Partitions that returned records go to the end.

There can be `group.share.max.share.sessions` sessions, and they may hold `max_bytes` together, counted as PARTITION_BYTES for
each partition; in Kafka only their number is limited. What finds no room is refused with SHARE_SESSION_LIMIT_REACHED, after which
clients begin anew with epoch 0: a session that would be new is not opened, and one that would grow stays as it is. But a
connection that holds more than the one that asks would then hold has to give way, and its oldest sessions are evicted: one that
opens session after session keeps nobody else out. An ordinary member has one session with a broker, and a connection of its own.

Partitions that do not exist stay in a session, as in Kafka, because an answer has to say when they appear. But nobody needs a
session for many of them: one with more than UNKNOWN_KEPT is refused in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

from ottla.server.partitions.fetch_sessions import UNKNOWN_KEPT, UNLIMITED
from ottla.server.share.persister import ShareError
from ottla.wire.errors import ErrorCode

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_MAX_INT32: Final = 0x7FFFFFFF
PARTITION_BYTES: Final = 300
"""The memory that a partition takes in a session: 270 bytes, measured with 20,000 in each, every one of another topic."""

TopicIdPartition = tuple[bytes, int]
Named = Mapping[TopicIdPartition, str | None]
"""Partitions, with the topic names they had when they were added; None means that there was no topic of that id."""


class SessionKey(NamedTuple):
    group_id: str
    member_id: str


class ShareSession:
    """A member's session. `epoch` is the one that the next request must have; `unreported` are the partitions that the next
    answer contains in any case, and `unknown` those that did not exist when they were added.
    """

    __slots__ = ("connection", "counted", "epoch", "key", "partitions", "unknown", "unreported")

    def __init__(self, key: SessionKey, partitions: Named, connection: object, unknown: Iterable[TopicIdPartition] = ()) -> None:
        self.key = key
        self.partitions = dict(partitions)
        self.unreported: set[TopicIdPartition] = set()
        self.unknown = set(unknown)
        self.connection = connection
        self.epoch = INITIAL_EPOCH + 1
        self.counted = 0
        """The number of its partitions that `ShareSessions.partition_count` includes."""

    def step(self, epoch: int) -> None:
        """Advances the session by a request of this epoch. Raises ShareError if it is not the next one."""
        if epoch != self.epoch:
            raise ShareError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, None)
        self.epoch = epoch + 1 if epoch < _MAX_INT32 else 1

    def add(self, partition: TopicIdPartition, topic: str | None) -> None:
        if partition not in self.partitions:
            self.partitions[partition] = topic
            self.unreported.add(partition)

    def forget(self, partition: TopicIdPartition) -> None:
        self.partitions.pop(partition, None)
        self.unreported.discard(partition)
        self.unknown.discard(partition)

    def update(self, added: Named, forgotten: Iterable[TopicIdPartition]) -> None:
        for partition, topic in added.items():
            self.add(partition, topic)
        for partition in forgotten:
            self.forget(partition)

    def report(self, partition: TopicIdPartition, *, records: bool, error: bool) -> bool:
        """Returns whether the answer contains this partition, which gave `records` or an `error`, and remembers that it did."""
        in_answer = records or error or partition in self.unreported
        self.unreported.discard(partition)
        if partition in self.partitions:
            if error:
                self.unreported.add(partition)
            if records:  # its next turn is after the others
                self.partitions[partition] = self.partitions.pop(partition)
        return in_answer


class _Held:
    """The sessions that one connection has opened and still holds."""

    __slots__ = ("groups", "partitions", "sessions")

    def __init__(self) -> None:
        self.groups: set[str] = set()
        """The groups of which it has opened sessions, and of which something may be left."""
        self.partitions = 0
        self.sessions: dict[SessionKey, ShareSession] = {}
        """Its sessions, the oldest first."""


class ShareSessions:
    """All share sessions of this broker. They may hold `max_bytes`; `hold` is called with what they hold whenever that changes,
    and `released` with a session that was evicted."""

    def __init__(self, max_bytes: int = UNLIMITED, hold: Callable[[int], object] = lambda held: None) -> None:
        self.max_bytes = max_bytes
        self._max_partitions = max_bytes // PARTITION_BYTES
        self._hold = hold
        self.released: Callable[[ShareSession], object] = lambda session: None
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._connections: dict[object, _Held] = {}
        """The sessions of each connection that ever opened one."""
        self._members: dict[str, int] = {}
        """The number of sessions of each group that has any."""
        self.evictions = 0
        self.partition_count = 0
        """The number of partitions in all sessions."""

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def held_bytes(self) -> int:
        """Returns about how much memory the sessions take."""
        return self.partition_count * PARTITION_BYTES

    def knows(self, connection: object) -> bool:
        """Returns whether this open connection has ever opened a session."""
        return connection in self._connections

    def has_member(self, key: SessionKey) -> bool:
        """Returns whether a member has a session."""
        return key in self._sessions

    def is_open(self, session: ShareSession) -> bool:
        """Returns whether this session has neither ended nor been replaced."""
        return self._sessions.get(session.key) is session

    def find(self, key: SessionKey) -> ShareSession:
        """Returns a member's session. Raises ShareError if it has none."""
        session = self._sessions.get(key)
        if session is None:
            raise ShareError(ErrorCode.SHARE_SESSION_NOT_FOUND, None)
        return session

    def open(
        self,
        key: SessionKey,
        partitions: Named,
        connection: object,
        limit: int,
        unknown: Collection[TopicIdPartition] = (),
    ) -> ShareSession:
        """Opens a session, in place of any the member had. `unknown` are those of the partitions that do not exist. Raises
        ShareError if there are too many of them, or if there is no room beside `limit` others.
        """
        self.close(key)
        if len(unknown) > UNKNOWN_KEPT or not self._make_room(connection, len(partitions), limit):
            raise ShareError(ErrorCode.SHARE_SESSION_LIMIT_REACHED, None)
        session = self._sessions[key] = ShareSession(key, partitions, connection, unknown)
        held = self._connections.setdefault(connection, _Held())
        held.groups.add(key.group_id)
        held.sessions[key] = session
        self._members[key.group_id] = self._members.get(key.group_id, 0) + 1
        self._count(session, len(session.partitions))
        return session

    def reserve(self, session: ShareSession, added: int, unknown: Collection[TopicIdPartition]) -> None:
        """Takes room for partitions by which a session is about to grow, of which the `unknown` do not exist; afterwards, call
        `recount`. Raises ShareError if there are too many unknown, or there is no room.
        """
        if added == 0:
            return
        all_unknown = len(session.unknown) + len(unknown)
        if all_unknown > UNKNOWN_KEPT or not self._make_room(session.connection, added):
            raise ShareError(ErrorCode.SHARE_SESSION_LIMIT_REACHED, None)
        session.unknown.update(unknown)
        self._count(session, session.counted + added)

    def recount(self, session: ShareSession) -> None:
        """Counts the partitions that a session has now."""
        self._count(session, len(session.partitions))

    def _count(self, session: ShareSession, partitions: int) -> None:
        if self.is_open(session) and partitions != session.counted:
            self._adjust(session, partitions)

    def _adjust(self, session: ShareSession, partitions: int) -> None:
        added = partitions - session.counted
        session.counted = partitions
        self.partition_count += added
        held = self._connections.get(session.connection)
        if held is not None:
            held.partitions += added
        self._hold(self.held_bytes)

    def _make_room(self, connection: object, added: int, limit: int = UNLIMITED) -> bool:
        """Makes room for so many more partitions of a connection, and for one session more beside `limit` if that is given.
        Returns False if there is none.
        """
        mine = self._connections.get(connection) or _Held()
        while len(self._sessions) >= limit:
            if not self._evict(len(mine.sessions) + 1, lambda held: len(held.sessions), lambda: len(self._sessions) < limit):
                return False
        most = self._max_partitions - added
        while self.partition_count > most:
            if not self._evict(mine.partitions + added, lambda held: held.partitions, lambda: self.partition_count <= most):
                return False
        return True

    def _evict(self, asked: int, size: Callable[[_Held], int], is_enough: Callable[[], bool]) -> bool:
        """Evicts sessions of the connection of the greatest size, the oldest first, until that is enough. Returns False if none
        holds more than is asked for.
        """
        victim = max(self._connections.values(), key=size, default=None)
        if victim is None or size(victim) <= asked:
            return False
        while victim.sessions and not is_enough():
            session = next(iter(victim.sessions.values()))
            self.close(session.key)
            self.evictions += 1
            self.released(session)
        return True

    def close(self, key: SessionKey) -> ShareSession | None:
        """Closes a member's session, and returns it, if there is one."""
        session = self._sessions.get(key)
        if session is None:
            return None
        self._adjust(session, 0)
        del self._sessions[key]
        held = self._connections.get(session.connection)
        if held is not None:
            del held.sessions[key]
        left = self._members[key.group_id] - 1
        if left:
            self._members[key.group_id] = left
        else:
            del self._members[key.group_id]
        return session

    def has_group(self, group_id: str) -> bool:
        """Returns whether a member of the group has a session."""
        return group_id in self._members

    def forget_group(self, connection: object, group_id: str) -> None:
        """Forgets that the connection opened sessions of this group, because nothing of the group is left that its end would
        have to remove.
        """
        held = self._connections.get(connection)
        if held is not None:
            held.groups.discard(group_id)

    def of_connection(self, connection: object) -> list[ShareSession]:
        held = self._connections.get(connection)
        return [] if held is None else list(held.sessions.values())

    def empty_groups(self, connection: object) -> set[str]:
        """Forgets a closed connection. Returns the groups that had sessions by it and now have none at all."""
        held = self._connections.pop(connection, None)
        return set() if held is None else held.groups - self._members.keys()

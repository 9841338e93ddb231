"""Share sessions (KIP-932): a member names the partitions that it fetches once, and afterwards only what changed.

A session is identified by group and member; there is no other id. A ShareFetch with epoch 0 opens it and replaces any session
before it. From then on each ShareFetch and ShareAcknowledge has the next epoch, counted up by both sides (after the greatest
int32 comes 1); a ShareFetch lists added and forgotten partitions. Epoch -1 ends the session, and so does the end of the
connection that opened it.

An answer within a session contains only partitions with records or an error, those that were just added, and those that had an
error before. Partitions that returned records go to the end.

There can be `group.share.max.share.sessions` sessions; when all are taken, a new one is refused with SHARE_SESSION_LIMIT_REACHED.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ottla.server.share.persister import ShareError
from ottla.wire.errors import ErrorCode

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_MAX_INT32: Final = 0x7FFFFFFF

TopicIdPartition = tuple[bytes, int]
Named = Mapping[TopicIdPartition, str | None]
"""Partitions, with the topic names they had when they were added; None means that there was no topic of that id."""


class SessionKey(NamedTuple):
    group_id: str
    member_id: str


class ShareSession:
    """A member's session. `epoch` is the one that the next request must have; `unreported` are the partitions that the next
    answer contains in any case.
    """

    __slots__ = ("connection", "epoch", "key", "partitions", "unreported")

    def __init__(self, key: SessionKey, partitions: Named, connection: object) -> None:
        self.key = key
        self.partitions = dict(partitions)
        self.unreported: set[TopicIdPartition] = set()
        self.connection = connection
        self.epoch = INITIAL_EPOCH + 1

    def step(self, epoch: int) -> None:
        """Advances the session by a request of this epoch. Raises ShareError if it is not the next one."""
        if epoch != self.epoch:
            raise ShareError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, None)
        self.epoch = epoch + 1 if epoch < _MAX_INT32 else 1

    def update(self, added: Named, forgotten: Iterable[TopicIdPartition]) -> None:
        for partition, topic in added.items():
            if partition not in self.partitions:
                self.partitions[partition] = topic
                self.unreported.add(partition)
        for partition in forgotten:
            self.partitions.pop(partition, None)
            self.unreported.discard(partition)

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


class ShareSessions:
    """All share sessions of this broker."""

    def __init__(self) -> None:
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._groups: dict[object, set[str]] = {}
        """The groups that each connection opened sessions of."""

    def __len__(self) -> int:
        return len(self._sessions)

    def knows(self, connection: object) -> bool:
        """Returns whether this open connection has ever opened a session."""
        return connection in self._groups

    def find(self, key: SessionKey) -> ShareSession:
        """Returns a member's session. Raises ShareError if it has none."""
        session = self._sessions.get(key)
        if session is None:
            raise ShareError(ErrorCode.SHARE_SESSION_NOT_FOUND, None)
        return session

    def open(self, key: SessionKey, partitions: Named, connection: object, limit: int) -> ShareSession:
        """Opens a session, in place of any the member had. Raises ShareError if there are `limit` others."""
        self._sessions.pop(key, None)
        if len(self._sessions) >= limit:
            raise ShareError(ErrorCode.SHARE_SESSION_LIMIT_REACHED, None)
        session = self._sessions[key] = ShareSession(key, partitions, connection)
        self._groups.setdefault(connection, set()).add(key.group_id)
        return session

    def close(self, key: SessionKey) -> ShareSession | None:
        return self._sessions.pop(key, None)

    def forget_group(self, connection: object, group_id: str) -> None:
        """Forgets that the connection opened sessions of this group, because nothing of the group is left that its end would
        have to remove.
        """
        groups = self._groups.get(connection)
        if groups is not None:
            groups.discard(group_id)

    def of_connection(self, connection: object) -> list[ShareSession]:
        if connection not in self._groups:
            return []
        return [session for session in self._sessions.values() if session.connection is connection]

    def empty_groups(self, connection: object) -> set[str]:
        """Forgets a closed connection. Returns the groups that had sessions by it and now have none at all."""
        groups = self._groups.pop(connection, set())
        return groups - {key.group_id for key in self._sessions} if groups else groups

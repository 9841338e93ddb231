"""Share sessions (KIP-932): a member names the partitions that it fetches once, and afterwards only what changed.

A session is a member's in a group; there is no other id. A ShareFetch with epoch 0 opens it, anew if there is one. From then on
each ShareFetch and ShareAcknowledge has the next epoch, counted up by both sides (after the greatest int32 comes 1); a ShareFetch
lists added and forgotten partitions. Epoch -1 ends the session, and so does the end of the connection that opened it.

An answer within a session tells only of partitions with records or an error, of those that were just added, and of those that had
an error before. Partitions that gave records go to the end.

There are `group.share.max.share.sessions`; who comes when all are taken hears SHARE_SESSION_LIMIT_REACHED.
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
"""Partitions, with the names of their topics as they are known when they are added; None: there is no such topic id."""


class SessionKey(NamedTuple):
    group_id: str
    member_id: str


class ShareSession:
    """`epoch`: the one of the next request. `untold`: partitions of which the member is told whatever comes of them."""

    __slots__ = ("connection", "epoch", "key", "partitions", "untold")

    def __init__(self, key: SessionKey, partitions: Named, connection: object) -> None:
        self.key = key
        self.partitions = dict(partitions)
        self.untold: set[TopicIdPartition] = set()
        self.connection = connection
        self.epoch = INITIAL_EPOCH + 1

    def step(self, epoch: int) -> None:
        """A request of this epoch is here. ShareError: it is not the next one."""
        if epoch != self.epoch:
            raise ShareError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, None)
        self.epoch = epoch + 1 if epoch < _MAX_INT32 else 1

    def update(self, added: Named, forgotten: Iterable[TopicIdPartition]) -> None:
        for partition, topic in added.items():
            if partition not in self.partitions:
                self.partitions[partition] = topic
                self.untold.add(partition)
        for partition in forgotten:
            self.partitions.pop(partition, None)
            self.untold.discard(partition)

    def tells(self, partition: TopicIdPartition, *, records: bool, error: bool) -> bool:
        """Is the member told of this? Remembers what it is told."""
        told = records or error or partition in self.untold
        self.untold.discard(partition)
        if partition in self.partitions:
            if error:
                self.untold.add(partition)
            if records:  # its next turn is after the others
                self.partitions[partition] = self.partitions.pop(partition)
        return told


class ShareSessions:
    """All share sessions of this broker."""

    def __init__(self) -> None:
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._groups: dict[object, set[str]] = {}
        """By connection, the groups that it opened sessions of."""

    def __len__(self) -> int:
        return len(self._sessions)

    def knows(self, connection: object) -> bool:
        """Whether a session was ever opened by this connection, which is there still."""
        return connection in self._groups

    def find(self, key: SessionKey) -> ShareSession:
        """ShareError without one."""
        session = self._sessions.get(key)
        if session is None:
            raise ShareError(ErrorCode.SHARE_SESSION_NOT_FOUND, None)
        return session

    def open(self, key: SessionKey, partitions: Named, connection: object, limit: int) -> ShareSession:
        """A new session, in place of an old one. ShareError where there are `limit` of others."""
        self._sessions.pop(key, None)
        if len(self._sessions) >= limit:
            raise ShareError(ErrorCode.SHARE_SESSION_LIMIT_REACHED, None)
        session = self._sessions[key] = ShareSession(key, partitions, connection)
        self._groups.setdefault(connection, set()).add(key.group_id)
        return session

    def close(self, key: SessionKey) -> ShareSession | None:
        return self._sessions.pop(key, None)

    def forget_group(self, connection: object, group_id: str) -> None:
        """Nothing of the group is left here that the end of this connection would take away."""
        groups = self._groups.get(connection)
        if groups is not None:
            groups.discard(group_id)

    def of_connection(self, connection: object) -> list[ShareSession]:
        if connection not in self._groups:
            return []
        return [session for session in self._sessions.values() if session.connection is connection]

    def empty_groups(self, connection: object) -> set[str]:
        """The connection is gone: the groups that had sessions by it, and have none any more."""
        groups = self._groups.pop(connection, set())
        return groups - {key.group_id for key in self._sessions} if groups else groups

"""The follower's side of a fetch session (KIP-227): what the leader knows already need not be said again.

A request with session epoch 0 names every partition, and asks for a session. Once it has the session's id, each further request
counts its epoch up and names only partitions that are new or are asked for something else, and those that are fetched no longer.
After a request without an answer, or an answer that the leader does not know the session, nobody can say what the leader
knows: the next request names everything again, with the old id, which ends that session if there is one.

Ten thousand partitions are not named at once, because neither side should take so long over one request: the session begins with
some, and the next requests add the others, without a wait. Only a leader that has no room for sessions is asked for all. What the
leader knows already and is asked for something else of is named at once: it would send again what is here.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

if TYPE_CHECKING:
    from ottla.server.replication.following import Key
    from ottla.wire.messages.fetch import FetchResponse

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
_MAX_EPOCH: Final = 2**31 - 1
MOST_ADDED: Final = 2_000
"""So many partitions a request adds, which takes some two milliseconds to make, and so does its answer to be read."""


class FetchSession:
    """The session of one fetcher with one leader: what the leader is asked for; see the module's docstring."""

    __slots__ = ("_changed", "_epoch", "_forgotten", "_is_refused", "_new", "_session_id", "_wanted")

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._wanted: dict[Key, FetchPartition] = {}
        self._new: dict[Key, None] = {}
        """The partitions of which the leader has not been told yet."""
        self._changed: dict[Key, None] = {}
        """Those of which it was told something else."""
        self._forgotten: dict[Key, None] = {}
        self._is_refused = False
        """True if the leader made no session the last time."""

    def __len__(self) -> int:
        """Returns how many partitions are fetched."""
        return len(self._wanted)

    def want(self, key: Key, partition: FetchPartition) -> None:
        """Asks for a partition, or for something else of it."""
        is_new = key in self._new or (key not in self._wanted and key not in self._forgotten)
        self._wanted[key] = partition
        (self._new if is_new else self._changed)[key] = None
        self._forgotten.pop(key, None)  # a request that both names and forgets a partition forgets it

    def forget(self, key: Key) -> None:
        """Asks for a partition no longer."""
        if self._wanted.pop(key, None) is None:
            return
        if key in self._new:
            del self._new[key]
        else:
            self._changed.pop(key, None)
            self._forgotten[key] = None

    def fill(self, request: FetchRequest) -> None:
        """Gives a request its session and its partitions; it does not wait if there are more to be named."""
        request.session_id, request.session_epoch = self._session_id, self._epoch
        if self._epoch == INITIAL_EPOCH:
            self._new, self._changed, self._forgotten = dict.fromkeys(self._wanted), {}, {}
        added = list(islice(self._new, None if self._is_refused else MOST_ADDED))
        request.topics = _by_topic({key: self._wanted[key] for key in (*self._changed, *added)})
        for key in added:
            del self._new[key]
        if self._new:
            request.max_wait_ms = 0
        forgotten: dict[bytes, list[int]] = {}
        for topic_id, index in self._forgotten:
            forgotten.setdefault(topic_id, []).append(index)
        request.forgotten_topics_data = [ForgottenTopic("", topic_id, indexes) for topic_id, indexes in forgotten.items()]
        self._changed, self._forgotten = {}, {}

    def accept(self, answer: FetchResponse) -> bool:
        """Takes over what an answer says of the session. Returns whether the answer is about partitions; otherwise it is an
        error, after which the next request names everything."""
        if answer.error_code != ErrorCode.NONE:
            self._begin_again(NO_SESSION if answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND else self._session_id)
            return False
        self._is_refused = answer.session_id == NO_SESSION
        if self._is_refused:
            self._begin_again(NO_SESSION)
        else:
            self._session_id = answer.session_id
            self._epoch = 1 if self._epoch == _MAX_EPOCH else self._epoch + 1
        return True

    def lose(self) -> None:
        """Notes that a request had no answer."""
        self._begin_again(self._session_id)

    def _begin_again(self, session_id: int) -> None:
        self._session_id, self._epoch = session_id, INITIAL_EPOCH


def _by_topic(partitions: dict[Key, FetchPartition]) -> list[FetchTopic]:
    topics: dict[bytes, list[FetchPartition]] = {}
    for (topic_id, _), partition in partitions.items():
        topics.setdefault(topic_id, []).append(partition)
    return [FetchTopic("", topic_id, found) for topic_id, found in topics.items()]

"""Watches what the members of groups do: what they fetch, what they commit, and whether they are made to wait.

The link of the dispatch chain (Place.GROUPS) is there only while somebody watches, and around the four APIs alone that matter. A
watch notes numbers, no records: `MOST_NOTED` fetches of different clients and partitions at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ottla.server.base.promise import Promise
from ottla.wire.errors import ErrorCode
from ottla.wire.isolation import READ_COMMITTED
from ottla.wire.primitives import WireStruct

if TYPE_CHECKING:
    from ottla.server.requests.context import BrokerContext
    from ottla.server.requests.link import Handle, Steps
    from ottla.server.requests.request import Request
    from ottla.server.requests.traits import Traits
    from ottla.wire.api import Api

MOST_NOTED: Final = 20_000
TOPIC_IDS_SINCE: Final = 13
Client = tuple[str, str]
"""The client id and the host of a client."""
Place = tuple[str, int]
Answered = Callable[[Any], None]
"""Notes an answer once it is there."""
Note = Callable[["GroupWatch", Any, "Request"], Answered | None]


class Noted:
    """What was seen of one client's fetches of one partition."""

    __slots__ = ("first_offset", "is_out_of_range", "is_read_committed", "last_offset", "max_bytes", "times")

    def __init__(self, offset: int) -> None:
        self.times = 0
        self.first_offset = self.last_offset = offset
        self.max_bytes = 0
        self.is_out_of_range = self.is_read_committed = False


class GroupWatch:
    """Notes what concerns a group and these topics. `epoch` is that of the group, or its generation, when the watch began."""

    def __init__(self, context: BrokerContext, group: str, topics: frozenset[str]) -> None:
        self._context = context
        self.group = group
        self.epoch: int | None = None
        self._topics = topics
        self.fetches: dict[tuple[Client, Place], Noted] = {}
        self.commits: dict[Place, int] = {}
        self.sharers: set[Client] = set()
        self.throttled: dict[Client, tuple[int, str]] = {}
        """The longest time that a client was told to wait, in ms, and its principal."""

    # What is noted of each API

    def note_fetch(self, body: Any, request: Request) -> Answered | None:
        if body.replica_id >= 0 or (body.replica_state is not None and body.replica_state.replica_id >= 0):
            return None
        client = request.client_id or "", request.session.client_host
        fetched: dict[Place, Noted] = {}
        for place, asked in self._partitions(body, request):
            known = self.fetches.get((client, place))
            if known is None:
                if len(self.fetches) >= MOST_NOTED:
                    break
                known = self.fetches[client, place] = Noted(asked.fetch_offset)
            known.times += 1
            known.last_offset = asked.fetch_offset
            known.max_bytes = min(body.max_bytes, asked.partition_max_bytes)
            known.is_read_committed = body.isolation_level == READ_COMMITTED
            fetched[place] = known
        return partial(self._note_fetched, client, request, fetched)

    def _partitions(self, body: Any, request: Request) -> Iterator[tuple[Place, Any]]:
        """Yields the partitions of the topics that matter: those that the request names, and those of its session."""
        by_id = request.api_version >= TOPIC_IDS_SINCE
        named: dict[Place, Any] = {}
        for topic in body.topics:
            name = self._name(topic.topic_id if by_id else topic.topic)
            if name in self._topics:
                named.update(((name, each.partition), each) for each in topic.partitions)
        yield from named.items()
        session = self._context.fetch_sessions.find(body.session_id) if body.session_id > 0 else None
        for cached in () if session is None else session.partitions.values():
            name = self._name(cached.topic)
            if name in self._topics and (name, cached.index) not in named:
                yield (name, cached.index), cached.request

    def _name(self, topic: str | bytes) -> str:
        if isinstance(topic, str):
            return topic
        image = self._context.metadata.topics_by_id.get(topic)
        return "" if image is None else image.name

    def _note_fetched(self, client: Client, request: Request, fetched: dict[Place, Noted], answer: Any) -> None:
        waits = getattr(answer, "throttle_time_ms", 0)
        if waits > 0 and fetched and (client in self.throttled or len(self.throttled) < MOST_NOTED):
            before = self.throttled.get(client, (0, ""))[0]
            self.throttled[client] = max(before, waits), request.session.principal
        for known in fetched.values():
            known.is_out_of_range = False
        for topic in getattr(answer, "responses", ()):
            name = topic.topic or self._name(topic.topic_id)
            for each in topic.partitions:
                noted = fetched.get((name, each.partition_index))
                if noted is not None and each.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    noted.is_out_of_range = True

    def note_share_fetch(self, body: Any, request: Request) -> Answered | None:
        if body.group_id == self.group and len(self.sharers) < MOST_NOTED:
            self.sharers.add((request.client_id or "", request.session.client_host))
        return None

    def note_commit(self, body: Any, request: Request) -> Answered | None:
        return self._note_committed if body.group_id == self.group else None

    def _note_committed(self, answer: Any) -> None:
        """Notes what was committed. A member that is refused, perhaps because it is none any more, has committed nothing."""
        for topic in getattr(answer, "topics", ()):
            name = topic.name or self._name(topic.topic_id)
            for each in topic.partitions:
                key = name, each.partition_index
                if not each.error_code and (key in self.commits or len(self.commits) < MOST_NOTED):
                    self.commits[key] = self.commits.get(key, 0) + 1


class GroupLink:
    """The link of the watches that run, by their numbers."""

    def __init__(self, watches: dict[int, GroupWatch]) -> None:
        self._watches = watches

    def around(self, api: Api, traits: Traits, steps: Steps) -> Steps:
        """See Link."""
        note = _NOTES.get(api.module)
        return steps if note is None else steps._replace(handle=partial(self._handle, note, steps.handle))

    def _handle(self, note: Note, handle: Handle, body: Any, request: Request) -> Any:
        answered = list(filter(None, [note(watch, body, request) for watch in self._watches.values()]))
        answer = handle(body, request)
        if isinstance(answer, WireStruct):
            for tell in answered:
                tell(answer)
        elif answered and isinstance(answer, Promise | asyncio.Future):
            answer.add_done_callback(lambda done: _note_late(done, answered))
        return answer


def _note_late(done: asyncio.Future[Any] | Promise[Any], answered: list[Answered]) -> None:
    if done.cancelled() or (isinstance(done, Promise) and done.failed):
        return
    if isinstance(done, asyncio.Future) and done.exception() is not None:
        return
    for tell in answered:
        tell(done.result())


_NOTES: Final[dict[str, Note]] = {
    "fetch": GroupWatch.note_fetch,
    "share_fetch": GroupWatch.note_share_fetch,
    "offset_commit": GroupWatch.note_commit,
    "txn_offset_commit": GroupWatch.note_commit,
}

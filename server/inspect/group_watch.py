"""Watches what the members of groups do: what they fetch, what they commit, and whether they are made to wait.

The link of the dispatch chain (Place.GROUPS) is there only while somebody watches, and around the four APIs alone that matter. A
watch notes numbers, no records: `MOST_NOTED` fetches of different clients and partitions at most.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ottla.server.base.answers import has_come
from ottla.server.base.promise import Promise
from ottla.server.inspect.fetch_notes import MOST_NOTED, Client, FetchNotes, Place, name_of
from ottla.wire.primitives import WireStruct

if TYPE_CHECKING:
    from ottla.server.requests.context import BrokerContext
    from ottla.server.requests.link import Handle, Steps
    from ottla.server.requests.request import Request
    from ottla.server.requests.traits import Traits
    from ottla.wire.api import Api

TOPIC_IDS_SINCE: Final = 13
_log: Final = logging.getLogger("ottla.server.inspect")
Answered = Callable[[Any], None]
"""Notes an answer once it is there."""
Note = Callable[["GroupWatch", Any, "Request"], Answered | None]


class GroupWatch:
    """Notes what concerns a group and these topics. `epoch` is that of the group, or its generation, when the watch began."""

    def __init__(self, context: BrokerContext, group: str, topics: frozenset[str]) -> None:
        self._context = context
        self.group = group
        self.epoch: int | None = None
        self.fetches = FetchNotes(context, topics)
        self.commits: dict[Place, int] = {}
        self.sharers: set[Client] = set()
        self.throttled: dict[Client, tuple[int, str]] = {}
        """The longest time that a client was told to wait, in ms, and its principal."""

    # What is noted of each API

    def note_fetch(self, body: Any, request: Request) -> Answered | None:
        if body.replica_id >= 0 or (body.replica_state is not None and body.replica_state.replica_id >= 0):
            return None
        client = request.client_id or "", request.session.client_host
        if not self.fetches.note(client, body, by_id=request.api_version >= TOPIC_IDS_SINCE):
            return None
        return partial(self._note_fetched, client, request)

    def _note_fetched(self, client: Client, request: Request, answer: Any) -> None:
        waits = getattr(answer, "throttle_time_ms", 0)
        if waits > 0 and (client in self.throttled or len(self.throttled) < MOST_NOTED):
            before = self.throttled.get(client, (0, ""))[0]
            self.throttled[client] = max(before, waits), request.session.principal
        self.fetches.note_answer(client, answer)

    def note_share_fetch(self, body: Any, request: Request) -> Answered | None:
        if body.group_id == self.group and len(self.sharers) < MOST_NOTED:
            self.sharers.add((request.client_id or "", request.session.client_host))
        return None

    def note_commit(self, body: Any, request: Request) -> Answered | None:
        return self._note_committed if body.group_id == self.group else None

    def _note_committed(self, answer: Any) -> None:
        """Notes what was committed. A member that is refused, perhaps because it is none any more, has committed nothing."""
        for topic in getattr(answer, "topics", ()):
            name = topic.name or name_of(self._context, topic.topic_id)
            for each in topic.partitions:
                key = name, each.partition_index
                if not each.error_code and (key in self.commits or len(self.commits) < MOST_NOTED):
                    self.commits[key] = self.commits.get(key, 0) + 1


class GroupLink:
    """The link of the watches that run, by their numbers. One that fails is taken out of them, and `failed` is called: a bug in
    it must not fail a client's request."""

    def __init__(self, watches: dict[int, GroupWatch], failed: Callable[[int], None]) -> None:
        self._watches = watches
        self._failed = failed

    def around(self, api: Api, traits: Traits, steps: Steps) -> Steps:
        """See Link."""
        note = _NOTES.get(api.module)
        return steps if note is None else steps._replace(handle=partial(self._handle, note, steps.handle))

    def _handle(self, note: Note, handle: Handle, body: Any, request: Request) -> Any:
        answered: dict[int, Answered] = {}
        for number, watch in tuple(self._watches.items()):
            try:
                tell = note(watch, body, request)
            except Exception:  # noqa: BLE001 - see above
                self._drop(number)
                continue
            if tell is not None:
                answered[number] = tell
        answer = handle(body, request)
        if isinstance(answer, WireStruct):
            self._tell(answered, answer)
        elif answered and isinstance(answer, Promise | asyncio.Future):
            answer.add_done_callback(lambda done: self._note_late(done, answered))
        return answer

    def _note_late(self, done: asyncio.Future[Any] | Promise[Any], answered: dict[int, Answered]) -> None:
        if has_come(done):
            self._tell(answered, done.result())

    def _tell(self, answered: dict[int, Answered], answer: Any) -> None:
        for number, tell in answered.items():
            if number not in self._watches:
                continue
            try:
                tell(answer)
            except Exception:  # noqa: BLE001 - see above
                self._drop(number)

    def _drop(self, number: int) -> None:
        """Takes out a watch whose note has raised what is being handled."""
        _log.exception("the watch of the group %a failed, and ends", self._watches.pop(number).group)
        self._failed(number)


_NOTES: Final[dict[str, Note]] = {
    "fetch": GroupWatch.note_fetch,
    "share_fetch": GroupWatch.note_share_fetch,
    "offset_commit": GroupWatch.note_commit,
    "txn_offset_commit": GroupWatch.note_commit,
}

"""The waits that are pending, and what they subscribe to.

Whatever may have changed something only says so (`tell`). In the loop's next turn, when what happened has happened completely,
every condition is looked at once, however often that was said. As long as no wait is pending, no link stands around handlers,
and no partition, clock or socket has anybody to tell.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from ottla.server.base.clock import wait_at_most
from ottla.server.base.promise import Promise
from ottla.server.dispatch.chain import Place
from ottla.server.inspect.connections import connections
from ottla.server.testkit.fields import Refused
from ottla.server.testkit.waiting.condition import Missing
from ottla.wire.api import APIS
from ottla.wire.primitives import WireStruct

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.server.base.clock import Cancellable
    from ottla.server.metadata.image import MetadataImage
    from ottla.server.partitions.purgatory import Watchable
    from ottla.server.requests.context import BrokerContext
    from ottla.server.requests.link import Handle, Steps
    from ottla.server.requests.request import Request
    from ottla.server.requests.session import Session
    from ottla.server.requests.traits import Traits
    from ottla.server.testkit.faults.bench import Bench
    from ottla.server.testkit.waiting.condition import Condition
    from ottla.wire.api import Api

Outcome = dict[str, Any] | Missing | Refused
"""The values that were found, what is missing, or the reason why it can never come about."""


class Waits:
    """All pending waits of one kit."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._pending: dict[Condition, asyncio.Future[dict[str, Any]]] = {}
        self._look_is_planned = False
        self._alarm: Cancellable | None = None
        self._alarm_s = 0.0  # when it is due, by the monotonic clock
        self._image: MetadataImage | None = None  # the one that is subscribed to; a life has one
        self._watched: dict[Condition, list[Watchable]] = {}
        self._concerned: dict[int, dict[Condition, None]] = {}  # by the keys of the APIs; none is empty
        self._about_connections: set[Condition] = set()
        self._sessions: set[Session] = set()  # those whose end is subscribed to

    async def until(self, condition: Condition, timeout_ms: int) -> dict[str, Any]:
        """Waits for a condition, in real time, and returns what was found. Raises Refused, with 408 and what is missing if it
        takes too long, or at once if it can never come about."""
        outcome = self._look(condition)
        if isinstance(outcome, dict):
            return outcome
        if isinstance(outcome, Refused):
            raise outcome
        found: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._begin(condition, found)
        try:
            await wait_at_most(self._bench.clock, timeout_ms / 1000, (found,))
            if found.done():
                return found.result()
            outcome = self._look(condition)  # and not what was missing when it was looked at last
        finally:
            self._end(condition)
        if isinstance(outcome, dict):
            return outcome
        text = outcome.text if isinstance(outcome, Missing) else str(outcome)
        raise Refused(f"after {timeout_ms} ms: {text}", HTTPStatus.REQUEST_TIMEOUT)

    # Looking

    def tell(self, *_: object) -> None:
        """Has all conditions looked at in the loop's next turn."""
        if not self._look_is_planned and self._pending:
            self._look_is_planned = True
            self._bench.clock.call_later(0, self._look_at_all)

    def _look_at_all(self) -> None:
        self._look_is_planned = False
        for condition, found in self._pending.items():
            if found.done():
                continue
            outcome = self._look(condition)
            if isinstance(outcome, dict):
                found.set_result(outcome)
            elif isinstance(outcome, Refused):
                found.set_exception(outcome)
        self._watch_all()

    def _look(self, condition: Condition) -> Outcome:
        try:
            context = self._bench.lives.context
        except Refused as down:
            return Missing(str(down))
        try:
            return condition.look(self._bench, context)
        except Refused as never:
            return never

    # What is subscribed to. A wait that begins or ends adds or drops only what it itself is about: there may be thousands.

    def refresh(self) -> None:
        """Subscribes also in a life that begins to whatever may bring about what is waited for. As soon as that life serves,
        everything is looked at, and partitions and the like are subscribed to again."""
        if self._pending:
            self._listen(self.tell)
            self._put_link()

    def _begin(self, condition: Condition, found: asyncio.Future[dict[str, Any]]) -> None:
        if not self._pending:
            self._listen(self.tell)
        self._pending[condition] = found
        keys = [api.key for api in APIS.values() if condition.concerns(api)]
        is_new = any(key not in self._concerned for key in keys)
        for key in keys:
            self._concerned.setdefault(key, {})[condition] = None
        if is_new:
            self._put_link()
        if condition.watches_connections:
            self._about_connections.add(condition)
        context = self._context()
        if context is not None:
            self._watch(condition, context)
            if len(self._about_connections) == 1:  # for the second, a look has seen every connection that came after the first
                self._watch_sessions()
        self._set_alarm(condition.due_in_s())

    def _end(self, condition: Condition) -> None:
        del self._pending[condition]
        self._about_connections.discard(condition)
        self._unwatch(condition)
        for concerned in self._concerned.values():
            concerned.pop(condition, None)
        nobody_about = [key for key, concerned in self._concerned.items() if not concerned]
        for key in nobody_about:
            del self._concerned[key]
        if nobody_about:
            self._put_link()
        if not self._pending:
            self._listen(None)
            self._cancel_alarm()

    def _listen(self, tell: Callable[[], object] | None) -> None:
        lives = self._bench.lives
        lives.on_change = lives.clock.on_run = lives.network.on_connection = tell

    def _put_link(self) -> None:
        """Puts a link around the handlers of the APIs that are concerned now, or none. It sees waits that come and go later."""
        self._bench.broker.chain.put(Place.WAITS, _WaitLink(self._concerned, self.tell) if self._concerned else None)

    def _context(self) -> BrokerContext | None:
        """Returns the context of this life, whose metadata are subscribed to then; None between two lives: when the next has
        begun, everything is looked at again."""
        try:
            context = self._bench.lives.context
        except Refused:
            return None
        if context.metadata is not self._image:
            self._image = context.metadata
            self._image.subscribe(self.tell)
        return context

    def _watch_all(self) -> None:
        """Subscribes again to what every event uses up, or what events bring: partitions, the metadata, connections, the time."""
        self._cancel_alarm()
        context = self._context()
        due = []
        for condition, found in self._pending.items():
            self._unwatch(condition)
            if found.done() or context is None:
                continue
            self._watch(condition, context)
            seconds = condition.due_in_s()
            if seconds is not None:
                due.append(seconds)
        if self._about_connections and context is not None:
            self._watch_sessions()
        self._set_alarm(min(due, default=None))

    def _watch(self, condition: Condition, context: BrokerContext) -> None:
        watched = list(condition.watched(context))
        if watched:
            self._watched[condition] = watched
            for watchable in watched:
                watchable.watchers[condition] = self.tell

    def _unwatch(self, condition: Condition) -> None:
        for watchable in self._watched.pop(condition, ()):
            watchable.watchers.pop(condition, None)

    def _watch_sessions(self) -> None:
        for connection in connections(self._bench.lives.broker):
            if connection.session not in self._sessions:
                self._sessions.add(connection.session)
                connection.session.on_close(self._forget_session)

    def _set_alarm(self, seconds: float | None) -> None:
        """Has everything looked at in so many seconds, or before. An alarm that a wait leaves behind does no harm."""
        if seconds is None:
            return
        due_s = self._bench.clock.monotonic() + seconds
        if self._alarm is None or due_s < self._alarm_s:
            self._cancel_alarm()
            self._alarm_s = due_s
            self._alarm = self._bench.clock.call_later(seconds, self.tell)

    def _cancel_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _forget_session(self, session: Session) -> None:
        self._sessions.discard(session)
        self.tell()


class _WaitLink:
    """Stands around the handlers of those APIs that some condition is concerned with."""

    def __init__(self, concerned: dict[int, dict[Condition, None]], tell: Callable[[], None]) -> None:
        self._concerned = concerned
        self._tell = tell

    def around(self, api: Api, traits: Traits, steps: Steps) -> Steps:
        """See Link."""
        concerned = self._concerned.get(api.key)
        return steps if concerned is None else steps._replace(handle=partial(self._handle, concerned, steps.handle))

    def _handle(self, concerned: dict[Condition, None], handle: Handle, body: Any, request: Request) -> Any:
        for condition in concerned:
            condition.note_request(body, request)
        self._tell()  # in the next turn the request has been handled, or has failed
        answer = handle(body, request)
        if answer is None or isinstance(answer, WireStruct):
            return answer
        if isinstance(answer, Promise | asyncio.Future):
            answer.add_done_callback(lambda _: self._tell())
            return answer
        return _tell_when_done(answer, self._tell)


async def _tell_when_done(answer: Awaitable[Any], tell: Callable[[], None]) -> Any:
    try:
        return await answer
    finally:
        tell()

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
from ottla.server.testkit.fields import Refused
from ottla.server.testkit.looks.connections import connections
from ottla.server.testkit.waiting.condition import Missing
from ottla.wire.primitives import WireStruct

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.server.base.clock import Cancellable
    from ottla.server.metadata.image import MetadataImage
    from ottla.server.partitions.purgatory import Watchable
    from ottla.server.requests.link import Handle, Steps
    from ottla.server.requests.request import Request
    from ottla.server.requests.session import Session
    from ottla.server.requests.traits import Traits
    from ottla.server.testkit.bench import Bench
    from ottla.server.testkit.waiting.condition import Condition
    from ottla.wire.api import Api

Outcome = dict[str, Any] | Missing | Refused
"""What was found; what is missing; or why it can never come about."""


class Waits:
    """All pending waits of one kit."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._pending: dict[Condition, asyncio.Future[dict[str, Any]]] = {}
        self._look_is_planned = False
        self._alarm: Cancellable | None = None
        self._image: MetadataImage | None = None  # the one that is subscribed to; a life has one
        self._watched: list[Watchable] = []
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
        self._pending[condition] = found
        self.refresh()
        try:
            await wait_at_most(self._bench.clock, timeout_ms / 1000, (found,))
            if found.done():
                return found.result()
            outcome = self._look(condition)  # and not what was missing when it was looked at last
        finally:
            del self._pending[condition]
            self.refresh()
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
        self._watch()

    def _look(self, condition: Condition) -> Outcome:
        try:
            context = self._bench.lives.context
        except Refused as down:
            return Missing(str(down))
        try:
            return condition.look(self._bench, context)
        except Refused as never:
            return never

    # What is subscribed to

    def refresh(self) -> None:
        """Subscribes to whatever may bring about what is waited for, also in a life that begins, or to nothing if nothing is."""
        tell = self.tell if self._pending else None
        lives = self._bench.lives
        lives.on_change = lives.clock.on_run = lives.network.on_connection = tell
        link = _WaitLink(list(self._pending), self.tell) if self._pending else None
        self._bench.broker.chain.put(Place.WAITS, link)
        if self._pending:
            self._watch()
        else:
            self._stop_watching()

    def _watch(self) -> None:
        """Subscribes to what every event uses up, or what events bring: partitions, the metadata, connections, the time."""
        self._stop_watching()
        waiting = [condition for condition, found in self._pending.items() if not found.done()]
        try:
            broker, context = self._bench.lives.broker, self._bench.lives.context
        except Refused:
            return  # when the next life has begun, everything is looked at again
        if context.metadata is not self._image:
            self._image = context.metadata
            self._image.subscribe(self.tell)
        for condition in waiting:
            for watchable in condition.watched(context):
                watchable.watchers.setdefault(self, self.tell)
                self._watched.append(watchable)
        if any(condition.watches_connections for condition in waiting):
            for connection in connections(broker):
                if connection.session not in self._sessions:
                    self._sessions.add(connection.session)
                    connection.session.on_close(self._forget_session)
        due = [seconds for condition in waiting if (seconds := condition.due_in_s()) is not None]
        if due:
            self._alarm = self._bench.clock.call_later(min(due), self.tell)

    def _stop_watching(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        watched, self._watched = self._watched, []
        for watchable in watched:
            watchable.watchers.pop(self, None)

    def _forget_session(self, session: Session) -> None:
        self._sessions.discard(session)
        self.tell()


class _WaitLink:
    """Stands around the handlers of those APIs that some condition is concerned with."""

    def __init__(self, waiting: list[Condition], tell: Callable[[], None]) -> None:
        self._waiting = waiting
        self._tell = tell

    def around(self, api: Api, traits: Traits, steps: Steps) -> Steps:
        """See Link."""
        concerned = [condition for condition in self._waiting if condition.concerns(api)]
        return steps._replace(handle=partial(self._handle, concerned, steps.handle)) if concerned else steps

    def _handle(self, concerned: list[Condition], handle: Handle, body: Any, request: Request) -> Any:
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

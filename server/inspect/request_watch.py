"""Watches requests: what a client asks, what the broker does for it, and how long each of it takes.

The link of the dispatch chain (Place.REQUESTS) is there only while somebody watches. It is the outermost one, so it sees what a
client sent and what it is told. Fields are taken at once, as a request may lie in a buffer that others will use, and as text, of
which there is only the beginning: a watch keeps little of what a client makes long. What carries credentials is shown without
fields. The time that taking takes is in none of the times.
"""

from __future__ import annotations

import asyncio
import json
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ottla.server.base.answers import has_come
from ottla.server.base.promise import Acknowledgement, Promise
from ottla.server.inspect.messages import fields_of
from ottla.server.requests.kept_answers import Encoded
from ottla.wire.primitives import Buffer, Parts, WireStruct

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ottla.server.base.clock import Clock
    from ottla.server.requests.link import Decode, Encode, Handle, Steps
    from ottla.server.requests.request import Request
    from ottla.server.requests.traits import Traits
    from ottla.wire.api import Api

MOST_ELEMENTS: Final = 20
"""The most elements of each list that are shown."""
MOST_FIELDS: Final = 8_192
"""The most characters that the fields of one message may have."""
WITH_CREDENTIALS: Final = frozenset(
    ("SaslAuthenticate", "AlterUserScramCredentials", "CreateDelegationToken", "DescribeDelegationToken", "RenewDelegationToken")
) | {"ExpireDelegationToken", "AlterConfigs", "IncrementalAlterConfigs"}
_WAITS_FOR: Final = {
    "Fetch": "records",
    "ShareFetch": "records",
    "JoinGroup": "the other members",
    "SyncGroup": "the assignment",
    "Produce": "the in-sync replicas, or the disk",
}
ANSWERED: Final = "answered"
WAITING: Final = "waiting"
CLOSED: Final = "closed"
SILENT: Final = "no answer wanted"
_log: Final = logging.getLogger("ottla.server.inspect")


class Seen:
    """A request that was watched. Times are in ns, None for a stage that has not come, or was not seen."""

    __slots__ = (
        *("api", "at_ms", "began", "client_id", "correlation_id", "decoded", "encoded", "fault", "fields", "handled", "host"),
        *("outcome", "port", "response", "sent_bytes", "version", "waited", "waits_for"),
    )

    def __init__(self, api: str, request: Request, began: int, decoded: int | None, at_ms: int) -> None:
        self.api = api
        self.version = request.api_version
        self.client_id = request.client_id
        self.host, self.port = request.session.client_host, request.session.client_port
        self.correlation_id = request.correlation_id
        self.began = began
        self.at_ms = at_ms
        self.decoded = decoded
        self.handled: int | None = None
        self.waited: int | None = None
        self.encoded: int | None = None
        self.sent_bytes: int | None = None
        self.waits_for: str | None = None
        self.outcome = WAITING
        self.fault: str | None = None
        """The id of the fault of a test kit that has acted on it."""
        self.fields: str | None = None
        self.response: str | None = None


class RequestWatch:
    """A link that notes the requests of one client id, or with None of all, and stops at `most`, when `over` is called. `clock`
    is the broker's. A message that cannot be shown ends the watch, and harms no request."""

    def __init__(self, clock: Clock, client_id: str | None, most: int, over: Callable[[], None]) -> None:
        self._ticks = clock.ticks_ns
        self._now_ms = clock.now_ms
        self.client_id = client_id
        self.most = most
        self._over = over
        self.seen: list[Seen] = []
        self._current: tuple[Request, Seen] | None = None  # the request that is being handled
        self._is_over = False
        self._decoded: tuple[Any, int, int] = (None, 0, 0)  # the body that was decoded last, when that began, and its time
        self._unsent: dict[int, tuple[Any, Seen]] = {}
        """Answers to be encoded, `most` at most, by their ids; they are held, so that those stay."""

    def around(self, api: Api, traits: Traits, steps: Steps) -> Steps:
        """See Link."""
        return steps._replace(
            decode=partial(self._decode, steps.decode),
            handle=partial(self._handle, steps.handle, api.name),
            encode=partial(self._encode, steps.encode),
        )

    def _decode(self, decode: Decode, frame: Buffer, pos: int) -> tuple[Any, int]:
        began = self._ticks()
        body, end = decode(frame, pos)
        self._decoded = body, began, self._ticks() - began
        return body, end

    def _handle(self, handle: Handle, api: str, body: Any, request: Request) -> Any:
        (known, began, decoded), self._decoded = self._decoded, (None, 0, 0)  # no body is held for longer than its request
        if self._is_over or len(self.seen) >= self.most or (self.client_id is not None and request.client_id != self.client_id):
            return handle(body, request)
        if known is not body:  # it was decoded in a thread
            began = self._ticks()
        seen = Seen(api, request, began, decoded if known is body else None, self._now_ms())
        shows = api not in WITH_CREDENTIALS
        if shows:
            seen.fields = self._show(body, batches=True)
        self.seen.append(seen)
        self._current = request, seen
        called = self._ticks()
        try:
            answer = handle(body, request)
        except Exception:
            seen.handled, seen.outcome = self._ticks() - called, CLOSED
            raise
        finally:
            self._current = None
            if len(self.seen) == self.most:
                self._over()
        now = self._ticks()
        seen.handled = now - called
        if isinstance(answer, WireStruct):
            self._answered(seen, answer, shows=shows)
        elif answer is None:
            seen.outcome = SILENT
        elif isinstance(answer, Promise | asyncio.Future):
            seen.waits_for = _WAITS_FOR.get(api, "the disk" if isinstance(answer, Acknowledgement) else "others")
            answer.add_done_callback(lambda done: self._came(seen, done, now, shows=shows))
        elif asyncio.iscoroutine(answer):
            seen.waits_for = "others"
            return self._follow(seen, answer, now, shows=shows)
        return answer

    def note_fault(self, request: Request, fault: str | None) -> None:
        """Notes that a fault acts on a request, if that is the one that is being handled; None if none does after all."""
        if self._current is not None and self._current[0] is request:
            self._current[1].fault = fault

    async def _follow(self, seen: Seen, answer: Coroutine[Any, Any, Any], since: int, *, shows: bool) -> Any:
        """Waits for the answer of a handler that is a coroutine."""
        try:
            said = await answer
        except BaseException:
            seen.waited, seen.outcome = self._ticks() - since, CLOSED
            raise
        self._tell(seen, said, since, shows=shows)
        return said

    def _came(self, seen: Seen, done: Promise[Any] | asyncio.Future[Any], since: int, *, shows: bool) -> None:
        if has_come(done):
            self._tell(seen, done.result(), since, shows=shows)
        else:
            seen.waited, seen.outcome = self._ticks() - since, CLOSED

    def _tell(self, seen: Seen, answer: Any, since: int, *, shows: bool) -> None:
        """Notes an answer that came later."""
        seen.waited = self._ticks() - since
        if answer is None:
            seen.outcome = SILENT
        else:
            self._answered(seen, answer, shows=shows)

    def _answered(self, seen: Seen, answer: Any, *, shows: bool) -> None:
        seen.outcome = ANSWERED
        if not isinstance(answer, WireStruct):
            return
        if isinstance(answer, Encoded):  # it has no fields any more, and no route encodes it again
            seen.sent_bytes = sum(map(len, answer.parts))
            return
        if shows:
            seen.response = self._show(answer, batches=False)
        self._unsent[id(answer)] = answer, seen

    def _show(self, message: WireStruct, *, batches: bool) -> str | None:
        if self._is_over:
            return None
        try:
            return _text(message, batches=batches)
        except Exception:  # noqa: BLE001 - a bug in showing a message must not fail the request
            _log.exception("a %s cannot be shown, so the watch of requests ends", type(message).__name__)
            self._is_over = True
            self._over()
            return None

    def _encode(self, encode: Encode, response: Any, parts: Parts) -> None:
        found = self._unsent.pop(id(response), None)
        if found is None:
            encode(response, parts)
            return
        seen, began = found[1], self._ticks()
        encode(response, parts)
        seen.encoded = self._ticks() - began
        seen.sent_bytes = sum(map(len, parts))

    def close(self) -> None:
        """Forgets what is not sent yet, whose encoding is no longer seen, and the body that was decoded last."""
        self._is_over = True
        self._unsent.clear()
        self._decoded = None, 0, 0


def _text(message: WireStruct, *, batches: bool) -> str:
    """Returns the fields of a message as JSON for who reads it, cut off if it is long."""
    fields = fields_of(message, records=False, batches=batches, most=MOST_ELEMENTS)
    text = json.dumps(fields, indent=1, ensure_ascii=False, default=str)
    return text if len(text) <= MOST_FIELDS else f"{text[:MOST_FIELDS]}…"

"""Records the requests of a broker under test and their answers, in a ring that forgets the oldest.

A recorded request costs a copy of its frame and little more: nothing is decoded before somebody looks (recorded.py). A `Recorder`
stands between the kit's outer layer (frames.py) and the dispatch, and only while it records; so an answer is recorded as the
broker gave it, before a fault changes its bytes.

What carries credentials is blanked before it is kept (redaction.py).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from ottla.log.disk.files import FileSlice
from ottla.log.errors import StorageError
from ottla.server.base.answers import keep_running
from ottla.server.base.promise import Acknowledgement, Promise
from ottla.server.dispatch.route import SIZE_BYTES, Route, Waiting
from ottla.server.requests.kept_answers import Encoded
from ottla.server.testkit.recording.redaction import ANSWERS_WITH_SECRETS, REQUESTS_WITH_SECRETS, redact_answer, redact_request
from ottla.wire.header import RequestHeader

if TYPE_CHECKING:
    from ottla.server.base.clock import Clock
    from ottla.server.requests.request import Request
    from ottla.server.requests.session import Session
    from ottla.server.security.login import Serve
    from ottla.wire.primitives import Buffer, Parts

MAX_BYTES: Final = 32 * 1024 * 1024
"""The most bytes of all frames that are kept, and of what belongs to them."""
SHORT_FRAME: Final = 64 * 1024
"""The longest frame that is kept where records are not; of a longer one only the header is."""
LONG_FRAME: Final = MAX_BYTES // 4
"""The longest frame that is kept where records are."""
ENTRY_BYTES: Final = 512
"""The approximate memory that a request takes besides its frames."""

ANSWERED: Final = "answered"
WAITING: Final = "waiting"
CLOSED: Final = "closed"
SILENT: Final = "no answer wanted"

_HEADER: Final = Struct(">hhih")
"""The API's key and version, the correlation id, and the length of the client id."""


class Entry:
    """A recorded request, and its answer once there is one."""

    __slots__ = (
        *("answer", "answer_bytes", "at_ms", "began_ns", "connection", "fault", "frame", "frame_bytes", "held_bytes", "node"),
        *("outcome", "request", "seq", "session", "took_ns"),
    )

    def __init__(
        self, seq: int, at_ms: int, node: int, connection: int, session: Session, frame: bytes, frame_bytes: int
    ) -> None:
        self.seq = seq
        self.at_ms = at_ms
        """The time at which it came, by the broker's clock."""
        self.node = node
        self.connection = connection
        """The number of its connection, in the order of their first recorded requests."""
        self.session = session
        self.frame = frame
        """The frame without its size; only its beginning, with the header, if it is too long."""
        self.frame_bytes = frame_bytes
        self.answer: tuple[bytes | int, ...] | None = None
        """The frame of the answer, its size in front, in parts; an int stands for so many bytes of records that are not kept. It
        is None if there is no answer, or too long a one."""
        self.answer_bytes = 0
        """The length of that frame without its size, also if it is not kept."""
        self.began_ns = self.took_ns = 0
        self.fault: str | None = None
        """The id of the fault that has acted on it."""
        self.outcome = WAITING
        self.request: Request | None = None
        """The request as handlers have it, as long as its answer waits."""
        self.held_bytes = 0

    @property
    def header(self) -> RequestHeader:
        """Decodes the header of the request."""
        key, version, correlation_id, length = _HEADER.unpack_from(self.frame)
        name = self.frame[_HEADER.size : _HEADER.size + length]
        return RequestHeader(key, version, correlation_id, None if length < 0 else name.decode("utf-8", "replace"))

    @property
    def has_body(self) -> bool:
        """Returns whether the whole frame is there."""
        return len(self.frame) == self.frame_bytes


class Recorder:
    """Holds the latest requests. `clock` is the real one, for how long an answer took."""

    def __init__(self, clock: Clock) -> None:
        self._ticks = clock.ticks_ns
        self.max = 0
        """The most requests that are kept; 0 records nothing."""
        self.records = False
        """True if frames are kept with their records."""
        self.last_seq = 0
        self.held_bytes = 0
        self._longest = SHORT_FRAME
        self._entries: deque[Entry] = deque()
        self._current: Entry | None = None  # the request that is being served
        self._pending: dict[Request, Entry] = {}  # those whose answers wait
        self._connections: dict[Session, int] = {}
        self._connected = 0

    def configure(self, most: int, *, records: bool) -> None:
        """Sets how many requests are kept, and whether with their records. What is recorded already stays, if there is room."""
        self.max, self.records = most, records
        self._longest = LONG_FRAME if records else SHORT_FRAME
        self._forget_oldest()

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def clear(self) -> None:
        """Forgets all recorded requests; the numbers go on."""
        for entry in self._entries:
            entry.held_bytes = 0  # an answer that still comes is not counted
        self._entries.clear()
        self.held_bytes = 0

    # Serving

    def around(self, node: int, now_ms: Callable[[], int], serve: Serve) -> Serve:
        """Returns what records requests that `serve` serves, of a node whose clock is `now_ms`."""
        return partial(self._serve, serve, node, now_ms)

    def _serve(self, serve: Serve, node: int, now_ms: Callable[[], int], frame: Buffer, session: Session) -> Any:
        if len(frame) < _HEADER.size:
            return serve(frame, session)  # which closes the connection
        entry = self._begin(node, now_ms(), frame, session)
        outer, self._current = self._current, entry  # an append may answer other connections, which then go on
        try:
            answer: bytes | Parts | Waiting | None = serve(frame, session)
        except Exception:
            self._end(entry, CLOSED)
            raise
        finally:
            self._current = outer
        if isinstance(answer, Waiting):
            return self._wait(entry, answer)
        self._end(entry, SILENT if answer is None else ANSWERED, answer)
        return answer

    def note_fault(self, request: Request, fault: str | None) -> None:
        """Notes which fault has acted on a request; None if it turned out to have nothing to act on."""
        entry = self._pending.get(request) or self._current
        if entry is not None:
            entry.fault = fault

    def _begin(self, node: int, at_ms: int, frame: Buffer, session: Session) -> Entry:
        size = len(frame)
        if size <= self._longest:
            kept_frame = bytes(frame)
        else:
            kept_frame = bytes(frame[: _HEADER.size + max(0, _HEADER.unpack_from(frame)[3])])
        if kept_frame[:2] in REQUESTS_WITH_SECRETS:
            kept_frame = redact_request(kept_frame)
            size = len(kept_frame) if len(kept_frame) > _HEADER.size else size
        connection = self._connections.get(session) or self._note_connection(session)
        self.last_seq += 1
        entry = Entry(self.last_seq, at_ms, node, connection, session, kept_frame, size)
        self._entries.append(entry)
        self._hold(entry, len(kept_frame) + ENTRY_BYTES)
        entry.began_ns = self._ticks()
        return entry

    def _note_connection(self, session: Session) -> int:
        self._connected += 1
        self._connections[session] = self._connected
        session.on_close(lambda closed: self._connections.pop(closed, None))
        return self._connected

    def _end(self, entry: Entry, outcome: str, answer: bytes | Parts | None = None) -> None:
        entry.took_ns = self._ticks() - entry.began_ns
        entry.outcome = outcome
        entry.request = None
        if answer:
            self._keep_answer(entry, answer)

    def _keep_answer(self, entry: Entry, answer: bytes | Parts) -> None:
        size = len(answer) if isinstance(answer, bytes) else sum(map(len, answer))
        entry.answer_bytes = size - SIZE_BYTES
        parts: tuple[bytes | int, ...]
        if isinstance(answer, bytes):
            parts, held = (answer,), size
        else:
            parts = tuple(map(self._part, answer))
            held = sum(len(part) for part in parts if isinstance(part, bytes))
        if held > self._longest:
            return
        if entry.frame[:2] in ANSWERS_WITH_SECRETS:
            header = entry.header
            parts = redact_answer(header.api_key, header.api_version, parts)
        entry.answer = parts
        if entry.held_bytes:  # it is not forgotten yet
            self._hold(entry, held)

    def _part(self, part: Any) -> bytes | int:
        """Returns what is kept of a part of an answer. A region of a file is read now, for it may be another one later."""
        if not isinstance(part, FileSlice):
            return bytes(part)
        if not self.records or part.length > self._longest:
            return part.length
        try:
            return part.read()
        except (OSError, StorageError):
            return part.length  # the connection finds out, too

    # The ring

    def _hold(self, entry: Entry, size: int) -> None:
        entry.held_bytes += size
        self.held_bytes += size
        if self.held_bytes > MAX_BYTES or len(self._entries) > self.max:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        entries = self._entries
        while entries and (self.held_bytes > MAX_BYTES or len(entries) > self.max):
            oldest = entries.popleft()
            self.held_bytes -= oldest.held_bytes
            oldest.held_bytes = 0

    # Answers that come later

    def _wait(self, entry: Entry, waiting: Waiting) -> Waiting:
        """Returns what stands for an answer that is recorded when it has come."""
        request, route = waiting.request, waiting.route
        entry.request = request
        self._pending[request] = entry
        promised = waiting.answer
        done: Promise[Any] = Acknowledgement() if type(promised) is Acknowledgement else Promise()

        def finish(answer: asyncio.Future[Any] | Promise[Any]) -> None:
            del self._pending[request]
            if answer.cancelled():
                self._end(entry, CLOSED)
                done.cancel()
                return
            try:
                frame = route.finish(answer, waiting)
            except Exception as error:  # noqa: BLE001 - the connection closes with it
                self._end(entry, CLOSED)
                if not done.done():
                    done.set_exception(error)
                return
            if done.done():  # the client has gone
                self._end(entry, CLOSED)
                return
            self._end(entry, ANSWERED if frame else SILENT, frame)
            done.set_result(_without_head(frame, route) if frame else None)

        if isinstance(promised, Promise):
            done.add_done_callback(lambda _: promised.cancel() if done.cancelled() else None)
            promised.add_done_callback(finish)
        else:
            keep_running(promised).add_done_callback(finish)
        return Waiting(done, Route(route.plan, route.plan.own_steps), request)


def _without_head(frame: bytes | Parts, route: Route) -> Encoded:
    """Returns an answer that is encoded already; the route of the kit puts the same head before it."""
    return Encoded(frame[route.head.size :]) if isinstance(frame, bytes) else Encoded(*frame[1:])

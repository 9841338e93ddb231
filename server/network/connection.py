"""Serves one client's connection: bytes come in, frames go out, and answers come in the order of the requests.

**In.** asyncio and uvloop ask for a buffer (`get_buffer`), read into it, and say how much they have read (`buffer_updated`), with
nothing in between. So one receive buffer serves all connections, and an idle connection needs none. Whole frames in it are served
where they lie. The rest of a small frame waits as a copy; a large frame gets a buffer of its own, which the next reads fill in
place. The memory of that buffer grows with what has arrived, not with what was announced: ten thousand connections that each
announce 100 MB and then fall silent cost nothing. (A frame of which 2 MiB have arrived gets addresses for all of it, but no
memory: receive_buffers.py.) A few of these buffers are kept for the next large frames: memory that goes back to the kernel
with every frame costs a page fault for each 4 KiB when it is used again, and that was a quarter of the CPU of a produce of 1 MB.

**Order.** Kafka answers the requests of a connection strictly in order, one at a time. While one waits (a long poll, a
rebalance), or while the client does not read its answers, the frames behind it are kept as copies and served afterwards. If there
are too many of them, on this connection or on all together (`queued.max.requests`, `queued.max.request.bytes`), reading stops.

**Memory.** What a client makes this connection hold (an unfinished frame, frames behind a waiting one, answers that it does not
read) is counted over all connections. If there is no room for a frame to grow, reading stops until there is
(server/network/holding.py, server/network/client_memory.py).

**Turns.** One read may hold thousands of small requests, and neither their answers nor the work for them need be small. When a
turn has made TURN_BYTES of answers, or has taken TURN_NS, the answers go out, the frames behind are kept, and all other
connections come first. Connections that wait for their next turn share the time of one with each other, and with all other work
that takes turns (`Turns` in server/base/clock.py). A frame above LARGE_FRAME, or a Produce above LARGE_PRODUCE, waits for a turn
as well if the large ones of others have had the time of this round of the loop. So neither memory nor the latency of other
clients depends on how much clients send at once, or on whether they read. Only a turn of several requests, and a large one, look
at the clock.

**Acknowledgements.** While an answer waits only for an acknowledgement, for instance an fsync, the Produce requests behind it are
served, and their answers are queued (server/network/answer_queue.py). All other requests wait until the queue is empty.

**Appends.** Produces that came in one read append before any of them is answered, and what several of them append to a partition
is written by one call (log/joined_write.py), before another request is served and before any answer leaves. If it cannot be
written, they are served again, one by one.

**Out.** All answers of a turn go out in one write (server/network/sending.py).
"""

from __future__ import annotations

import asyncio
import logging
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, cast

from ottla.server.base.errors import CloseConnection
from ottla.server.base.promise import Acknowledgement, Promise
from ottla.server.dispatch.route import Waiting
from ottla.server.network.bad_frames import describe_bad_size
from ottla.server.network.held_appends import NO_ANSWER, OUT_OF_REACH, HeldAppends, begins_with_produce
from ottla.server.network.holding import PRODUCE, PRODUCE_KEY
from ottla.server.network.sending import Sending
from ottla.server.requests.session import Session
from ottla.wire.integers import COMPILED, int32_at
from ottla.wire.primitives import Buffer

if TYPE_CHECKING:
    from ottla.server.network.answer_queue import AnswerQueue
    from ottla.server.network.owner import Owner

logger = logging.getLogger("ottla.server.connection")

_SIZE: Final = Struct(">i")
BACKLOG_FRAMES: Final = 256
BACKLOG_BYTES: Final = 1024 * 1024
FEW_BYTES: Final = 16 * 1024 if COMPILED else 0
"""The size of the largest read whose bytes are copied, so that its frames are `bytes`; the frames of a longer one stay views.
Code that is not compiled gains nothing from that."""
HIGH_WATER: Final = 64 * 1024
"""With so many unsent bytes in the transport nothing more is served for this client until it has read them."""
TURN_BYTES: Final = 128 * 1024
LARGE_FRAME: Final = 2 * 1024
"""A longer frame may take milliseconds to serve, so it is only begun if the round of the loop has the time."""
LARGE_PRODUCE: Final = 32 * 1024
"""The same for a Produce, which is records for the most part: this much takes about 0.1 ms. One that waits is copied, and is not
written together with its neighbours, so the usual batches of producers (16 KiB) do not wait."""
REQUEST_COST: Final = 64
"""The cost of a request within a turn, in addition to its answer, in bytes of answers."""


class Connection(Sending):
    """Serves one client; see the module's docstring. Its owner refers to it from connection_made to connection_lost."""

    __slots__ = (
        "_answer",
        "_held",
        "_max_queued",
        "_mutes",
        "_owner",
        "_purgatory",
        "_queue",
        "_reading",
        "_small_frame",
        "_ticks",
        "_turn_queued",
        "_turns",
        "_view",
        "active",
        "host",
        "max_request_bytes",
        "muted_until",
        "serve",
        "session",
    )

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self.serve = owner.dispatch.serve
        context = owner.context
        Sending.__init__(self, context)
        self._purgatory = context.purgatory
        self._ticks, self._turns = context.clock.ticks_ns, context.clock.turns
        self._turn_queued = False
        buffers = context.buffers
        self._view = buffers.view
        self._small_frame = buffers.small_frame
        settings = owner.settings
        self.max_request_bytes = settings.max_request_bytes
        self._max_queued = settings.max_queued_requests, settings.max_queued_bytes
        self._answer: asyncio.Future[Any] | Promise[Any] | AnswerQueue | None = None  # the request that waits
        self._queue: AnswerQueue | None = None  # the same object, if Produce requests wait for fsyncs
        self._reading = True
        self._mutes, self.muted_until = 0, 0.0  # how many mutes have not ended yet, and the time at which the last one does
        self.active = True
        """Set by everything that happens here; the listener's sweep for idle connections clears it."""

    # The transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        host, port = peer[:2] if isinstance(peer, tuple) else ("unknown", 0)  # the client has already gone
        self.host: str = host.removeprefix("::ffff:")
        self.peer = f"{self.host}:{port}"
        owner = self._owner
        self.session = Session(owner.name, self.host, port, self)
        self._held = HeldAppends(owner.dispatch, self.session)
        self._fd = transport.get_extra_info("socket").fileno() if transport.get_extra_info("sslcontext") is None else -1
        refusal = owner.admit(self)
        if refusal is not None:
            owner.log_refusal(self.peer, refusal)
            if not self._resting:  # otherwise the owner closes it later
                self.abort()
            return
        self.transport.set_write_buffer_limits(high=HIGH_WATER, low=0)

    def connection_lost(self, error: Exception | None) -> None:
        self._closing = True
        if error is not None and not isinstance(error, ConnectionError):
            logger.info("lost the connection of %s: %s", self.peer, error)
        answer = self._answer
        if answer is not None and not isinstance(answer, asyncio.Task) and not self._is_appending:
            answer.cancel()  # nobody wants it any more; but tasks and Produce are in the middle of their work and go on
            self._answer = self._queue = None
        self._sending.clear()
        self._release()
        self._owner.forget(self)
        self.session.close()

    def pause_writing(self) -> None:
        self._paused = True
        self._count_unsent(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        self._paused = False
        self._count_unsent(0)
        self.active = True
        self._pump()
        self._work_off_backlog()

    # Receiving

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._frame is not None:
            return memoryview(self._frame)[self._filled : self._size]
        partial = self._partial
        if partial:
            self._view[: len(partial)] = partial
            return self._view[len(partial) :]
        return self._buffers.view

    def buffer_updated(self, count: int) -> None:
        self.active = True
        if self._frame is not None:
            frame = self._fill(count)
            if frame is not None:
                self._take(memoryview(frame)[: self._size])
                self._buffers.give_back(frame)
        else:
            try:
                self._take_frames(len(self._partial) + count)
            finally:  # even if it fails: what is held lies in the shared buffer, and the next read of anybody overwrites that
                if len(self._held):
                    self._write_held()
        # As in Kafka, requests that this client's append completes are answered before the client: they have waited longer.
        self._purgatory.run_checks()
        if self._out:
            self._flush()

    def _take_frames(self, end: int) -> None:
        """Serves the whole frames among the first `end` bytes of the shared buffer, and keeps the rest."""
        view, at, until = self._view, 0, 0
        if self._partial:
            self._take_partial()
        # Compiled code reads a number in `bytes` and cuts them much faster than a view.
        few = bytes(view[:end]) if end <= FEW_BYTES else b""
        while end - at >= 4 and not self._closing:
            size: int = int(int32_at(few, at)) if few else _SIZE.unpack_from(view, at)[0]
            if not 0 < size <= self.max_request_bytes:
                self.close(describe_bad_size(size))
                return
            start = at + 4
            if end - start >= size:
                at = start + size
                frame = few[start:at] if few else view[start:at]
                joins = frame[:2] == PRODUCE and (
                    len(self._held) > 0
                    or begins_with_produce(few[at : at + 6] if few else bytes(view[at : min(at + 6, end)]), end - at)
                )
                if at == end:
                    self._take(frame, joins)
                    break
                until = until or self._turns.first_until(self._ticks())
                self._take(frame, joins)
                if not self._resting and self._ticks() > until:
                    self._end_turn()
                continue
            if size > self._small_frame:
                self._begin(view[start:end], size)
                return
            break
        if at < end:
            self._keep(view[at:end])

    # Serving

    def _take(self, frame: Buffer, joins: bool = False) -> None:
        """Serves a whole frame, or keeps it until its turn comes. With `joins` it is a Produce whose append may be written
        together with those of its neighbours."""
        if self._out_bytes > TURN_BYTES or (len(frame) > LARGE_FRAME and self._comes_too_late(frame)):
            self._end_turn()
        if self._answer is None and not self._paused and not self._resting:
            self._serve_one(frame, joins)
            return
        if not self._backlog and not self._paused and not self._resting and self._serve_queued(frame):
            return
        self._backlog.append(bytes(frame))
        self._count_backlog(1, len(frame))
        if self._holds_enough():
            self.stop_reading()

    def _comes_too_late(self, frame: Buffer) -> bool:
        """Returns whether a large frame waits for its first turn, because others had the time of this round."""
        if len(frame) <= LARGE_PRODUCE and frame[:2] == PRODUCE:
            return False
        now = self._ticks()
        return now >= self._turns.first_turns_until and self._answer is None and self._turns.is_spent(now)

    def _holds_enough(self) -> bool:
        """Returns whether too many frames are kept, of this connection or of all."""
        counts, (requests, size) = self._counts, self._max_queued
        return (
            self._backlog_bytes > BACKLOG_BYTES
            or len(self._backlog) > BACKLOG_FRAMES
            or counts.queued_requests >= requests
            or 0 <= size <= counts.queued_bytes
            or self._memory.held > self._memory.limit
        )

    def _serve_one(self, frame: Buffer, joins: bool = False) -> None:
        if not joins and len(self._held):
            self._write_held()
        session = self.session
        session.joins = joins
        try:
            response = self.serve(frame, session)
        except CloseConnection as reason:
            session.joins = False
            if joins:
                self._held.note(frame, OUT_OF_REACH)
            self.close(str(reason))
            return
        session.joins = False
        failed = False
        if joins:
            place = len(self._out) if type(response) is bytes else NO_ANSWER if response is None else OUT_OF_REACH
            failed = self._held.note(frame, place)
        if type(response) is bytes:
            self._out.append(response)
            self._out_bytes += len(response) + REQUEST_COST
        elif type(response) is Waiting:
            if len(self._held):  # what comes now is not served here
                self._write_held()
            self._wait(response, len(frame))
        elif response is not None:
            self._out += response
            self._out_bytes += sum(map(len, response)) + REQUEST_COST
            self._regions = True
        if failed:
            self._write_held()

    def _write_held(self) -> None:
        """Has what is held written, before any answer leaves."""
        reason = self._held.write(self._out)
        if reason is not None:
            self.close(reason)

    def _wait(self, waiting: Waiting, size: int) -> None:
        """Keeps the requests behind this one, whose frame has `size` bytes, until its answer has come."""
        promised = waiting.answer
        self._is_appending = waiting.request.api_key == PRODUCE_KEY and type(promised) is not Acknowledgement
        if type(promised) is Acknowledgement:
            from ottla.server.network.answer_queue import AnswerQueue  # not loaded as long as nothing waits for an fsync

            self._answer = self._queue = AnswerQueue(waiting, self.serve, self.session, self._answers_ready)
            return
        if isinstance(promised, Promise):
            if promised.done():  # its answer goes out with those of the turn
                others = len(self._out)
                if self._collect(promised, waiting):
                    self._out_bytes += sum(map(len, self._out[others:])) + REQUEST_COST
                return
            if self._is_appending or size > self._small_frame:
                self._count_waiting(size, promised)
            self._answer = promised
            promised.add_done_callback(lambda done: self._answered(done, waiting))
            return
        self._answer = answer = asyncio.ensure_future(promised)
        if isinstance(answer, asyncio.Task):
            self._owner.keep(answer)
        if size > self._small_frame:
            self._hold_until_done(size, answer)
        answer.add_done_callback(lambda done: self._answered(done, waiting))

    def _answered(self, answer: asyncio.Future[Any] | Promise[Any], waiting: Waiting) -> None:
        self._answer = None
        if self._unanswered:
            self._count_unanswered(0)
        if self._collect(answer, waiting):
            self.active = True
            self._flush()
            self._work_off_backlog()

    def _collect(self, answer: asyncio.Future[Any] | Promise[Any], waiting: Waiting) -> bool:
        """Adds an answer that has come to those that are to be sent. Returns False if the connection ends instead."""
        if answer.cancelled():
            self.close("its request was cancelled")
            return False
        try:
            response = waiting.route.finish(answer, waiting)
        except CloseConnection as reason:
            self.close(str(reason))
            return False
        if self._closing:
            return False
        parts = [response] if isinstance(response, bytes) else response
        self._out += parts
        self._regions |= parts is response
        return True

    def _serve_queued(self, frame: Buffer) -> bool:
        """Serves a request whose answer is queued behind others; returns False if there is no queue or it does not admit it."""
        if self._queue is None or not self._queue.admits(frame):
            return False
        self._hold_until_done(len(frame), self._queue.serve(frame))
        return True

    def _answers_ready(self) -> None:
        """Sends the answers in the loop's next turn: one flush keeps many promises, and their answers go out together."""
        asyncio.get_running_loop().call_soon(self._send_ready)

    def _send_ready(self) -> None:
        queue = self._queue
        if queue is None or self._closing:
            return
        answers, reason = queue.take_ready()
        self._out += answers
        if reason is not None:
            self.close(str(reason))
            return
        if not queue:
            self._answer = self._queue = None
        self.active = True
        if answers:
            self._flush()
        self._work_off_backlog()

    def _work_off_backlog(self, until: int = 0) -> None:
        """Serves frames of the backlog until one has to wait or the turn ends, at `until`, and reads again once the backlog is
        empty. 0 is a turn that nobody has queued."""
        backlog = self._backlog
        if backlog and not until:
            if len(backlog[0]) > LARGE_FRAME and not self._resting and self._comes_too_late(backlog[0]):
                self._end_turn()
            until = self._turns.first_until(self._ticks())
        while backlog and not self._paused and not self._resting and not self._closing:
            frame = backlog[0]
            if self._answer is not None and not self._serve_queued(frame):
                break
            backlog.popleft()
            self._count_backlog(-1, -len(frame))
            if self._answer is None:
                self._serve_one(frame)
            if backlog and (self._out_bytes > TURN_BYTES or self._ticks() > until):
                self._end_turn()
        if self._out:
            self._flush()
        if not self._reading and not backlog:
            self._read_again()

    def _end_turn(self) -> None:
        """Lets all other connections come first."""
        if self._out:
            self._flush()
        self._resting = True
        if not self._turn_queued:
            self._turn_queued = True
            self._turns.queue(self._clock, self._take_turn)

    def _take_turn(self, until: int) -> None:
        self._turn_queued = False
        self._begin_turn(until)

    def _begin_turn(self, until: int = 0) -> None:
        # What is left to send goes first, and then this is called again, as it is when a mute or the wait for a turn is over.
        self._resting = self._mutes > 0 or self._sends_later or self._turn_queued
        self._work_off_backlog(until)

    def _read_again(self) -> None:
        """Reads again, unless there is another reason not to."""
        if not self._reading and not self._closing and not self._backlog and not self._resting and not self._waits_for_room:
            if self._ended:
                self.close_quietly()
                return
            self._reading = True
            self.transport.resume_reading()

    def stop_reading(self) -> None:
        if self._reading and not self._closing:
            self._reading = False
            self.transport.pause_reading()

    def mute(self, throttle_time_ms: int) -> None:
        """Serves nothing and reads nothing for so many ms, because the client is over a quota (server/quotas)."""
        self._mutes += 1
        self._resting = True
        self.stop_reading()
        self.muted_until = max(self.muted_until, self._clock.monotonic() + throttle_time_ms / 1000)
        self._clock.call_later(throttle_time_ms / 1000, self._unmute)

    def _unmute(self) -> None:
        self._mutes -= 1
        self._begin_turn()

    def _flush(self) -> None:
        """Hands the answers collected so far to the transport, after what they say was appended is written."""
        if len(self._held):
            self._write_held()
            if not self._out:  # they went out when the connection was closed
                return
        self._send_out()

    # Closing

    @property
    def waiting(self) -> bool:
        """True while a request waits for its answer."""
        return self._answer is not None

    def close(self, reason: str) -> None:
        """Closes the connection once the answers so far are sent, and logs the reason."""
        if not self._closing:
            self._owner.log_closing(logging.INFO, f"{self.peer} ({self.session.client_id!r:.200})", reason)
            self.close_quietly()

    def close_quietly(self) -> None:
        if self._out and not self._closing:
            self._flush()
        self._closing = True
        self.transport.close()

    def evict(self, reason: str) -> None:
        self._owner.log_closing(logging.WARNING, f"{self.peer} ({self.session.client_id!r:.200})", reason)
        self._out = []
        self._sending.clear()
        self.abort()
        self._release()

    def abort(self) -> None:
        """Closes the connection at once, whatever is still unsent."""
        self._closing = True
        self.transport.abort()

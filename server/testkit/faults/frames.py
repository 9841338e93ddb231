"""Changes the bytes of answers, or how they are sent: the outer of the kit's two layers.

`Frames.serve` stands in the place of `Dispatch.serve`. As long as no fault changes bytes it calls that, and only notes the
requests that wait. A fault that does leaves its Rewrite with the request (`Rewrites.begin`); when the frame of the answer is
complete, that is found here, and what it makes of the frame goes out. Some answers are written to the connection directly: in
pieces, or because the connection waits for them. That happens in a later turn of the loop, when the answers before them are out,
and while the connection waits for an answer to the request, so that nothing overtakes anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from ottla.log.disk.files import FileSlice
from ottla.server.base.promise import Acknowledgement, Promise
from ottla.server.dispatch.route import SIZE_BYTES, Route, Waiting
from ottla.server.testkit.faults.waits import forward, until_gone

if TYPE_CHECKING:
    from ottla.server.dispatch.routes import Dispatch
    from ottla.server.requests.request import Request
    from ottla.server.requests.session import Session
    from ottla.server.testkit.faults.bench import Bench
    from ottla.wire.primitives import Buffer, Parts

Serve = Callable[["Buffer", "Session"], "bytes | Parts | Waiting | None"]
"""The type of Dispatch.serve."""

CORRELATION_ID_END: Final = 8


class Rewrite(Protocol):
    """Declares what is done to the frame of an answer."""

    def send(self, frame: bytes, request: Request, bench: Bench) -> bytes | Promise[None]:
        """Returns the frame that goes out instead; or sends it, and promises to be done. A promise that is never kept is for a
        connection that ends."""
        ...


class Garble(NamedTuple):
    """Spoils a frame, in the same way for the same seed."""

    what: str
    """`length`: the frame says that it is longer than it is. `correlation_id`: it is another one. `truncate`: half of the body
    is missing, and the frame's size says so. `flip`: one bit behind the correlation id is another."""

    def send(self, frame: bytes, request: Request, bench: Bench) -> bytes:
        """See Rewrite."""
        random = bench.random
        head, body = frame[:CORRELATION_ID_END], frame[CORRELATION_ID_END:]
        match self.what:
            case "length":
                size = int.from_bytes(frame[:SIZE_BYTES], "big") + random.randrange(1, 1024)
                return size.to_bytes(SIZE_BYTES, "big") + frame[SIZE_BYTES:]
            case "correlation_id":
                wrong = (request.correlation_id + random.randrange(1, 2**20)) % 2**31
                return frame[:SIZE_BYTES] + wrong.to_bytes(4, "big") + body
            case "truncate":
                rest = frame[SIZE_BYTES : CORRELATION_ID_END + len(body) // 2]
                return len(rest).to_bytes(SIZE_BYTES, "big") + rest
            case _:
                if not body:
                    return frame
                at = random.randrange(len(body))
                return head + body[:at] + bytes((body[at] ^ 1 << random.randrange(8),)) + body[at + 1 :]


class CutAfter(NamedTuple):
    """Sends so many bytes of a frame, and then resets the connection."""

    size: int

    def send(self, frame: bytes, request: Request, bench: Bench) -> Promise[None]:
        """See Rewrite."""

        def cut() -> None:
            bench.write(request.session, frame[: self.size])
            bench.reset_connection(request.session)

        bench.soon(cut)
        return until_gone(Promise(), request)


class Drip(NamedTuple):
    """Sends a frame in pieces of so many bytes, one every so many ms."""

    size: int
    every_ms: int

    def send(self, frame: bytes, request: Request, bench: Bench) -> Promise[None]:
        """See Rewrite."""
        done: Promise[None] = Promise()

        def send_from(at: int) -> None:
            if done.done():
                return
            bench.write(request.session, frame[at : at + self.size])
            if at + self.size < len(frame):
                bench.clock.call_later(self.every_ms / 1000, lambda: send_from(at + self.size))
            else:
                done.set_result(None)

        bench.soon(lambda: send_from(0))
        return done


class Rewrites:
    """Knows the requests whose answers are to be rewritten. `active` says whether any fault does that."""

    def __init__(self) -> None:
        self.active = False
        self._begun: dict[Request, Rewrite] = {}
        self._last: Request | None = None

    def begin(self, request: Request, rewrite: Rewrite) -> None:
        """Notes what is to be done to the answer of a request that is about to be served."""
        self._begun[request] = rewrite
        self._last = request

    def forget_last(self) -> None:
        """Forgets which request was noted last."""
        self._last = None

    def take_last(self) -> tuple[Request, Rewrite] | None:
        """Takes out the request that was noted since `forget_last`."""
        request = self._last
        rewrite = None if request is None else self.take(request)
        return None if request is None or rewrite is None else (request, rewrite)

    def take(self, request: Request) -> Rewrite | None:
        """Takes out what is to be done to the answer of a request."""
        return self._begun.pop(request, None)

    def expects(self, request: Request) -> bool:
        """Returns whether the answer of a request is to be rewritten."""
        return request in self._begun


class Frames:
    """Serves the requests of listeners around one dispatch."""

    __slots__ = ("_bench", "_dispatch", "_parked", "_rewrites", "_serve")

    def __init__(self, dispatch: Dispatch, rewrites: Rewrites, bench: Bench) -> None:
        self._dispatch = dispatch
        self._bench = bench
        self._parked = bench.parked
        self._rewrites = rewrites
        self._serve: Serve = dispatch.serve

    @property
    def node_id(self) -> int:
        """The id of the broker whose requests these are."""
        return self._dispatch.node_id

    def close(self) -> None:
        """Ends what serves these requests, though the broker goes on."""
        self._dispatch.leave()

    def put_around(self, around: Iterable[Callable[[Serve], Serve]]) -> None:
        """Has requests served by the dispatch with these around it, the innermost first, in place of those that were there."""
        serve: Serve = self._dispatch.serve
        for put in around:
            serve = put(serve)
        self._serve = serve

    def serve(self, frame: Buffer, session: Session) -> bytes | Parts | Waiting | None:
        """See Dispatch.serve."""
        answer = self._serve_rewriting(frame, session) if self._rewrites.active else self._serve(frame, session)
        if type(answer) is Waiting:
            self._parked.note(answer.request)
        return answer

    def serve_again(self, frame: Buffer, session: Session) -> bytes | Parts | Waiting | None:
        """See Dispatch.serve_again."""
        return self._dispatch.serve_again(frame, session, self.serve)

    def _serve_rewriting(self, frame: Buffer, session: Session) -> bytes | Parts | Waiting | None:
        rewrites = self._rewrites
        rewrites.forget_last()
        answer: bytes | Parts | Waiting | None = self._serve(frame, session)
        if isinstance(answer, Waiting):
            if type(answer.answer) is Acknowledgement and not rewrites.expects(answer.request):
                return answer
            return self._rewrite_later(answer)
        last = rewrites.take_last()
        if last is None or answer is None:
            return answer
        request, rewrite = last
        sent = rewrite.send(joined(answer), request, self._bench)
        if isinstance(sent, bytes):
            return sent
        plan = self._dispatch.routes[request.api_key << 16 | request.api_version].plan
        return Waiting(sent, Route(plan, plan.own_steps), request)

    def _rewrite_later(self, waiting: Waiting) -> Waiting:
        """Returns what stands for the answer as it will be rewritten, or not: a request that is decoded in a thread has not met
        its fault yet."""
        request, route = waiting.request, waiting.route
        plan = route.plan
        done: Promise[Any] = Promise()
        served: Promise[Any] = Promise()

        def finish() -> None:
            rewrite = self._rewrites.take(request)
            if served.cancelled():
                done.cancel()
                return
            if done.done():
                return
            try:
                frame = joined(route.finish(served, waiting))
            except Exception as error:  # noqa: BLE001 - the connection closes with it
                done.set_exception(error)
                return
            if rewrite is None or not frame:
                self._bench.write(request.session, frame)
                done.set_result(None)
                return
            sent = rewrite.send(frame, request, self._bench)
            if isinstance(sent, bytes):
                self._bench.write(request.session, sent)
                done.set_result(None)
            else:
                forward(sent, done)

        served.add_done_callback(lambda _: self._bench.soon(finish))
        forward(waiting.answer, served)
        done.add_done_callback(lambda _: None if served.done() else served.cancel())
        return Waiting(done, Route(plan, plan.own_steps), request)


def joined(answer: bytes | Parts) -> bytes:
    """Returns the whole frame of an answer, with what it has of files."""
    if isinstance(answer, bytes):
        return answer
    return b"".join(part.read() if isinstance(part, FileSlice) else part for part in answer)

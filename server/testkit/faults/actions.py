"""The action of a fault on a request: the field `do` of what a test sends, read, checked and carried out.

An action takes the place of a handler: it gets the handler, the decoded request and what of it the fault matches, and answers in
any of the forms in which handlers do. What changes the bytes of an answer is left to frames.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from ottla.server.base.errors import CloseConnection
from ottla.server.base.promise import Promise
from ottla.server.guards.ask import change_answer
from ottla.server.testkit.fault_fields import FOR_EVER
from ottla.server.testkit.faults.frames import CutAfter, Drip, Garble, Rewrite, Rewrites
from ottla.server.testkit.faults.waits import forward, outlive_frame, settle_with, until_gone
from ottla.server.testkit.fields import Fields, Refused, nearest
from ottla.server.testkit.refusals.corruption import corrupt_records
from ottla.server.testkit.refusals.entities import shape_of
from ottla.server.testkit.refusals.refusals import Refusal, Selected, opened, refuse
from ottla.server.testkit.refusals.session_refusals import IN_SESSIONS, Partition, refuse_partitions
from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.server.requests.link import Handle
    from ottla.server.requests.request import Request
    from ottla.server.testkit.faults.bench import Bench

BEFORE: Final = "before"
AFTER: Final = "after"
MAX_MS: Final = 3_600_000
ACTS: Final = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND})
"""Codes that a broker answers when it has done its work."""
GARBLED: Final = ("correlation_id", "flip", "length", "truncate")


class Counted(Protocol):
    """Declares what an action needs of its fault."""

    id: str

    def hold(self, request: Request, go_on: Callable[[], None]) -> None:
        """Holds a request, and has it go on later."""
        ...

    def take_back(self) -> None:
        """Takes back a hit that turned out to have nothing to act on."""
        ...


class Hit(NamedTuple):
    """One request that a fault acts on."""

    fault: Counted
    bench: Bench
    rewrites: Rewrites
    selected: Selected | list[Partition]
    number: int
    """The number of earlier hits of the fault."""
    handle: Handle
    body: Any
    request: Request

    def serve(self) -> Any:
        """Has the broker serve the request."""
        return self.handle(self.body, self.request)


class Action(Protocol):
    """Declares what a fault does."""

    times: int = 1
    """The number of times that it acts, unless the test says otherwise."""
    may_be_after: bool = False
    """True if `act` means anything, because it can come before the broker has acted or after."""
    only: frozenset[int] = frozenset()
    """The keys of the only APIs that it means anything for; empty for all."""

    def run(self, hit: Hit, act: str | None) -> Any:
        """Answers the request in place of the handler."""
        ...


class Error(Action):
    """Answers with an error, or with each error of a stack in turn."""

    may_be_after = True

    def __init__(self, codes: Sequence[ErrorCode], message: str | None, *, top_level: bool) -> None:
        self.times = len(codes)
        self._codes = codes
        self._message = message
        self._top_level = top_level

    def run(self, hit: Hit, act: str | None) -> Any:
        """See Action."""
        code = self._codes[hit.number % len(self._codes)]
        if code is ErrorCode.NONE:
            return hit.serve()
        acts = code in ACTS if act is None else act == AFTER
        refusal = Refusal(code, self._message or f"The fault {hit.fault.id} of the test kit answers {code.name}.")
        selected, request = hit.selected, hit.request
        if not selected or self._top_level:
            selected = Selected(shape_of(request.api_key, request.api_version), ())
        if isinstance(selected, Selected):
            return refuse(selected, refusal, hit.handle, hit.body, request, acts=acts)
        return refuse_partitions(selected, refusal, hit.handle, hit.body, request, acts=acts)


class Throttle(Action):
    """Serves the request, says in the answer for how long the client is throttled, and reads nothing from it for so long."""

    def __init__(self, ms: int) -> None:
        self._ms = ms

    def run(self, hit: Hit, act: str | None) -> Any:
        """See Action."""
        return change_answer(hit.serve(), lambda answer: self._throttle(answer, hit.request))

    def _throttle(self, answer: Any, request: Request) -> Any:
        request.session.mute(self._ms)
        if answer is None:
            return None
        answer = opened(answer, request)
        if hasattr(answer, "throttle_time_ms"):
            answer.throttle_time_ms = max(answer.throttle_time_ms, self._ms)
        return answer


class Delay(Action):
    """Has the request, or its answer, wait for a time."""

    may_be_after = True

    def __init__(self, ms: int, jitter_ms: int) -> None:
        self._ms = ms
        self._jitter_ms = jitter_ms

    def run(self, hit: Hit, act: str | None) -> Any:
        """See Action."""
        seconds = (self._ms + hit.bench.random.uniform(0, self._jitter_ms)) / 1000
        return _later(hit, act, lambda go_on: hit.bench.clock.call_later(seconds, go_on))


class Hold(Action):
    """Has the request, or its answer, wait until the fault is released or removed."""

    may_be_after = True

    def run(self, hit: Hit, act: str | None) -> Any:
        """See Action."""
        return until_gone(_later(hit, act, lambda go_on: hit.fault.hold(hit.request, go_on)), hit.request)


def _later(hit: Hit, act: str | None, when: Callable[[Callable[[], None]], object]) -> Promise[Any]:
    """Promises the answer to a request that is served later, or is served now and answered later. `when` calls back then."""
    promise: Promise[Any] = Promise()
    if act == AFTER:
        served: Promise[Any] = Promise()
        forward(hit.serve(), served)
        served.add_done_callback(lambda _: None if served.cancelled() else when(lambda: forward(served, promise)))
    else:
        outlive_frame(hit.body, hit.request)
        when(lambda: settle_with(promise, hit.serve))
    return promise


class Disconnect(Action):
    """Ends the connection in place of an answer."""

    may_be_after = True

    def __init__(self, how: str) -> None:
        self._resets = how == "reset"

    def run(self, hit: Hit, act: str | None) -> Any:
        """See Action."""
        if act == AFTER:
            return change_answer(hit.serve(), lambda answer: self._end(hit))
        return self._end(hit)

    def _end(self, hit: Hit) -> Any:
        if self._resets:
            hit.bench.reset_connection(hit.request.session)
        raise CloseConnection(f"the fault {hit.fault.id} of the test kit disconnects its client")


class Blackhole(Action):
    """Reads the request, never answers it, and keeps the connection."""

    may_be_after = True

    def run(self, hit: Hit, act: str | None) -> Any:
        """See Action."""
        if act == AFTER:
            forward(hit.serve(), Promise())
        return until_gone(Promise(), hit.request)


class Rewritten(Action):
    """Serves the request, and changes the bytes of its answer, or how they are sent."""

    def __init__(self, rewrite: Rewrite) -> None:
        self._rewrite = rewrite

    def run(self, hit: Hit, act: str | None) -> Any:
        """See Action."""
        hit.rewrites.begin(hit.request, self._rewrite)
        return hit.serve()


class CorruptRecords(Action):
    """Serves a fetch, and changes one byte of a record batch. An answer without records is no hit."""

    only = IN_SESSIONS

    def run(self, hit: Hit, act: str | None) -> Any:
        """See Action."""
        return change_answer(hit.serve(), lambda answer: self._corrupt(answer, hit))

    @staticmethod
    def _corrupt(answer: Any, hit: Hit) -> Any:
        wanted = hit.selected if isinstance(hit.selected, list) else []
        if not corrupt_records(answer, wanted, hit.bench.random):
            hit.fault.take_back()
            hit.bench.note_fault(hit.request, None)
        return answer


class Observe(Action):
    """Only counts. An observer never keeps another fault from acting."""

    times = FOR_EVER

    def run(self, hit: Hit, act: str | None) -> Any:
        """See Action."""
        return hit.serve()


def read_action(fields: Fields) -> Action:
    """Reads what a fault does. Raises Refused."""
    action = _READERS[fields.only_one(_READERS)](fields)
    fields.done()
    return action


def _read_error(fields: Fields) -> Action:
    value = fields.take_any("error")
    names = value if isinstance(value, list) else [value]
    if not names:
        raise Refused("do.error must have at least one error")
    codes = [_read_code(name) for name in names]
    return Error(codes, fields.take("message", str, None), top_level=fields.take("top_level", bool, False))


def _read_code(name: object) -> ErrorCode:
    if isinstance(name, str) and name in ErrorCode.__members__:
        return ErrorCode[name]
    if type(name) is int and name in list(ErrorCode):
        return ErrorCode(name)
    raise Refused(f"do.error: {name!r:.50} is no error{nearest(name, ErrorCode.__members__)}")


def _read_throttle(fields: Fields) -> Action:
    return Throttle(fields.take_number("throttle_ms", low=1, high=MAX_MS))


def _read_delay(fields: Fields) -> Action:
    return Delay(fields.take_number("delay_ms", high=MAX_MS), fields.take_number("jitter_ms", 0, high=MAX_MS))


def _read_hold(fields: Fields) -> Action:
    _must_be_true(fields, "hold")
    return Hold()


def _read_disconnect(fields: Fields) -> Action:
    return Disconnect(fields.take_choice("disconnect", ("close", "reset")))


def _read_blackhole(fields: Fields) -> Action:
    _must_be_true(fields, "blackhole")
    return Blackhole()


def _read_drip(fields: Fields) -> Action:
    inside = fields.inside("drip")
    drip = Drip(inside.take_number("bytes", low=1), inside.take_number("every_ms", low=1, high=MAX_MS))
    inside.done()
    return Rewritten(drip)


def _read_cut_after(fields: Fields) -> Action:
    return Rewritten(CutAfter(fields.take_number("cut_after")))


def _read_corrupt(fields: Fields) -> Action:
    what = fields.take_choice("corrupt", ("crc", *GARBLED))
    return CorruptRecords() if what == "crc" else Rewritten(Garble(what))


def _read_observe(fields: Fields) -> Action:
    _must_be_true(fields, "observe")
    return Observe()


def _must_be_true(fields: Fields, name: str) -> None:
    if not fields.take(name, bool):
        raise Refused(f"{fields.path(name)} must be true")


_READERS: Final[dict[str, Callable[[Fields], Action]]] = {
    "error": _read_error,
    "throttle_ms": _read_throttle,
    "delay_ms": _read_delay,
    "hold": _read_hold,
    "disconnect": _read_disconnect,
    "blackhole": _read_blackhole,
    "drip": _read_drip,
    "cut_after": _read_cut_after,
    "corrupt": _read_corrupt,
    "observe": _read_observe,
}
"""By the field that says what is done."""

"""The faults of one test: installed, found for a request, counted, released, removed.

They are a link of the chain before handlers (server/dispatch/chain.py), outside the quotas, so that what never arrives is counted
against nobody. The link is there only while a fault can still act, and only around the APIs that it may concern. The first fault
that matches acts, in the order in which they were installed; observers count all that they match.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from ottla.server.base.promise import Promise
from ottla.server.dispatch.chain import Chain, Place
from ottla.server.requests.link import Handle, Steps
from ottla.server.testkit.fault_fields import FOR_EVER, MOST_TIMES, OUTERMOST, check_places
from ottla.server.testkit.faults.actions import AFTER, BEFORE, MAX_MS, Action, Hit, Observe, Rewritten, read_action
from ottla.server.testkit.faults.selectors import On
from ottla.server.testkit.fields import NO_OTHER, Fields, Refused
from ottla.server.testkit.refusals.refusals import Selected, select
from ottla.server.testkit.refusals.session_refusals import IN_SESSIONS, Partition, select_partitions
from ottla.wire.api import APIS

if TYPE_CHECKING:
    from ottla.server.base.clock import Cancellable
    from ottla.server.requests.request import Request
    from ottla.server.requests.traits import Traits
    from ottla.server.testkit.faults.bench import Bench
    from ottla.server.testkit.faults.frames import Rewrites
    from ottla.wire.api import Api

MOST_REMOVED: Final = 100
"""So many removed faults are remembered, for the report of a test that failed."""


class Fault:
    """One fault. It acts `times` times, or for ever if that is -1, from the match `on_call` on, which counts from 1."""

    def __init__(self, number: int, sent: object, bench: Bench, refresh: Callable[[], None]) -> None:
        """Reads what a test sent; `refresh` is called when it may act again. Raises Refused."""
        fields = Fields(sent)
        self.number = number
        self.id = f"f{number}"
        self._bench = bench
        self._refresh = refresh
        self.sent = {name: value for name, value in fields.all().items() if value is not None}
        check_places(fields, OUTERMOST)
        on, do = fields.inside("on"), Fields(fields.take("do", dict), "do")
        check_places(on, "on")
        check_places(do, "do")
        self.on = On(on, bench.node_ids)
        self.action: Action = read_action(do)
        self.times = fields.take_number("times", self.action.times, low=FOR_EVER, high=MOST_TIMES)
        if self.times == 0:
            raise Refused("times must be at least 1, or -1 for ever, not 0")
        self.on_call = fields.take_number("on_call", 1, low=1, high=MOST_TIMES)
        self.probability = fields.take("probability", float, 1.0)
        if not 0 < self.probability <= 1:
            raise Refused(f"probability must be more than 0 and at most 1, not {self.probability}")
        self.for_ms = fields.take_number("for_ms", 0, low=1, high=24 * MAX_MS)
        self.act = fields.take("act", str, None)
        fields.done()
        self._check()
        self.matches = 0
        self.hits = 0
        self.removed = False
        self._last_hit: dict[str, Any] | None = None
        self._held: dict[Request, Callable[[], None]] = {}
        self._waiting: list[tuple[int, Promise[None]]] = []
        self._end: Cancellable | None = None

    def _check(self) -> None:
        """Raises Refused for what does not go together."""
        if self.act is not None:
            if self.act not in (BEFORE, AFTER):
                raise Refused(f"act must be {BEFORE} or {AFTER}, not {self.act!r:.50}")
            if not self.action.may_be_after:
                raise Refused("act means nothing for this fault: it always acts when the broker has")
        only = self.action.only
        if only and self.on.apis and not any(api.key in only for api in self.on.apis):
            names = " and ".join(APIS[key].name for key in sorted(only))
            raise Refused(f"do.corrupt: this can never match, because only answers to {names} have records")

    @property
    def is_active(self) -> bool:
        """Returns whether it may still act."""
        return not self.removed and (self.times == FOR_EVER or self.hits < self.times)

    @property
    def changes_bytes(self) -> bool:
        """Returns whether it changes the bytes of answers."""
        return isinstance(self.action, Rewritten)

    @property
    def observes(self) -> bool:
        """Returns whether it only counts."""
        return isinstance(self.action, Observe)

    def may_concern(self, api: Api) -> bool:
        """Returns whether requests of an API may match."""
        return self.on.may_concern(api) and (not self.action.only or api.key in self.action.only)

    def describe(self) -> dict[str, Any]:
        """Returns the fault as JSON has it."""
        return {
            "id": self.id,
            **self.sent,
            "times": self.times,
            "matches": self.matches,
            "hits": self.hits,
            "left": self.times if self.times == FOR_EVER else max(0, self.times - self.hits),
            "held": len(self._held),
            "active": self.is_active,
            "last_hit": self._last_hit,
        }

    # Hits

    def find(self, body: Any, request: Request) -> Selected | list[Partition] | None:
        """Returns what of a request it matches and is to act on, and counts it; None if it lets the request pass."""
        if not self.on.matches(body, request):
            return None
        selected = select_partitions(body, request, self.on) if request.api_key in IN_SESSIONS else select(body, request, self.on)
        if selected is None:
            return None
        self.matches += 1
        if self.matches < self.on_call:
            return None
        if self.probability < 1 and self._bench.random.random() >= self.probability:
            return None
        return selected

    def count(self, request: Request) -> int:
        """Counts a hit; returns how many came before."""
        self.hits += 1
        api = APIS[request.api_key]
        self._last_hit = {
            "at_ms": self._bench.clock.now_ms(),
            "api": api.name,
            "version": request.api_version,
            "client_id": request.client_id,
            "correlation_id": request.correlation_id,
        }
        waiting, self._waiting = self._waiting, []
        for hits, promise in waiting:
            if promise.done():
                continue
            if self.hits >= hits:
                promise.set_result(None)
            else:
                self._waiting.append((hits, promise))
        return self.hits - 1

    def take_back(self) -> None:
        """Takes back a hit that turned out to have nothing to act on."""
        self.hits -= 1
        self._refresh()

    def when_hit(self, hits: int) -> Promise[None]:
        """Returns a promise that is kept when there have been so many hits."""
        promise: Promise[None] = Promise()
        if self.hits >= hits:
            promise.set_result(None)
        else:
            self._waiting.append((hits, promise))
        return promise

    def forget_wait(self, promise: Promise[None]) -> None:
        """Forgets a promise of `when_hit`, because nobody waits any more."""
        self._waiting = [waiting for waiting in self._waiting if waiting[1] is not promise]

    # What it holds

    def hold(self, request: Request, go_on: Callable[[], None]) -> None:
        """Holds a request until the fault is released or removed, or its client has gone."""
        if self.removed:
            go_on()
            return
        self._held[request] = go_on
        request.session.on_close(lambda _: self._held.pop(request, None))

    def holds(self, request: Request) -> bool:
        """Returns whether it holds a request."""
        return request in self._held

    def release(self) -> int:
        """Lets go of all requests that it holds; returns how many."""
        held, self._held = self._held, {}
        for go_on in held.values():
            go_on()
        return len(held)

    def begin(self, when_over: Callable[[], None]) -> None:
        """Starts the time for which it acts, if that is limited."""
        if self.for_ms:
            self._end = self._bench.clock.call_later(self.for_ms / 1000, when_over)

    def end(self) -> None:
        """Ends the fault: what it holds goes on."""
        self.removed = True
        if self._end is not None:
            self._end.cancel()
        self.release()


class Faults:
    """All faults of one kit, in the order of their installation."""

    def __init__(self, bench: Bench, rewrites: Rewrites) -> None:
        self._bench = bench
        self._rewrites = rewrites
        self._faults: dict[str, Fault] = {}
        self.count = 0
        """The number of faults that were ever installed: the number in the id of the last one."""
        self.removed: deque[Fault] = deque(maxlen=MOST_REMOVED)
        """The faults that were removed last."""

    def install(self, sent: list[Any]) -> list[Fault]:
        """Installs faults, all or none of them. Raises Refused."""
        count = self.count
        faults = [Fault(count + at, each, self._bench, self.refresh) for at, each in enumerate(sent, 1)]
        self.count += len(faults)
        for fault in faults:
            self._faults[fault.id] = fault
            fault.begin(partial(self._expire, fault))
        self.refresh()
        return faults

    def __iter__(self) -> Iterator[Fault]:
        return iter(self._faults.values())

    def get(self, fault_id: str) -> Fault:
        """Returns a fault by its id. Raises Refused."""
        fault = self._faults.get(fault_id)
        if fault is None:
            known = f"; there are {', '.join(self._faults)}" if self._faults else NO_OTHER
            raise Refused(f"there is no fault {fault_id:.50}{known}", HTTPStatus.NOT_FOUND)
        return fault

    def remove(self, faults: list[Fault]) -> None:
        """Removes faults; what they hold goes on."""
        for fault in faults:
            self._faults.pop(fault.id, None)
        self.removed.extend(faults)
        self._end(faults)

    def _expire(self, fault: Fault) -> None:
        """Ends a fault whose time is over. It stays in the list."""
        self._end([fault])

    def _end(self, faults: list[Fault]) -> None:
        for fault in faults:
            fault.removed = True
        self.refresh()  # first, so that what goes on now does not meet them again
        for fault in faults:
            fault.end()

    def note(self, fault: Fault, request: Request) -> None:
        """Notes that a fault acts on a request."""
        self._bench.note_fault(request, fault.id)

    def hit(
        self,
        fault: Fault,
        selected: Selected | list[Partition],
        number: int,
        handle: Handle,
        body: Any,
        request: Request,
    ) -> Hit:
        """Returns a request that a fault acts on."""
        return Hit(fault, self._bench, self._rewrites, selected, number, handle, body, request)

    def refresh(self) -> None:
        """Puts a link of the faults that may still act into the broker's chain, or none if there are none."""
        active = [fault for fault in self._faults.values() if fault.is_active]
        self._rewrites.active = any(fault.changes_bytes for fault in active)
        chain: Chain = self._bench.broker.chain
        chain.put(Place.FAULTS, _FaultLink(active, self) if active else None)


class _FaultLink:
    """Stands around the handlers of those APIs that some faults may concern."""

    def __init__(self, active: list[Fault], faults: Faults) -> None:
        self._active = active
        self._faults = faults

    def around(self, api: Api, traits: Traits, steps: Steps) -> Steps:
        """See Link."""
        active = [fault for fault in self._active if fault.may_concern(api)]
        return steps._replace(handle=partial(self._handle, active, steps.handle)) if active else steps

    def _handle(self, active: list[Fault], handle: Handle, body: Any, request: Request) -> Any:
        acting: tuple[Fault, Selected | list[Partition], int] | None = None
        for fault in active:
            if not fault.is_active or (acting is not None and not fault.observes):
                continue
            selected = fault.find(body, request)
            if selected is None:
                continue
            number = fault.count(request)
            if fault.hits == fault.times:
                self._faults.refresh()
            if not fault.observes:
                acting = fault, selected, number
        if acting is None:
            return handle(body, request)
        fault, selected, number = acting
        self._faults.note(fault, request)
        return fault.action.run(self._faults.hit(fault, selected, number, handle, body, request), fault.act)

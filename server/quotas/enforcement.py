"""Enforces client quotas: a client that is over a limit is told how long to wait, and until then nothing is read from it.

Nothing of this is loaded while there is no quota. With the first quota it becomes a link of dispatch (server/dispatch/chain.py),
which stands around every handler's `decode` and `handle`, and with the last quota it is taken out again. So as long as nobody is
limited a request takes no extra step. Each handler declares what its requests count for (`Throttling` in
server/requests/traits.py).

For clients that have a limit (limits.py finds it, rates.py measures), these count:

- `producer_byte_rate`: all bytes of Produce requests.
- `consumer_byte_rate`: the bytes of Fetch and ShareFetch answers. A Fetch that would go over the limit is not counted: its answer
  is empty, and its session stays as it was. `max_bytes` is first lowered to what the limit can ever allow. A ShareFetch gets its
  records and counts, because they are acquired for it already; Kafka withholds them from the member, and by their locks from all
  others.
- `request_percentage`: the time that requests take here, from decoding to the handler's answer, in percent of one thread, without
  what a parked request does when it is woken. The wait for it is at most the length of one window. Requests for which no client
  waits are not counted: Produce without acks, and those that only brokers send.
- `controller_mutation_rate`: the partitions that CreateTopics, CreatePartitions and DeleteTopics create and delete, or would if
  they did not only validate. Newer versions refuse, topic by topic, what the client may not do now (89
  THROTTLING_QUOTA_EXCEEDED); older versions carry it out.

If there are several waits, the longest is in the answer's `throttle_time_ms`, provided that its version has this field. The
answer goes out at once, and then the connection is muted. All clients of a plain listener are one user, ANONYMOUS.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from struct import Struct
from typing import Any, Final, NamedTuple

from ottla.server.base.clock import Clock
from ottla.server.base.promise import Promise
from ottla.server.metadata.operation import Permits, Refused
from ottla.server.metadata.quotas import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Entity,
)
from ottla.server.quotas.ledger import Client, Ledger
from ottla.server.quotas.limits import Share
from ottla.server.quotas.rates import Rate, TokenBucket, Windows
from ottla.server.requests.kept_answers import Encoded
from ottla.server.requests.link import Decode, Encode, Handle, Steps
from ottla.server.requests.request import Request
from ottla.server.requests.session import Session
from ottla.server.requests.traits import Throttling, Traits
from ottla.wire.api import Api
from ottla.wire.errors import ErrorCode
from ottla.wire.primitives import Buffer, Parts, WireStruct

_READS: Final = frozenset({Throttling.FETCH, Throttling.ANSWER})
"""The kinds of requests that are answered with records."""
_WITHOUT_TIME: Final = frozenset({Throttling.FETCH, Throttling.NOTHING})
"""The kinds of requests whose time is not counted with the answer: the handler has counted it, or no client sent the request."""
_INT: Final = Struct(">i")
_PERCENT_OF_A_SECOND: Final = 1e-7
"""The share of one nanosecond in a second, in percent."""


class _Served(NamedTuple):
    """Holds what has to be known of a request when its answer is charged to its client."""

    traits: Traits
    encode: Encode
    version: int
    client: Client
    session: Session
    size: int
    took_ns: int


class ClientQuotas:
    """Enforces the quotas of one broker, as a link of its dispatch.

    `windows` are those of rates, `changes` those of changes of metadata; `ticks` is a clock of nanoseconds that times requests.
    """

    def __init__(self, clock: Clock, windows: Windows, changes: Windows, ticks: Callable[[], int]) -> None:
        self._clock = clock
        self._ticks = ticks
        self._windows = windows
        self.produce = Ledger(Rate, windows)
        self.fetch = Ledger(Rate, windows)
        self.request = Ledger(Rate, windows)
        self.changes = Ledger(TokenBucket, changes)
        self._ledgers: dict[str, Ledger[Rate] | Ledger[TokenBucket]] = {
            PRODUCER_BYTE_RATE: self.produce,
            CONSUMER_BYTE_RATE: self.fetch,
            REQUEST_PERCENTAGE: self.request,
            CONTROLLER_MUTATION_RATE: self.changes,
        }
        self._started = 0  # when the request that is being served was decoded, in ticks
        self._size = 0  # the bytes of its frame

    def set_quota(self, entity: Entity, key: str, value: float | None) -> None:
        """Sets a quota of an entity from now on; None is for no limit, and quotas that are not of clients do not matter."""
        ledger = self._ledgers.get(key)
        if ledger is not None:
            ledger.set_limit(entity, value)

    @property
    def limited(self) -> bool:
        """Returns whether any client has a quota."""
        return any(ledger.limited for ledger in self._ledgers.values())

    # Around a request

    def around(self, api: Api, traits: Traits, steps: Steps) -> Steps:
        """Returns steps that measure a request, call its handler, and charge its client for it (`Link.around`)."""
        decode, handle, encode = steps
        return Steps(partial(self._decode, decode), partial(self._handle, traits, handle, encode), encode)

    def _decode(self, decode: Decode, frame: Buffer, pos: int) -> tuple[Any, int]:
        started = self._ticks()
        decoded = decode(frame, pos)
        self._started, self._size = started, len(frame)
        return decoded

    def _handle(self, traits: Traits, handle: Handle, encode: Encode, body: Any, request: Request) -> Any:
        """Calls the handler, and charges the client now or when the answer has come."""
        client, size = _client(request.session, request.client_id), self._size
        if traits.throttling in _READS and self.fetch.limited:
            body.max_bytes = min(body.max_bytes, self._most_at_once(client))
        try:
            answer = handle(body, request)
        finally:
            took_ns = self._took_ns()
        if request.session.is_repeated:  # its bytes are charged already
            size = 0
        served = _Served(traits, encode, request.api_version, client, request.session, size, took_ns)
        if isinstance(answer, WireStruct):
            return self._settle(served, answer)
        if answer is None:
            self._mute(served, self._charge_produced(served))
        elif isinstance(answer, Promise):
            if traits.throttling is Throttling.FETCH:  # when its answer comes, nothing knows any more when it began
                self._count_time(served)
            answer.add_done_callback(partial(self._settle_promise, served))
        elif asyncio.isfuture(answer):
            answer.add_done_callback(partial(self._settle_future, served))
        else:
            return self._settle_later(served, answer)
        return answer

    def _took_ns(self) -> int:
        """Returns the ns since the request was decoded; 0 at any further call for the same request."""
        took_ns = self._ticks() - self._started if self._started else 0
        self._started = 0
        return took_ns

    def _settle_promise(self, served: _Served, answer: Promise[Any]) -> None:
        if answer.cancelled() or answer.failed:
            return
        if answer.answer is None:  # the client wants none
            self._mute(served, self._charge_produced(served))
        else:
            self._settle(served, answer.answer)

    def _settle_future(self, served: _Served, answer: asyncio.Future[Any]) -> None:
        if not answer.cancelled() and answer.exception() is None:
            self._settle(served, answer.result())

    async def _settle_later(self, served: _Served, answer: Coroutine[Any, Any, Any]) -> Any:
        """Waits for a handler that is a coroutine, and charges for all of its time, since it waits for nothing but the
        controller."""
        started = self._ticks()
        response = await answer
        return self._settle(served._replace(took_ns=served.took_ns + self._ticks() - started), response)

    def _settle(self, served: _Served, answer: Any) -> Any:
        """Charges the client for an answer, and returns the answer as it goes out.

        If the handler has set a throttle time (Fetch, changes of topics), the answer holds it already.
        """
        set_by_handler_ms: int = getattr(answer, "throttle_time_ms", 0)
        throttle_time_ms = set_by_handler_ms
        throttling = served.traits.throttling
        if throttling is Throttling.PRODUCE:
            throttle_time_ms = max(throttle_time_ms, self._charge_produced(served))
        elif throttling is Throttling.ANSWER:
            throttle_time_ms = max(throttle_time_ms, self._charge_answer(served, answer))
        if throttling not in _WITHOUT_TIME:
            throttle_time_ms = max(throttle_time_ms, self._charge_time(served.client, served.took_ns))
        self._mute(served, throttle_time_ms)
        if throttle_time_ms == set_by_handler_ms:
            return answer
        if type(answer) is Encoded:
            return _with_throttle_time(served, answer, throttle_time_ms)
        if hasattr(answer, "throttle_time_ms"):
            answer.throttle_time_ms = throttle_time_ms
        return answer

    @staticmethod
    def _mute(served: _Served, throttle_time_ms: int) -> None:
        if throttle_time_ms > 0:
            served.session.mute(throttle_time_ms)

    # What is used up

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)

    def _charge(self, ledger: Ledger[Rate], client: Client, value: float) -> int:
        """Counts what a client has used; returns how many ms it now has to wait."""
        if not ledger.limited:
            return 0
        now_ms = self._now_ms()
        found = ledger.measure_of(client, now_ms)
        if found is None:
            return 0
        rate, limit = found
        rate.record(value, now_ms)
        return rate.throttle_time_ms(limit, now_ms)

    def _charge_produced(self, served: _Served) -> int:
        return self._charge(self.produce, served.client, served.size)

    def _charge_answer(self, served: _Served, answer: Any) -> int:
        if self.fetch.measure_of(served.client, self._now_ms()) is None:
            return 0
        parts: Parts = []
        served.encode(answer, parts)
        return self._charge(self.fetch, served.client, sum(map(len, parts)))

    def _charge_time(self, client: Client, took_ns: int) -> int:
        return min(self._charge(self.request, client, took_ns * _PERCENT_OF_A_SECOND), self._windows.size_ms)

    def _count_time(self, served: _Served) -> None:
        self._charge(self.request, served.client, served.took_ns * _PERCENT_OF_A_SECOND)

    def _most_at_once(self, client: Client) -> int:
        """Returns the most bytes that an answer to a client can have without being over its limit even after a quiet time."""
        found = self.fetch.measure_of(client, self._now_ms())
        if found is None:
            return _MOST_BYTES
        return min(int(found[1] * (self._windows.number - 1) * self._windows.size_ms / 1000), _MOST_BYTES)

    def charge_fetch(self, session: Session, client_id: str | None, size: int) -> int:
        """Counts a Fetch that would be answered with `size` bytes; returns how many ms the client has to wait instead, or 0."""
        client = _client(session, client_id)
        throttle_time_ms = self._charge_time(client, self._took_ns())
        now_ms = self._now_ms()
        found = self.fetch.measure_of(client, now_ms)
        if found is not None:
            rate, limit = found
            rate.record(size, now_ms)
            throttle_time_ms = max(throttle_time_ms, rate.throttle_time_ms(limit, now_ms))
            if throttle_time_ms:
                rate.record(-size, now_ms)
        return throttle_time_ms

    def permits(self, session: Session, client_id: str | None, *, strict: bool) -> Permits:
        """Returns how many partitions one request may create and delete."""
        found = self.changes.measure_of(_client(session, client_id), self._now_ms())
        return Permits() if found is None else _LimitedPermits(*found, self._now_ms(), strict=strict)

    def used(self, quota: str) -> list[tuple[Share, float]]:
        now_ms = self._now_ms()
        ledger = self._ledgers[quota]
        return [(share, measure.now(now_ms)) for share, measure in ledger.shares.items()] if ledger.limited else []


_MOST_BYTES: Final = 2**31 - 1


class _LimitedPermits(Permits):
    """Gives out what is left of a token bucket. A strict one refuses when nothing is left; any other only sets the wait."""

    def __init__(self, bucket: TokenBucket, limit: float, now_ms: int, *, strict: bool) -> None:
        self._bucket = bucket
        self._limit = limit
        self._now_ms = now_ms
        self._strict = strict

    def take(self, partitions: int) -> None:
        if self._strict:
            self.throttle_time_ms = self._bucket.throttle_time_ms(self._limit, self._now_ms)
            if self.throttle_time_ms or self._bucket.tokens(self._limit, self._now_ms) < 0:
                raise Refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        self._charge(partitions)

    def give_back(self, partitions: int) -> None:
        self._charge(-partitions)

    def _charge(self, partitions: int) -> None:
        self._bucket.take(partitions, self._limit, self._now_ms)
        if not self._strict:
            self.throttle_time_ms = self._bucket.throttle_time_ms(self._limit, self._now_ms)


def _client(session: Session, client_id: str | None) -> Client:
    return session.principal.partition(":")[2], client_id


def _with_throttle_time(served: _Served, answer: Encoded, throttle_time_ms: int) -> Encoded:
    """Puts the throttle time into a kept, encoded answer, where it is the first field in versions that have it."""
    since = served.traits.kept_throttle_time_since
    if since is None or served.version < since:
        return answer
    return Encoded(_INT.pack(throttle_time_ms) + answer.body[_INT.size :])

"""Logging in: what a client of a SASL listener says before anything else, as a table of states.

A listener whose protocol is SASL_PLAINTEXT or SASL_SSL has a `Logins`. It gives each connection a `Login`, which serves its
frames in place of the dispatch until the client has proved who it is; after that the dispatch serves the
connection as it does any other, so neither a plain listener nor a client that has logged in pays for this. What lies behind the
last token of a login in the same read is served by whoever serves the connection by then.

| state | what may come |
|---|---|
| START | ApiVersions, SaslHandshake |
| VERSIONS_KNOWN | SaslHandshake |
| TOKENS | SaslAuthenticate (SaslHandshake is answered 34 and ends the login) |
| RAW | bare tokens: SaslHandshake was v0, as clients before Kafka 1.0 send it |
| AGAIN | SaslHandshake: the client renews its login (login_lifetime.py) |
| MISTAKEN | nothing, because the renewal chose another mechanism than the login: the next frame closes the connection |
| DONE | nothing: others serve the connection |
| FAILED | nothing is heard any more |

What may not come closes the connection without an answer. The handlers of SaslHandshake and SaslAuthenticate ask the session's
login for their answers.

**Refusals** take time: nothing is read, the answer waits for `connection.failed.authentication.delay.ms`, and the connection is
closed behind it. Who fails often waits longer (failures.py). Everything is bounded: a frame (`sasl.server.max.receive.size`), the
number of frames (MAX_FRAMES), and the time until the login is done (`ottla.login.timeout.ms`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from enum import Enum, auto
from functools import partial
from struct import Struct
from typing import Any, Final, NamedTuple, Protocol

from ottla.server.base.answers import chain_answer
from ottla.server.base.clock import Cancellable, Clock
from ottla.server.base.errors import CloseConnection
from ottla.server.base.promise import Promise
from ottla.server.base.recent_times import RecentTimes
from ottla.server.base.turns import Workers
from ottla.server.security.failures import Failures
from ottla.server.security.login_lifetime import SASL_HANDSHAKE, Lifetime, Previous
from ottla.server.security.mechanism import Challenge, Done, Exchange, Failed, Mechanism, Outcome
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeResponse
from ottla.wire.primitives import Buffer

API_VERSIONS: Final = 18
SASL_AUTHENTICATE: Final = 36
MAX_FRAMES: Final = 10
"""The most frames that a login may take. One of SCRAM takes four, one that probes for versions some more."""
LONGEST_REASON: Final = 200
"""So many characters of why a login failed are logged: names in it come from strangers, who may send half a MiB of them."""

_KEY: Final = Struct(">h")
_SIZE: Final = Struct(">i")
_ERROR_CODE: Final = slice(8, 10)  # of an ApiVersions answer, behind its size and correlation id
_NO_ERROR: Final = b"\0\0"

Serve = Callable[[Buffer, Any], Any]
"""`Dispatch.serve` and its like: from a frame and a session to an answer."""


class State(Enum):
    """The progress of a login."""

    START = auto()
    VERSIONS_KNOWN = auto()
    TOKENS = auto()
    RAW = auto()
    AGAIN = auto()
    MISTAKEN = auto()
    DONE = auto()
    FAILED = auto()


class Event(Enum):
    """An event of a login."""

    VERSIONS_TOLD = auto()
    MECHANISM_CHOSEN = auto()
    MECHANISM_CHOSEN_RAW = auto()
    MECHANISM_CHANGED = auto()
    CHALLENGED = auto()
    ACCEPTED = auto()
    REFUSED = auto()


ADMITS: Final = {
    State.START: frozenset({API_VERSIONS, SASL_HANDSHAKE}),
    State.VERSIONS_KNOWN: frozenset({SASL_HANDSHAKE}),
    State.TOKENS: frozenset({SASL_AUTHENTICATE, SASL_HANDSHAKE}),
    State.AGAIN: frozenset({SASL_HANDSHAKE}),
}
"""The requests that may come in a state."""

NEXT: Final = {
    (State.START, Event.VERSIONS_TOLD): State.VERSIONS_KNOWN,
    (State.START, Event.MECHANISM_CHOSEN): State.TOKENS,
    (State.START, Event.MECHANISM_CHOSEN_RAW): State.RAW,
    (State.START, Event.REFUSED): State.FAILED,
    (State.VERSIONS_KNOWN, Event.MECHANISM_CHOSEN): State.TOKENS,
    (State.VERSIONS_KNOWN, Event.MECHANISM_CHOSEN_RAW): State.RAW,
    (State.VERSIONS_KNOWN, Event.REFUSED): State.FAILED,
    (State.AGAIN, Event.MECHANISM_CHOSEN): State.TOKENS,
    (State.AGAIN, Event.MECHANISM_CHOSEN_RAW): State.RAW,
    (State.AGAIN, Event.MECHANISM_CHANGED): State.MISTAKEN,
    (State.TOKENS, Event.CHALLENGED): State.TOKENS,
    (State.TOKENS, Event.ACCEPTED): State.DONE,
    (State.TOKENS, Event.REFUSED): State.FAILED,
    (State.RAW, Event.CHALLENGED): State.RAW,
    (State.RAW, Event.ACCEPTED): State.DONE,
    (State.RAW, Event.REFUSED): State.FAILED,
}
"""The state after an event; what is not here cannot happen."""


class LoggingIn(Protocol):
    """Declares what a login needs of its connection."""

    serve: Serve
    """The function that answers the frames that come."""
    max_request_bytes: int
    """The size of the largest frame that is read."""

    def stop_reading(self) -> None:
        """Reads nothing more."""
        ...

    def close(self, reason: str) -> None:
        """Closes the connection once the answers so far are sent, and logs the reason."""
        ...


class ClientSession(Protocol):
    """Declares what a login needs of its session."""

    client_host: str
    principal: str
    by_delegation_token: bool
    login: Login | None


class LoginSettings(NamedTuple):
    """The settings of one listener's logins. `max_reauth_ms` is by mechanism; 0 means that a login lasts as long as its
    connection."""

    max_login_bytes: int
    max_request_bytes: int
    timeout_ms: int
    max_reauth_ms: Mapping[str, int]


class Logins:
    """The logins of one listener.

    `mechanisms` are those that it offers, in order. `before` serves the requests that come before a login, and has no links
    around its handlers: no quota and no metric counts them. `after` serves those of clients that have logged in. `workers` run
    what blocks.
    """

    def __init__(
        self,
        mechanisms: Mapping[str, Mechanism],
        settings: LoginSettings,
        clock: Clock,
        failures: Failures,
        before: Serve,
        after: Serve,
        workers: Workers | None = None,
    ) -> None:
        self.mechanisms = mechanisms
        self.settings = settings
        self.clock = clock
        self.failures = failures
        self.before = before
        self.after = after
        self.workers = workers or Workers()
        self.successful = 0
        self.failed = 0
        self.renewed = 0
        self.failed_renewals = 0
        self.timed_out = 0
        self.renewal_times = RecentTimes(clock)
        self.expired = 0
        self._unfinished: OrderedDict[Login, float] = OrderedDict()  # and until when: the oldest first, all have equally long
        self._timer: Cancellable | None = None

    def begin(self, connection: LoggingIn, session: ClientSession, previous: Previous | None = None) -> Login:
        """Has a client log in before its connection serves anything else, anew if it has done so before."""
        login = Login(self, connection, session, previous)
        session.login = login
        connection.serve, connection.max_request_bytes = login.serve, self.settings.max_login_bytes
        self._unfinished[login] = self.clock.monotonic() + self.settings.timeout_ms / 1000
        if self._timer is None:
            self._watch(self.settings.timeout_ms / 1000)
        return login

    def forget(self, login: Login) -> None:
        """Forgets a login that is done, or whose connection has ended."""
        self._unfinished.pop(login, None)

    def close(self) -> None:
        """Ends the watch over unfinished logins, whose connections end by themselves."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _watch(self, seconds: float) -> None:
        self._timer = self.clock.call_later(seconds, self._end_late_ones)

    def _end_late_ones(self) -> None:
        self._timer = None
        now = self.clock.monotonic()
        while self._unfinished:
            login, until = next(iter(self._unfinished.items()))
            if until > now:
                self._watch(until - now)
                return
            del self._unfinished[login]
            self.timed_out += 1
            login.connection.close(f"it did not log in within ottla.login.timeout.ms ({self.settings.timeout_ms})")


class Login:
    """The login of one connection. It is garbage once the login is done."""

    __slots__ = ("_exchange", "_frames", "_logins", "_mechanism", "_previous", "_refusal", "_session", "connection", "state")

    def __init__(self, logins: Logins, connection: LoggingIn, session: ClientSession, previous: Previous | None) -> None:
        self._logins = logins
        self.connection = connection
        self._session = session
        self._previous = previous
        self._exchange: Exchange | None = None
        self._mechanism = ""
        self._frames = 0
        self._refusal: Promise[Any] | None = None
        self.state = State.START if previous is None else State.AGAIN

    def close(self) -> None:
        """Ends the login, because the connection is gone."""
        self._logins.forget(self)
        if self._refusal is not None:
            self._refusal.cancel()
        elif self._exchange is not None and self._exchange.refused:  # or who does not listen to the end would fail for free
            self._count_failure()
            self._logins.failures.note(self._session.client_host)

    # Frames

    def serve(self, frame: Buffer, session: Any) -> Any:
        """Serves one frame, as `Dispatch.serve` does. Raises CloseConnection."""
        if self.state is State.FAILED:
            return None
        self._frames += 1
        if self._frames > MAX_FRAMES:
            raise CloseConnection(f"its login takes more than {MAX_FRAMES} frames")
        if self.state is State.RAW:
            return self._take_raw(bytes(frame))
        key = _KEY.unpack_from(frame)[0] if len(frame) >= _KEY.size else -1
        if key not in ADMITS.get(self.state, ()):
            raise CloseConnection(f"it sent API key {key}, which has no place in a login that is at {self.state.name}")
        answer = self._logins.before(frame, session)
        if session.client_id is not None and len(session.client_id) > LONGEST_REASON:
            session.client_id = session.client_id[:LONGEST_REASON]  # it is only for log lines, and kept until the next request
        if key == API_VERSIONS and isinstance(answer, bytes) and answer[_ERROR_CODE] == _NO_ERROR:
            self._move(Event.VERSIONS_TOLD)
        return answer

    def choose(self, mechanism: str, version: int) -> SaslHandshakeResponse | Promise[Any]:
        """Answers a SaslHandshake of this version."""
        offered = self._logins.mechanisms
        if self.state is State.TOKENS:
            return self._refuse(SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE), "it sent SaslHandshake twice")
        if self._previous is not None and mechanism not in offered:
            raise CloseConnection(
                f"it cannot renew its login with {mechanism[:LONGEST_REASON]!r}, which this listener does not offer"
            )
        if mechanism not in offered:
            answer = SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, list(offered))
            return self._refuse(answer, f"it asked for {mechanism[:40]!r}, but this listener offers only {', '.join(offered)}")
        if self._previous is not None and mechanism != self._previous.mechanism:
            self._move(Event.MECHANISM_CHANGED)
            return SaslHandshakeResponse(ErrorCode.NONE, list(offered))
        if version == 0 and offered[mechanism].longest_blocking:
            raise CloseConnection(
                f"it wants to log in by {mechanism} with bare tokens (SaslHandshake v0), but the tokens of {mechanism} are only "
                "taken in SaslAuthenticate; use a client that knows Kafka 1.0"
            )
        self._mechanism = mechanism
        self._exchange = offered[mechanism].begin()
        self._move(Event.MECHANISM_CHOSEN_RAW if version == 0 else Event.MECHANISM_CHOSEN)
        return SaslHandshakeResponse(ErrorCode.NONE, list(offered))

    def authenticate(self, token: bytes) -> SaslAuthenticateResponse | Promise[Any]:
        """Answers a SaslAuthenticate. What may block is done in a thread; what the client sends meanwhile waits."""
        mechanism = self._logins.mechanisms.get(self._mechanism)
        most = mechanism.longest_blocking if mechanism is not None else 0
        if not most or len(token) > most:
            return self._answer(self._step(token))
        assert self._exchange is not None
        taken = self._logins.workers.run(partial(self._exchange.step, token))
        answered = chain_answer(taken, self._answer)
        assert isinstance(answered, Promise)  # because `taken` is one
        answered.add_done_callback(lambda done: taken.cancel() if done.cancelled() else None)
        return answered

    def _answer(self, outcome: Outcome) -> SaslAuthenticateResponse | Promise[Any]:
        outcome = self._take(outcome)
        if isinstance(outcome, Failed):
            text = outcome.text or f"The login by {self._mechanism} failed, because its credentials are not valid."
            return self._refuse(SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, text), _reason(outcome))
        lifetime_ms = self._accept(outcome) if isinstance(outcome, Done) else 0
        return SaslAuthenticateResponse(ErrorCode.NONE, None, outcome.token, lifetime_ms)

    def _take_raw(self, token: bytes) -> bytes | None:
        """Answers a bare token with another, or with silence and the end of the connection."""
        outcome = self._take(self._step(token))
        if isinstance(outcome, Failed):
            self._refuse(None, _reason(outcome))
            return None
        if isinstance(outcome, Done):
            self._accept(outcome)
        return _SIZE.pack(len(outcome.token)) + outcome.token

    # Outcomes

    def _move(self, event: Event) -> None:
        self.state = NEXT[self.state, event]

    def _step(self, token: bytes) -> Outcome:
        assert self._exchange is not None
        if self._mechanism not in self._logins.mechanisms:
            return Failed(f"Logins by {self._mechanism} have just been turned off here.")
        return self._exchange.step(token)

    def _take(self, outcome: Outcome) -> Outcome:
        """Moves on as a step of the exchange says; returns what it comes to."""
        if isinstance(outcome, Challenge):
            self._move(Event.CHALLENGED)
        elif isinstance(outcome, Done) and self._previous is not None and outcome.principal != self._previous.principal:
            text = f"A login cannot be renewed by another user: it is {self._previous.principal}'s, not {outcome.principal}'s."
            return Failed(text)
        return outcome

    def _accept(self, done: Done) -> int:
        """Lets the client in; returns for how many ms, 0 for as long as the connection lasts."""
        self._move(Event.ACCEPTED)
        logins, session = self._logins, self._session
        logins.forget(self)
        session.login = None
        session.principal, session.by_delegation_token = done.principal, done.by_delegation_token
        if self._previous is None:
            logins.successful += 1
        else:
            logins.renewed += 1
            logins.renewal_times.note(logins.clock.monotonic() - self._previous.began)
        lifetime_ms = self._lifetime_ms(done)
        serve = logins.after
        if lifetime_ms is not None:
            previous = Previous(self._mechanism, done.principal, -1.0 if self._previous is None else self._previous.began)
            serve = Lifetime(logins, self.connection, lifetime_ms, previous).serve
        self.connection.serve, self.connection.max_request_bytes = serve, logins.settings.max_request_bytes
        return lifetime_ms or 0

    def _lifetime_ms(self, done: Done) -> int | None:
        """Returns how long the client may stay: as long as the setting says, and no longer than its credentials are valid; None
        for as long as the connection lasts."""
        longest = self._logins.settings.max_reauth_ms[self._mechanism]
        limits = [longest] if longest > 0 else []
        if done.expires_ms is not None:
            limits.append(max(0, done.expires_ms - self._logins.clock.now_ms()))
        return min(limits, default=None)

    def _count_failure(self) -> None:
        if self._previous is None:
            self._logins.failed += 1
        else:
            self._logins.failed_renewals += 1

    def _refuse(self, answer: Any, reason: str) -> Promise[Any]:
        """Ends the login: after the delay the promise is kept with `answer`, and the connection closed."""
        self._move(Event.REFUSED)
        logins = self._logins
        logins.forget(self)
        self._count_failure()
        promise: Promise[Any] = Promise()
        self._refusal = promise

        def end() -> None:
            if not promise.done():
                promise.set_result(answer)
                self.connection.close(f"its login failed: {_short(reason)}")

        self.connection.stop_reading()
        timer = logins.clock.call_later(logins.failures.note(self._session.client_host), end)
        promise.add_done_callback(lambda _: timer.cancel())  # the client may have gone
        return promise


def _short(reason: str) -> str:
    return reason if len(reason) <= LONGEST_REASON else reason[:LONGEST_REASON] + "..."


def _reason(failed: Failed) -> str:
    return failed.reason or failed.text or "its credentials are not valid"

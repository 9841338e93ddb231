"""`Heartbeat`: tells the active controller that this broker is alive, in a thread of its own (BrokerHeartbeat, KIP-631).

A busy event loop does not delay the thread, so a broker that works hard is not taken for dead. But a thread alone would keep a
broker in office whose loop has stopped for good. So the loop says every second that it is alive (`alive_at`), and when it has
not done so for `broker.session.timeout.ms`, the thread stops beating, and says so in the log: the controllers then let others
lead. Kafka's broker goes on. SIGSTOP stops both, and the first thing that the thread sees afterwards is how long it was.

The loop's thread sets plain attributes, which this one reads with each beat; answers are handed back to the loop by `post`. What
an answer says decides the state:

| state | a beat says | it ends when an answer says |
|---|---|---|
| STARTING | want_fence | nothing: `accept_clients` ends it |
| UNFENCING | neither | that the broker is not fenced: SERVING |
| SERVING | want_fence if the broker `stands_back`, else neither | nothing: `begin_shutdown` ends it |
| LEAVING | want_shut_down | should_shut_down: STOPPED |
| STOPPED | there are none | |
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from ottla.server.base.promise import Promise
from ottla.server.peers.outcomes import PeerError
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

if TYPE_CHECKING:
    from ottla.server.base.clock import Bell
    from ottla.server.quorum.finder import Address
    from ottla.wire.primitives import WireStruct

ALIVE_INTERVAL_MS: Final = 1_000
"""The time between two signs of life from the loop."""
RETRY_SECONDS: Final = 0.1
"""The pause after a beat that no active controller answered, or that none is known for, and while the broker waits to be unfenced
or let go."""

logger = logging.getLogger("ottla.server.quorum")


class State(Enum):
    """The state of the broker towards its controllers; see the module's docstring."""

    STARTING = "starting"
    UNFENCING = "unfencing"
    SERVING = "serving"
    LEAVING = "leaving"
    STOPPED = "stopped"


TRANSITIONS: Final = {
    State.STARTING: frozenset({State.UNFENCING, State.STOPPED}),
    State.UNFENCING: frozenset({State.SERVING, State.LEAVING, State.STOPPED}),
    State.SERVING: frozenset({State.LEAVING, State.STOPPED}),
    State.LEAVING: frozenset({State.STOPPED}),
    State.STOPPED: frozenset[State](),
}


class ControllerConnection(Protocol):
    """A connection to a controller, as a thread uses it (peers/blocking.py)."""

    def ask(self, request: WireStruct, timeout_s: float) -> BrokerHeartbeatResponse:
        """Returns the answer. Raises PeerError."""
        ...

    def close(self) -> None:
        """Closes the connection."""
        ...


class Times(NamedTuple):
    """The settings of the heartbeat, in seconds."""

    interval_s: float
    session_s: float


class Heartbeat:
    """Beats; see the module's docstring. `connect` opens a connection and raises PeerError, `post` has the loop call a function,
    `lost` is called on the loop with the address of a controller that did not answer or is not the active one, `serving` with the
    time at which a beat was sent that was answered without fencing this broker.
    """

    def __init__(
        self,
        node_id: int,
        times: Times,
        *,
        connect: Callable[[Address], ControllerConnection],
        monotonic: Callable[[], float],
        bell: Bell,
        post: Callable[[Callable[[], object]], object],
        lost: Callable[[Address], object],
        serving: Callable[[float], object],
    ) -> None:
        self.state = State.STARTING
        self.unfenced: Promise[None] = Promise()
        """Kept when the controllers have let the broker serve."""
        self.may_stop: Promise[None] = Promise()
        """Kept when the controllers have let the broker go."""
        self.address: Address | None = None
        """The active controller, None while it is not known. This and the next ones are set by the loop's thread."""
        self.broker_epoch = -1
        self.metadata_offset = -1
        """The last offset of the metadata that the image has."""
        self.offline_log_dirs: tuple[bytes, ...] = ()
        self.stands_back = False
        """True if others should lead for now, and no client be shown this broker."""
        self.alive_at = self.answered_at = monotonic()
        """The times at which the loop last ran and a controller last answered."""
        self.longest_gap_s = 0.0
        """The longest time between two answers."""
        self._node_id = node_id
        self._times = times
        self._connect = connect
        self._monotonic = monotonic
        self._bell = bell
        self._post = post
        self._lost = lost
        self._serving = serving
        self._thread: threading.Thread | None = None
        # Of the thread
        self._connection: ControllerConnection | None = None
        self._connected_to: Address | None = None
        self._is_silent = False
        self._last_error = 0

    # On the loop

    def start(self) -> None:
        """Begins to beat."""
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._thread.start()

    def stop(self) -> threading.Thread | None:
        """Ends the beats. Returns the thread, which ends soon, for whoever wants to wait for that; None if it never began."""
        if self.state is not State.STOPPED:
            self._enter(State.STOPPED)
        self._bell.ring()
        connection = self._connection
        if connection is not None:
            connection.close()  # so that the thread does not wait for an answer
        return self._thread

    def accept_clients(self) -> None:
        """Asks to be unfenced, because the broker is ready to serve."""
        self._enter(State.UNFENCING)
        self._bell.ring()

    def begin_shutdown(self) -> None:
        """Asks to be let go."""
        self._enter(State.LEAVING)
        self._bell.ring()

    def beat_now(self) -> None:
        """Has the next beat come at once, because there is something new to say."""
        self._bell.ring()

    def _enter(self, state: State) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state} to {state}"
        self.state = state

    def take(self, answer: BrokerHeartbeatResponse, sent_at: float) -> None:
        """Takes what the active controller answered to a beat that was sent then."""
        now = self._monotonic()
        self.longest_gap_s, self.answered_at = max(self.longest_gap_s, now - self.answered_at), now
        if answer.error_code != self._last_error:
            self._last_error = answer.error_code
            if answer.error_code != ErrorCode.NONE:
                known = ErrorCode._value2member_map_.get(answer.error_code)
                name = known.name if known is not None else str(answer.error_code)
                logger.error("the controllers answer heartbeats of this broker with %s; it goes on trying", name)
        if answer.error_code != ErrorCode.NONE:
            return
        if not answer.is_fenced:
            self._serving(sent_at)
        if self.state is State.UNFENCING and not answer.is_fenced:
            self._enter(State.SERVING)
            self.unfenced.set_result(None)
        elif self.state is State.LEAVING and answer.should_shut_down:
            self._enter(State.STOPPED)
            self.may_stop.set_result(None)

    # In the thread

    def _run(self) -> None:
        while self.state is not State.STOPPED:
            began = self._monotonic()
            try:
                seconds = self.beat()
            except Exception:
                logger.exception("a heartbeat failed because of a bug; the next one comes over a new connection")
                self._hang_up()
                seconds = self._times.interval_s
            self._bell.rest(max(0.0, began + seconds - self._monotonic()))
        self._hang_up()

    def beat(self) -> float:
        """Beats once if it is right to; returns after how many seconds to call this again."""
        silence_s = self._monotonic() - self.alive_at
        if silence_s > self._times.session_s:
            if not self._is_silent:
                text = "the event loop has not run for %.1f s: no more heartbeats, so that other brokers lead, until it does"
                logger.error(text, silence_s)
            self._is_silent = True
            self._hang_up()
            return RETRY_SECONDS
        if self._is_silent:
            logger.warning("the event loop runs again, and so does the heartbeat")
            self._is_silent = False
        address = self.address
        if address is None:
            return RETRY_SECONDS
        sent_at = self._monotonic()
        try:
            answer = self._connection_for(address).ask(self._message(), self._times.session_s / 2)
        except PeerError as error:
            logger.log(logging.DEBUG if self.state is State.STOPPED else logging.INFO, "no heartbeat to %s: %s", address, error)
        else:
            if answer.error_code != ErrorCode.NOT_CONTROLLER:
                self._post(partial(self.take, answer, sent_at))
                in_haste = self.state in (State.UNFENCING, State.LEAVING) or (
                    answer.is_fenced and self.state is State.SERVING and not self.stands_back
                )
                return min(self._times.interval_s, RETRY_SECONDS) if in_haste else self._times.interval_s
        self._hang_up()
        self._post(partial(self._lost, address))
        return RETRY_SECONDS

    def _message(self) -> BrokerHeartbeatRequest:
        state = self.state
        return BrokerHeartbeatRequest(
            broker_id=self._node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self.metadata_offset,
            want_fence=state is State.STARTING or (state is State.SERVING and self.stands_back),
            want_shut_down=state is State.LEAVING,
            offline_log_dirs=list(self.offline_log_dirs),
        )

    def _connection_for(self, address: Address) -> ControllerConnection:
        if self._connected_to != address:
            self._hang_up()
        if self._connection is None:
            self._connection = self._connect(address)
            self._connected_to = address
        return self._connection

    def _hang_up(self) -> None:
        connection, self._connection, self._connected_to = self._connection, None, None
        if connection is not None:
            connection.close()

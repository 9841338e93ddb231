"""`Absence`: notices that the broker stood still for so long that its session may be over, and when it knows what it leads again.

A broker that was stopped (SIGSTOP, a virtual machine that was paused) still believes what it knew before. Meanwhile the
controllers may have fenced it and let others lead. Kafka's broker goes on until it hears of that, and may for a moment
acknowledge records with acks=1 that nobody will keep, or serve reads and group requests that are out of date. This one leads
nothing until it knows.

| state | what the broker leads | it is left for | when |
|---|---|---|---|
| PRESENT | what its metadata say | RETURNED | `look` finds that the event loop has not run for `longest_s`, or `stand_back` |
| RETURNED | nothing | INFORMED | a controller has answered a heartbeat that was sent after the return, and has not fenced it |
| INFORMED | nothing | PRESENT | a Fetch of the metadata that was sent after that answer has been applied |
| both | nothing | RETURNED | the event loop stood still once more |

`stand_back` is for a broker that has asked to be fenced (no_room.py). It may be unable to keep its metadata up to date, and so
cannot see there that it leads nothing any more; afterwards it comes back as one that stood still.

The controllers write down that they fence a broker before they answer its next heartbeat, and the answer waits until that is
committed. So the metadata fetched after it have everything that happened during the absence.

Requests that came meanwhile are read before any timer rings, so whoever serves one calls `look` first (broker/absence.py). As
long as no controller can be reached, a broker that never stood still goes on as in Kafka; one that did leads nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from typing import Final

logger = logging.getLogger("ottla.server.quorum")


class State(Enum):
    """A state of the broker's knowledge; the module's docstring says what each means."""

    PRESENT = "present"
    RETURNED = "returned"
    INFORMED = "informed"


TRANSITIONS: Final = {
    State.PRESENT: frozenset({State.RETURNED}),
    State.RETURNED: frozenset({State.RETURNED, State.INFORMED}),
    State.INFORMED: frozenset({State.RETURNED, State.PRESENT}),
}


class Absence:
    """Watches over the event loop; see the module's docstring. `longest_s` is how long it may stand still. `on_doubt` is
    called with True when it is not known any more what this broker leads, and with False when it is.
    """

    def __init__(self, monotonic: Callable[[], float], longest_s: float, on_doubt: Callable[[bool], object]) -> None:
        self.state = State.PRESENT
        self._monotonic = monotonic
        self._longest_s = longest_s
        self._on_doubt = on_doubt
        self._ran_at = self._since = float("inf")  # nothing is an absence before `begin`

    def begin(self) -> None:
        """Begins to watch: what took long before this broker had a session is no absence."""
        self._ran_at = self._since = self._monotonic()

    def run(self) -> None:
        """Notes that the event loop runs; it is called every second."""
        self.look()
        self._ran_at = self._monotonic()

    def look(self) -> None:
        """Looks whether the event loop has stood still; it is called before a request is served."""
        now = self._monotonic()
        if now - self._ran_at <= self._longest_s:
            return
        logger.warning(
            "this broker stood still for %.1f s, so others may lead its partitions by now; it leads nothing until it has heard "
            "from the controllers",
            now - self._ran_at,
        )
        self._ran_at = now
        self.stand_back()

    def stand_back(self) -> None:
        """Has the broker lead nothing until the controllers have let it serve again."""
        self._since = self._monotonic()
        self._enter(State.RETURNED)
        self._on_doubt(True)

    def answered(self, sent_at: float) -> None:
        """Notes that a controller has answered a heartbeat that was sent then, and that this broker is not fenced."""
        if self.state is State.RETURNED and sent_at > self._since:
            self._since = self._monotonic()
            self._enter(State.INFORMED)

    def fetched(self, sent_at: float) -> None:
        """Notes that the metadata which a Fetch brought that was sent then are applied."""
        if self.state is not State.INFORMED or sent_at <= self._since:
            return
        self._enter(State.PRESENT)
        logger.info("this broker knows again what it leads")
        self._on_doubt(False)

    def _enter(self, state: State) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state} to {state}"
        self.state = state

"""`Following`: one partition that this broker follows, as its fetcher sees it. It lasts as long as the leader's epoch.

| state | what the fetcher does | it leaves the state when |
|---|---|---|
| TRUNCATING | cuts the log at its high watermark, since it knows no leader epoch to compare with the leader's | that is done |
| FETCHING | names it in each Fetch | an answer says otherwise |
| LOOKING_UP | asks the leader where its log begins and ends, because it does not have what we asked for | it answered |
| DELAYED | leaves it out, after an error | the pause is over: then as before the error, or FETCHING after LOOKING_UP |
| STOPPED | leaves it out for good: the metadata or the disk has to change first | never |

A log that knows epochs is not cut when it begins to follow: each Fetch names the epoch of the last batch, and a leader whose log
has another history answers where the two part (truncation.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final

from ottla.wire.messages.fetch import FetchPartition

if TYPE_CHECKING:
    from ottla.log.partition import PartitionLog
    from ottla.server.partitions.replica import Replica

Key = tuple[bytes, int]
"""A partition, by its topic's id and its index."""


class State(Enum):
    """The states of a partition that is followed; the module's docstring says what each means."""

    TRUNCATING = "truncating"
    FETCHING = "fetching"
    LOOKING_UP = "looking up"
    DELAYED = "delayed"
    STOPPED = "stopped"


TRANSITIONS: Final[Mapping[State, frozenset[State]]] = {
    State.TRUNCATING: frozenset({State.FETCHING, State.DELAYED, State.STOPPED}),
    State.FETCHING: frozenset({State.LOOKING_UP, State.DELAYED, State.STOPPED}),
    State.LOOKING_UP: frozenset({State.FETCHING, State.DELAYED, State.STOPPED}),
    State.DELAYED: frozenset({State.TRUNCATING, State.FETCHING, State.STOPPED}),
    State.STOPPED: frozenset(),
}


class Following:
    """One partition that this broker follows; see the module's docstring. `leader` is the id of the broker that leads it in
    `leader_epoch`.
    """

    __slots__ = ("_after_delay", "asked", "due", "key", "lag", "leader", "leader_epoch", "replica", "state")

    def __init__(self, replica: Replica, leader: int) -> None:
        self.replica = replica
        self.key: Key = (replica.topic_id, replica.partition)
        self.leader = leader
        self.leader_epoch = replica.leader_epoch
        self.state = State.FETCHING if replica.log.leader_epoch >= 0 else State.TRUNCATING
        self._after_delay = self.state
        self.due = 0.0
        """The time at which a delay ends, in the clock's monotonic seconds."""
        self.asked: FetchPartition | None = None
        """The last request to the leader about this partition, or its part of the next one; None before that."""
        self.lag: int | None = None
        """The number of offsets by which the log was behind the leader's high watermark after the last answer; None before the
        first."""

    def __repr__(self) -> str:
        return f"Following({self.name}, {self.state.value}, leader {self.leader} in epoch {self.leader_epoch})"

    @property
    def name(self) -> str:
        return f"{self.replica.topic}-{self.replica.partition}"

    @property
    def log(self) -> PartitionLog:
        """The log as it is now: a move to another log directory replaces it."""
        return self.replica.log

    # States

    def fetch(self) -> None:
        """Goes on to fetch, from the log's end."""
        self._enter(State.FETCHING)

    def look_up(self) -> None:
        """Has the leader asked where its log begins and ends."""
        self._enter(State.LOOKING_UP)

    def delay(self, until: float) -> None:
        """Leaves the partition alone until a moment of the monotonic clock."""
        self._after_delay = State.TRUNCATING if self.state is State.TRUNCATING else State.FETCHING
        self.due = until
        self._enter(State.DELAYED)

    def resume(self) -> None:
        """Ends a delay."""
        self._enter(self._after_delay)

    def stop(self) -> None:
        """Leaves the partition alone for good."""
        if self.state is not State.STOPPED:
            self._enter(State.STOPPED)

    def _enter(self, state: State) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state} to {state}"
        self.state = state

    # Requests

    def ask(self, max_bytes: int) -> FetchPartition | None:
        """Returns what to ask the leader for if that is not what it was asked for last; None if it is."""
        log, asked = self.replica.log, self.asked
        if (
            asked is not None
            and asked.fetch_offset == log.log_end_offset
            and asked.last_fetched_epoch == log.leader_epoch
            and asked.log_start_offset == log.log_start_offset
        ):
            return None
        self.asked = FetchPartition(
            partition=self.key[1],
            current_leader_epoch=self.leader_epoch,
            fetch_offset=log.log_end_offset,
            last_fetched_epoch=log.leader_epoch,
            log_start_offset=log.log_start_offset,
            partition_max_bytes=max_bytes,
        )
        return self.asked

    def expects(self, fetch_offset: int) -> bool:
        """Returns whether an answer to a Fetch from this offset is for the log as it is now."""
        return self.state is State.FETCHING and fetch_offset == self.replica.log.log_end_offset

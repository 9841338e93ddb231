"""`Isr`: who is in sync with the leader of one partition, and what this leader proposes to the controllers about that.

| state | which replicas count for the high watermark | what ends it |
|---|---|---|
| COMMITTED | those that the metadata name | a follower that has caught up: EXPANDING; one that fell behind: SHRINKING |
| EXPANDING | these and the follower that is proposed | the controllers' answer, or new metadata of the partition |
| SHRINKING | those that the metadata name | the same |

So there is one proposal at a time, and until it is answered the larger set counts, because the controllers may have either
(KIP-497). The rules are those of Kafka's `Partition`:

- A follower may join when it has all that is below the high watermark, and all that earlier leaders wrote (KIP-101); when the
  controllers know it as alive, neither fenced nor about to stop (KIP-841); and when its fetch had the broker epoch that the
  metadata have, so that it is not a follower that has lost its disk since (KIP-903).
- A follower falls out when it was not at the leader's end for `replica.lag.time.max.ms` (follower_state.py).

`_AFTER` says what an error of the controllers means.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from ottla.server.metadata.isr_changes import IsrChange, IsrChanges, IsrOutcome
from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.server.base.clock import Clock
    from ottla.server.metadata.image import MetadataImage
    from ottla.server.partitions.follower_state import FollowerState
    from ottla.server.partitions.high_watermark import HighWatermark
    from ottla.server.partitions.replica import Replica
    from ottla.server.partitions.roles import Leader

UNKNOWN_EPOCH: Final = -1

logger = logging.getLogger("ottla.server.replication")


class State(enum.Enum):
    """The change that is under way, if any; see the module's docstring."""

    COMMITTED = enum.auto()
    EXPANDING = enum.auto()
    SHRINKING = enum.auto()


class After(enum.Enum):
    """The step that follows an error of the controllers."""

    WAIT = enum.auto()
    """The metadata here are behind, or this broker leads no more. What the image brings next ends the proposal."""
    BACK = enum.auto()
    """Nothing was written down: back to the committed replicas, and the next fetch is looked at anew."""
    AGAIN = enum.auto()
    """Nobody knows whether it was written down: the same is proposed again."""


_AFTER: Final = {
    ErrorCode.INVALID_UPDATE_VERSION: After.WAIT,
    ErrorCode.FENCED_LEADER_EPOCH: After.WAIT,
    ErrorCode.NEW_LEADER_ELECTED: After.WAIT,
    ErrorCode.UNKNOWN_TOPIC_ID: After.WAIT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: After.WAIT,
    ErrorCode.INVALID_REQUEST: After.WAIT,
    ErrorCode.OPERATION_NOT_ATTEMPTED: After.BACK,
    ErrorCode.INELIGIBLE_REPLICA: After.BACK,
}
"""All other errors are AGAIN."""


class Leaders(Protocol):
    """Declares what all partitions that this broker leads have in common (server/replication/leading.py)."""

    node_id: int
    image: MetadataImage
    clock: Clock
    changes: IsrChanges
    max_lag: float
    """`replica.lag.time.max.ms`, in seconds."""
    expands: int
    shrinks: int
    failed_updates: int


class Isr:
    """The in-sync replicas of one partition; see the module's docstring. It lasts as long as its HighWatermark."""

    __slots__ = ("_high_watermark", "_leaders", "_proposal", "_role", "replica", "state")

    def __init__(self, replica: Replica, role: Leader, high_watermark: HighWatermark, leaders: Leaders) -> None:
        self.replica = replica
        self.state = State.COMMITTED
        self._role = role
        self._high_watermark = high_watermark
        self._leaders = leaders
        self._proposal: IsrChange | None = None

    @property
    def is_over(self) -> bool:
        """Returns whether this broker leads the partition no more, or nobody follows it."""
        return self.replica.role is not self._role or self._role.high_watermark is not self._high_watermark

    # What HighWatermark asks

    def is_fenced_out(self, follower: int, broker_epoch: int) -> bool:
        """Returns whether a fetch with this broker epoch is of an earlier life of the follower. An epoch of -1 comes with a fetch
        below v15, which has none."""
        broker = self._leaders.image.brokers.get(follower)
        return broker_epoch != UNKNOWN_EPOCH and broker is not None and broker.epoch > broker_epoch

    def consider(self, follower: int, state: FollowerState) -> None:
        """Proposes to add a follower that has fetched, if it may be added."""
        if self.state is not State.COMMITTED or follower in self._high_watermark.in_sync:
            return
        if self._has_caught_up(state) and self._is_eligible(follower, state):
            self._propose(State.EXPANDING, self._high_watermark.in_sync | {follower})

    def may_join(self, follower: int, state: FollowerState) -> bool:
        """Returns whether a follower that is not in sync will be soon, so that the high watermark waits for it."""
        leaders = self._leaders
        return state.is_caught_up(
            self.replica.log.log_end_offset, leaders.clock.monotonic(), leaders.max_lag
        ) and self._is_eligible(follower, state)

    def replaced(self) -> None:
        """Ends what was proposed, because the metadata have new in-sync replicas."""
        self.state, self._proposal = State.COMMITTED, None

    # The rules

    def _has_caught_up(self, state: FollowerState) -> bool:
        return state.end_offset >= self.replica.log.high_watermark and state.end_offset >= self._role.epoch_start

    def _is_eligible(self, follower: int, state: FollowerState) -> bool:
        broker = self._leaders.image.brokers.get(follower)
        return broker is not None and broker.active and state.broker_epoch in (UNKNOWN_EPOCH, broker.epoch)

    def _behind(self) -> set[int]:
        """Returns the followers in sync that have fallen behind."""
        leader_end, now = self.replica.log.log_end_offset, self._leaders.clock.monotonic()
        high_watermark, max_lag = self._high_watermark, self._leaders.max_lag
        return {
            follower
            for follower, state in high_watermark.followers.items()
            if follower in high_watermark.in_sync and not state.is_caught_up(leader_end, now, max_lag)
        }

    def shrink(self) -> None:
        """Proposes to take out the followers that have fallen behind, if there are any."""
        if self.state is not State.COMMITTED:
            return
        behind = self._behind()
        if behind:
            self._propose(State.SHRINKING, self._high_watermark.in_sync - behind)
        elif self._high_watermark.in_sync:
            self._high_watermark.update()  # a follower that it waited for, and that was to join, may have fallen behind

    # Proposals

    def _propose(self, state: State, isr: Collection[int]) -> None:
        replica, high_watermark = self.replica, self._high_watermark
        change = IsrChange(
            replica.topic_id,
            replica.partition,
            replica.leader_epoch,
            high_watermark.partition_epoch,
            tuple((broker_id, self._epoch_of(broker_id)) for broker_id in sorted(isr)),
        )
        ends = {follower: each.end_offset for follower, each in high_watermark.followers.items()}
        logger.info(
            "%s-%d: %s the in-sync replicas from %s to %s; the high watermark is %d, the log ends at %d, the followers' at %s",
            replica.topic,
            replica.partition,
            state.name.lower(),
            sorted(high_watermark.in_sync),
            sorted(isr),
            replica.log.high_watermark,
            replica.log.log_end_offset,
            ends,
        )
        self.state, self._proposal = state, change
        if state is State.EXPANDING:
            high_watermark.count(isr)
        self._send(change)

    def _send(self, change: IsrChange) -> None:
        self._leaders.changes.propose(change, partial(self._answered, change))

    def _epoch_of(self, broker_id: int) -> int:
        """Returns the broker epoch to name: this broker's own, or the one in the follower's last fetch."""
        if broker_id == self._leaders.node_id:
            broker = self._leaders.image.brokers.get(broker_id)
            return UNKNOWN_EPOCH if broker is None else broker.epoch
        state = self._high_watermark.followers.get(broker_id)
        return UNKNOWN_EPOCH if state is None or state.broker_epoch is None else state.broker_epoch

    def _answered(self, change: IsrChange, outcome: IsrOutcome) -> None:
        """Takes over what the controllers answered, unless the metadata came first or the leadership is over."""
        if self._proposal is not change or self.is_over:
            return
        if outcome.error_code == ErrorCode.NONE:
            self._commit(outcome)
            return
        self._leaders.failed_updates += 1
        after = _AFTER.get(outcome.error_code, After.AGAIN)  # type: ignore[call-overload]  # an ErrorCode is an int
        logger.info(
            "%s-%d: the controllers answered error %d to new in-sync replicas: %s",
            self.replica.topic,
            self.replica.partition,
            outcome.error_code,
            after.name.lower(),
        )
        if after is After.BACK:
            self.replaced()
            self._high_watermark.count()
        elif after is After.AGAIN:
            self._send(change)

    def _commit(self, outcome: IsrOutcome) -> None:
        high_watermark = self._high_watermark
        if outcome.leader_epoch != self.replica.leader_epoch or outcome.partition_epoch < high_watermark.partition_epoch:
            return  # of a time that the image says more about, now or soon
        if self.state is State.EXPANDING:
            self._leaders.expands += 1
        else:
            self._leaders.shrinks += 1
        high_watermark.commit(outcome.isr, outcome.partition_epoch)

"""`Proposals`: takes what leaders propose about in-sync replicas to the controllers (AlterPartition v3, KIP-497, KIP-903).

Proposals are gathered, the newest of each partition counts, and one request at a time goes out with all that have gathered, up to
`MAX_PARTITIONS`. A request that did not arrive, or was refused as a whole, is sent again until it is answered. What is answered
about one partition goes to who proposed it, errors included (server/replication/isr.py says what they mean).

A leader that was elected though it was not in sync (unclean.leader.election.enable) calls the partition recovered with the first
proposal (KIP-704), as Kafka's does: it has nothing to recover from.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.server.base.clock import sleep
from ottla.server.metadata.image import RECOVERED
from ottla.server.metadata.isr_changes import Answered, IsrChange, IsrChanges, IsrOutcome
from ottla.server.quorum.channel import ControllerUnreachable
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)

if TYPE_CHECKING:
    from ottla.server.base.clock import Clock
    from ottla.server.quorum.channel import Channel

MAX_PARTITIONS: Final = 2_000
"""How many partitions one request names, which keeps it below 100 kB."""
RETRY_SECONDS: Final = 0.05
"""The pause after a request that failed, whole or in part: as long as Kafka's."""
REMIND_SECONDS: Final = 30.0
"""How often the log says that requests go on failing."""
MIN_VERSION: Final = 3
"""The first version in which the replicas have broker epochs."""
_SETTLED: Final = frozenset(
    (
        ErrorCode.NONE,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.INELIGIBLE_REPLICA,
    )
)
"""What is expected of a partition, and costs the next request no pause."""

logger = logging.getLogger("ottla.server.quorum")

Name = tuple[bytes, int]
"""A partition, by its topic's id and its index."""


class _Proposal(NamedTuple):
    change: IsrChange
    answered: Answered


class Proposals(IsrChanges):
    """What is to be told; see the module's docstring. `spawn` runs a coroutine whose end nobody waits for."""

    def __init__(
        self,
        node_id: int,
        channel: Channel,
        clock: Clock,
        broker_epoch: Callable[[], int],
        timeout_ms: int,
        spawn: Callable[[Any], object],
    ) -> None:
        self._node_id = node_id
        self._channel = channel
        self._clock = clock
        self._broker_epoch = broker_epoch
        self._timeout_ms = timeout_ms
        self._spawn = spawn
        self._waiting: dict[Name, _Proposal] = {}
        self._is_sending = False
        self._remind_at = 0.0
        """When the next failure is logged."""

    def propose(self, change: IsrChange, answered: Answered) -> None:
        """See IsrChanges."""
        self._waiting[change.topic_id, change.partition] = _Proposal(change, answered)
        if not self._is_sending:
            self._is_sending = True
            self._spawn(self._send_all())

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                batch = {name: self._waiting.pop(name) for name in list(self._waiting)[:MAX_PARTITIONS]}
                if not await self._send(batch):
                    await sleep(self._clock, RETRY_SECONDS)
        finally:
            self._is_sending = False

    async def _send(self, batch: Mapping[Name, _Proposal]) -> bool:
        """Sends some proposals, and tells who made them; those that are not answered wait again, unless there are newer ones.
        Returns whether all went as expected."""
        request = AlterPartitionRequest(self._node_id, self._broker_epoch(), _by_topic(batch))
        try:
            answer: AlterPartitionResponse = await self._channel.ask(request, self._timeout_ms, min_version=MIN_VERSION)
        except ControllerUnreachable as error:
            return self._put_off(batch, str(error))
        if answer.error_code != ErrorCode.NONE:
            return self._put_off(batch, f"error {answer.error_code}")
        self._remind_at = 0.0
        left = dict(batch)
        expected = True
        for topic in answer.topics:
            for data in topic.partitions:
                proposal = left.pop((topic.topic_id, data.partition_index), None)
                if proposal is not None:
                    expected &= data.error_code in _SETTLED
                    outcome = IsrOutcome(data.error_code, data.leader_epoch, data.partition_epoch, tuple(data.isr))
                    proposal.answered(outcome)
        self._wait_again(left)
        return expected and not left

    def _put_off(self, batch: Mapping[Name, _Proposal], why: str) -> bool:
        """Has proposals wait again after a request that failed as a whole. Returns False."""
        now = self._clock.monotonic()
        if now >= self._remind_at:
            self._remind_at = now + REMIND_SECONDS
            logger.warning("the in-sync replicas of %d partitions cannot be changed yet: %s", len(batch), why)
        self._wait_again(batch)
        return False

    def _wait_again(self, batch: Mapping[Name, _Proposal]) -> None:
        for name, proposal in batch.items():
            self._waiting.setdefault(name, proposal)


def _by_topic(batch: Mapping[Name, _Proposal]) -> list[RequestTopicData]:
    topics: dict[bytes, list[RequestPartitionData]] = {}
    for (topic_id, index), (change, _) in batch.items():
        isr = [BrokerState(broker_id, epoch) for broker_id, epoch in change.isr]
        partition = RequestPartitionData(
            index,
            change.leader_epoch,
            new_isr_with_epochs=isr,
            leader_recovery_state=RECOVERED,
            partition_epoch=change.partition_epoch,
        )
        topics.setdefault(topic_id, []).append(partition)
    return [RequestTopicData(topic_id, partitions) for topic_id, partitions in topics.items()]

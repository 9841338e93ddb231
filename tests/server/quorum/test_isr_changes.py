"""Proposals of in-sync replicas: what one request says, what is sent again, and who is told. test_batching.py has what is
the same for any request in batches."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from ottla.server.metadata.isr_changes import IsrChange, IsrOutcome
from ottla.server.quorum.batching import Name
from ottla.server.quorum.isr_changes import Proposals
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from tests.server.quorum.played import Played, turns
from tests.server.quorum.spawning import Spawned, run_spawned

T, U = b"t" * 16, b"u" * 16


class Rig(Spawned):
    def __init__(self, played: Played) -> None:
        super().__init__(played)
        self.proposals = Proposals(7, played.channel, played.clock, lambda: 70, 1000, self.spawn)
        self.told: list[tuple[Name, IsrOutcome]] = []

    def propose(self, topic_id: bytes = T, index: int = 0, epoch: int = 5) -> None:
        change = IsrChange(topic_id, index, 4, epoch, ((7, 70), (8, -1)))
        self.proposals.propose(change, partial(self.note, (topic_id, index)))

    def note(self, name: Name, outcome: IsrOutcome) -> None:
        self.told.append((name, outcome))

    def answer(self, error_code: int = 0, *, leaving_out: Name | None = None, **codes: int) -> list[Name]:
        """Answers the request, with these codes for partitions such as t0; returns the partitions that it named."""
        request: AlterPartitionRequest = self.played.open[0].request
        assert (request.broker_id, request.broker_epoch) == (7, 70)
        named = [(topic.topic_id, each.partition_index) for topic in request.topics for each in topic.partitions]
        topics = [
            ResponseTopicData(
                topic.topic_id,
                [
                    ResponsePartitionData(
                        each.partition_index,
                        codes.get(f"{topic.topic_id[:1].decode()}{each.partition_index}", 0),
                        7,
                        each.leader_epoch,
                        [state.broker_id for state in each.new_isr_with_epochs],
                        0,
                        each.partition_epoch + 1,
                    )
                    for each in topic.partitions
                    if (topic.topic_id, each.partition_index) != leaving_out
                ],
            )
            for topic in request.topics
        ]
        self.played.answer(AlterPartitionResponse(error_code=error_code, topics=[] if error_code else topics))
        return named


def proposes(scenario: Callable[[Rig], Awaitable[object]]) -> None:
    run_spawned(Rig, scenario)


def test_what_a_request_says_and_what_the_proposer_is_told() -> None:
    async def scenario(rig: Rig) -> None:
        rig.propose()
        await turns()
        (topic,) = rig.played.open[0].request.topics
        (partition,) = topic.partitions
        assert (topic.topic_id, partition.partition_index) == (T, 0)
        assert (partition.leader_epoch, partition.partition_epoch, partition.leader_recovery_state) == (4, 5, 0)
        assert [(each.broker_id, each.broker_epoch) for each in partition.new_isr_with_epochs] == [(7, 70), (8, -1)]
        rig.answer()
        await turns()
        assert rig.told == [((T, 0), IsrOutcome(0, 4, 6, (7, 8)))]

    proposes(scenario)


@pytest.mark.parametrize("code", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.CLUSTER_AUTHORIZATION_FAILED])
def test_a_request_that_is_refused_as_a_whole_is_sent_again_and_nobody_is_told(code: int) -> None:
    async def scenario(rig: Rig) -> None:
        rig.propose()
        await turns()
        rig.answer(error_code=code)
        await turns()
        assert (rig.played.open, rig.told) == ([], [])
        await rig.played.pass_time(Proposals.retry_seconds + 0.01)
        rig.answer()
        await turns()
        assert len(rig.told) == 1

    proposes(scenario)


def test_an_error_of_one_partition_is_told_to_its_proposer() -> None:
    async def scenario(rig: Rig) -> None:
        rig.propose()
        rig.propose(index=1)
        await turns()
        rig.answer(t0=ErrorCode.INELIGIBLE_REPLICA)
        await turns()
        assert [(name[1], outcome.error_code) for name, outcome in rig.told] == [(0, ErrorCode.INELIGIBLE_REPLICA), (1, 0)]

    proposes(scenario)


def test_what_nobody_expected_is_followed_by_a_pause() -> None:
    async def scenario(rig: Rig) -> None:
        rig.propose()
        await turns()
        rig.answer(t0=ErrorCode.UNKNOWN_SERVER_ERROR)
        rig.propose()
        await turns()
        assert rig.played.open == []
        await rig.played.pass_time(Proposals.retry_seconds + 0.01)
        rig.answer()

    proposes(scenario)


def test_a_partition_that_is_not_answered_waits_again() -> None:
    async def scenario(rig: Rig) -> None:
        rig.propose()
        rig.propose(index=1)
        await turns()
        rig.answer(leaving_out=(T, 1))
        await rig.played.pass_time(Proposals.retry_seconds + 0.01)
        assert rig.answer() == [(T, 1)]

    proposes(scenario)

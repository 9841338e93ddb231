"""Proposals of in-sync replicas: what one request says, what is sent again, and who is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from ottla.server.metadata.isr_changes import IsrChange, IsrOutcome
from ottla.server.quorum import isr_changes
from ottla.server.quorum.isr_changes import REMIND_SECONDS, RETRY_SECONDS, Proposals
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from tests.server.quorum.played import Played, run, turns

T, U = b"t" * 16, b"u" * 16
Name = tuple[bytes, int]


class Rig:
    def __init__(self, played: Played) -> None:
        self.played = played
        self.tasks: list[asyncio.Future[None]] = []
        self.proposals = Proposals(7, played.channel, played.clock, lambda: 70, 1000, self.spawn)
        self.told: list[tuple[Name, IsrOutcome]] = []
        played.finder.learn(3, 1)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.ensure_future(work))

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
    async def main(played: Played) -> None:
        rig = Rig(played)
        await scenario(rig)
        await turns()
        assert all(task.done() for task in rig.tasks)
        assert played.open == []

    run(main)


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


def test_what_gathers_while_a_request_is_under_way_goes_out_together_after_it() -> None:
    async def scenario(rig: Rig) -> None:
        rig.propose()
        await turns()
        for topic_id, index in ((T, 1), (U, 0), (T, 2)):
            rig.propose(topic_id, index)
        await turns()
        assert len(rig.played.open) == 1
        assert rig.answer() == [(T, 0)]
        await turns()
        assert sorted(rig.answer()) == [(T, 1), (T, 2), (U, 0)]
        await turns()
        assert len(rig.told) == 4

    proposes(scenario)


def test_a_request_names_a_bounded_number_of_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isr_changes, "MAX_PARTITIONS", 2)

    async def scenario(rig: Rig) -> None:
        for index in range(3):
            rig.propose(index=index)
        await turns()
        assert rig.answer() == [(T, 0), (T, 1)]
        await turns()
        assert rig.answer() == [(T, 2)]

    proposes(scenario)


def test_the_newest_proposal_of_a_partition_counts() -> None:
    async def scenario(rig: Rig) -> None:
        rig.propose(epoch=5)
        rig.propose(epoch=6)
        await turns()
        rig.answer()
        await turns()
        assert [outcome.partition_epoch for _, outcome in rig.told] == [7]

    proposes(scenario)


@pytest.mark.parametrize("code", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.CLUSTER_AUTHORIZATION_FAILED])
def test_a_request_that_is_refused_as_a_whole_is_sent_again_and_nobody_is_told(code: int) -> None:
    async def scenario(rig: Rig) -> None:
        rig.propose()
        await turns()
        rig.answer(error_code=code)
        await turns()
        assert (rig.played.open, rig.told) == ([], [])
        await rig.played.pass_time(RETRY_SECONDS + 0.01)
        rig.answer()
        await turns()
        assert len(rig.told) == 1

    proposes(scenario)


def test_one_that_came_meanwhile_takes_the_place_of_one_that_failed() -> None:
    async def scenario(rig: Rig) -> None:
        rig.propose(epoch=5)
        await turns()
        rig.propose(epoch=6)
        rig.answer(error_code=ErrorCode.STALE_BROKER_EPOCH)
        await rig.played.pass_time(RETRY_SECONDS + 0.01)
        rig.answer()
        await turns()
        assert [outcome.partition_epoch for _, outcome in rig.told] == [7]

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
        await rig.played.pass_time(RETRY_SECONDS + 0.01)
        rig.answer()

    proposes(scenario)


def test_a_partition_that_is_not_answered_waits_again() -> None:
    async def scenario(rig: Rig) -> None:
        rig.propose()
        rig.propose(index=1)
        await turns()
        rig.answer(leaving_out=(T, 1))
        await rig.played.pass_time(RETRY_SECONDS + 0.01)
        assert rig.answer() == [(T, 1)]

    proposes(scenario)


def test_without_a_controller_it_goes_on_trying() -> None:
    async def scenario(rig: Rig) -> None:
        rig.played.finder.learn(4, -1)
        rig.propose()
        await rig.played.pass_time(2)
        rig.played.finder.learn(5, 2)
        await rig.played.pass_time(1)
        assert rig.answer() == [(T, 0)]

    proposes(scenario)


def test_requests_that_go_on_failing_are_logged_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rig: Rig) -> None:
        rig.propose()
        for _ in range(5):
            await turns()
            rig.answer(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            await turns()
            rig.played.clock.advance(RETRY_SECONDS)
        assert len(caplog.messages) == 1, "one line for five failures"
        await turns()
        rig.played.clock.advance(REMIND_SECONDS)
        rig.answer(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        await turns()
        assert len(caplog.messages) == 2
        rig.played.clock.advance(RETRY_SECONDS)
        await turns()
        rig.answer()
        await turns()
        rig.propose()
        await turns()
        rig.answer(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        await turns()
        assert len(caplog.messages) == 3, "a failure after a success is news"
        rig.played.clock.advance(RETRY_SECONDS)
        await turns()
        rig.answer()

    proposes(scenario)

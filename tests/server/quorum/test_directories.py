"""Assignments: what is told of directories, and until when. test_batching.py has what is the same for any
request in batches."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from ottla.server.metadata.directories import SINCE
from ottla.server.metadata.withdrawals import WITHDRAWN
from ottla.server.quorum.directories import Assignments
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)
from tests.server.quorum.played import Played, turns
from tests.server.quorum.spawning import Spawned, run_spawned

T, U = b"t" * 16, b"u" * 16
ONE, TWO, STRANGE = b"1" * 16, b"2" * 16, b"3" * 16
Told = dict[tuple[bytes, int], bytes]


class Rig(Spawned):
    def __init__(self, played: Played) -> None:
        super().__init__(played)
        self.level = SINCE
        self.assigned: Told = {}
        self.assignments = Assignments(
            7,
            (ONE, TWO),
            played.channel,
            played.clock,
            lambda: 70,
            1000,
            self.spawn,
            lambda: self.level,
            lambda topic_id, index: self.assigned.get((topic_id, index)),
        )

    def answer(self, error_code: int = 0, **codes: int) -> Told:
        """Answers the request, with these codes for partitions such as t0; returns what it said."""
        open_ = self.played.open[0]
        request: AssignReplicasToDirsRequest = open_.request
        assert (request.broker_id, request.broker_epoch) == (7, 70)
        told = {
            (topic.topic_id, partition.partition_index): directory.id
            for directory in request.directories
            for topic in directory.topics
            for partition in topic.partitions
        }
        answered = [
            ResponseDirectoryData(
                directory.id,
                [
                    ResponseTopicData(
                        topic.topic_id,
                        [
                            ResponsePartitionData(
                                each.partition_index, codes.get(f"{topic.topic_id[:1].decode()}{each.partition_index}", 0)
                            )
                            for each in topic.partitions
                        ],
                    )
                    for topic in directory.topics
                ],
            )
            for directory in request.directories
        ]
        self.played.answer(AssignReplicasToDirsResponse(error_code=error_code, directories=[] if error_code else answered))
        return told


def assigns(scenario: Callable[[Rig], Awaitable[object]]) -> None:
    run_spawned(Rig, scenario)


def test_they_are_grouped_and_the_newest_counts() -> None:
    async def scenario(rig: Rig) -> None:
        rig.assignments.assign([(T, 0, ONE), (T, 1, TWO), (U, 0, ONE)])
        rig.assignments.assign([(T, 0, TWO)])
        await turns()
        request: AssignReplicasToDirsRequest = rig.played.open[0].request
        assert [(each.id, len(each.topics)) for each in request.directories] == [(TWO, 1), (ONE, 1)]
        assert rig.answer() == {(T, 0): TWO, (T, 1): TWO, (U, 0): ONE}

    assigns(scenario)


def test_nothing_is_told_before_the_level_has_a_place_for_it() -> None:
    async def scenario(rig: Rig) -> None:
        rig.level = SINCE - 1
        rig.assignments.assign([(T, 0, ONE)])
        await turns()
        await rig.played.pass_time(Assignments.retry_seconds + 0.1)
        assert rig.played.asked == []
        rig.level = SINCE
        await rig.played.pass_time(Assignments.retry_seconds + 0.1)
        assert rig.answer() == {(T, 0): ONE}

    assigns(scenario)


def test_only_what_failed_is_sent_again_and_not_what_is_gone() -> None:
    async def scenario(rig: Rig) -> None:
        rig.assignments.assign([(T, 0, ONE), (T, 1, ONE), (T, 2, ONE)])
        await turns()
        rig.answer(t0=ErrorCode.UNKNOWN_SERVER_ERROR, t1=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        await rig.played.pass_time(Assignments.retry_seconds + 0.1)
        assert rig.answer() == {(T, 0): ONE}

    assigns(scenario)


def test_a_directory_that_is_not_registered_is_never_told(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rig: Rig) -> None:
        rig.assignments.assign([(T, 0, STRANGE)])
        await turns()
        assert rig.played.asked == []

    assigns(scenario)
    assert "is not one that this broker has registered" in caplog.text


def test_what_is_withdrawn_stays_so_until_it_is_restored() -> None:
    async def scenario(rig: Rig) -> None:
        assert rig.assignments.are_possible()
        rig.assignments.withdraw(T, 0)
        await turns()
        assert rig.answer() == {(T, 0): WITHDRAWN}
        await turns()
        rig.assigned[T, 0] = WITHDRAWN
        rig.assignments.assign([(T, 0, ONE), (T, 1, ONE)])
        await turns()
        assert rig.answer() == {(T, 1): ONE}
        await turns()
        rig.assignments.restore(T, 0, ONE)
        await turns()
        assert rig.answer() == {(T, 0): ONE}
        rig.level = SINCE - 1
        assert not rig.assignments.are_possible()

    assigns(scenario)

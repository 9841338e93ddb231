"""A member of a streams group without Kafka Streams: its heartbeats by hand, until all its tasks are its own.

The tools' jars have no Streams, whose members also restore stores and make topics: far more than a description shows.
"""

from __future__ import annotations

from typing import Final

from compat_tests.brokers import Address
from compat_tests.waiting import wait_for
from compat_tests.wire import Connection
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.streams_group_heartbeat import (
    RequestTaskIds,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    Topology,
)

PASSING: Final = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
LEAVING: Final = -1
PROCESS: Final = "process-1"


class StreamsMember:
    """Joined with one subtopology that reads `topics`."""

    def __init__(self, address: Address, group: str, member_id: str, topics: tuple[str, ...]) -> None:
        self.connection = Connection(address)
        self.group, self.member_id, self.epoch = group, member_id, 0
        self.tasks: list[RequestTaskIds] = []
        self._join(list(topics))
        wait_for(self._beats_with_tasks, f"{member_id} has tasks", 30)

    def _join(self, topics: list[str]) -> None:
        topology = Topology(0, [Subtopology("0", source_topics=topics)])
        request = StreamsGroupHeartbeatRequest(
            self.group,
            self.member_id,
            0,
            rebalance_timeout_ms=30_000,
            topology=topology,
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
            process_id=PROCESS,
            client_tags=[],
        )
        answers: list[StreamsGroupHeartbeatResponse] = []

        def answered() -> bool:
            answers.append(self._ask(request))
            return answers[-1].error_code not in PASSING

        wait_for(answered, "the coordinator's topic is made", 30)
        assert answers[-1].error_code == 0, answers[-1]
        self._note(answers[-1])

    def _beats_with_tasks(self) -> bool:
        answer = self._ask(
            StreamsGroupHeartbeatRequest(
                self.group, self.member_id, self.epoch, active_tasks=self.tasks, standby_tasks=[], warmup_tasks=[]
            )
        )
        assert answer.error_code == 0, answer
        known = list(self.tasks)
        self._note(answer)
        return bool(known) and self.tasks == known

    def _note(self, answer: StreamsGroupHeartbeatResponse) -> None:
        self.epoch = answer.member_epoch
        if answer.active_tasks is not None:
            self.tasks = [RequestTaskIds(each.subtopology_id, each.partitions) for each in answer.active_tasks]

    def _ask(self, request: StreamsGroupHeartbeatRequest) -> StreamsGroupHeartbeatResponse:
        answer = self.connection.call(request, 0)
        assert isinstance(answer, StreamsGroupHeartbeatResponse), answer
        return answer

    def leave(self) -> None:
        self._ask(StreamsGroupHeartbeatRequest(self.group, self.member_id, LEAVING))
        self.connection.close()

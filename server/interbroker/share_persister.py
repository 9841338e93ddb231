"""`SharePersister` reads and writes the state of share groups at its coordinator, on this broker or another (KIP-932).

The leader of a share partition and its share coordinator may be two brokers, and so may the group's coordinator and the share
coordinator. This has the operations of `ShareCoordinator` (server/share_state/coordinator.py). Where this broker is the
coordinator, it calls it; elsewhere it sends the request of that name.

The operations on one share partition are carried out in the order in which they come, each after the end of the one before: a
write that is sent again after its coordinator has moved must not undo a later one. What may be gone soon is tried ATTEMPTS times
with growing pauses, as in Kafka, and then the error is that of the last attempt.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from ottla.server.base.errors import known_code
from ottla.server.base.promise import Promise
from ottla.server.metadata.names import SHARE_GROUP_STATE
from ottla.server.peers.outcomes import PeerError, UnsupportedVersion
from ottla.server.share_state.batches import StateBatch
from ottla.server.share_state.coordinator import ReadState, ShareCoordinator, Summary
from ottla.server.share_state.errors import MAY_BE_GONE, ShareStateError
from ottla.server.share_state.state import SharePartition
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import delete_share_group_state as deleting
from ottla.wire.messages import initialize_share_group_state as initializing
from ottla.wire.messages import read_share_group_state as reading
from ottla.wire.messages import read_share_group_state_summary as summarizing
from ottla.wire.messages import write_share_group_state as writing

if TYPE_CHECKING:
    from ottla.server.base.clock import Clock
    from ottla.server.interbroker.other_brokers import OtherBrokers
    from ottla.wire.primitives import WireStruct

logger = logging.getLogger("ottla.server.share_state")

ATTEMPTS: Final = 5
FIRST_PAUSE_SECONDS: Final = 0.1
"""The pause after the first failure; it doubles with each."""
T = TypeVar("T")


class _Operation(Generic[T]):
    """One operation on a share partition, and the answer to it.

    `here` has this broker's coordinator do it, `make_request` makes the request for another's, and `read` makes the result of the
    response.
    """

    __slots__ = ("answer", "failures", "here", "make_request", "read")

    def __init__(
        self, here: Callable[[], T | Promise[T]], make_request: Callable[[], WireStruct], read: Callable[[Any], T]
    ) -> None:
        self.here = here
        self.make_request = make_request
        self.read = read
        self.answer: Promise[T] = Promise()
        self.failures = 0


class SharePersister:
    """The share coordinators of a cluster; see the module's docstring. `coordinator` returns that of this broker."""

    def __init__(self, others: OtherBrokers, clock: Clock, coordinator: Callable[[], ShareCoordinator]) -> None:
        self._others = others
        self._clock = clock
        self._coordinator = coordinator
        self._lines: dict[SharePartition, deque[_Operation[Any]]] = {}
        """The operations that are not done, of each share partition that has some. The first is under way."""

    def has_topic(self) -> bool:
        """Returns whether `__share_group_state` exists. If it does not, begins to create it."""
        return self._coordinator().has_topic()

    def initialize(
        self, group_id: str, topic_id: bytes, partition: int, state_epoch: int, start_offset: int
    ) -> Promise[None] | None:
        """Does what `ShareCoordinator.initialize` does."""

        def request() -> WireStruct:
            data = initializing.PartitionData(partition, state_epoch, start_offset)
            return initializing.InitializeShareGroupStateRequest(group_id, [initializing.InitializeStateData(topic_id, [data])])

        here = partial(self._coordinator().initialize, group_id, topic_id, partition, state_epoch, start_offset)
        return self._carry_out(SharePartition(group_id, topic_id, partition), _Operation(here, request, _nothing))

    def read(self, group_id: str, topic_id: bytes, partition: int, leader_epoch: int) -> ReadState | Promise[ReadState]:
        """Does what `ShareCoordinator.read` does. Only the coordinator keeps the count of deliveries that are complete: from
        another broker it is -1, unknown, as the response has no place for it.
        """

        def request() -> WireStruct:
            data = reading.PartitionData(partition, leader_epoch)
            return reading.ReadShareGroupStateRequest(group_id, [reading.ReadStateData(topic_id, [data])])

        here = partial(self._coordinator().read, group_id, topic_id, partition, leader_epoch)
        return self._carry_out(SharePartition(group_id, topic_id, partition), _Operation(here, request, _read_state))

    def write(
        self,
        group_id: str,
        topic_id: bytes,
        partition: int,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        state_batches: Iterable[StateBatch],
    ) -> Promise[None] | None:
        """Does what `ShareCoordinator.write` does."""
        batches = tuple(state_batches)
        state = partition, state_epoch, leader_epoch, start_offset, delivery_complete_count

        def request() -> WireStruct:
            wanted = [writing.StateBatch(first, last, kind, deliveries) for first, last, deliveries, kind in batches]
            data = writing.PartitionData(*state, wanted)
            return writing.WriteShareGroupStateRequest(group_id, [writing.WriteStateData(topic_id, [data])])

        here = partial(self._coordinator().write, group_id, topic_id, *state, batches)
        return self._carry_out(SharePartition(group_id, topic_id, partition), _Operation(here, request, _nothing))

    def delete(self, group_id: str, topic_id: bytes, partition: int) -> Promise[None] | None:
        """Does what `ShareCoordinator.delete` does."""

        def request() -> WireStruct:
            data = deleting.PartitionData(partition)
            return deleting.DeleteShareGroupStateRequest(group_id, [deleting.DeleteStateData(topic_id, [data])])

        here = partial(self._coordinator().delete, group_id, topic_id, partition)
        return self._carry_out(SharePartition(group_id, topic_id, partition), _Operation(here, request, _nothing))

    def read_summary(self, group_id: str, topic_id: bytes, partition: int) -> Summary | Promise[Summary]:
        """Does what `ShareCoordinator.read_summary` does."""

        def request() -> WireStruct:
            data = summarizing.ReadStateSummaryData(topic_id, [summarizing.PartitionData(partition, -1)])
            return summarizing.ReadShareGroupStateSummaryRequest(group_id, [data])

        here = partial(self._coordinator().read_summary, group_id, topic_id, partition)
        return self._carry_out(SharePartition(group_id, topic_id, partition), _Operation(here, request, _summary))

    # One after the other

    def _carry_out(self, name: SharePartition, operation: _Operation[T]) -> T | Promise[T]:
        """Carries the operation out at once if this broker coordinates the share partition and nothing is before it. Raises
        ShareStateError then; the promise fails with one.
        """
        line = self._lines.get(name)
        if line is not None:
            line.append(operation)
            return operation.answer
        if self._leader(name) == self._others.node_id:
            try:
                return operation.here()
            except ShareStateError as error:
                if error.code not in MAY_BE_GONE:
                    raise
                self._lines[name] = deque([operation])
                self._failed(name, operation, error)
        else:
            self._lines[name] = deque([operation])
            self._attempt(name, operation)
        return operation.answer

    def _leader(self, name: SharePartition) -> int | None:
        """Returns the share coordinator's broker id; None or -1 if there is none. Raises ShareStateError without a topic."""
        return self._others.leader(SHARE_GROUP_STATE, self._coordinator().partition_for(name))

    def _attempt(self, name: SharePartition, operation: _Operation[Any]) -> None:
        """Tries the first operation of a line."""
        try:
            leader = self._leader(name)
            if leader is None or leader < 0:
                raise ShareStateError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            if leader != self._others.node_id:
                asked = self._others.ask(leader, operation.make_request())
                asked.add_done_callback(partial(self._attempted, name, operation, operation.read))
                return
            answer = operation.here()
        except ShareStateError as error:
            self._failed(name, operation, error)
            return
        if isinstance(answer, Promise):
            answer.add_done_callback(partial(self._attempted, name, operation, lambda value: value))
        else:
            self._end(name, operation, answer)

    def _attempted(
        self, name: SharePartition, operation: _Operation[Any], read: Callable[[Any], Any], answer: Promise[Any]
    ) -> None:
        try:
            value = read(answer.result())
        except ShareStateError as error:
            self._failed(name, operation, error)
        except PeerError as error:
            if self._others.closed or isinstance(error, UnsupportedVersion):
                operation.failures = ATTEMPTS
            self._failed(name, operation, ShareStateError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)))
        else:
            self._end(name, operation, value)

    def _failed(self, name: SharePartition, operation: _Operation[Any], error: ShareStateError) -> None:
        operation.failures += 1
        if error.code not in MAY_BE_GONE or operation.failures >= ATTEMPTS:
            self._end(name, operation, error)
            return
        logger.debug("%s: attempt %d failed: %s", name, operation.failures, error)
        pause_s = FIRST_PAUSE_SECONDS * 2 ** (operation.failures - 1)
        self._clock.call_later(pause_s, partial(self._attempt, name, operation))

    def _end(self, name: SharePartition, operation: _Operation[Any], outcome: object) -> None:
        """Begins the next operation of the line, and then answers this one, whose user may begin another."""
        line = self._lines[name]
        line.popleft()
        if line:
            self._clock.call_later(0, partial(self._attempt, name, line[0]))
        else:
            del self._lines[name]
        if operation.answer.done():  # nobody waits any more
            return
        if isinstance(outcome, ShareStateError):
            operation.answer.set_exception(outcome)
        else:
            operation.answer.set_result(outcome)


def _result(response: Any) -> Any:
    """Returns the only partition's part of a response. Raises ShareStateError if it is a refusal, or not there."""
    for topic in response.results:
        for result in topic.partitions:
            code = known_code(result.error_code, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            if code is not ErrorCode.NONE:
                raise ShareStateError(code, result.error_message or "")
            return result
    raise ShareStateError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the share coordinator did not answer about the partition")


def _nothing(response: Any) -> None:
    _result(response)


def _read_state(response: Any) -> ReadState:
    result = _result(response)
    batches = [
        StateBatch(batch.first_offset, batch.last_offset, batch.delivery_count, batch.delivery_state)
        for batch in result.state_batches
    ]
    return ReadState(result.state_epoch, result.start_offset, -1, tuple(batches))


def _summary(response: Any) -> Summary:
    result = _result(response)
    return Summary(result.state_epoch, result.leader_epoch, result.start_offset, result.delivery_complete_count)

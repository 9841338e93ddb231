"""WriteTxnMarkers v1-2 ends transactions in the partitions that they wrote to (KIP-98).

Transaction coordinators send it, and so do administrators who abort a hanging transaction (KIP-664); nothing checks whether there
is a transaction. A marker is one control batch for each partition, appended as the leader.

- Each partition succeeds or fails by itself. Each producer id is answered once: of several markers of a producer for one
  partition the result of the last one counts. A marker without partitions is not answered.
- v2 adds the transaction version: from 2 on (KIP-890) the epoch of a marker has to be above that of the transaction it ends.
- A marker in `__consumer_offsets` makes the offsets that the transaction committed take effect, or drops them.
- The answer comes when the markers are on all in-sync replicas and, where `flush.messages` makes a flush due, after the fsync; 7
  REQUEST_TIMED_OUT stands for those that are not after `request.timeout.ms`.
- Errors: 3 UNKNOWN_TOPIC_OR_PARTITION, also for a partition that this broker does not have; 6 NOT_LEADER_OR_FOLLOWER, also while
  the groups of a partition are loading; 42 INVALID_REQUEST for a producer id, epoch or transaction version below 0; 47
  INVALID_PRODUCER_EPOCH; 52 TRANSACTION_COORDINATOR_FENCED; 56 KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from ottla.server.base.errors import code_of
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, take_steps
from ottla.server.partitions.replica import Replica
from ottla.server.partitions.roles import Role
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Throttling, Traits
from ottla.server.security.rights import Either, Need, Operation, Resource, Whole
from ottla.server.txn.markers import write_marker
from ottla.server.txn.shard import Marker
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

TRAITS = Traits(
    Whole(Either(Need(Operation.CLUSTER_ACTION, Resource.CLUSTER), Need(Operation.ALTER, Resource.CLUSTER))),
    throttling=Throttling.NOTHING,
)

_UNKNOWN_VERSION: Final = -1

_Partition = tuple[str, int]


class _Writing:
    """Carries out one request: holds each partition's result so far, and the appends that are not acknowledged yet."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self.results: dict[int, dict[_Partition, ErrorCode]] = {}
        self.owed: list[tuple[int, _Partition, Replica, Role, int]] = []

    def write(self, marker: WritableTxnMarker) -> Iterator[None]:
        """Writes one marker, to each of its partitions once, however often it names them; pauses after each."""
        for name, index in dict.fromkeys((topic.name, index) for topic in marker.topics for index in topic.partition_indexes):
            results = self.results.setdefault(marker.producer_id, {})
            results[name, index] = self._append(marker, name, index)
            yield

    def _append(self, marker: WritableTxnMarker, topic: str, index: int) -> ErrorCode:
        """Writes one marker to one partition; returns its error code, which an append in `owed` may still change."""
        broker = self._request.broker
        if broker.replicas.get(topic, index) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if marker.producer_id < 0 or marker.producer_epoch < 0 or marker.transaction_version == _UNKNOWN_VERSION:
            return ErrorCode.INVALID_REQUEST
        version = marker.transaction_version
        end = Marker(marker.producer_id, marker.producer_epoch, marker.coordinator_epoch, marker.transaction_result, version)
        written = write_marker(broker.replicas, broker.groups, topic, index, end)
        if written.info is not None and written.info.waits:
            replica = written.replica
            assert replica is not None
            self.owed.append((marker.producer_id, (topic, index), replica, replica.role, written.info.last_offset + 1))
        return written.code

    def answer(self) -> WriteTxnMarkersResponse:
        return WriteTxnMarkersResponse([_answer(producer_id, codes) for producer_id, codes in self.results.items()])

    def answer_when_acknowledged(self) -> Promise[WriteTxnMarkersResponse]:
        """Returns a promise of the answer, kept once the last append is acknowledged or refused."""
        promise: Promise[WriteTxnMarkersResponse] = Promise()
        left = len(self.owed)

        def acknowledged(producer_id: int, partition: _Partition, error: Exception | None) -> None:
            nonlocal left
            if error is not None:
                self.results[producer_id][partition] = code_of(error)
            left -= 1
            if left == 0 and not promise.done():  # the connection may have gone
                promise.set_result(self.answer())

        from ottla.server.partitions.acknowledging import when_acknowledged  # hardly any answer has to wait

        flushing, timeout_ms = self._request.broker.flushing, self._request.broker.config.values["request.timeout.ms"]
        for producer_id, partition, replica, role, end_offset in self.owed:
            told = partial(acknowledged, producer_id, partition)
            when_acknowledged(replica, role, end_offset, flushing, told, by_all=True, timeout_ms=timeout_ms)
        return promise


def handle(body: WriteTxnMarkersRequest, request: Request) -> WriteTxnMarkersResponse | Promise[WriteTxnMarkersResponse]:
    return take_steps(_write(body, request), request.broker.clock)


def _write(body: WriteTxnMarkersRequest, request: Request) -> Steps[WriteTxnMarkersResponse]:
    writing = _Writing(request)
    for marker in body.markers:
        for _ in writing.write(marker):
            yield None
    if not writing.owed:
        return writing.answer()
    acknowledged = writing.answer_when_acknowledged()
    yield acknowledged
    return acknowledged.result()


def _answer(producer_id: int, codes: dict[_Partition, ErrorCode]) -> WritableTxnMarkerResult:
    topics: dict[str, list[WritableTxnMarkerPartitionResult]] = {}
    for (topic, index), code in codes.items():
        topics.setdefault(topic, []).append(WritableTxnMarkerPartitionResult(index, code))
    return WritableTxnMarkerResult(producer_id, [WritableTxnMarkerTopicResult(*topic) for topic in topics.items()])

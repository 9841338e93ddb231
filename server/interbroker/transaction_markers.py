"""`MarkerChannel` brings the markers of ended transactions to the partitions' leaders, on this broker or another (KIP-98).

Markers for another broker go there in WriteTxnMarkers requests, one at a time: whatever comes while one is under way is in the
next. So a burst of transactions costs few requests, and a partition gets the markers of a producer in the order in which they
were decided. A marker that could not be written is not kept here: its transaction's shard (server/txn/shard.py) learns why, and
brings it again, when the partition may have another leader.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.server.base.errors import known_code
from ottla.server.base.promise import Promise
from ottla.server.peers.outcomes import PeerError
from ottla.server.txn.shard import Marker, MarkerWriter
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from ottla.server.base.clock import Clock
    from ottla.server.interbroker.other_brokers import OtherBrokers

logger = logging.getLogger("ottla.server.txn")

MOST_IN_A_REQUEST: Final = 5_000
"""So many markers go into one request at most; the others wait for its answer."""


class _Waiting(NamedTuple):
    """A marker for a partition, and the promise of its error code."""

    topic: str
    partition: int
    marker: Marker
    outcome: Promise[ErrorCode]


class MarkerChannel:
    """Writes the markers of this broker's transaction coordinator; it is a `MarkerWriter`. `write_here` writes those for
    partitions of this broker.
    """

    def __init__(self, others: OtherBrokers, clock: Clock, write_here: MarkerWriter) -> None:
        self._others = others
        self._clock = clock
        self._write_here = write_here
        self._waiting: dict[int, list[_Waiting]] = {}
        """The markers that are not sent yet, by broker id. A broker is there as long as a request to it is due or under way."""

    def __call__(self, topic: str, partition: int, marker: Marker) -> ErrorCode | Promise[ErrorCode]:
        leader = self._others.leader(topic, partition)
        if leader is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if leader == self._others.node_id:
            return self._write_here(topic, partition, marker)
        if leader < 0:
            return ErrorCode.LEADER_NOT_AVAILABLE
        if leader not in self._waiting:
            self._waiting[leader] = []
            self._clock.call_later(0, partial(self._send, leader))  # the transaction's other partitions come in this turn
        outcome: Promise[ErrorCode] = Promise()
        self._waiting[leader].append(_Waiting(topic, partition, marker, outcome))
        return outcome

    def _send(self, broker_id: int) -> None:
        waiting = self._waiting[broker_id]
        sent, self._waiting[broker_id] = waiting[:MOST_IN_A_REQUEST], waiting[MOST_IN_A_REQUEST:]
        if not sent:
            del self._waiting[broker_id]
            return
        answer = self._others.ask(broker_id, _request(sent), min_version=1)
        answer.add_done_callback(partial(self._answered, broker_id, sent))

    def _answered(self, broker_id: int, sent: Sequence[_Waiting], answer: Promise[WriteTxnMarkersResponse]) -> None:
        try:
            codes = _codes(answer.result())
        except PeerError as error:
            logger.info("broker %d did not take %d markers of transactions: %s", broker_id, len(sent), error)
            codes = {}
        for each in sent:
            code = codes.get((each.marker.producer_id, each.topic, each.partition), ErrorCode.NETWORK_EXCEPTION)
            each.outcome.set_result(self._meaning(each, code))
        self._clock.call_later(0, partial(self._send, broker_id))

    def _meaning(self, asked: _Waiting, code: ErrorCode) -> ErrorCode:
        """Returns what another broker's answer means to the transaction: a partition that the broker does not have needs no
        marker only if the cluster has no such partition, either. Otherwise the broker does not know of it yet.
        """
        unknown = code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if unknown and self._others.leader(asked.topic, asked.partition) is not None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return code


def _request(waiting: Iterable[_Waiting]) -> WriteTxnMarkersRequest:
    by_marker: dict[Marker, dict[str, list[int]]] = {}
    for topic, partition, marker, _ in waiting:
        by_marker.setdefault(marker, {}).setdefault(topic, []).append(partition)
    return WriteTxnMarkersRequest(
        [
            WritableTxnMarker(
                marker.producer_id,
                marker.producer_epoch,
                marker.committed,
                [WritableTxnMarkerTopic(*topic) for topic in topics.items()],
                marker.coordinator_epoch,
                marker.transaction_version,
            )
            for marker, topics in by_marker.items()
        ]
    )


def _codes(response: WriteTxnMarkersResponse) -> dict[tuple[int, str, int], ErrorCode]:
    """Returns the error codes by producer id, topic and partition."""
    return {
        (marker.producer_id, topic.name, partition.partition_index): known_code(partition.error_code, ErrorCode.NETWORK_EXCEPTION)
        for marker in response.markers
        for topic in marker.topics
        for partition in topic.partitions
    }

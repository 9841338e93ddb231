"""`LatestOffsets` asks the leaders of partitions on other brokers how far consumers may read there (ListOffsets; KIP-1226).

Whoever describes where a share group stands needs the high watermarks of partitions, and may lead none of them. What is asked of
a broker in one turn of the loop is one request.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.server.base.errors import known_code
from ottla.server.base.promise import Promise
from ottla.server.peers.outcomes import PeerError
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from ottla.server.base.clock import Clock
    from ottla.server.interbroker.other_brokers import OtherBrokers

logger = logging.getLogger("ottla.server.share")

_CONSUMER: Final = -1
_LATEST: Final = -1
_UNCOMMITTED: Final = 0
_SINCE: Final = 1
"""The first version whose answer has one offset for each partition."""


class Latest(NamedTuple):
    """The high watermark of a partition, or -1 and the error code that says why it is not known."""

    offset: int
    code: ErrorCode = ErrorCode.NONE


class _Waiting(NamedTuple):
    topic: str
    partition: int
    latest: Promise[Latest]


class LatestOffsets:
    """Asks other brokers; a partition that this broker leads needs no asking."""

    def __init__(self, others: OtherBrokers, clock: Clock) -> None:
        self._others = others
        self._clock = clock
        self._waiting: dict[int, list[_Waiting]] = {}
        """By the leader's broker id: what goes into the next request."""

    def ask(self, topic: str, partition: int) -> Latest | Promise[Latest]:
        """Returns the high watermark of a partition that another broker leads. The promise does not fail."""
        leader = self._others.leader(topic, partition)
        if leader is None:
            return Latest(-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if leader < 0:
            return Latest(-1, ErrorCode.LEADER_NOT_AVAILABLE)
        if leader == self._others.node_id:  # it leads the partition, as the metadata say, and has not begun to
            return Latest(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if leader not in self._waiting:
            self._waiting[leader] = []
            self._clock.call_later(0, partial(self._send, leader))
        latest: Promise[Latest] = Promise()
        self._waiting[leader].append(_Waiting(topic, partition, latest))
        return latest

    def _send(self, leader: int) -> None:
        sent = self._waiting.pop(leader)
        answer = self._others.ask(leader, _request(sent), min_version=_SINCE)
        answer.add_done_callback(partial(_answered, leader, sent))


def _request(waiting: Iterable[_Waiting]) -> ListOffsetsRequest:
    topics: dict[str, dict[int, ListOffsetsPartition]] = {}
    for each in waiting:  # a partition that is named twice is answered with 42 INVALID_REQUEST
        topics.setdefault(each.topic, {})[each.partition] = ListOffsetsPartition(each.partition, timestamp=_LATEST)
    wanted = [ListOffsetsTopic(name, list(partitions.values())) for name, partitions in topics.items()]
    return ListOffsetsRequest(_CONSUMER, _UNCOMMITTED, wanted)


def _answered(leader: int, sent: Sequence[_Waiting], answer: Promise[ListOffsetsResponse]) -> None:
    try:
        found = _latest_by_partition(answer.result())
    except PeerError as error:
        logger.info("broker %d did not say how far %d partitions go: %s", leader, len(sent), error)
        found = {}
    for each in sent:
        if not each.latest.done():  # else nobody waits any more
            each.latest.set_result(found.get((each.topic, each.partition), Latest(-1, ErrorCode.NETWORK_EXCEPTION)))


def _latest_by_partition(response: ListOffsetsResponse) -> dict[tuple[str, int], Latest]:
    return {
        (topic.name, each.partition_index): Latest(each.offset, known_code(each.error_code, ErrorCode.NETWORK_EXCEPTION))
        for topic in response.topics
        for each in topic.partitions
    }

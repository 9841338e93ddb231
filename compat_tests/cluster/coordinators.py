"""The answers of a cluster's coordinators about groups and transactions. They are asked at the broker that leads the only
partition of an internal topic, whoever that is at the time.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import unpack_from
from typing import Any, Final, NamedTuple

from compat_tests.cluster.mixed import Mixed
from compat_tests.waiting import wait_for
from ottla.server.group.records import MetadataRecord, decode
from ottla.wire.batch import iter_batches
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from ottla.wire.messages.list_transactions import ListTransactionsRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.wire.messages.share_group_describe import ShareGroupDescribeRequest
from ottla.wire.messages.streams_group_describe import StreamsGroupDescribeRequest
from ottla.wire.records import decode_records

OFFSETS: Final = "__consumer_offsets"
TRANSACTIONS: Final = "__transaction_state"
SHARES: Final = "__share_group_state"
SETTINGS: Final = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "500",
    "replica.fetch.backoff.ms": "200",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.heartbeat.interval.ms": "500",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "0",
}
"""Of a cluster whose coordinators are asked like this."""
_NOT_YET: Final = (14, 15, 16)
"""The coordinator is loading, or none is available, or it is not this broker."""
_NOT_THERE: Final = 69
_UNSTABLE: Final = 88
"""An offset of a transaction is pending."""


class Described(NamedTuple):
    """`epoch` is the generation of a classic group. `shares` says how many partitions or tasks each member has, most first."""

    state: str
    epoch: int
    shares: tuple[int, ...]


class Coordinators:
    """Asks the coordinators of a cluster with SETTINGS. All of it raises AssertionError if they do not come to answer."""

    def __init__(self, cluster: Mixed) -> None:
        self.cluster = cluster

    def committed(self, group: str, *, stable: bool = False) -> dict[tuple[str, int], int]:
        """Returns the offsets that a group has committed, by topic and partition; with `stable`, when none is pending."""
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None)], require_stable=stable)
        answer = self._ask(OFFSETS, request, 9, lambda found: _codes(found.groups[0]))
        return {
            (topic.name, each.partition_index): each.committed_offset
            for topic in answer.groups[0].topics
            for each in topic.partitions
        }

    def described(self, kind: str, group: str) -> Described:
        """Describes a group of one of the kinds classic, consumer, share and streams; one that is not there has no members."""
        request, version, share = _DESCRIBING[kind]
        answer = self._ask(OFFSETS, request([group]), version, lambda found: [found.groups[0].error_code], _NOT_THERE)
        (found,) = answer.groups
        epoch = self.generation(group) if kind == "classic" else found.group_epoch
        return Described(found.group_state, epoch, tuple(sorted((share(each) for each in found.members), reverse=True)))

    def generation(self, group: str) -> int:
        """Returns the newest generation of a classic group that is in the log of who leads it."""
        leader = -1

        def is_led() -> bool:
            nonlocal leader
            leader = self._leader(OFFSETS)
            return leader >= 0

        wait_for(is_led, self.cluster.tails)
        newest = -1
        for segment in self.cluster.segments(leader, OFFSETS, 0).values():
            for header, batch in iter_batches(segment):
                for record in () if header.is_control else decode_records(bytes(batch)):
                    found = None if record.key is None else decode(record.key, record.value)
                    if isinstance(found, MetadataRecord) and found.key.group == group and found.value is not None:
                        newest = max(newest, found.value.generation)
        return newest

    def share_lags(self, group: str) -> dict[tuple[str, int], int]:
        """Returns how many records a share group has not done with, by topic and partition."""
        request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(group, None)])
        answer = self._ask(OFFSETS, request, 1, lambda found: _codes(found.groups[0]))
        return {
            (topic.topic_name, each.partition_index): each.lag for topic in answer.groups[0].topics for each in topic.partitions
        }

    def transactions(self) -> dict[str, str]:
        """Returns the state of each transactional id."""
        answer = self._ask(TRANSACTIONS, ListTransactionsRequest(), 1, lambda found: [found.error_code])
        return {each.transactional_id: each.transaction_state for each in answer.transaction_states}

    def _leader(self, topic: str) -> int:
        """Returns who leads the topic's only partition, -1 if that is not known."""
        found = self.cluster.state(topic)
        return found[0][0] if found else -1

    def _ask(self, topic: str, request: Any, version: int, codes: Callable[[Any], list[int]], taken: int = 0) -> Any:
        answer: Any = None

        def is_answered() -> bool:
            nonlocal answer
            leader = self._leader(topic)
            if leader < 0:
                return False
            try:
                answer = self.cluster.call(leader, request, version)
            except OSError as error:  # the broker has just gone
                answer = error
                return False
            return not isinstance(answer, str) and not any(code in (*_NOT_YET, _UNSTABLE) for code in codes(answer))

        wait_for(is_answered, lambda: f"{request}: {answer}\n{self.cluster.tails()}")
        wrong = [code for code in codes(answer) if code not in (0, taken)]
        assert not wrong, f"{request}: {answer}"
        return answer


def _codes(group: Any) -> list[int]:
    return [group.error_code, *(each.error_code for topic in group.topics for each in topic.partitions)]


def _classic_share(member: Any) -> int:
    """Counts the partitions in what a consumer was assigned: a version, and for each topic its name and its partitions."""
    data = bytes(member.member_assignment)
    if not data:
        return 0
    _, topics = unpack_from(">hi", data)
    at, count = 6, 0
    for _ in range(topics):
        (length,) = unpack_from(">h", data, at)
        (partitions,) = unpack_from(">i", data, at + 2 + length)
        at += 2 + length + 4 + 4 * partitions
        count += partitions
    return count


def _modern_share(member: Any) -> int:
    return sum(len(topic.partitions) for topic in member.assignment.topic_partitions)


def _streams_share(member: Any) -> int:
    return sum(len(tasks.partitions) for tasks in member.assignment.active_tasks)


_DESCRIBING: Final[dict[str, tuple[Callable[[list[str]], Any], int, Callable[[Any], int]]]] = {
    "classic": (DescribeGroupsRequest, 5, _classic_share),
    "consumer": (ConsumerGroupDescribeRequest, 0, _modern_share),
    "share": (ShareGroupDescribeRequest, 1, _modern_share),
    "streams": (StreamsGroupDescribeRequest, 0, _streams_share),
}
"""By kind: the request, its version, and the size of a member's share."""

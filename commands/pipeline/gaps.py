"""The questions that `ottla pipeline audit` asks the cluster itself: a topic's bounds, whether it is compacted, and what fills a
gap.

A reader of committed records sees neither the markers of transactions nor the records of aborted ones, and Spark's connector
shows neither. So each gap is read as a client library reads, but batch headers only (Fetch version 12, the last one that names
topics). The offsets of control batches and of batches in aborted transactions are accounted for; all others are missing.

There may be as many gaps as records. They are streamed in and out, and each partition is read once alongside them, from gap to
gap: in small pieces after a jump, in larger and larger ones while gap follows gap.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import groupby
from typing import TYPE_CHECKING, Final

from ottla.commands.clients import client
from ottla.commands.clients.brokers import Brokers, check
from ottla.commands.clients.partition import Partition
from ottla.commands.positions import spans
from ottla.wire.batch import iter_batches
from ottla.wire.isolation import READ_COMMITTED
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

if TYPE_CHECKING:
    from ottla.commands.clients.direct import Connection
    from ottla.pipeline.audit import Bounds, Gap
    from ottla.wire.messages.fetch import PartitionData

FETCH_VERSION: Final = 12
LEAST_BYTES: Final = 16 << 10
MOST_BYTES: Final = 4 << 20
"""The limit for one answer, which has a whole batch in any case."""


def snapshot(cluster: client.Cluster, topic: str) -> Bounds:
    """Returns the first and the end offset of every partition, as a reader of committed records sees them."""
    from confluent_kafka import IsolationLevel

    admin = cluster.admin()
    found = cluster.reach(admin).topics[topic]
    wanted = [Partition(topic, number) for number in found.partitions]
    have = spans(cluster, admin, wanted, IsolationLevel.READ_COMMITTED)
    return {partition.number: (span.begin, span.end) for partition, span in sorted(have.items())}


def is_compacted(cluster: client.Cluster, topic: str) -> bool:
    """Returns whether the topic's cleanup.policy compacts it, so that offsets without a record are normal."""
    from confluent_kafka.admin import ConfigResource

    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    admin = cluster.admin()  # a variable, since it would be gone before the answer otherwise
    future = admin.describe_configs([resource], request_timeout=cluster.timeout_s)[resource]
    return "compact" in str(cluster.result(future)["cleanup.policy"].value)


def explained(cluster: client.Cluster, topic: str, gaps: Iterable[Gap]) -> Iterator[Gap]:
    """Yields the gaps that markers and aborted records do not account for. In and out, they ascend within a partition."""
    brokers: Brokers | None = None
    with ExitStack() as stack:
        for number, of_partition in groupby(gaps, lambda gap: gap.partition):
            if brokers is None:
                brokers = stack.enter_context(Brokers(cluster))
            leader = brokers.metadata.topics[topic].partitions[number].leader
            walk = Walk(brokers.at(leader), topic, number)
            for gap in of_partition:
                for first, last in walk.unfilled(gap.first, gap.last):
                    yield gap._replace(first=first, last=last)


class Walk:
    """Reads one partition forward, once; the gaps asked for must ascend."""

    def __init__(self, connection: Connection, topic: str, partition: int) -> None:
        self.connection = connection
        self.topic = topic
        self.partition = partition
        self.reached = -1
        """Everything before this offset has been read, since the last jump."""
        self.filled: deque[tuple[int, int]] = deque()
        """Ranges of offsets, both ends inclusive, that readers of committed records do not see."""
        self.spanned = 0
        """The number of offsets that the last answer covered: the walk jumps to gaps that are farther away than that."""
        self.bytes = LEAST_BYTES
        """The number of bytes to ask for."""

    def unfilled(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yields the ranges of these offsets that nothing accounts for."""
        self._move(first)
        at = first
        while at <= last:
            if not self.filled:
                if self.reached > last or not self._read():
                    break
                continue
            begin, end = self.filled[0]
            if begin > last:
                break
            if begin > at:
                yield at, begin - 1
            at = max(at, end + 1)
            if end <= last:
                self.filled.popleft()
        if at <= last:
            yield at, last

    def _move(self, first: int) -> None:
        """Moves on to the gap that begins here."""
        while self.filled and self.filled[0][1] < first:
            self.filled.popleft()
        if first > self.reached:
            if first - self.reached > self.spanned:
                self.bytes = LEAST_BYTES
            self.reached = first

    def _read(self) -> bool:
        """Takes in the batches from `reached` on. Returns False at the end."""
        found = self._fetch(self.reached)
        aborted = sorted((one.first_offset, one.producer_id) for one in found.aborted_transactions or ())
        active: set[int] = set()
        records = found.records
        if not isinstance(records, bytes | bytearray | memoryview) or not len(records):
            return False
        before = self.reached
        for header, _ in iter_batches(records):
            while aborted and aborted[0][0] <= header.last_offset:
                active.add(aborted.pop(0)[1])
            is_hidden = header.is_control or (header.is_transactional and header.producer_id in active)
            if header.is_control:
                active.discard(header.producer_id)
            if is_hidden:
                self.filled.append((header.base_offset, header.last_offset))
            self.reached = max(self.reached, header.last_offset + 1)
        self.spanned = self.reached - before
        self.bytes = min(2 * self.bytes, MOST_BYTES)
        return self.spanned > 0

    def _fetch(self, offset: int) -> PartitionData:
        wanted = FetchPartition(partition=self.partition, fetch_offset=offset, partition_max_bytes=self.bytes)
        request = FetchRequest(
            isolation_level=READ_COMMITTED, max_bytes=self.bytes, topics=[FetchTopic(self.topic, partitions=[wanted])]
        )
        answer = self.connection.call(request, FETCH_VERSION)
        check(answer.error_code)
        data: PartitionData = answer.responses[0].partitions[0]
        check(data.error_code)
        return data

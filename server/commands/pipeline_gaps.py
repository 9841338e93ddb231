"""What `ottla pipeline audit` asks of the cluster itself: a topic's bounds, whether it is compacted, and what fills a gap.

Who reads committed records sees no markers of transactions and no records of aborted ones; Spark's connector tells of neither. So
each gap is read as a consumer's library does, batch headers only (Fetch, version 12, the last that names topics): offsets
of control batches and of batches within an aborted transaction are accounted for, all others are missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.server.commands import client
from ottla.server.commands.brokers import Brokers, check
from ottla.server.commands.positions import Partition, spans
from ottla.wire.batch import iter_batches
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from ottla.pipeline.audit import Bounds, Gap
    from ottla.server.commands.direct import Connection
    from ottla.wire.messages.fetch import PartitionData

FETCH_VERSION: Final = 12
FETCH_BYTES: Final = 4 << 20
READ_COMMITTED: Final = 1


def snapshot(cluster: client.Cluster, topic: str) -> Bounds:
    """First offset and end of every partition, as a reader of committed records has them."""
    from confluent_kafka import IsolationLevel

    admin = cluster.admin()
    found = cluster.reach(admin).topics[topic]
    wanted = [Partition(topic, number) for number in found.partitions]
    have = spans(cluster, admin, wanted, IsolationLevel.READ_COMMITTED)
    return {partition.number: (span.begin, span.end) for partition, span in sorted(have.items())}


def is_compacted(cluster: client.Cluster, admin: AdminClient, topic: str) -> bool:
    """Whether the topic loses records by its cleanup.policy, so that offsets without one are nothing to tell."""
    from confluent_kafka.admin import ConfigResource

    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    future = admin.describe_configs([resource], request_timeout=cluster.timeout_s)[resource]
    return "compact" in str(cluster.result(future)["cleanup.policy"].value)


def explained(cluster: client.Cluster, topic: str, gaps: list[Gap]) -> list[Gap]:
    """The gaps that stay when markers and aborted records are accounted for."""
    if not gaps:
        return []
    left: list[Gap] = []
    with Brokers(cluster) as brokers:
        leaders = {number: one.leader for number, one in brokers.metadata.topics[topic].partitions.items()}
        for number in sorted({gap.partition for gap in gaps}):
            walk = Walk(brokers.at(leaders[number]), topic, number)
            for gap in gaps:
                if gap.partition == number:
                    left += [gap._replace(first=first, last=last) for first, last in walk.unfilled(gap.first, gap.last)]
    return left


class Walk:
    """One partition, read forward once; gaps come in ascending order."""

    def __init__(self, connection: Connection, topic: str, partition: int) -> None:
        self.connection = connection
        self.topic = topic
        self.partition = partition
        self.reached = -1
        """Everything before this offset has been read, from where reading last began."""
        self.filled: list[tuple[int, int]] = []
        """Offsets, both ends inclusive, that readers of committed records do not see."""

    def unfilled(self, first: int, last: int) -> list[tuple[int, int]]:
        """What of the offsets is accounted for by nothing."""
        self.filled = [pair for pair in self.filled if pair[1] >= first]
        self.reached = max(self.reached, first)
        while self.reached <= last and self._read():
            pass
        missing: list[tuple[int, int]] = []
        at = first
        for begin, end in self.filled:
            if begin > at:
                missing.append((at, min(begin - 1, last)))
            at = max(at, end + 1)
            if at > last:
                return missing
        return [*missing, (at, last)]

    def _read(self) -> bool:
        """Take in the batches from `reached` on; False at the end."""
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
        return self.reached > before

    def _fetch(self, offset: int) -> PartitionData:
        wanted = FetchPartition(partition=self.partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
        request = FetchRequest(
            isolation_level=READ_COMMITTED, max_bytes=FETCH_BYTES, topics=[FetchTopic(self.topic, partitions=[wanted])]
        )
        answer = self.connection.call(request, FETCH_VERSION)
        check(answer.error_code)
        data: PartitionData = answer.responses[0].partitions[0]
        check(data.error_code)
        return data
